"""Events: who watches hears of every change in the commit that makes it, and nobody else costs a row."""

import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import closing, suppress
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest

from holdfast.events import TERMINAL_EVENTS, EventRow, EventType
from holdfast.job import Answer, JobRow, JobState
from holdfast.stores.postgres.store import PostgresStore
from holdfast.stores.store import Store
from holdfast.stores.values import Horizon, ProgressReport, Started, Verdict
from holdfast.transitions import Transition, cancelled, completed, crashed, failed, interrupted, retried, snoozed
from tests.support import builders, raw
from tests.support.builders import FAILURE, LEASE_MS, cancel, claim_one, end, enqueue, read, retry, running
from tests.support.clock import Clock

WATCH_MS = 30_000
ERROR = {"error_class": FAILURE.error_class, "error": FAILURE.message}


class Ear:
    """One who watches a store whose clock stands still, and remembers where it has stopped reading."""

    def __init__(self, store: Store, clock: Clock, horizon: Horizon) -> None:
        self.store = store
        self.clock = clock
        self._last, self._missing = horizon.last, set(horizon.missing)

    async def news(self) -> list[EventRow]:
        found = await self.store.read_events(self._last, sorted(self._missing), 10_000)
        assert [event.seq for event in found] == sorted({event.seq for event in found})
        self._last = max([self._last, *(event.seq for event in found)])
        self._missing -= {event.seq for event in found}
        return found

    async def one(self) -> EventRow:
        (event,) = await self.news()
        return event

    async def kinds(self) -> list[str]:
        return [event.type for event in await self.news()]

    async def running(self, **changes: Any) -> JobRow:
        job = await running(self.store, **changes)
        await self.news()
        return job


@pytest.fixture
async def ear(store: Store, clock: Clock) -> AsyncIterator[Ear]:
    """Give one who watches, alone."""
    for table in ("watchers", "events"):
        await raw.execute(store, f"DELETE FROM holdfast.{table}")
    await store.watch("test", WATCH_MS)
    yield Ear(store, clock, await store.first_event(1.0))
    await store.unwatch("test")


def facts(event: EventRow) -> tuple[str, JobState | None, int, int, int, dict[str, Any]]:
    """What an event says, beside whom it is about."""
    return event.type, event.state, event.run, event.claim, event.attempt, event.data


def due(event: EventRow) -> datetime:
    """Read when the job of an event is due."""
    return datetime.fromisoformat(event.data["run_at"])


# ---- stored ----------------------------------------------------------------------------------------------------------


async def test_a_stored_job_is_told_of(ear: Ear) -> None:
    job_id = await enqueue(ear.store, kind="resize", queue="images")
    event = await ear.one()
    assert facts(event) == (EventType.ENQUEUED, JobState.QUEUED, 1, 0, 0, {})
    assert (event.job_id, event.kind, event.queue, event.at) == (job_id, "resize", "images", ear.clock.now)
    ids = await builders.enqueue_many(ear.store, 5)
    assert [(event.type, event.job_id) for event in await ear.news()] == [(EventType.ENQUEUED, one) for one in ids]


async def test_a_scheduled_job_says_when_it_is_due(ear: Ear) -> None:
    await enqueue(ear.store, delay_ms=90_000)
    await enqueue(ear.store, run_at=ear.clock.now + timedelta(seconds=90))
    told = [(event.state, due(event)) for event in await ear.news()]
    assert told == [(JobState.SCHEDULED, ear.clock.now + timedelta(seconds=90))] * 2


HELD: dict[str, dict[str, Any]] = {"plain": {}, "key": {"key": "k"}, "unique": {"unique": "u"}}
HELD["unique for a while"] = {"unique": "u", "unique_for_ms": 60_000}


@pytest.mark.parametrize("how", list(HELD)[1:])
async def test_a_job_that_exists_already_is_told_of_once(ear: Ear, how: str) -> None:
    jobs = await builders.new_jobs(ear.store, 3, **HELD[how])
    (plain,) = await builders.new_jobs(ear.store, 1)
    await ear.store.insert_jobs(jobs[:1])
    await ear.store.insert_jobs([jobs[1], plain, jobs[2]])
    assert [event.job_id for event in await ear.news()] == [jobs[0].id, plain.id]


@pytest.mark.parametrize("arrives", [True, False])
@pytest.mark.parametrize("how", HELD)
async def test_a_job_that_is_sent_again_is_told_of_when_it_first_arrives(ear: Ear, how: str, arrives: bool) -> None:
    jobs = await builders.new_jobs(ear.store, 1, **HELD[how])
    if arrives:
        await ear.store.insert_jobs(jobs)
    await ear.store.insert_jobs(jobs, again=True)
    await ear.store.insert_jobs(jobs, again=True)
    assert await ear.kinds() == [EventType.ENQUEUED]
    job = await claim_one(ear.store)
    await end(ear.store, completed(job.id, job.claim))
    await ear.news()
    await ear.store.insert_jobs(jobs, again=True)
    assert await ear.news() == []


@pytest.mark.guards("told-start")
async def test_a_start_is_told_once_however_often_it_is_sent(ear: Ear) -> None:
    job = await running(ear.store)
    assert await ear.kinds() == [EventType.ENQUEUED]
    await ear.clock.advance(seconds=1)
    assert await ear.store.start_jobs([Started(job.id, job.claim + 1, 0)]) == [Verdict.LOST]
    for _ in range(3):
        await ear.store.start_jobs([Started(job.id, job.claim, 200)])
    event = await ear.one()
    assert facts(event) == (EventType.STARTED, JobState.RUNNING, 1, 1, 1, {})
    assert event.at == ear.clock.now - timedelta(milliseconds=200)
    await end(ear.store, completed(job.id, job.claim, started_ago_ms=200))
    assert await ear.kinds() == [EventType.COMPLETED]


# How a claim ends; what is told of it, the state, and after how many seconds the job is due again.
Told = tuple[Callable[..., Transition], EventType, JobState, int]
ENDS: dict[str, Told] = {
    "complete": (completed, EventType.COMPLETED, JobState.COMPLETED, 0),
    "complete partly": (partial(completed, with_errors=True), EventType.COMPLETED, JobState.COMPLETED_WITH_ERRORS, 0),
    "fail": (partial(failed, failure=FAILURE), EventType.FAILED, JobState.FAILED, 0),
    "cancel": (cancelled, EventType.CANCELLED, JobState.CANCELLED, 0),
    "retry": (partial(retried, failure=FAILURE, delay_ms=0), EventType.RETRYING, JobState.QUEUED, 0),
    "retry later": (partial(retried, failure=FAILURE, delay_ms=5_000), EventType.RETRYING, JobState.SCHEDULED, 5),
    "snooze": (partial(snoozed, delay_ms=0), EventType.INTERRUPTED, JobState.QUEUED, 0),
    "snooze later": (partial(snoozed, delay_ms=5_000), EventType.INTERRUPTED, JobState.SCHEDULED, 5),
}


@pytest.mark.parametrize("how", ENDS)
async def test_a_short_job_tells_that_it_started_and_then_its_end(ear: Ear, how: str) -> None:
    ending, kind, state, due_s = ENDS[how]
    job = await ear.running()
    await ear.clock.advance(seconds=1)
    await end(ear.store, ending(job.id, job.claim, started_ago_ms=300))
    started, ended = await ear.news()
    run_at = due(ended) if "run_at" in ended.data else None
    ended.data.pop("run_at", None)
    data = ERROR if how.startswith(("fail", "retry")) else {}
    assert facts(ended) == (kind, state, 1, 1, 0 if "snooze" in how else 1, data)
    assert (ended.at, run_at) == (ear.clock.now, ear.clock.now + timedelta(seconds=due_s) if due_s else None)
    assert facts(started) == (EventType.STARTED, JobState.RUNNING, 1, 1, 1, {})
    assert started.at == ear.clock.now - timedelta(milliseconds=300)


# ---- ended -----------------------------------------------------------------------------------------------------------


async def test_an_end_that_is_sent_again_or_lost_is_not_told_again(ear: Ear) -> None:
    job = await ear.running()
    await end(ear.store, completed(job.id, job.claim))
    assert await ear.kinds() == [EventType.COMPLETED]
    assert (await end(ear.store, completed(job.id, job.claim))).verdict is Verdict.ALREADY
    assert (await end(ear.store, failed(job.id, job.claim + 1, FAILURE))).verdict is Verdict.LOST
    assert await ear.news() == []


async def test_a_new_life_is_told_as_a_job_that_waits_and_a_deleted_job_as_gone(ear: Ear) -> None:
    job = await ear.running()
    await ear.store.delete_jobs([job.id])
    assert await ear.news() == []
    await end(ear.store, failed(job.id, job.claim, FAILURE))
    await ear.news()
    assert [await retry(ear.store, job.id) is Answer.DONE for _ in range(2)] == [True, False]
    assert facts(await ear.one()) == (EventType.ENQUEUED, JobState.QUEUED, 2, 1, 0, {})
    job = await claim_one(ear.store)
    await end(ear.store, completed(job.id, job.claim))
    await ear.news()
    for _ in range(2):
        await ear.store.delete_jobs([job.id])
    assert facts(await ear.one()) == (EventType.DELETED, JobState.COMPLETED, 2, 2, 1, {})


@pytest.mark.parametrize("delay_ms", [None, 60_000])
async def test_a_waiting_job_that_is_cancelled_tells_it_once(ear: Ear, delay_ms: int | None) -> None:
    job_id = await enqueue(ear.store, delay_ms=delay_ms)
    await ear.news()
    for _ in range(2):
        await cancel(ear.store, job_id)
    assert facts(await ear.one()) == (EventType.CANCELLED, JobState.CANCELLED, 1, 0, 0, {})


@pytest.mark.parametrize("how", ["obeys", "waits again", "is rescued", "is forced"])
async def test_a_running_job_that_is_cancelled_tells_it_once_when_it_has_ended(ear: Ear, how: str) -> None:
    job = await ear.running()
    assert await cancel(ear.store, job.id) is Answer.REQUESTED
    assert await ear.news() == []
    await ear.clock.advance(milliseconds=LEASE_MS + 1)
    if how == "is rescued":
        await ear.store.rescue_jobs(10)
    elif how == "is forced":
        assert await ear.store.force_cancels(LEASE_MS, 10) == (job.id,)
    else:
        obeys = how == "obeys"
        await end(ear.store, cancelled(job.id, job.claim) if obeys else retried(job.id, job.claim, FAILURE, 0))
    await end(ear.store, completed(job.id, job.claim))
    event, now = await ear.one(), await read(ear.store, job.id)
    assert (event.type, event.state, event.at) == (EventType.CANCELLED, JobState.CANCELLED, ear.clock.now)
    assert (event.run, event.claim, event.attempt) == (1, now.claim, now.attempt)


@pytest.mark.parametrize("max_crashes", [2, 3])
async def test_a_crash_is_told_as_a_rescue_until_it_is_the_last_one(ear: Ear, max_crashes: int) -> None:
    await ear.running(max_crashes=max_crashes)
    await ear.clock.advance(milliseconds=LEASE_MS + 1)
    await ear.store.rescue_jobs(10)
    event = await ear.one()
    assert (event.type, event.state, event.data.get("run_at")) == (EventType.RESCUED, JobState.QUEUED, None)
    worker = await builders.register(ear.store)
    job = await claim_one(ear.store, worker)
    await ear.store.release_worker(worker, [crashed(job.id, job.claim, FAILURE)])
    event, now = await ear.one(), await read(ear.store, job.id)
    is_last = max_crashes == 2
    assert event.type == (EventType.FAILED if is_last else EventType.RESCUED)
    assert (event.state, event.claim, event.attempt) == (now.state, now.claim, now.attempt)
    assert event.data.items() >= ERROR.items()
    assert is_last or due(event) == now.run_at


GIVES_BACK: dict[str, Callable[[Store, int, JobRow], Awaitable[object]]] = {
    "interrupt": lambda store, _, job: end(store, interrupted(job.id, job.claim)),
    "batch": lambda store, worker, job: store.give_back_batch(worker, job.claim_batch or 0),
    "retire": lambda store, worker, _: store.retire_worker(worker),
    "release": lambda store, worker, _: store.release_worker(worker, []),
}


@pytest.mark.parametrize("how", GIVES_BACK)
async def test_a_job_that_is_given_back_is_told_as_interrupted(ear: Ear, how: str) -> None:
    worker = await builders.register(ear.store)
    await GIVES_BACK[how](ear.store, worker, await ear.running(worker=worker))
    assert facts(await ear.one()) == (EventType.INTERRUPTED, JobState.QUEUED, 1, 1, 0, {})


WAYS: dict[str, Callable[..., Transition]] = {how: told[0] for how, told in ENDS.items() if "later" not in how}
WAYS |= {"interrupt": interrupted, "crash": partial(crashed, failure=FAILURE)}


@pytest.mark.parametrize("one", WAYS)
@pytest.mark.parametrize("two", ["retry", "crash"])
async def test_every_life_has_exactly_one_end(ear: Ear, one: str, two: str) -> None:
    job = await running(ear.store, max_crashes=1)
    lives: list[int] = []
    for how in (one, two, "complete"):
        await end(ear.store, WAYS[how](job.id, job.claim))
        await cancel(ear.store, job.id)
        lives.append((await read(ear.store, job.id)).life)
        if await retry(ear.store, job.id) is not Answer.DONE:
            break
        job = await claim_one(ear.store)
    assert [event.run for event in await ear.news() if event.type in TERMINAL_EVENTS] == lives


def phase(name: str, ordinal: int, state: str) -> str:
    rest = '"percent": null, "message": null, "data": null, "error": null, "result": null, "started_ago": 0'
    return f'{{"name": "{name}", "ordinal": {ordinal}, "weight": 1, "state": "{state}", "ended_ago": null, {rest}}}'


async def test_progress_is_told_as_it_was_said_and_then_the_phases_that_are_completed(ear: Ear) -> None:
    job = await ear.running()
    phases = ", ".join([phase("one", 0, "completed"), phase("two", 1, "completed"), phase("three", 2, "running")])
    report = ProgressReport(job.id, job.claim, 60.0, "half", '{"a": [1, null]}', changes=f'{{"phases": [{phases}]}}')
    assert await ear.store.save_progress([report]) == [Verdict.DONE]
    progress, one, two = await ear.news()
    assert [event.type for event in (one, two)] == [EventType.PHASE_COMPLETED] * 2
    assert [event.data for event in (one, two)] == [{"phase": name, "percent": 60.0} for name in ("one", "two")]
    data = {"percent": 60.0, "message": "half", "data": {"a": [1, None]}}
    assert facts(progress) == (EventType.PROGRESS, JobState.RUNNING, 1, 1, 1, data)
    assert await ear.store.save_progress([ProgressReport(job.id, job.claim + 1, 50.0)]) == [Verdict.LOST]
    assert await ear.news() == []


async def test_items_are_told_beside_what_the_job_shows(ear: Ear) -> None:
    job = await ear.running()
    await ear.store.save_progress([ProgressReport(job.id, job.claim, 40.0, "half")])
    await ear.news()
    moved = '{"bare": true, "sets": [{"name": "pages", "word": "page", "phase": null, "keys": ["a"]}], '
    moved += '"items": [["pages", "a", "completed", null]]}'
    await ear.store.save_progress([ProgressReport(job.id, job.claim, changes=moved)])
    items = [["pages", "a", "completed", None]]
    assert (await ear.one()).data == {"percent": 40.0, "message": "half", "items": items}
    lines = '{"bare": true, "logs": [[1, 0, "INFO", "a line"]]}'
    await ear.store.save_progress([ProgressReport(job.id, job.claim, changes=lines)])
    assert await ear.news() == []


async def test_the_start_is_told_before_the_first_progress_and_never_again(ear: Ear) -> None:
    job = await ear.running()
    await ear.clock.advance(seconds=1)
    report = ProgressReport(job.id, job.claim, 1.0, changes='{"started": 250}')
    for _ in range(2):
        await ear.store.save_progress([report])
    started, *progress = await ear.news()
    assert facts(started) == (EventType.STARTED, JobState.RUNNING, 1, 1, 1, {})
    assert started.at == ear.clock.now - timedelta(milliseconds=250)
    assert [event.type for event in progress] == [EventType.PROGRESS] * 2
    await ear.store.start_jobs([Started(job.id, job.claim, 250)])
    await end(ear.store, completed(job.id, job.claim, started_ago_ms=250))
    assert await ear.kinds() == [EventType.COMPLETED]


# ---- written or not --------------------------------------------------------------------------------------------------


async def everything(store: Store) -> None:
    """Change jobs in every way, beginning and ending with none."""
    job = await running(store)
    await store.start_jobs([Started(job.id, job.claim, 0)])
    await store.save_progress([ProgressReport(job.id, job.claim, 1.0)])
    await end(store, retried(job.id, job.claim, FAILURE, 0))
    job = await claim_one(store)
    await end(store, failed(job.id, job.claim, FAILURE))
    await retry(store, job.id)
    await cancel(store, job.id)
    await store.delete_jobs([job.id])


async def test_nothing_is_written_while_nobody_watches(ear: Ear) -> None:
    await everything(ear.store)
    assert len(await ear.news()) == 8
    await ear.store.unwatch("test")
    await everything(ear.store)
    assert await ear.news() == []
    await ear.store.watch("another", WATCH_MS)
    await ear.clock.advance(milliseconds=WATCH_MS)
    await everything(ear.store)
    assert await ear.news() == [], "the watch has run out"
    await ear.store.watch("another", WATCH_MS)
    await ear.clock.advance(milliseconds=WATCH_MS - 1)
    await ear.store.watch("another", WATCH_MS)
    await ear.clock.advance(milliseconds=WATCH_MS - 1)
    await enqueue(ear.store)
    assert await ear.kinds() == [EventType.ENQUEUED], "the watch was renewed"
    await ear.store.unwatch("another")


async def test_a_change_that_is_rolled_back_leaves_no_event(ear: Ear) -> None:
    job = await ear.running()
    with suppress(ZeroDivisionError):
        async with ear.store.transaction(30.0) as tx:
            await tx.finish(completed(job.id, job.claim))
            raise ZeroDivisionError
    assert await ear.news() == []
    async with ear.store.transaction(30.0) as tx:
        await tx.finish(completed(job.id, job.claim))
    assert await ear.kinds() == [EventType.COMPLETED]


async def test_events_are_forgotten_after_ten_minutes_and_watchers_that_are_gone_after_one(ear: Ear) -> None:
    await builders.enqueue_many(ear.store, 3)
    await ear.clock.advance(minutes=5)
    await ear.store.watch("test", WATCH_MS)
    await enqueue(ear.store)
    await ear.clock.advance(minutes=5)
    assert await ear.store.prune_events(100) == 0
    await ear.clock.advance(milliseconds=1)
    assert await ear.store.prune_events(2) == 2
    assert await ear.store.prune_events(100) == 1
    assert len(await ear.news()) == 1
    await ear.clock.advance(minutes=-5)  # as if the watch were of the present: it is not there
    await enqueue(ear.store)
    assert await ear.news() == []


@pytest.mark.parametrize("store", ["sqlite-file", "postgres"], indirect=True)
@pytest.mark.parametrize("commits", [True, False])
async def test_a_callers_own_transaction_tells_with_its_commit(
    ear: Ear, tmp_path: Path, dsn: str, commits: bool
) -> None:
    store: Any = ear.store
    is_postgres = isinstance(store, PostgresStore)
    own: Any = psycopg.connect(dsn) if is_postgres else sqlite3.connect(tmp_path / "jobs.db")
    with closing(own):
        store.insert_on_sync(own, [builders.new_job(0)])
        assert await ear.news() == []
        (own.commit if commits else own.rollback)()
    assert await ear.kinds() == ([EventType.ENQUEUED] if commits else [])
