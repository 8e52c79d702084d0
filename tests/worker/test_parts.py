"""The small parts of a worker by themselves: slots, pump, classification, finisher."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from holdfast import Cancel, Fatal, Holdfast, InvalidValue, JobState, Queue, Retry, Skip, Snooze, TimedOut
from holdfast.config import Settings
from holdfast.job import JobRow
from holdfast.outcomes import outcome_of
from holdfast.stores.values import Claim, Worked
from holdfast.transitions import Transition, Verb, completed, interrupted
from holdfast.worker import classify
from holdfast.worker.finisher import Ending, Finisher
from holdfast.worker.parts import bounds_of, queues_of
from holdfast.worker.pump import Pump
from holdfast.worker.run import Run, Why
from holdfast.worker.slots import Slots, share
from holdfast.worker.tally import Tally
from tests.support.workers import drained


@pytest.fixture
async def job(memory_app: Holdfast) -> JobRow:
    """Give a job as the store knows it."""

    @memory_app.task
    async def work() -> None: ...

    handle = await work.enqueue()
    return (await memory_app.store.get_jobs([handle.number or 0]))[0]


def copy(job: JobRow, number: int, **changes: Any) -> JobRow:
    """Make another job like this one."""
    return msgspec.structs.replace(job, id=number, position=number, **changes)


# ---- slots -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("total, processes", [(10, 1), (10, 3), (3, 4), (1, 2), (7, 7)])
def test_shares_are_even_and_add_up(total: int, processes: int) -> None:
    shares = [share(total, processes, index) for index in range(processes)]
    assert sum(shares) == total
    assert max(shares) - min(shares) <= 1
    assert shares == sorted(shares, reverse=True)


def test_slots_are_bounded_in_all_and_by_queue() -> None:
    slots = Slots(3, {"tight": 1})
    assert slots.take("tight")
    assert not slots.take("tight")
    assert slots.take("other")
    assert slots.take("other")
    assert not slots.take("other")
    assert (slots.free, slots.taken, slots.room("tight"), slots.room("other")) == (0, 3, 0, 3)
    slots.give("tight")
    assert (slots.free, slots.room("tight")) == (1, 1)
    assert slots.take("tight")


def test_queues_and_bounds_come_from_the_app() -> None:
    app = Holdfast("sqlite://", queues=[Queue("b", workers=3), Queue("a")])

    @app.task(queue="c")
    async def work() -> None: ...

    assert queues_of(app.parts, None) == ("b", "a", "c", "default")
    assert queues_of(app.parts, ["X", "x", "y"]) == ("x", "y")
    assert bounds_of(app.config, 2, 0) == {"b": 2}
    assert bounds_of(app.config, 2, 1) == {"b": 1}


# ---- pump ------------------------------------------------------------------------------------------------------------


class OpenPump(Pump):
    """A pump whose slots the test gives back."""

    def __init__(self, worker: int, queues: Sequence[str], slots: Slots, *others: Any) -> None:
        super().__init__(worker, queues, slots, *others)
        self.slots = slots


def next_claim(pump: Pump) -> Claim:
    claim = pump.next_claim()
    assert claim is not None
    return claim


def next_claim_after_hint(pump: Pump) -> Claim:
    pump.hint()
    return next_claim(pump)


async def test_a_claim_names_every_lane_the_first_priority_first() -> None:
    pump = Pump(7, ["a", "b"], Slots(4, {"b": 2}))
    claim = next_claim(pump)
    assert (claim.worker, claim.limit, len(claim.lanes)) == (7, 4, 22)
    assert [(lane.queue, lane.priority, lane.limit) for lane in claim.lanes[:4]] == [
        ("a", 0, 4),
        ("b", 0, 2),
        ("a", 1, 4),
        ("b", 1, 2),
    ]
    assert next_claim(pump).batch != claim.batch


async def test_after_a_claim_that_was_not_filled_it_waits_for_a_reason(job: JobRow) -> None:
    pump = OpenPump(1, ["default"], Slots(4, {}))
    pump.took(next_claim(pump), [copy(job, 1)])
    assert pump.next_claim() is None
    pump.hint("default")
    assert next_claim(pump).limit == 3
    pump.took(next_claim(pump), [])
    assert pump.is_dry is False  # there is a buffer
    assert pump.next_run() is not None
    assert pump.is_dry


async def test_a_claim_goes_on_where_the_last_one_ended_unless_hinted(job: JobRow) -> None:
    pump = OpenPump(1, ["default", "other"], Slots(2, {}))
    pump.took(next_claim(pump), [copy(job, 41), copy(job, 42)])
    for _ in range(2):
        pump.next_run()
        pump.slots.give("default")
    lanes = {(lane.queue, lane.priority): lane.after for lane in next_claim(pump).lanes}
    assert (lanes["default", 5], lanes["default", 4], lanes["other", 5]) == (42, 0, 0)
    pump.hint("other")
    assert any(lane.after == 42 for lane in next_claim(pump).lanes)
    pump.hint("default")
    assert all(lane.after == 0 for lane in next_claim(pump).lanes)


async def test_the_bounds_are_forgotten_after_a_second(job: JobRow, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    pump = OpenPump(1, ["default"], Slots(9, {}))
    pump.took(next_claim(pump), [copy(job, number) for number in range(1, 10)])
    pump.empty()
    assert any(lane.after for lane in next_claim(pump).lanes)
    now[0] += 1.1
    assert not any(lane.after for lane in next_claim(pump).lanes)


async def test_claims_ahead_are_bounded_by_what_ended_lately(job: JobRow, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    pump = OpenPump(1, ["default"], Slots(3, {}))
    assert pump.wanted == 3
    for _ in range(2):
        pump.finished("default")
    assert pump.wanted == 5
    for _ in range(100):
        pump.finished("default")
    assert pump.wanted == 5  # of the nine that it may hold, at most half in one claim
    pump.took(next_claim(pump), [copy(job, number) for number in range(1, 6)])
    assert pump.wanted == 4
    pump.took(next_claim(pump), [copy(job, number) for number in range(6, 10)])
    assert pump.wanted == 0
    now[0] += 0.3
    assert pump.wanted == -6
    assert pump.next_claim() is None


async def test_nothing_is_dry_once_a_job_has_ended_that_may_have_enqueued_others(job: JobRow) -> None:
    pump = OpenPump(1, ["default"], Slots(4, {}))
    pump.took(next_claim(pump), [copy(job, 1)])
    assert pump.next_run() is not None
    pump.hint()
    pump.took(next_claim(pump), [])
    assert pump.is_dry
    pump.finished("default")
    assert not pump.is_dry


async def test_a_full_queue_is_left_out_and_asked_again_when_a_job_of_it_ends(job: JobRow) -> None:
    pump = OpenPump(1, ["default", "tight"], Slots(4, {"tight": 1}))
    pump.took(next_claim(pump), [copy(job, 1, queue="tight")])
    assert pump.next_run() is not None
    pump.hint()
    claim = next_claim(pump)
    assert {lane.queue for lane in claim.lanes} == {"default"}
    pump.took(claim, [])
    assert not pump.is_dry  # one queue was not asked
    assert pump.next_claim() is None
    pump.slots.give("tight")
    pump.finished("tight")
    assert {lane.queue for lane in next_claim(pump).lanes} == {"default", "tight"}


async def test_a_queue_without_a_share_is_never_asked() -> None:
    pump = OpenPump(1, ["default", "tight"], Slots(4, {"tight": 0}))
    claim = next_claim(pump)
    assert {lane.queue for lane in claim.lanes} == {"default"}
    pump.took(claim, [])
    assert pump.is_dry


async def test_a_hint_during_a_claim_is_answered_by_the_next_one() -> None:
    pump = OpenPump(1, ["default"], Slots(4, {}))
    claim = next_claim(pump)
    pump.hint("default")
    pump.took(claim, [])
    assert not pump.is_dry
    assert pump.next_claim() is not None


async def test_a_job_whose_queue_is_full_lets_others_pass(job: JobRow) -> None:
    pump = OpenPump(1, ["default", "tight"], Slots(2, {"tight": 1}))
    jobs = [copy(job, 1, queue="tight"), copy(job, 2, queue="tight"), copy(job, 3)]
    pump.took(next_claim(pump), jobs)
    started = [pump.next_run(), pump.next_run()]
    assert [run and run.job.id for run in started] == [1, 3]
    assert pump.next_run() is None
    assert [run.job.id for run in pump.empty(["tight"])] == [2]


async def test_what_waits_too_long_in_the_buffer_is_given_back(job: JobRow, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    pump = OpenPump(1, ["default"], Slots(2, {}))
    pump.took(next_claim(pump), [copy(job, 1)])
    now[0] += 0.8
    pump.took(next_claim_after_hint(pump), [copy(job, 2)])
    now[0] += 0.3
    assert [run.job.id for run in pump.stuck(1.0)] == [1]
    assert [run.job.id for run in pump.buffer] == [2]


async def test_a_closed_pump_wants_nothing_and_most_is_an_end(job: JobRow) -> None:
    pump = OpenPump(1, ["default"], Slots(4, {}))
    pump.most = 2
    claim = next_claim(pump)
    assert claim.limit == 2
    pump.took(claim, [copy(job, 1), copy(job, 2)])
    assert pump.next_claim() is None
    pump.most = None
    pump.hint()
    pump.is_closed = True
    assert pump.next_claim() is None


# ---- classify --------------------------------------------------------------------------------------------------------


@pytest.fixture
def settings() -> Settings:
    """Give what an app knows by default."""
    return Holdfast("sqlite://").config


def make_run(job: JobRow, why: Why | None = None, **changes: Any) -> Run:
    run = Run(msgspec.structs.replace(job, claim=3, attempt=1, timeout_ms=1_500, **changes))
    run.why = why
    return run


@pytest.mark.parametrize(
    "error, why, verb",
    [
        (ValueError(), None, Verb.RETRY),
        (asyncio.CancelledError(), None, Verb.RETRY),
        (asyncio.CancelledError(), Why.LEAVING, Verb.INTERRUPT),
        (asyncio.CancelledError(), Why.CANCELLED, Verb.CANCEL),
        (asyncio.CancelledError(), Why.TIMED_OUT, Verb.RETRY),
        (ValueError(), Why.LEAVING, Verb.RETRY),
        (ValueError(), Why.CANCELLED, Verb.CANCEL),
        (ValueError(), Why.IN_DOUBT, Verb.INTERRUPT),
        (Fatal(), Why.IN_DOUBT, Verb.INTERRUPT),
        (Fatal(), Why.CANCELLED, Verb.FAIL),
        (Fatal(), Why.TIMED_OUT, Verb.FAIL),
        (Retry(5), None, Verb.RETRY),
        (Snooze(5), Why.LEAVING, Verb.SNOOZE),
        (Cancel(), None, Verb.CANCEL),
        (Skip(), None, Verb.COMPLETE),
    ],
)
async def test_what_a_raised_error_means(
    job: JobRow, settings: Settings, error: BaseException, why: Why | None, verb: Verb
) -> None:
    transition = classify.raised(make_run(job, why), error, settings)
    assert (transition.verb, transition.id, transition.claim) == (verb, job.id, 3)


async def test_a_timeout_says_how_long_it_was(job: JobRow, settings: Settings) -> None:
    transition = classify.raised(make_run(job, Why.TIMED_OUT), asyncio.CancelledError(), settings)
    assert transition.failure is not None
    assert transition.failure.message == "ran longer than its timeout of 1.5 s"
    assert transition.failure.error_class == f"{TimedOut.__module__}.TimedOut"


async def test_the_last_attempt_fails_whatever_is_asked_for(job: JobRow, settings: Settings) -> None:
    run = make_run(job, max_attempts=1)
    for error in (ValueError(), Retry(5)):
        assert classify.raised(run, error, settings).state is JobState.FAILED
    assert classify.raised(run, Snooze(5), settings).state is JobState.SCHEDULED


async def test_what_is_returned_in_doubt_is_given_back(job: JobRow, settings: Settings) -> None:
    assert classify.returned(make_run(job), {"a": 1}, settings).result == '{"a":1}'
    assert classify.returned(make_run(job), None, settings).result is None
    assert classify.returned(make_run(job, Why.IN_DOUBT), 1, settings).verb is Verb.INTERRUPT


def test_the_first_outcome_of_a_group_counts_in_the_order_it_was_written() -> None:
    first, second = Fatal("first"), Snooze(1)
    assert outcome_of(ExceptionGroup("", [ValueError(), first, second])) is first
    assert outcome_of(ExceptionGroup("", [ExceptionGroup("", [second]), first])) is second
    assert outcome_of(BaseExceptionGroup("", [KeyboardInterrupt(), first])) is first
    assert outcome_of(ExceptionGroup("", [ValueError()])) is None
    assert outcome_of(ValueError()) is None


def test_outcomes_carry_their_reason_and_delay() -> None:
    assert (str(Fatal("why")), Fatal("why").reason) == ("why", "why")
    assert (Retry().delay_ms, Retry("5m", "why").delay_ms, Retry("5m", "why").reason) == (None, 300_000, "why")
    assert Snooze(0.5).delay_ms == 500
    with pytest.raises(InvalidValue):
        Snooze(float("nan"))


# ---- finisher --------------------------------------------------------------------------------------------------------


class Recorder:
    """A store that keeps the ends that it is told, batch by batch."""

    def __init__(self) -> None:
        self.batches: list[Sequence[Transition]] = []

    async def finish_jobs(self, transitions: Sequence[Transition], **_: Any) -> Worked:
        """Keep them."""
        self.batches.append(transitions)
        return Worked([], [])


async def test_the_first_end_of_a_claim_counts_and_older_claims_go_first(job: JobRow) -> None:
    async def save(runs: Sequence[Run]) -> None: ...

    store: Any = Recorder()
    finisher = Finisher(store, Tally(), lambda ending, finish: None, save)
    finisher.add(Ending(completed(1, 1, '"first"')))
    finisher.add(Ending(interrupted(1, 1)))
    finisher.add(Ending(completed(1, 2)))
    finisher.add(Ending(completed(2, 1)))
    assert (1, 1) in finisher
    assert (3, 1) not in finisher
    for _ in range(2):
        await finisher.write(None)
    assert [[(end.id, end.claim, end.result) for end in batch] for batch in store.batches] == [
        [(1, 1, '"first"'), (2, 1, None)],
        [(1, 2, None)],
    ]


async def test_counts_are_written_with_the_ends(memory_app: Holdfast) -> None:
    @memory_app.task
    async def work() -> None: ...

    @memory_app.task
    async def broken() -> None:
        raise Fatal

    for _ in range(5):
        await work.enqueue()
    await broken.enqueue()
    await drained(memory_app)
    store: Any = memory_app.store
    page = await memory_app.jobs.list()
    since = min(job.enqueued_at for job in page.jobs) - timedelta(minutes=1)  # they are kept by the minute
    found = {(rollup.kind, rollup.state): rollup.jobs for rollup in await store.read_rollups(since)}
    assert found == {("work", JobState.COMPLETED): 5, ("broken", JobState.FAILED): 1}
