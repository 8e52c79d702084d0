"""Callbacks about jobs that go: each gets the job as it was, and none keeps retention from its work."""

import logging
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from holdfast import Holdfast, Job, JobNotFound, JobState, Queue
from holdfast.events import EventType
from holdfast.services import retention_callbacks
from holdfast.stores.postgres.store import PostgresStore
from tests.support.clock import set_time
from tests.support.wait import PATIENCE_S, until
from tests.support.webhook_receiver import posting
from tests.support.workers import MakeApp, drained, working

KEPT = timedelta(days=2)
STALE = timedelta(hours=1)
MOST_TRIES = 5


class Days:
    """The clock of an app's store, which moves only while no worker runs: leases end by it too."""

    def __init__(self, app: Holdfast) -> None:
        self.now = datetime.now(UTC).replace(microsecond=0)
        self._app = app

    async def advance(self, duration: timedelta) -> None:
        self.now += duration
        await set_time(self._app.store, self.now)


@pytest.fixture(autouse=True)
def _brisk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look for what is to be told all the time."""
    monkeypatch.setattr(retention_callbacks, "_LOOK_S", 0.02)


def queues(**changes: Any) -> list[Queue]:
    return [Queue("bulk", retention=KEPT, stale_after=STALE, **changes)]


def register(app: Holdfast) -> Any:
    @app.task(queue="bulk")
    async def work(number: int) -> dict[str, int]:
        return {"n": number}

    return work


async def dues(app: Holdfast, which: str = "true") -> int:
    """How much is still to be told some time."""
    store: Any = app.store
    if isinstance(store, PostgresStore):
        return int((await store.fetch_sql(f"SELECT count(*) FROM holdfast.retention_due WHERE {which}"))[0][0])
    found = await store.connection.read(
        lambda database, _: database.execute(f"SELECT count(*) FROM holdfast_retention_due WHERE {which}").fetchone()
    )
    return int(found[0])


async def told(app: Holdfast) -> list[tuple[str, int]]:
    kinds = (EventType.STALE, EventType.DELETED)
    found = await app.store.read_events(0, [], 1_000)
    return [(event.type.value, event.job_id) for event in found if event.type in kinds]


async def worked(app: Holdfast, left: int = 0) -> None:
    """Let a worker run until so much is left to be told some time: a call is over when the store knows of it."""
    async with working(app):

        async def is_done() -> bool:
            return await dues(app) == left

        await until(is_done, f"{left} are left to be told of")


async def until_called(app: Holdfast, calls: list[int], count: int) -> None:
    """Let a worker run until callbacks were called about so many jobs."""
    async with working(app):
        await until(lambda: len({*calls}) == count, f"callbacks were called about {count} jobs")


async def failed(app: Holdfast, calls: list[int], count: int, left: int) -> None:
    """Let a worker run until the store knows that a callback has failed so often, and of all other calls."""
    async with working(app):

        async def is_known() -> bool:
            known = await dues(app, f"error IS NOT NULL AND tries = {count}")
            return (len(calls), known, await dues(app)) == (count, 1, left)

        await until(is_known, "its failure is known")


# ---- called ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["sync", "async"])
async def test_callbacks_get_the_job_as_it_was(make_shared_app: MakeApp, way: str) -> None:
    stale: list[Job] = []
    gone: list[Job] = []
    app = make_shared_app(queues=queues())
    if way == "sync":
        app.on_stale("bulk")(stale.append)
        app.on_delete("bulk")(gone.append)
    else:

        @app.on_stale("bulk")
        async def note_stale(job: Job) -> None:
            assert (await app.jobs.get(job.id)).id == job.id
            stale.append(job)

        @app.on_delete("bulk")
        async def note_gone(job: Job) -> None:
            with pytest.raises(JobNotFound):
                await app.jobs.get(job.id)
            gone.append(job)

    async with posting(lambda **_: app):
        clock = Days(app)
        await clock.advance(timedelta(0))
        handle = await register(app).using(tags={"t": "v"}).enqueue(7)
        await drained(app)
        job = await handle.get()
        assert job.stale_at == clock.now + STALE
        assert (stale, gone) == ([], [])
        await clock.advance(STALE)
        await worked(app, left=1)
        assert ([one.id for one in stale], gone, await handle.get()) == ([job.id], [], job)
        await clock.advance(KEPT)
        await worked(app)
        assert [one.id for one in stale] == [job.id]
        (snapshot,) = gone
        assert (snapshot.id, snapshot.state, snapshot.result) == (job.id, JobState.COMPLETED, {"n": 7})
        assert (snapshot.tags, snapshot.finished_at, snapshot.args) == ({"t": "v"}, job.finished_at, job.args)
        assert await app.store.kept_jobs([job.number]) == []
        await set_time(app.store, None)


async def test_a_queue_without_a_definition_tells_whoever_asks(make_shared_app: MakeApp) -> None:
    app = make_shared_app()
    gone: list[int] = []
    app.on_delete("bulk")(lambda job: gone.append(job.number))
    async with posting(lambda **_: app):
        clock = Days(app)
        await clock.advance(timedelta(0))
        handle = await register(app).enqueue(1)
        await drained(app)
        await clock.advance(timedelta(days=7))
        await worked(app)
        assert gone == [handle.number]
        await set_time(app.store, None)


async def test_nobody_is_called_about_jobs_of_other_queues(make_shared_app: MakeApp) -> None:
    app = make_shared_app(queues=[*queues(), Queue("other", retention=KEPT, stale_after=STALE)])
    called: list[int] = []
    app.on_stale("other")(lambda job: called.append(job.number))
    app.on_delete("other")(lambda job: called.append(job.number))
    async with posting(lambda **_: app):
        clock = Days(app)
        await clock.advance(timedelta(0))
        await register(app).enqueue(1)
        await drained(app)
        await clock.advance(KEPT)
        await worked(app)
        assert called == []
        await set_time(app.store, None)


async def test_nobody_is_called_about_jobs_that_were_deleted_or_live_again(make_shared_app: MakeApp) -> None:
    app = make_shared_app(queues=queues())
    called: list[int] = []
    app.on_stale("bulk")(lambda job: called.append(job.number))
    async with posting(lambda **_: app):
        clock = Days(app)
        await clock.advance(timedelta(0))
        work = register(app)
        deleted, retried, stays = [await work.enqueue(number) for number in range(3)]
        await retried.cancel()
        await drained(app)
        await app.jobs.delete(deleted.number or 0)
        await clock.advance(STALE / 2)
        await retried.retry()
        await drained(app)
        await clock.advance(STALE / 2)
        await until_called(app, called, 1)
        assert called == [stays.number]
        await clock.advance(STALE / 2)
        await until_called(app, called, 2)
        assert [*dict.fromkeys(called)] == [stays.number, retried.number]
        await set_time(app.store, None)


async def test_both_are_published_once_even_without_a_callback(make_shared_app: MakeApp) -> None:
    async with posting(make_shared_app, queues=queues(tell_retention=True)) as app:
        clock = Days(app)
        await clock.advance(timedelta(0))
        handle = await register(app).enqueue(1)
        await drained(app)
        await app.store.watch("test", 30 * 86_400_000)
        await clock.advance(STALE)

        await worked(app, left=1)
        assert await told(app) == [("job:stale", handle.number)]
        await clock.advance(KEPT)
        await worked(app)
        assert ("job:deleted", handle.number) in await told(app)
        assert len(await told(app)) <= 2  # upkeep may have forgotten the first one, which is two days old
        await set_time(app.store, None)


# ---- callbacks that raise --------------------------------------------------------------------------------------------


async def test_a_callback_that_raises_is_called_again_and_retention_goes_on(
    make_shared_app: MakeApp, caplog: pytest.LogCaptureFixture
) -> None:
    app = make_shared_app(queues=queues())
    calls: list[int] = []
    fine: list[int] = []

    @app.on_delete("bulk")
    def angry(job: Job) -> None:
        if job.args["number"] == 0:
            calls.append(job.number)
            raise LookupError

    @app.on_delete("bulk")
    async def calm(job: Job) -> None:
        fine.append(job.number)

    async with posting(lambda **_: app):
        clock = Days(app)
        await clock.advance(timedelta(0))
        work = register(app)
        bad, good = await work.enqueue(0), await work.enqueue(1)
        await drained(app)
        await clock.advance(KEPT)
        for number in range(1, MOST_TRIES):
            await failed(app, calls, number, left=1)
            (kept,) = await app.store.kept_jobs([bad.number or 0])
            assert kept.id == bad.number
            await clock.advance(timedelta(seconds=30 * 2 ** (number - 1)))
        assert await app.store.kept_jobs([good.number or 0]) == []
        await worked(app)
        assert await app.store.kept_jobs([bad.number or 0]) == []
        assert calls == [bad.number] * MOST_TRIES
        assert (fine.count(good.number or 0), fine.count(bad.number or 0)) == (1, MOST_TRIES)
        logged = [record for record in caplog.records if record.levelno >= logging.ERROR]
        assert len(logged) == MOST_TRIES
        await set_time(app.store, None)


async def test_a_callback_that_works_at_the_second_call_is_called_twice(make_shared_app: MakeApp) -> None:
    app = make_shared_app(queues=queues())
    calls: list[int] = []

    @app.on_stale("bulk")
    async def moody(job: Job) -> None:
        calls.append(job.number)
        if len(calls) == 1:
            raise RuntimeError

    async with posting(lambda **_: app):
        clock = Days(app)
        await clock.advance(timedelta(0))
        handle = await register(app).enqueue(0)
        await drained(app)
        await clock.advance(STALE)
        await failed(app, calls, 1, left=2)
        await clock.advance(timedelta(seconds=30))
        await worked(app, left=1)
        await clock.advance(timedelta(seconds=300))
        await drained(app)
        assert (calls, (await handle.get()).id) == ([handle.number] * 2, handle.id)
        await set_time(app.store, None)


async def test_jobs_run_while_a_callback_takes_its_time(make_shared_app: MakeApp) -> None:
    app = make_shared_app(queues=queues())
    work = register(app)
    results: list[Any] = []

    @app.on_stale("bulk")
    async def curious(job: Job) -> None:
        handle = await work.enqueue(job.args["number"] + 1)
        results.append(await handle.result(PATIENCE_S))

    async with posting(lambda **_: app):
        clock = Days(app)
        await clock.advance(timedelta(0))
        await work.enqueue(1)
        await drained(app)
        await clock.advance(STALE)
        async with working(app):
            await until(lambda: bool(results), "the callback has its result")
        assert results == [{"n": 2}]
        await set_time(app.store, None)


# ---- prune -----------------------------------------------------------------------------------------------------------


async def test_prune_deletes_what_has_expired_now(make_shared_app: MakeApp) -> None:
    async with posting(make_shared_app, queues=[Queue("bulk", retention=KEPT)]) as app:
        clock = Days(app)
        await clock.advance(timedelta(0))
        work = register(app)
        handles = [await work.using(key=f"k{number}").enqueue(number) for number in range(3)]
        await drained(app)
        assert await app.prune() == 0
        await clock.advance(timedelta(days=15))  # two of retention, and the week of PostgreSQL
        assert await app.prune() >= 3  # keys at least; on SQLite the jobs too
        assert await app.store.kept_jobs([handle.number or 0 for handle in handles]) == []
        stays = await work.enqueue(9)
        await drained(app)
        assert (await stays.get()).result == {"n": 9}
        assert await app.prune() == 0
        await set_time(app.store, None)


async def test_prune_leaves_what_is_still_to_be_told(make_shared_app: MakeApp) -> None:
    async with posting(make_shared_app, queues=queues(tell_retention=True)) as app:
        clock = Days(app)
        await clock.advance(timedelta(0))
        handle = await register(app).enqueue(1)
        await drained(app)
        await clock.advance(KEPT + timedelta(days=13))
        await app.prune()
        assert [job.id for job in await app.store.kept_jobs([handle.number or 0])] == [handle.number]
        await worked(app)
        assert await app.store.kept_jobs([handle.number or 0]) == []
        await set_time(app.store, None)


def test_prune_is_there_without_an_event_loop(make_sqlite_file: MakeApp) -> None:
    with make_sqlite_file().blocking() as client:
        assert client.prune() == 0
