"""The client against a store that does what a test tells it to: batching, ids, asking again, waiting."""

import asyncio
import inspect
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import msgspec
import pytest

from holdfast import Holdfast
from holdfast.client.batch import LARGEST_BATCH, Batcher
from holdfast.client.blocking import BlockingClient, BlockingHandle
from holdfast.client.client import LocalClient
from holdfast.client.hints import announce_inserted
from holdfast.client.ids import BLOCK, IdBlocks
from holdfast.client.repeat import until_answered
from holdfast.client.waiting import Waiting
from holdfast.delivery.delivery import Delivery, Ready
from holdfast.errors import (
    Conflict,
    DataRefused,
    InvalidValue,
    JobCancelled,
    JobFailed,
    JobNotFound,
    NotOpen,
    OutcomeUnknown,
    ResultTimeout,
    StoreError,
    StoreUnavailable,
)
from holdfast.handle import HandleJobs, JobHandle
from holdfast.job import JobRow, JobState, NewJob
from holdfast.stores.store import JobStore
from holdfast.stores.values import Inserted, Insertion


class FakeStore:
    """Remembers each insert; `gate` holds inserts up, `faults` are raised one per insert, `lost` after it was done."""

    def __init__(self) -> None:
        self.stored: dict[int, str] = {}
        self.inserts: list[tuple[list[int], bool]] = []
        self.faults: list[Exception | None] = []
        self.lost: list[Exception | None] = []
        self.poison: set[int] = set()
        self.gate = asyncio.Event()
        self.gate.set()
        self.entered = asyncio.Event()
        self.next_id = 1
        self.drawn: list[int] = []

    async def insert_jobs(self, jobs: Sequence[NewJob], *, again: bool = False) -> list[Inserted]:
        self.inserts.append(([job.id for job in jobs], again))
        self.entered.set()
        await self.gate.wait()
        if self.faults and (fault := self.faults.pop(0)) is not None:
            raise fault
        if self.poison & {job.id for job in jobs}:
            message = "a value that the database refuses"
            raise DataRefused(message)
        for job in jobs:
            assert again or job.id not in self.stored, "sent twice without saying so"
            self.stored[job.id] = job.payload
        if self.lost and (fault := self.lost.pop(0)) is not None:
            raise fault
        return [Inserted(Insertion.CREATED, job.id) for job in jobs]

    async def take_ids(self, count: int) -> list[int]:
        await asyncio.sleep(0)
        self.drawn.append(count)
        first, self.next_id = self.next_id, self.next_id + count
        return list(range(first, first + count))


@pytest.fixture
def store() -> FakeStore:
    return FakeStore()


class FakeDelivery:
    """Remembers what was announced."""

    def __init__(self) -> None:
        self.announced: list[set[str]] = []

    def announce(self, jobs: Iterable[Ready]) -> None:
        self.announced.append({job.queue for job in jobs})

    def hint(self, queues: Iterable[str]) -> None:
        self.announced.append(set(queues))


@pytest.fixture
def delivery() -> FakeDelivery:
    return FakeDelivery()


@pytest.fixture
def batcher(store: FakeStore, delivery: FakeDelivery) -> Batcher:
    return Batcher(cast("JobStore", store), cast("Delivery", delivery))


def job(job_id: int, **changes: Any) -> NewJob:
    plain = NewJob(
        id=job_id, kind="work", queue="q", priority=5, payload="{}", max_attempts=1, max_crashes=1, timeout_ms=None
    )
    return msgspec.structs.replace(plain, **changes)


def insert(batcher: Batcher, job_id: int, within: float = 5) -> asyncio.Task[Inserted]:
    due = asyncio.get_running_loop().time() + within
    return asyncio.create_task(batcher.insert(job(job_id), due))


async def in_flight(store: FakeStore) -> None:
    await store.entered.wait()
    store.entered.clear()


async def test_an_idle_batcher_sends_at_once_and_gathers_while_busy(store: FakeStore, batcher: Batcher) -> None:
    store.gate.clear()
    first = insert(batcher, 1)
    await in_flight(store)
    rest = [insert(batcher, number) for number in range(2, 10)]
    await asyncio.sleep(0)
    store.gate.set()
    answers = await asyncio.gather(first, *rest)
    assert store.inserts == [([1], False), (list(range(2, 10)), False)]
    assert [answer.id for answer in answers] == list(range(1, 10))


async def test_a_batch_has_a_largest_size(store: FakeStore, batcher: Batcher) -> None:
    await asyncio.gather(*(insert(batcher, number) for number in range(2_500)))
    assert [len(ids) for ids, _ in store.inserts] == [LARGEST_BATCH, LARGEST_BATCH, 500]


async def test_queues_are_announced_after_the_commit_and_once_for_a_batch(
    store: FakeStore, batcher: Batcher, delivery: FakeDelivery
) -> None:
    store.gate.clear()
    inserts = [insert(batcher, number) for number in range(10)]
    await in_flight(store)
    assert delivery.announced == []
    store.gate.set()
    await asyncio.gather(*inserts)
    assert delivery.announced == [{"q"}]


async def test_what_is_not_stored_is_not_announced(store: FakeStore, batcher: Batcher, delivery: FakeDelivery) -> None:
    store.poison = {1}
    with pytest.raises(DataRefused):
        await insert(batcher, 1)
    store.faults = [StoreUnavailable("down")] * 100
    with pytest.raises(StoreUnavailable):
        await insert(batcher, 2, within=0.01)
    assert delivery.announced == []


def test_new_jobs_that_are_due_soon_are_announced(delivery: FakeDelivery) -> None:
    now = datetime.now(UTC)
    jobs = [
        job(1, queue="now"),
        job(2, queue="existing"),
        job(3, queue="conflict"),
        job(4, queue="soon", delay_ms=1_000),
        job(5, queue="later", delay_ms=60_000),
        job(6, queue="past", run_at=now - timedelta(days=1)),
        job(7, queue="soon-at", run_at=now + timedelta(milliseconds=500)),
        job(8, queue="later-at", run_at=now + timedelta(minutes=1)),
        job(9, queue="now"),
    ]
    outcomes = [Insertion.CREATED] * len(jobs)
    outcomes[1:3] = Insertion.EXISTING, Insertion.CONFLICT
    answers = [Inserted(outcome, job.id) for outcome, job in zip(outcomes, jobs, strict=True)]
    announce_inserted(cast("Delivery", delivery), jobs, answers)
    assert delivery.announced == [{"now", "past"}, {"soon", "soon-at"}]


@pytest.mark.guards("refused-send-neighbour")
async def test_a_poisonous_job_fails_alone(store: FakeStore, batcher: Batcher) -> None:
    store.poison = {37}
    answers = await asyncio.gather(*(insert(batcher, number) for number in range(64)), return_exceptions=True)
    failed = [number for number, answer in enumerate(answers) if isinstance(answer, BaseException)]
    assert failed == [37]
    assert isinstance(answers[37], DataRefused)
    assert store.stored.keys() == set(range(64)) - {37}
    assert len(store.inserts) <= 1 + 2 * 6


@pytest.mark.guards("repeated-send")
async def test_a_lost_reply_is_resolved_by_sending_the_same_ids_again(store: FakeStore, batcher: Batcher) -> None:
    store.lost = [OutcomeUnknown("cut"), OutcomeUnknown("cut")]
    answers = await asyncio.gather(*(insert(batcher, number) for number in (1, 2)))
    assert {answer.outcome for answer in answers} == {Insertion.CREATED}
    assert store.inserts == [([1, 2], False), ([1, 2], True), ([1, 2], True)]


async def test_an_unreachable_store_is_asked_again_without_doubt(store: FakeStore, batcher: Batcher) -> None:
    store.faults = [StoreUnavailable("down"), StoreUnavailable("down")]
    assert (await insert(batcher, 1)).id == 1
    assert store.inserts == [([1], False)] * 3


async def test_poison_after_a_lost_reply_still_fails_alone(store: FakeStore, batcher: Batcher) -> None:
    store.faults = [OutcomeUnknown("cut")]
    store.poison = {2}
    answers = await asyncio.gather(*(insert(batcher, number) for number in (1, 2, 3)), return_exceptions=True)
    assert [isinstance(answer, DataRefused) for answer in answers] == [False, True, False]
    assert all(again for _, again in store.inserts[1:])


async def test_a_store_that_stays_away_fails_each_caller_at_its_own_deadline(
    store: FakeStore, batcher: Batcher
) -> None:
    store.faults = [StoreUnavailable("down")] * 1_000
    patient, *others = [insert(batcher, number, within) for number, within in ((1, 3_600), (2, 0.1), (3, 0.2))]
    for other in others:
        with pytest.raises(StoreUnavailable, match="was not stored within the deadline: down"):
            await other
    assert not patient.done(), "whose deadline is far"
    store.faults.clear()
    assert (await patient).id == 1
    assert store.stored.keys() == {1}


async def test_an_unknown_outcome_at_the_deadline_names_the_job(store: FakeStore, batcher: Batcher) -> None:
    store.faults = [OutcomeUnknown("cut")] * 100
    with pytest.raises(OutcomeUnknown, match=r"job 0000-0000-0001-95 .* may exist: .*cut.*key=\.\.\."):
        await insert(batcher, 1, within=0.1)


async def test_no_caller_waits_longer_than_its_deadline_for_a_call_in_flight(
    store: FakeStore, batcher: Batcher
) -> None:
    store.gate.clear()
    first = insert(batcher, 1, within=0.1)
    await in_flight(store)
    second = insert(batcher, 2, within=0.1)
    with pytest.raises(OutcomeUnknown, match="may exist"):
        await first
    with pytest.raises(StoreUnavailable, match="nothing was changed"):
        await second
    store.gate.set()
    await batcher.close()
    assert store.stored.keys() == {1}


async def test_a_caller_cancelled_before_its_job_was_sent_withdraws_it(store: FakeStore, batcher: Batcher) -> None:
    store.gate.clear()
    first = insert(batcher, 1)
    await in_flight(store)
    withdrawn, kept = insert(batcher, 2), insert(batcher, 3)
    await asyncio.sleep(0)
    withdrawn.cancel()
    await asyncio.sleep(0)
    store.gate.set()
    await asyncio.gather(first, kept)
    assert withdrawn.cancelled()
    assert store.stored.keys() == {1, 3}


async def test_a_caller_cancelled_after_its_job_was_sent_does_not_stop_it(store: FakeStore, batcher: Batcher) -> None:
    store.gate.clear()
    sent, neighbour = insert(batcher, 1), insert(batcher, 2)
    await in_flight(store)
    sent.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sent
    store.gate.set()
    assert (await neighbour).id == 2
    assert store.stored.keys() == {1, 2}


async def test_any_other_error_reaches_every_caller(store: FakeStore, batcher: Batcher) -> None:
    store.faults = [StoreError("broken")]
    answers = await asyncio.gather(*(insert(batcher, number) for number in (1, 2)), return_exceptions=True)
    assert [str(answer) for answer in answers] == ["broken", "broken"]
    assert (await insert(batcher, 3)).id == 3


async def test_closing_lets_accepted_jobs_go_out_and_refuses_new_ones(store: FakeStore, batcher: Batcher) -> None:
    store.gate.clear()
    first = insert(batcher, 1)
    await in_flight(store)
    second = insert(batcher, 2)
    await asyncio.sleep(0)
    closing = asyncio.create_task(batcher.close())
    await asyncio.sleep(0)
    with pytest.raises(NotOpen, match="the app is closing"):
        await insert(batcher, 3)
    store.gate.set()
    await closing
    assert [(await first).id, (await second).id] == [1, 2]


# ---- ids -----------------------------------------------------------------------------------------------------------


async def test_ids_are_drawn_in_blocks_and_never_twice(store: FakeStore) -> None:
    ids = IdBlocks(cast("JobStore", store))
    taken = [await ids.take() for _ in range(BLOCK + 1)]
    assert store.drawn == [BLOCK, BLOCK]
    together = await asyncio.gather(*(ids.take() for _ in range(500)))
    assert len({*taken, *together}) == BLOCK + 1 + 500
    assert len(store.drawn) <= 4


async def test_an_old_block_is_thrown_away(store: FakeStore, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("holdfast.client.ids.time.monotonic", lambda: now)
    ids = IdBlocks(cast("JobStore", store))
    assert [await ids.take(), await ids.take()] == [1, 2]
    now = 104.9
    assert await ids.take() == 3
    now = 105.0
    assert await ids.take() == BLOCK + 1


async def test_bulk_takes_what_it_needs(store: FakeStore) -> None:
    assert len(await IdBlocks(cast("JobStore", store)).take_many(1_000)) == 1_000
    assert store.drawn == [1_000]


# ---- asking again --------------------------------------------------------------------------------------------------


@pytest.mark.guards("unknown-outcome")
async def test_asking_again_tells_whether_it_may_have_happened() -> None:
    told: list[bool] = []
    faults: list[Any] = [StoreUnavailable("down"), OutcomeUnknown("cut"), StoreUnavailable("down"), None]

    async def ask(again: bool) -> str:
        told.append(again)
        if (fault := faults.pop(0)) is not None:
            raise fault
        return "done"

    assert await until_answered(ask, 5, "cancel") == "done"
    assert told == [False, False, True, True]


@pytest.mark.parametrize(
    "fault, changes, expected",
    [
        (StoreUnavailable("down"), True, StoreUnavailable),
        (OutcomeUnknown("cut"), True, OutcomeUnknown),
        (OutcomeUnknown("cut"), False, StoreUnavailable),
    ],
)
async def test_a_deadline_says_whether_anything_may_have_changed(
    fault: Exception, changes: bool, expected: type[Exception]
) -> None:
    async def ask(_: bool) -> None:
        raise fault

    with pytest.raises(expected, match=r"^retry: "):
        await until_answered(ask, 0.1, "retry", changes=changes)


async def test_a_call_that_never_answers_is_unknown() -> None:
    async def ask(_: bool) -> None:
        await asyncio.Event().wait()

    with pytest.raises(OutcomeUnknown, match="may or may not have happened: the store did not answer"):
        await until_answered(ask, 0.05, "cancel")


# ---- waiting for results -------------------------------------------------------------------------------------------


def stored(job_id: int, state: JobState, result: str | None = None) -> JobRow:
    now = datetime.now(UTC)
    empty: dict[str, Any] = dict.fromkeys(JobRow.__struct_fields__)
    known = {"id": job_id, "kind": "work", "queue": "q", "state": state, "life": 1, "run_at": now, "enqueued_at": now}
    return JobRow(**{**empty, **known, "result_json": result, "error_class": "ValueError", "error": "no"})


class FakeJobs:
    """Jobs that end when a test says so; counts the looks."""

    def __init__(self, *jobs: JobRow) -> None:
        self.jobs = {job.id: job for job in jobs}
        self.looks: list[list[int]] = []
        self.faults: list[Exception] = []
        self.look_ends = asyncio.Condition()

    async def get_jobs(self, ids: Sequence[int]) -> list[JobRow]:
        return await self._look(ids)

    async def finished_jobs(self, ids: Sequence[int]) -> list[JobRow]:
        return [job for job in await self._look(ids) if job.is_finished]

    async def looked(self, times: int) -> None:
        """Wait until the jobs have been looked at so often."""
        async with self.look_ends:
            await self.look_ends.wait_for(lambda: len(self.looks) >= times)

    async def _look(self, ids: Sequence[int]) -> list[JobRow]:
        self.looks.append(list(ids))
        async with self.look_ends:
            self.look_ends.notify_all()
        if self.faults:
            raise self.faults.pop(0)
        return [self.jobs[number] for number in ids if number in self.jobs]


async def test_one_poller_waits_for_everybody() -> None:
    fake = FakeJobs(*(stored(number, JobState.RUNNING) for number in range(50)))
    waiting = Waiting(cast("JobStore", fake))
    waiters = [asyncio.create_task(waiting.ended(number % 50, 5)) for number in range(100)]
    await fake.looked(4)
    assert [sorted(look) for look in fake.looks] == [[*range(50)]] * len(fake.looks)
    fake.jobs = {number: stored(number, JobState.COMPLETED) for number in range(50)}
    assert [job.id for job in await asyncio.gather(*waiters)] == [*range(50), *range(50)]


async def test_a_finished_job_is_found_at_once_and_a_missing_one_said_to_be_missing() -> None:
    fake = FakeJobs(stored(1, JobState.COMPLETED))
    waiting = Waiting(cast("JobStore", fake))
    assert (await waiting.ended(1, 0.5)).state is JobState.COMPLETED
    with pytest.raises(JobNotFound, match="there is no such job"):
        await waiting.ended(2, 0.5)


async def test_a_job_that_vanishes_while_it_is_waited_for_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.client.waiting.EXISTENCE_S", 0.05)
    fake = FakeJobs(stored(1, JobState.RUNNING))
    waiter = asyncio.create_task(Waiting(cast("JobStore", fake)).ended(1, 5))
    await fake.looked(2)
    fake.jobs.clear()
    with pytest.raises(JobNotFound):
        await waiter


async def test_waiting_survives_a_store_that_is_away() -> None:
    fake = FakeJobs(stored(1, JobState.COMPLETED))
    fake.faults = [StoreUnavailable("down"), OutcomeUnknown("cut")]
    waiting = Waiting(cast("JobStore", fake))
    assert (await waiting.ended(1, 5)).id == 1
    fake.faults = [StoreUnavailable("down")] * 100
    with pytest.raises(ResultTimeout, match="the store could not be asked: down"):
        await waiting.ended(1, 0.1)


async def test_a_timeout_ends_one_wait_and_closing_ends_all() -> None:
    fake = FakeJobs(stored(1, JobState.RUNNING), stored(2, JobState.RUNNING))
    waiting = Waiting(cast("JobStore", fake))
    other = asyncio.create_task(waiting.ended(2, None))
    with pytest.raises(ResultTimeout, match=r"had not finished after 0\.05 s; it goes on"):
        await waiting.ended(1, 0.05)
    assert not other.done()
    await waiting.close()
    with pytest.raises(NotOpen, match="the job goes on"):
        await other


class OneJob:
    """Just enough of a client for a handle."""

    def __init__(self, job: JobRow) -> None:
        self.job = job

    async def finished_row(self, job: int, timeout: object = None) -> JobRow:
        return self.job


def handle(job: JobRow, result_type: Any = Any) -> JobHandle[Any]:
    return JobHandle(cast("HandleJobs", OneJob(job)), job.id, created=True, result_type=result_type)


async def test_a_result_has_the_type_that_the_task_promised() -> None:
    when = "2026-01-01T00:00:00Z"
    done = stored(1, JobState.COMPLETED, f'"{when}"')
    assert await handle(done).result() == when
    assert await handle(done, datetime).result() == datetime(2026, 1, 1, tzinfo=UTC)
    assert await handle(stored(1, JobState.COMPLETED_WITH_ERRORS, "[1]"), list[int]).result() == [1]
    assert await handle(stored(1, JobState.COMPLETED)).result() is None
    with pytest.raises(InvalidValue, match="its result does not fit the task's return type"):
        await handle(done, int).result()


async def test_a_result_that_is_none_says_why() -> None:
    with pytest.raises(JobFailed, match="failed: ValueError: no") as caught:
        await handle(stored(1, JobState.FAILED)).result()
    assert (caught.value.error_class, caught.value.error) == ("ValueError", "no")
    with pytest.raises(JobCancelled, match="was cancelled"):
        await handle(stored(1, JobState.CANCELLED)).result()


async def test_a_handle_without_an_id_says_what_to_do() -> None:
    unknown: JobHandle[Any] = JobHandle(cast("HandleJobs", OneJob(stored(1, JobState.QUEUED))), None, created=False)
    with pytest.raises(Conflict, match="REPEATABLE READ transaction cannot see"):
        await unknown.result()
    assert repr(unknown) == "<JobHandle unknown existing>"


# ---- the same verbs everywhere -------------------------------------------------------------------------------------


def _verbs(cls: type) -> dict[str, Any]:
    return {name: verb for name, verb in inspect.getmembers(cls, inspect.isfunction) if not name.startswith("_")}


def test_the_app_and_the_blocking_client_offer_every_verb_of_the_client() -> None:
    verbs = _verbs(LocalClient).keys() - {"close", "now"}  # the time is what the command line and pages need
    assert verbs <= _verbs(Holdfast).keys()
    verbs -= {"events", "subscribe"}  # which call back while a block runs: for programs with an event loop
    assert verbs == _verbs(BlockingClient).keys()
    for name in verbs - {"enqueue", "enqueue_many", "iterate", "limit", "lock", "watch"}:
        assert inspect.signature(_verbs(BlockingClient)[name]) == inspect.signature(_verbs(LocalClient)[name])


def test_a_blocking_handle_offers_every_verb_of_a_handle() -> None:
    for name, verb in _verbs(JobHandle).items():
        parameters = inspect.signature(_verbs(BlockingHandle)[name]).parameters
        assert [*parameters.items()] == [*inspect.signature(verb).parameters.items()]
