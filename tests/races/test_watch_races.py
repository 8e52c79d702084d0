"""Who watches misses nothing, whatever is under way when the watch begins and in whatever order others commit."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path
from typing import Any

import pytest

from holdfast.client import watching as watching_module
from holdfast.client.subscription import EventFilter, EventsMissed, Subscription
from holdfast.client.watching import Watching
from holdfast.events import TERMINAL_EVENTS, EventType
from holdfast.job import JobRow, JobState
from holdfast.public_id import decode, encode
from holdfast.resources.event import Event
from holdfast.stores.postgres.store import PostgresStore
from holdfast.stores.sla import Look
from holdfast.stores.sqlite.store import SqliteStore
from holdfast.stores.store import EventStore
from holdfast.stores.values import ProgressReport, Started
from holdfast.transitions import completed, interrupted
from tests.races.rivals import Rivals
from tests.support.connections import connected, in_database, insert, new_job, running, until_held_up
from tests.support.sizes import size

HEARS_S = 20.0
EVERYTHING = EventFilter()


@asynccontextmanager
async def watching(store: EventStore) -> AsyncIterator[Subscription]:
    """Hear of everything, through a reader that ends with the block."""
    reader = Watching(store)
    try:
        async with reader.subscribe(EVERYTHING) as events:
            yield events
    finally:
        await reader.close()


async def heard(events: Subscription, count: int) -> list[Event]:
    """Take so many events."""
    async with asyncio.timeout(HEARS_S):
        return [await next_of(events) for _ in range(count)]


async def next_of(events: Subscription) -> Event:
    """Take an event; that a change older than the watch has ended is said apart, and takes none away."""
    with suppress(EventsMissed):
        return await anext(events)
    return await anext(events)


async def heard_until(events: Subscription, last: int) -> list[Event]:
    """Take events until that of a job which was enqueued last: had there been others before it, they would be here."""
    found: list[Event] = []
    async with asyncio.timeout(HEARS_S):
        while (event := await next_of(events)).id != encode(last):
            found.append(event)
    return found


# ---- transactions of others that are open ----------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["same", "other"])
async def test_a_long_transaction_of_somebody_else_is_not_waited_for_and_costs_no_event(
    dsn: str, postgres: PostgresStore, where: str
) -> None:
    async with connected(dsn if where == "same" else in_database(dsn, "template1")) as own:
        transaction = own.transaction()
        await transaction.start()
        await own.execute("CREATE TABLE somebody_elses (n integer)")  # it has written, so that others wait for it
        async with watching(postgres) as events:  # after a second; it would wait for ever
            ids = await insert(postgres, 10)
            assert [decode(event.id or "") for event in await heard(events, 10)] == ids
            await transaction.rollback()
            (last,) = await insert(postgres, 1)
            assert await heard_until(events, last) == []


async def test_a_transaction_that_only_reads_costs_nothing(
    dsn: str, postgres: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching_module, "PATIENCE_S", 3_600.0)  # one that waits never ends
    async with connected(dsn) as own, own.transaction(isolation="repeatable_read"):
        await own.fetchval("SELECT count(*) FROM pg_class")
        async with watching(postgres):
            pass


# ---- changes that are under way --------------------------------------------------------------------------------------


@pytest.mark.parametrize("isolation", ["read_committed", "repeatable_read"])
async def test_a_change_that_began_before_the_watch_is_waited_for(
    dsn: str, rivals: Rivals, isolation: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its look for watchers found none: whoever subscribes must find it in what is stored."""
    monkeypatch.setattr(watching_module, "PATIENCE_S", HEARS_S)  # it is not given up because this machine is busy
    async with connected(dsn) as own:
        transaction = own.transaction(isolation=isolation)
        await transaction.start()
        (answer,) = await rivals.two.insert_on(own, [new_job(0)])
        subscribing = asyncio.create_task(_found_once_subscribed(rivals.one, answer.id or 0))
        await asyncio.wait([subscribing], timeout=0.2)  # who does not wait for it has looked by then
        assert not subscribing.done()
        await transaction.commit()
        assert await subscribing, "it is neither stored when the watch began, nor told of afterwards"


async def _found_once_subscribed(store: PostgresStore, job_id: int) -> bool:
    async with watching(store):
        return bool(await store.get_jobs([job_id]))


Change = Callable[[Rivals, JobRow], Awaitable[object]]
CHANGES: dict[str, tuple[Change, EventType]] = {
    "finish": (lambda rivals, job: rivals.two.finish_jobs([completed(job.id, job.claim)]), EventType.COMPLETED),
    "give back": (lambda rivals, job: rivals.two.finish_jobs([interrupted(job.id, job.claim)]), EventType.INTERRUPTED),
    "start": (lambda rivals, job: rivals.two.start_jobs([Started(job.id, job.claim, 0)]), EventType.STARTED),
    "progress": (
        lambda rivals, job: rivals.two.save_progress([ProgressReport(job.id, job.claim, 50.0)]),
        EventType.PROGRESS,
    ),
}


@pytest.mark.parametrize("how", CHANGES)
async def test_a_change_that_waits_for_a_lock_while_the_watch_begins_is_told(rivals: Rivals, how: str) -> None:
    """It has no transaction number yet, so nobody can wait for it: it must look for watchers once it goes on."""
    change, kind = CHANGES[how]
    (job,) = await running(rivals.one, 1)
    transaction = rivals.blocker.transaction()
    await transaction.start()
    await rivals.blocker.fetch(rivals.sql("SELECT FROM holdfast.jobs WHERE id = $1 FOR UPDATE"), job.id)
    changing = asyncio.ensure_future(change(rivals, job))
    await until_held_up(rivals.watcher, rivals.schema, changing)
    async with watching(rivals.one) as events:
        (seen,) = await rivals.one.get_jobs([job.id])
        assert (seen.state, seen.started_at, seen.progress) == (JobState.RUNNING, None, None)
        await transaction.commit()
        await changing
        (last,) = await insert(rivals.one, 1)
        assert [event.type for event in await heard_until(events, last)] == [kind]


async def test_a_breach_that_waits_for_a_lock_while_the_watch_begins_is_told(rivals: Rivals) -> None:
    look = Look(queue="late", sla_ms=1, p95_ms=None, starts=0, oldest_ms=5, waiting=1, is_late=True)
    await rivals.one.look_at_waits([look])
    age = "UPDATE holdfast.sla_states SET looked_at = looked_at - interval '1 minute'"
    await rivals.blocker.execute(rivals.sql(age))
    (row,) = await rivals.one.look_at_waits([look])
    transaction = rivals.blocker.transaction()
    await transaction.start()
    await rivals.blocker.fetch(rivals.sql("SELECT FROM holdfast.sla_states FOR UPDATE"))
    telling = asyncio.ensure_future(rivals.two.tell_breach(row))
    await until_held_up(rivals.watcher, rivals.schema, telling)
    async with watching(rivals.one) as events:
        await transaction.commit()
        assert await telling
        (last,) = await insert(rivals.one, 1)
        assert [event.type for event in await heard_until(events, last)] == [EventType.SLA_BREACHED]


async def test_a_watch_that_begins_among_changes_misses_none(rivals: Rivals) -> None:
    """Each job ends at about the time at which somebody begins to watch: its end is told, or it has ended already."""
    missed = []
    for turn, job in enumerate(await running(rivals.one, size(30, 500))):

        async def subscribe(job: JobRow = job) -> tuple[JobRow, list[Event]]:
            async with watching(rivals.one) as events:
                (seen,) = await rivals.one.get_jobs([job.id])
                if not seen.is_finished:
                    async with asyncio.timeout(HEARS_S):
                        try:
                            return seen, [await anext(events)]
                        except EventsMissed:  # a change that is older than the watch took long: look again
                            (seen,) = await rivals.one.get_jobs([job.id])
                            assert seen.is_finished
                return seen, []

        async def finish(job: JobRow = job, turn: int = turn) -> None:
            for _ in range(turn % 7):  # round trips, so that it comes sooner or later
                await rivals.two.take_ids(1)
            await rivals.two.finish_jobs([completed(job.id, job.claim)])

        try:
            await asyncio.gather(subscribe(), finish())
        except TimeoutError:
            missed.append(turn)
    assert missed == []


async def test_a_watch_in_a_file_waits_for_whoever_writes(tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "jobs.db"))
    await store.open()
    try:
        with closing(sqlite3.connect(tmp_path / "jobs.db")) as own:
            own.execute("BEGIN IMMEDIATE")
            (answer,) = store.insert_on_sync(own, [new_job(0)])

            async def subscribe() -> bool:
                async with watching(store) as events:
                    found = bool(await store.get_jobs([answer.id or 0]))
                    await store.insert_jobs([new_job((await store.take_ids(1))[0])])
                    assert (await heard(events, 1))[0].type == EventType.ENQUEUED
                    return found

            subscribing = asyncio.create_task(subscribe())
            await asyncio.wait([subscribing], timeout=0.1)  # the fault itself: somebody writes for a while
            assert not subscribing.done()
            own.commit()
            assert await subscribing
    finally:
        await store.close()


# ---- numbers that are committed out of order -------------------------------------------------------------------------


@pytest.mark.guards("missing-event")
async def test_events_that_are_committed_in_the_reverse_order_are_all_told_once(dsn: str, rivals: Rivals) -> None:
    async with watching(rivals.one) as events, connected(dsn) as one, connected(dsn) as two:
        first, second = one.transaction(), two.transaction()
        await first.start()
        await second.start()
        (early,) = await rivals.two.insert_on(one, [new_job(0)])
        (late,) = await rivals.two.insert_on(two, [new_job(0)])
        await second.commit()
        assert [decode(event.id or "") for event in await heard(events, 1)] == [late.id]
        await first.commit()
        assert [decode(event.id or "") for event in await heard(events, 1)] == [early.id]
        (last,) = await insert(rivals.one, 1)
        assert await heard_until(events, last) == []


@pytest.mark.guards("drawn-event")
async def test_a_number_that_was_drawn_before_the_watch_began_is_still_told(dsn: str, rivals: Rivals) -> None:
    async with watching(rivals.two), connected(dsn) as own:
        transaction = own.transaction()
        await transaction.start()
        (early,) = await rivals.two.insert_on(own, [new_job(0)])
        await insert(rivals.one, 3)
        async with watching(rivals.one) as events:  # it waits a second for that transaction, and goes on without it
            assert await rivals.one.get_jobs([early.id or 0]) == []
            await transaction.commit()
            assert [decode(event.id or "") for event in await heard(events, 1)] == [early.id]


async def test_numbers_of_changes_that_were_rolled_back_are_no_hole(dsn: str, rivals: Rivals) -> None:
    async with watching(rivals.one) as events, connected(dsn) as own:
        ids = []
        for _ in range(size(20, 200)):
            transaction = own.transaction()
            await transaction.start()
            await rivals.two.insert_on(own, [new_job(0)])
            ids += await insert(rivals.one, 1)
            await transaction.rollback()
        assert [decode(event.id or "") for event in await heard(events, len(ids))] == ids


async def test_the_events_of_each_job_keep_their_order_whoever_commits_first(rivals: Rivals) -> None:
    """Callers, workers and operators change the same jobs on many connections at once."""
    rounds, jobs = size(10, 100), 10
    async with watching(rivals.one) as events:
        told: dict[int, list[Event]] = {}
        for _ in range(rounds):
            claimed = await running(rivals.one, jobs)
            for store in (rivals.two, rivals.one):
                await asyncio.gather(
                    *(store.save_progress([ProgressReport(job.id, job.claim, 1.0)]) for job in claimed),
                    *(store.start_jobs([Started(job.id, job.claim, 0)]) for job in reversed(claimed)),
                )
            await asyncio.gather(
                *(rivals.one.finish_jobs([completed(job.id, job.claim)]) for job in claimed),
                *(rivals.two.save_progress([ProgressReport(job.id, job.claim, 2.0)]) for job in claimed),
            )
            expected = jobs
            while expected:
                (event,) = await heard(events, 1)
                told.setdefault(decode(event.id or ""), []).append(event)
                expected -= event.type in TERMINAL_EVENTS
    for found in told.values():
        assert [event.claim for event in found] == sorted(event.claim for event in found)
        kinds = [event.type for event in found]
        assert (kinds[0], kinds[-1]) == (EventType.ENQUEUED, EventType.COMPLETED)
        assert kinds.count(EventType.STARTED) == 1


# ---- locks -----------------------------------------------------------------------------------------------------------


async def test_a_report_that_tells_the_start_and_an_end_from_outside_do_not_wait_in_a_ring(
    rivals: Rivals,
) -> None:
    """An end takes the job's row and then its progress; a report of a claim that has reported before must as well."""
    (job,) = await running(rivals.one, 1)
    await rivals.one.save_progress([ProgressReport(job.id, job.claim, 1.0)])  # nobody watches: the start is not told
    async with watching(rivals.one):
        transaction = rivals.blocker.transaction()
        await transaction.start()
        await rivals.blocker.fetch(rivals.sql("SELECT FROM holdfast.jobs WHERE id = $1 FOR UPDATE"), job.id)
        ending = asyncio.create_task(rivals.two.finish_jobs([completed(job.id, job.claim)]))
        await until_held_up(rivals.watcher, rivals.schema, ending)
        report = ProgressReport(job.id, job.claim, 2.0, changes='{"started": 5}')
        reporting = asyncio.create_task(rivals.one.save_progress([report]))
        await until_held_up(rivals.watcher, rivals.schema, ending, reporting)
        await transaction.commit()
        await asyncio.wait([ending, reporting])
    assert [task.exception() for task in (ending, reporting)] == [None, None]
