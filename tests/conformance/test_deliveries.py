"""The outbox: the end of a job and the message about it are one commit, and one message is nobody's but its taker's."""

import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from holdfast.errors import StoreError
from holdfast.events import EventRow, EventType
from holdfast.job import TERMINAL, Answer, DeliveryRow, JobState
from holdfast.stores.deliveries import Message
from holdfast.stores.postgres.store import PostgresStore
from holdfast.stores.store import Store
from holdfast.stores.values import QueueTerms, Started, Verdict
from holdfast.transitions import cancelled, completed, crashed, interrupted, retried, snoozed
from tests.support import raw
from tests.support.builders import (
    FAILURE,
    LEASE_MS,
    cancel,
    claim_one,
    crash,
    end,
    enqueue,
    find,
    finished,
    keeping,
    read,
    register,
    retry,
    running,
    settle,
)
from tests.support.clock import Clock
from tests.support.outbox import forget

DAY_MS = 86_400_000
WEEK = keeping(7 * DAY_MS, 7 * DAY_MS, 30 * DAY_MS, 7 * DAY_MS)
URL, OTHER_URL = "https://hooks.example.org/in?token=a", "https://other.example.org/in"
OWN: dict[str, Any] = {"extra": msgspec.json.encode({"webhook": {"url": URL}}).decode()}
ENTRY = '{"at": "2026-01-02T03:04:05Z", "status": 500, "error": "answered 500", "took_ms": 7}'
LEASE, WATCH_MS = 30_000, 30_000

Ending = Callable[[Store, Clock, dict[str, Any]], Awaitable[int]]


@pytest.fixture(autouse=True)
async def alone(store: Store) -> AsyncIterator[None]:
    """Leave no message to this test, and none to the next."""
    await forget(store)
    yield
    await forget(store)


def posting(url: str = URL, events: Sequence[str] | None = None, terms: QueueTerms = WEEK) -> QueueTerms:
    """Terms that let the ends of a queue's jobs be posted."""
    wish = {"url": url} if events is None else {"url": url, "events": events}
    return msgspec.structs.replace(terms, webhook=msgspec.json.encode(wish).decode())


async def take(store: Store, limit: int = 100) -> list[Message]:
    """Take what is due."""
    return await store.claim_deliveries(limit, LEASE)


async def take_one(store: Store) -> Message:
    """Take the only message that is due."""
    (message,) = await take(store)
    return message


async def sent(store: Store, job_id: int) -> list[DeliveryRow]:
    """The messages about a job."""
    return (await read(store, job_id)).deliveries


async def heard(store: Store) -> list[EventRow]:
    """The events that were written about messages."""
    found = await store.read_events(0, [], 1_000)
    return [event for event in found if event.type in (EventType.WEBHOOK_DELIVERED, EventType.WEBHOOK_FAILED)]


# ---- every way to end ------------------------------------------------------------------------------------------------


async def complete(store: Store, _: Clock, options: dict[str, Any]) -> int:
    return (await finished(store, JobState.COMPLETED, **options)).id


async def complete_with_errors(store: Store, _: Clock, options: dict[str, Any]) -> int:
    return (await finished(store, JobState.COMPLETED_WITH_ERRORS, **options)).id


async def complete_in_a_transaction(store: Store, _: Clock, options: dict[str, Any]) -> int:
    job = await running(store, **options)
    async with store.transaction(30.0) as tx:
        assert (await tx.finish(completed(job.id, job.claim))).verdict is Verdict.DONE
    return job.id


async def fail(store: Store, _: Clock, options: dict[str, Any]) -> int:
    return (await finished(store, JobState.FAILED, **options)).id


async def cancel_itself(store: Store, _: Clock, options: dict[str, Any]) -> int:
    job = await running(store, **options)
    await settle(store, cancelled(job.id, job.claim))
    return job.id


async def retry_although_cancelled(store: Store, _: Clock, options: dict[str, Any]) -> int:
    job = await running(store, **options)
    await cancel(store, job.id)
    await settle(store, retried(job.id, job.claim, FAILURE, 0))
    return job.id


async def withdraw(store: Store, _: Clock, options: dict[str, Any]) -> int:
    job_id = await enqueue(store, **options)
    assert await cancel(store, job_id) is Answer.DONE
    return job_id


async def force(store: Store, clock: Clock, options: dict[str, Any]) -> int:
    job = await running(store, await register(store, lease_ms=60_000), **options)
    assert await cancel(store, job.id) is Answer.REQUESTED
    await clock.advance(seconds=31)
    assert await store.force_cancels(30_000, 10) == (job.id,)
    return job.id


async def bury(store: Store, _: Clock, options: dict[str, Any]) -> int:
    await crash(store, await running(store, max_crashes=2, **options))
    return (await crash(store, await claim_one(store))).id


async def bury_by_rescue(store: Store, clock: Clock, options: dict[str, Any]) -> int:
    await crash(store, await running(store, max_crashes=2, **options))
    job = await claim_one(store)
    await store.start_jobs([Started(job.id, job.claim, 0)])
    await clock.advance(milliseconds=LEASE_MS + 1)
    assert (await store.rescue_jobs(10)).failed == (job.id,)
    return job.id


async def bury_with_its_worker(store: Store, _: Clock, options: dict[str, Any]) -> int:
    await crash(store, await running(store, max_crashes=2, **options))
    worker = await register(store)
    job = await claim_one(store, worker)
    assert (await store.release_worker(worker, [crashed(job.id, job.claim, FAILURE)])).failed == (job.id,)
    return job.id


ENDINGS: dict[str, tuple[Ending, str, JobState]] = {
    "complete": (complete, "job:completed", JobState.COMPLETED),
    "complete with errors": (complete_with_errors, "job:completed", JobState.COMPLETED_WITH_ERRORS),
    "complete in a transaction": (complete_in_a_transaction, "job:completed", JobState.COMPLETED),
    "fail": (fail, "job:failed", JobState.FAILED),
    "cancel": (cancel_itself, "job:cancelled", JobState.CANCELLED),
    "retry although cancelled": (retry_although_cancelled, "job:cancelled", JobState.CANCELLED),
    "withdraw": (withdraw, "job:cancelled", JobState.CANCELLED),
    "force": (force, "job:cancelled", JobState.CANCELLED),
    "crash": (bury, "job:failed", JobState.FAILED),
    "rescue": (bury_by_rescue, "job:failed", JobState.FAILED),
    "release": (bury_with_its_worker, "job:failed", JobState.FAILED),
}


@pytest.mark.parametrize("how", ENDINGS)
async def test_every_end_leaves_one_message_that_says_it_all(store: Store, clock: Clock, how: str) -> None:
    await check_message(store, clock, how, OWN)
    await store.define_queues({"default": posting()})
    await check_message(store, clock, how, {})


async def check_message(store: Store, clock: Clock, how: str, wish: dict[str, Any]) -> None:
    """Let a job end, and look at the message about it."""
    ending, event, state = ENDINGS[how]
    job = await read(store, await ending(store, clock, {"tags": {"t": "v"}, **wish}))
    (delivery,) = job.deliveries
    assert (job.state, delivery.event, delivery.url) == (state, event, URL)
    assert (delivery.life, delivery.state, delivery.tries, delivery.log) == (1, "pending", 0, [])
    assert (delivery.at, delivery.next_at, delivery.ended_at) == (job.finished_at, job.finished_at, None)
    assert not job.webhook_sent
    message = await take_one(store)
    assert (message.job_id, message.life, message.event, message.url) == (job.id, 1, event, URL)
    assert (message.task, message.queue, message.status, message.attempt) == ("work", "default", state, job.attempt)
    assert (message.at, message.error_class, message.error) == (job.finished_at, job.error_class, job.error)
    assert message.tags is not None
    assert msgspec.json.decode(message.tags) == {"t": "v"}
    assert (message.result_omitted, message.tries) == (False, 1)
    assert await store.end_delivery(message, "delivered", 0, ENTRY)


@asynccontextmanager
async def refusing_messages(store: Store) -> AsyncIterator[None]:
    """Let no message be written, as a full disk would."""
    if isinstance(store, PostgresStore):
        make = """
            CREATE FUNCTION holdfast.refuse() RETURNS trigger LANGUAGE plpgsql
            AS $$ BEGIN RAISE EXCEPTION 'no room' USING ERRCODE = 'disk_full'; END $$
        """
        await raw.execute(store, make)
        add = "CREATE TRIGGER refused BEFORE INSERT ON holdfast.deliveries EXECUTE FUNCTION holdfast.refuse()"
        drop = "DROP FUNCTION holdfast.refuse() CASCADE"
    else:
        add = "CREATE TRIGGER refused BEFORE INSERT ON holdfast.deliveries BEGIN SELECT RAISE(ROLLBACK, 'no room'); END"
        drop = "DROP TRIGGER refused"
    await raw.execute(store, add)
    try:
        yield
    finally:
        await raw.execute(store, drop)


@pytest.mark.parametrize("how", ["complete", "complete in a transaction", "withdraw", "force", "crash", "rescue"])
async def test_an_end_whose_message_cannot_be_written_is_none(store: Store, clock: Clock, how: str) -> None:
    seen: list[int] = []
    async with refusing_messages(store):
        with pytest.raises(StoreError):
            seen.append(await ENDINGS[how][0](store, clock, OWN))
    assert seen == []
    (count,) = await store.count_jobs()
    assert (count.jobs, count.state) == (1, JobState.QUEUED if how == "withdraw" else JobState.RUNNING)
    assert await take(store) == []


async def test_a_transaction_that_is_rolled_back_leaves_no_message(store: Store) -> None:
    job = await running(store, **OWN)

    async def finish_and_raise() -> None:
        async with store.transaction(30.0) as tx:
            await tx.finish(completed(job.id, job.claim))
            raise LookupError

    with pytest.raises(LookupError):
        await finish_and_raise()
    assert (await take(store), (await read(store, job.id)).state) == ([], JobState.RUNNING)


async def test_the_ends_of_one_commit_have_a_message_each(store: Store) -> None:
    await store.define_queues({"default": posting()})
    worker = await register(store)
    jobs = [await running(store, worker) for _ in range(5)]
    await store.finish_jobs([completed(job.id, job.claim) for job in jobs])
    assert sorted(message.job_id for message in await take(store)) == sorted(job.id for job in jobs)


async def test_an_end_that_is_sent_again_has_one_message(store: Store) -> None:
    job = await running(store, **OWN)
    assert [(await end(store, completed(job.id, job.claim))).verdict for _ in range(2)] == [
        Verdict.DONE,
        Verdict.ALREADY,
    ]
    assert len(await take(store)) == 1


async def test_an_end_under_a_lost_claim_leaves_no_message(store: Store) -> None:
    job = await running(store, **OWN)
    await settle(store, interrupted(job.id, job.claim))
    assert (await end(store, completed(job.id, job.claim))).verdict is Verdict.LOST
    assert await take(store) == []


# ---- who wants to hear of it -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["complete", "withdraw", "rescue"])
async def test_nobody_who_asked_for_nothing_gets_a_message(store: Store, clock: Clock, how: str) -> None:
    await store.define_queues({"default": WEEK, "other": posting()})
    job_id = await ENDINGS[how][0](store, clock, {})
    assert (await sent(store, job_id), await take(store), await store.next_delivery_ms()) == ([], [], None)


async def test_waiting_again_is_no_end(store: Store) -> None:
    await store.define_queues({"default": posting()})
    job_id, worker = await enqueue(store, **OWN), await register(store)
    for claim, wait in enumerate(
        [
            retried(job_id, 1, FAILURE, 0),
            snoozed(job_id, 2, 0),
            interrupted(job_id, 3),
            crashed(job_id, 4, FAILURE),
            snoozed(job_id, 5, 1_000),
        ],
        start=1,
    ):
        await claim_one(store, worker)
        await store.start_jobs([Started(job_id, claim, 0)])
        await settle(store, wait)
    assert (await sent(store, job_id), await take(store)) == ([], [])


async def test_the_jobs_own_place_wins_over_that_of_its_queue(store: Store) -> None:
    await store.define_queues({"default": posting(OTHER_URL)})
    own, plain = await finished(store, JobState.COMPLETED, **OWN), await finished(store, JobState.COMPLETED)
    assert {message.job_id: message.url for message in await take(store)} == {own.id: URL, plain.id: OTHER_URL}


@pytest.mark.parametrize("chosen", [*itertools.combinations(["job:completed", "job:failed", "job:cancelled"], 2)])
async def test_only_the_chosen_events_are_posted(store: Store, chosen: tuple[str, str]) -> None:
    await store.define_queues({"default": posting(events=chosen)})
    events = {state: f"job:{state.value.removesuffix('_with_errors')}" for state in TERMINAL}
    jobs = [await finished(store, state) for state in sorted(TERMINAL)]
    assert {job.state: [one.event for one in job.deliveries] for job in jobs} == {
        state: [event] if event in chosen else [] for state, event in events.items()
    }


async def test_the_jobs_own_place_hears_of_every_event(store: Store) -> None:
    await store.define_queues({"default": posting(OTHER_URL, ["job:failed"])})
    assert [one.url for one in (await finished(store, JobState.COMPLETED, **OWN)).deliveries] == [URL]


# ---- what it says ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "letter, length, is_omitted", [("x", 15_998, False), ("x", 15_999, True), ("ü", 15_998, False), ("ü", 16_000, True)]
)
async def test_a_result_of_more_than_16_kb_is_left_out(
    store: Store, letter: str, length: int, *, is_omitted: bool
) -> None:
    job = await running(store, **OWN)
    text = letter * (length // len(letter.encode()))
    await settle(store, completed(job.id, job.claim, msgspec.json.encode(text).decode()))
    message = await take_one(store)
    assert message.result_omitted is is_omitted
    assert (None if message.result is None else msgspec.json.decode(message.result)) == (None if is_omitted else text)


async def test_a_second_life_has_its_own_message(store: Store) -> None:
    job = await finished(store, JobState.FAILED, **OWN)
    first = await take_one(store)
    await store.end_delivery(first, "delivered", 0, ENTRY)
    assert (await read(store, job.id)).webhook_sent
    assert await retry(store, job.id) is Answer.DONE
    assert not (await read(store, job.id)).webhook_sent
    again = await claim_one(store)
    await settle(store, completed(job.id, again.claim))
    second = await take_one(store)
    assert (second.life, second.event, second.status) == (2, "job:completed", "completed")
    told = [(one.life, one.event, one.state) for one in await sent(store, job.id)]
    assert told == [(1, "job:failed", "delivered"), (2, "job:completed", "pending")]


@pytest.mark.parametrize("meanwhile", ["deleted", "retried", "expired"])
async def test_what_becomes_of_the_job_changes_nothing_for_its_message(
    store: Store, clock: Clock, meanwhile: str
) -> None:
    terms = keeping(60_000, 60_000, 60_000, 60_000)
    await store.define_queues({"default": terms if meanwhile == "expired" else WEEK})
    job = await finished(store, JobState.FAILED, tags={"t": "v"}, **OWN)
    if meanwhile == "deleted":
        await store.delete_jobs([job.id])
    elif meanwhile == "retried":
        await retry(store, job.id)
    else:
        await clock.advance(days=1)
        await store.keep_history(100)
        await store.prune_deliveries(100)
    message = await take_one(store)
    assert (message.job_id, message.life, message.status, message.error) == (job.id, 1, "failed", FAILURE.message)
    await store.watch("test", WATCH_MS)
    assert await store.end_delivery(message, "delivered", 0, ENTRY)
    (event,) = await heard(store)
    assert (event.type, event.job_id, event.run) == (EventType.WEBHOOK_DELIVERED, job.id, 1)
    now = await find(store, job.id)
    assert (None if now is None else now.state) == (JobState.QUEUED if meanwhile == "retried" else None)
