"""What has to be told of finished jobs before they go: noted with their end, taken by one, and done with once."""

from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from holdfast.events import EventRow, EventType
from holdfast.job import TERMINAL, Answer, JobRow, JobState
from holdfast.stores.postgres.store import PostgresStore
from holdfast.stores.sqlite.rows import moment
from holdfast.stores.sqlite.store import SqliteStore
from holdfast.stores.store import Store
from holdfast.stores.values import JobFilter, QueueTerms, RetentionDue
from holdfast.transitions import completed, failed
from tests.support.builders import (
    FAILURE,
    cancel,
    claim_one,
    crash,
    find,
    finished,
    keeping,
    read,
    retry,
    running,
    settle,
)
from tests.support.clock import Clock
from tests.support.outbox import forget

HOUR_MS, DAY_MS = 3_600_000, 86_400_000
STALE_MS = {state: HOUR_MS * hours for hours, state in enumerate(sorted(TERMINAL), start=1)}
WEEK = keeping(7 * DAY_MS, 7 * DAY_MS, 30 * DAY_MS, 7 * DAY_MS)
KEPT = {state: timedelta(days=30 if state is JobState.FAILED else 7) for state in TERMINAL}
TELLING = msgspec.structs.replace(WEEK, stale_ms=STALE_MS, tells=True)
LEASE = 60_000


@pytest.fixture(autouse=True)
async def alone(store: Store) -> AsyncIterator[None]:
    """Leave nothing to tell to this test, and nothing to the next."""
    await forget(store)
    await store.define_queues({"default": TELLING})
    yield
    await forget(store)


def telling(terms: QueueTerms = WEEK, **changes: Any) -> QueueTerms:
    return msgspec.structs.replace(terms, tells=True, **changes)


async def dues(store: Store) -> list[tuple[int, int, str, datetime]]:
    """What has to be told some time, the earliest first."""
    sql = "SELECT job_id, life, what, at FROM holdfast.retention_due ORDER BY at, job_id"
    if isinstance(store, PostgresStore):
        return [tuple(row) for row in await store.fetch_sql(sql)]
    assert isinstance(store, SqliteStore)
    found = await store.connection.read(
        lambda database, _: database.execute(sql.replace("holdfast.", "holdfast_")).fetchall()
    )
    return [(job_id, life, what, moment(at)) for job_id, life, what, at in found]


async def take(store: Store, limit: int = 100) -> list[RetentionDue]:
    """Take what has to be told now."""
    return await store.claim_retention(["default"], limit, LEASE)


async def take_one(store: Store) -> RetentionDue:
    """Take the only thing that has to be told now."""
    (due,) = await take(store)
    return due


async def heard(store: Store) -> list[EventRow]:
    """The events about jobs that go."""
    return [one for one in await store.read_events(0, [], 1_000) if one.type in (EventType.STALE, EventType.DELETED)]


async def stale(store: Store, clock: Clock) -> JobRow:
    """Let a job end, and become stale."""
    job = await finished(store, JobState.FAILED)
    await clock.advance(milliseconds=STALE_MS[JobState.FAILED])
    return job


async def expired(store: Store, clock: Clock) -> tuple[JobRow, RetentionDue]:
    """Let a job end and expire, and take what has to be told of that."""
    job = await finished(store, JobState.COMPLETED)
    await clock.advance(KEPT[JobState.COMPLETED])
    due = {due.what: due for due in await take(store)}
    await store.end_retention(due["stale"])
    return job, due["delete"]


# ---- noted -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", sorted(TERMINAL))
async def test_both_are_noted_with_the_end_of_a_job(store: Store, clock: Clock, state: JobState) -> None:
    job = await finished(store, state)
    assert (job.stale_at, job.delete_at) == (
        clock.now + timedelta(milliseconds=STALE_MS[state]),
        clock.now + KEPT[state],
    )
    assert await dues(store) == [(job.id, 1, "stale", job.stale_at), (job.id, 1, "delete", job.delete_at)]


async def test_the_end_of_a_buried_job_is_noted_too(store: Store) -> None:
    await crash(store, await running(store, max_crashes=2))
    job = await crash(store, await claim_one(store))
    assert [(due[0], due[2]) for due in await dues(store)] == [(job.id, "stale"), (job.id, "delete")]


async def test_nothing_is_noted_for_a_queue_that_does_not_tell(store: Store, clock: Clock) -> None:
    await store.define_queues({"default": msgspec.structs.replace(TELLING, tells=False), "other": TELLING})
    job = await finished(store, JobState.COMPLETED)
    assert job.stale_at == clock.now + timedelta(milliseconds=STALE_MS[JobState.COMPLETED])
    assert await dues(store) == []


async def test_of_many_that_end_together_those_are_noted_whose_queue_tells(store: Store) -> None:
    await store.define_queues({"default": TELLING, "quiet": WEEK})
    ids = []
    for queue in ("default", "quiet", "unheard-of"):
        job_id = (await finished(store, JobState.CANCELLED, queue=queue)).id
        ids.append(job_id)
    assert {due[0] for due in await dues(store)} == {ids[0]}


async def test_an_outcome_that_never_becomes_stale_is_only_deleted(store: Store) -> None:
    await store.define_queues({"default": telling(stale_ms={JobState.FAILED: HOUR_MS})})
    done, dead = await finished(store, JobState.COMPLETED), await finished(store, JobState.FAILED)
    assert (done.stale_at, dead.stale_at is None) == (None, False)
    assert [(due[0], due[2]) for due in await dues(store)] == [
        (dead.id, "stale"),
        (done.id, "delete"),
        (dead.id, "delete"),
    ]


async def test_a_job_kept_for_ever_only_becomes_stale(store: Store, clock: Clock) -> None:
    await store.define_queues({"default": telling(keeping(None, None, None, None), stale_ms=STALE_MS)})
    job = await finished(store, JobState.COMPLETED)
    assert [(due[0], due[2]) for due in await dues(store)] == [(job.id, "stale")]
    await clock.advance(days=3_650)
    assert [due.what for due in await take(store)] == ["stale"]


async def test_what_waits_again_has_nothing_to_tell(store: Store) -> None:
    await crash(store, await running(store))
    assert await dues(store) == []


# ---- taken -----------------------------------------------------------------------------------------------------------


async def test_what_is_due_is_taken_by_one_until_its_lease_ends(store: Store, clock: Clock) -> None:
    job = await finished(store, JobState.FAILED)
    await clock.advance(milliseconds=STALE_MS[JobState.FAILED] - 1)
    assert await take(store) == []
    await clock.advance(milliseconds=1)
    assert await take_one(store) == RetentionDue(job.id, 1, "stale", 1)
    await clock.advance(milliseconds=LEASE - 1)
    assert await take(store) == []
    await clock.advance(milliseconds=1)
    assert await take_one(store) == RetentionDue(job.id, 1, "stale", 2)


async def test_no_more_is_taken_than_asked_and_the_earliest_first(store: Store, clock: Clock) -> None:
    ids = []
    for _ in range(3):
        ids.append((await finished(store, JobState.COMPLETED)).id)
        await clock.advance(seconds=1)
    await clock.advance(days=1)
    taken = [await take(store, 2) for _ in range(3)]
    assert [sorted(due.job_id for due in some) for some in taken] == [ids[:2], ids[2:], []]


async def test_the_job_is_read_as_it_was_even_when_it_has_expired(store: Store, clock: Clock) -> None:
    job = await running(store, tags={"t": "v"})
    await settle(store, completed(job.id, job.claim, '{"n": 1}'))
    ended = await read(store, job.id)
    await clock.advance(days=8)
    assert await find(store, job.id) is None
    (kept,) = await store.kept_jobs([job.id, 999])
    assert kept == ended
    assert (kept.result, kept.tags, kept.state) == ({"n": 1}, {"t": "v"}, JobState.COMPLETED)


async def test_an_expired_job_that_is_still_to_be_told_of_is_not_found(store: Store, clock: Clock) -> None:
    job, _ = await expired(store, clock)
    assert await find(store, job.id) is None
    assert await store.finished_jobs([job.id]) == []
    assert (await store.list_jobs(JobFilter(), limit=10)).jobs == []
    assert await cancel(store, job.id) is Answer.NOT_FOUND
    assert await retry(store, job.id) is Answer.NOT_FOUND
    (deleted,) = await store.delete_jobs([job.id])
    assert deleted.answer is Answer.NOT_FOUND
    assert len(await store.kept_jobs([job.id])) == 1


# ---- done with -------------------------------------------------------------------------------------------------------


async def test_that_a_job_is_stale_is_told_once_and_it_stays(store: Store, clock: Clock) -> None:
    job = await stale(store, clock)
    await store.watch("test", 30_000)
    due = await take_one(store)
    for _ in range(2):
        await store.end_retention(due)
    (event,) = await heard(store)
    assert (event.type, event.job_id, event.kind, event.queue) == (EventType.STALE, job.id, "work", "default")
    assert (event.state, event.run, event.attempt, event.at) == (JobState.FAILED, 1, 1, clock.now)
    assert await read(store, job.id) == job
    assert [due[2] for due in await dues(store)] == ["delete"]


async def test_that_a_job_is_deleted_is_told_once_and_it_is_gone(store: Store, clock: Clock) -> None:
    job, due = await expired(store, clock)
    await store.watch("test", 30_000)
    for _ in range(2):
        await store.end_retention(due)
    (event,) = await heard(store)
    assert (event.type, event.job_id, event.state, event.run) == (EventType.DELETED, job.id, JobState.COMPLETED, 1)
    assert (await store.kept_jobs([job.id]), await dues(store)) == ([], [])


async def test_without_a_watch_it_is_done_and_not_told(store: Store, clock: Clock) -> None:
    job, due = await expired(store, clock)
    await store.end_retention(due)
    assert (await heard(store), await store.kept_jobs([job.id])) == ([], [])


async def test_what_could_not_be_told_comes_back_after_its_delay(store: Store, clock: Clock) -> None:
    job = await stale(store, clock)
    await store.postpone_retention(await take_one(store), 90_000, "SomeError: it went wrong")
    await clock.advance(seconds=90, milliseconds=-1)
    assert await take(store) == []
    await clock.advance(milliseconds=1)
    assert await take_one(store) == RetentionDue(job.id, 1, "stale", 2)


@pytest.mark.guards("farewell-try")
async def test_who_comes_back_after_its_lease_changes_nothing(store: Store, clock: Clock) -> None:
    await stale(store, clock)
    await store.watch("test", 300_000)
    late = await take_one(store)
    await clock.advance(milliseconds=LEASE)
    now = await take_one(store)
    await store.end_retention(late)
    await store.postpone_retention(late, 0, "too late")
    assert (await take(store), await heard(store)) == ([], [])
    await store.end_retention(now)
    assert [event.type for event in await heard(store)] == [EventType.STALE]


# ---- a job that lives again, or is deleted by hand -------------------------------------------------------------------


async def test_a_job_that_lives_again_has_nothing_to_tell_until_it_has_ended(store: Store, clock: Clock) -> None:
    job = await stale(store, clock)
    await store.watch("test", 30_000)
    due = await take_one(store)
    assert await retry(store, job.id) is Answer.DONE
    assert await dues(store) == []
    await store.end_retention(due)
    assert await heard(store) == []
    again = await claim_one(store)
    await settle(store, failed(job.id, again.claim, FAILURE))
    assert [(due[1], due[2]) for due in await dues(store)] == [(2, "stale"), (2, "delete")]


async def test_who_was_to_tell_of_an_earlier_life_changes_nothing_for_the_next(store: Store, clock: Clock) -> None:
    job = await stale(store, clock)
    await store.watch("test", DAY_MS)
    late = await take_one(store)
    await retry(store, job.id)
    again = await claim_one(store)
    await settle(store, failed(job.id, again.claim, FAILURE))
    await clock.advance(milliseconds=STALE_MS[JobState.FAILED])
    now = await take_one(store)
    await store.end_retention(late)
    assert await heard(store) == []
    await store.end_retention(now)
    assert [(event.type, event.run) for event in await heard(store)] == [(EventType.STALE, 2)]


async def test_a_job_that_was_deleted_by_hand_has_nothing_to_tell(store: Store, clock: Clock) -> None:
    job = await finished(store, JobState.FAILED)
    await store.delete_jobs([job.id])
    await store.watch("test", 30_000)
    assert await dues(store) == []
    await clock.advance(days=31)
    assert await take(store) == []


# ---- retention goes on -----------------------------------------------------------------------------------------------


@pytest.mark.guards("untold-farewell")
async def test_what_is_still_to_be_told_keeps_a_job_for_two_weeks_at_most(store: Store, clock: Clock) -> None:
    job = await finished(store, JobState.COMPLETED)
    await clock.advance(KEPT[JobState.COMPLETED])
    for days in (0, 8, 6 - 1 / DAY_MS):  # eight: the week of its partition is over
        await clock.advance(days=days)
        await store.keep_history(100)
        assert [kept.id for kept in await store.kept_jobs([job.id])] == [job.id]
    await clock.advance(seconds=1)
    kept = await store.keep_history(100)
    assert kept.dropped + kept.deleted >= 1
    assert await store.kept_jobs([job.id]) == []
    await store.watch("test", 30_000)
    for due in await take(store):
        await store.end_retention(due)
    assert (await heard(store), await dues(store)) == ([], [])


async def test_what_was_told_keeps_nothing(store: Store, clock: Clock) -> None:
    done, due = await expired(store, clock)
    other = await finished(store, JobState.FAILED)
    await store.end_retention(due)
    await clock.advance(days=8)
    await store.keep_history(100)
    assert [kept.id for kept in await store.kept_jobs([done.id, other.id])] == [other.id]


async def test_a_job_that_keeps_its_week_lets_no_other_be_found(store: Store, clock: Clock) -> None:
    await store.define_queues({"quiet": WEEK})
    quiet = await finished(store, JobState.CANCELLED, queue="quiet")
    told = await finished(store, JobState.CANCELLED)
    await clock.advance(days=15)
    await store.keep_history(100)
    assert told.id in [kept.id for kept in await store.kept_jobs([told.id])]
    assert await find(store, quiet.id) is None
