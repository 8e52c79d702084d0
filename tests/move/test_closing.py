"""Who writes while a store is closed: everything that was acknowledged is moved, everything else is refused."""

import asyncio
import sqlite3
from pathlib import Path

import asyncpg
import pytest

from holdfast import Holdfast
from holdfast.errors import Conflict, StoreMoved
from holdfast.job import JobState
from holdfast.moving.move import Wishes, abort, move
from holdfast.moving.sides import Side
from holdfast.stores.moving import CLOSED_TABLES, Move, Stage
from holdfast.stores.postgres.store import PostgresStore
from holdfast.stores.sql import quoted
from holdfast.stores.sqlite.store import SqliteStore
from holdfast.stores.values import Inserted, Insertion
from holdfast.transitions import completed
from tests.conformance.test_access import new
from tests.move.filling import fill, read_all, snapshot
from tests.move.test_move import quiet
from tests.support import raw
from tests.support.builders import claim, enqueue, new_jobs, register
from tests.support.sizes import size
from tests.support.wait import until
from tests.support.workers import working

WRITERS, ROUNDS = 4, size(3, 20)
NEW_URL = "postgresql://app:***@db/app"
WISHES = Wishes(NEW_URL, with_history=True, wait_s=10)


def another(store: Side) -> PostgresStore | SqliteStore:
    """Open the same store as another program would."""
    if isinstance(store, PostgresStore):
        return PostgresStore(store.pool.dsn, schema=store.schema, pool_size=2)
    assert isinstance(store, SqliteStore)
    return SqliteStore(store.path)


async def targets(tmp_path: Path, name: str) -> SqliteStore:
    store = SqliteStore(str(tmp_path / f"{name}.db"))
    await store.open()
    return store


@pytest.fixture(params=["sqlite-file", "postgres"])
def source(request: pytest.FixtureRequest) -> Side:
    found: Side = request.getfixturevalue(request.param.replace("-", "_"))
    return found


async def insert_until_refused(store: Side, acknowledged: list[int], refused: list[int]) -> str:
    """Enqueue as fast as it goes; the answer is what the store said in the end."""
    while True:
        jobs = await new_jobs(store, 5)
        try:
            await store.insert_jobs(jobs)
        except StoreMoved as error:
            refused += [job.id for job in jobs]
            return str(error)
        acknowledged += [job.id for job in jobs]


async def work_until_refused(store: Side, finished: list[int]) -> None:
    """Take jobs and finish them, as a worker does; one that is told to give up has given its claims an end before."""
    worker = await register(store)
    while True:
        try:
            jobs = await claim(store, worker, limit=3)
            for job in jobs:
                await store.finish_jobs([completed(job.id, job.claim)])
                finished.append(job.id)
            await store.renew_workers([worker], 10_000)
        except StoreMoved:
            return


async def test_whoever_enqueues_meanwhile_is_in_time_or_refused(source: Side, tmp_path: Path) -> None:
    for number in range(ROUNDS):
        target = await targets(tmp_path, f"target-{number}")
        acknowledged: list[int] = []
        refused: list[int] = []
        finished: list[int] = []
        stores = [another(source) for _ in range(WRITERS + 1)]
        for store in stores:
            await store.open()
        *writers, worker = stores
        writing = [asyncio.create_task(insert_until_refused(store, acknowledged, refused)) for store in writers]
        working_ = asyncio.create_task(work_until_refused(worker, finished))
        await until(lambda: len(acknowledged) > 50, "jobs are enqueued")  # noqa: B023 - asked within the round

        await move(source, target, WISHES, quiet)
        said = await asyncio.wait_for(asyncio.gather(*writing), 20)
        await asyncio.wait_for(working_, 20)

        assert all("moved to postgresql://app:***@db/app" in words for words in said)
        found = await read_all(target, acknowledged + refused)
        assert found.keys() == set(acknowledged)
        assert {job.id for job in found.values() if job.state is JobState.COMPLETED} == set(finished)
        for store in stores:
            await store.close()
        await target.close()
        await source.unmark_move()  # for the next round, which needs an empty source
        await raw.clear(source)


async def test_a_transaction_that_is_under_way_is_waited_for(
    dsn: str, postgres: PostgresStore, sqlite_file: SqliteStore
) -> None:
    connection = await asyncpg.connect(dsn)
    transaction = connection.transaction()
    await transaction.start()
    sql = f"""SELECT id FROM {quoted(postgres.schema)}.enqueue_v1('[{{"kind": "work"}}]')"""
    job_id = await connection.fetchval(sql)
    moving = asyncio.create_task(move(postgres, sqlite_file, WISHES, quiet))
    waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND mode = 'ShareRowExclusiveLock'"

    async def waits() -> bool:
        return bool((await postgres.pool.fetch(waiting))[0][0])

    await until(waits, "the move waits for the transaction")
    await transaction.commit()
    await moving
    assert (await read_all(sqlite_file, [job_id])).keys() == {job_id}
    with pytest.raises(asyncpg.PostgresError, match="has been moved to"):
        await connection.fetchval(sql)
    await connection.close()


@pytest.mark.parametrize("stage", [Stage.DRAINING, Stage.CLOSED])
async def test_a_send_whose_reply_was_lost_is_not_called_refused(source: Side, stage: Stage) -> None:
    arrived = [*await new_jobs(source, 2), *await new_jobs(source, 1, key="k", unique="u")]
    await source.insert_jobs(arrived)
    for reached in (Stage.DRAINING, stage):
        await source.mark_move(Move("0c", NEW_URL, with_history=True, stage=reached))
    answers = await source.insert_jobs(arrived, again=True)
    assert answers == [Inserted(Insertion.CREATED, job.id) for job in arrived]
    with pytest.raises(StoreMoved):
        await source.insert_jobs(await new_jobs(source, 2), again=True)


async def test_a_mark_never_goes_back_and_belongs_to_one_move(source: Side) -> None:
    ours = {stage: Move("0c", NEW_URL, with_history=True, stage=stage) for stage in Stage}
    other = Move("0d", NEW_URL, with_history=True, stage=Stage.DRAINING)
    with pytest.raises(Conflict):
        await source.mark_move(ours[Stage.CLOSED])  # nobody has begun
    for reached in Stage:
        assert await source.mark_move(ours[reached])
        assert await source.mark_move(ours[reached])  # as often as one asks
        with pytest.raises(Conflict):
            await source.mark_move(other)
    for before in (Stage.DRAINING, Stage.CLOSED):
        with pytest.raises(Conflict):
            await source.mark_move(ours[before])
    assert await source.read_move() == ours[Stage.MOVED]


async def test_an_application_that_writes_to_the_file_itself_is_refused(tmp_path: Path) -> None:
    source, target = await targets(tmp_path, "source"), await targets(tmp_path, "target")
    app = Holdfast(f"sqlite:///{source.path}")

    @app.task
    async def work() -> None: ...

    async with app:
        await work.enqueue()
        await move(source, target, WISHES, quiet)
        own = sqlite3.connect(source.path)
        with pytest.raises(StoreMoved, match="has been moved to"):
            await work.using(connection=own).enqueue()
        own.close()
        with pytest.raises(StoreMoved, match="has been moved to"):
            await work.enqueue()
    with pytest.raises(StoreMoved, match="has been moved to"):
        await app.__aenter__()
    await source.close()
    await target.close()


async def test_every_table_is_closed_and_opened_again(source: Side, sqlite_memory: SqliteStore) -> None:
    await fill(source, 110)
    await source.add_token(new(digest="token"))
    before = await snapshot(source)
    await source.mark_move(Move("0c", NEW_URL, with_history=True, stage=Stage.DRAINING))
    await source.mark_move(Move("0c", NEW_URL, with_history=True, stage=Stage.CLOSED))
    for table in CLOSED_TABLES:
        with pytest.raises(StoreMoved, match="is being moved to"):
            await raw.execute(source, f"DELETE FROM holdfast.{table}")
    assert await snapshot(source) == before
    assert await abort(source, sqlite_memory) == 0
    await enqueue(source)
    # Groups of dead letters stay open: the move itself counts the last failures into them, and no new ones can come.
    # So does the audit: what was tried is written down.
    for table in (*CLOSED_TABLES, "dead_letters", "dead_letter_queues", "failures", "audit"):
        await raw.execute(source, f"DELETE FROM holdfast.{table}")
    assert not any((await snapshot(source)).values())


async def test_a_worker_that_runs_gives_nothing_away_and_says_where_to_go(
    source: Side, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    target = await targets(tmp_path, "target")
    options = {"schema": source.schema} if isinstance(source, PostgresStore) else {}
    url = source.pool.dsn if isinstance(source, PostgresStore) else f"sqlite:///{getattr(source, 'path', '')}"
    app = Holdfast(url, **options)  # type: ignore[arg-type] # a schema, or nothing
    began = asyncio.Event()
    goes_on = asyncio.Event()

    @app.task
    async def slow() -> str:
        began.set()
        await goes_on.wait()
        return "done"

    async with app:
        first = (await slow.enqueue()).number or 0
        async with working(app, concurrency=1):
            await asyncio.wait_for(began.wait(), 20)
            second = (await slow.enqueue()).number or 0
            moving = asyncio.create_task(move(source, target, WISHES, quiet))

            async def drains() -> bool:
                mark = await source.read_move()
                return mark is not None and mark.stage is Stage.DRAINING

            await until(drains, "the move waits for the job that runs")
            goes_on.set()
            await moving
            found = await read_all(target, [first, second])
            assert found[first].state is JobState.COMPLETED
            assert found[second].state is JobState.QUEUED
            await until(lambda: f"has been moved to {NEW_URL}" in caplog.text, "the worker says where to go")
    with pytest.raises(StoreMoved, match="has been moved to"):
        await app.run_worker()
    await target.close()
