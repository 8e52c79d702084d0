"""Weeks of history come and go while somebody reads it, and no finish waits for that."""

import asyncio
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest

from holdfast.job import Answer, JobState
from holdfast.stores.postgres.connection import Connection
from holdfast.stores.postgres.store import PostgresStore
from holdfast.stores.values import Verdict
from holdfast.transitions import completed, retried
from tests.races.rivals import Rivals
from tests.support.connections import (
    FAILURE,
    connected,
    insert,
    register,
    replace_function,
    request,
    running,
    show,
    until_held_up,
)
from tests.support.sizes import CHAOS, size
from tests.support.wait import until

WEEKS = "SELECT c.relname FROM pg_class c WHERE c.relnamespace = $1::regnamespace AND c.relname ~ '^history_w[0-9]{8}$'"


@pytest.fixture
async def keeper(dsn: str, schema: str) -> AsyncIterator[PostgresStore]:
    """Give a store whose upkeep gives up soon when a reader holds it up."""
    store = PostgresStore(dsn, schema=schema, deadline=1.0)
    await store.open()
    yield store
    await store.close()


async def weeks(rivals: Rivals) -> set[str]:
    """Read which weeks have a table, attached or not."""
    return {row[0] for row in await rivals.watcher.fetch(WEEKS, f'"{rivals.schema}"')}


async def pending(rivals: Rivals) -> int:
    """Count the weeks whose detaching was begun and not ended."""
    sql = "SELECT count(*) FROM pg_inherits WHERE inhdetachpending AND inhparent = 'holdfast.history'::regclass"
    return int(await rivals.watcher.fetchval(rivals.sql(sql)))


async def finish_all_the_time(store: PostgresStore, stop: asyncio.Event, took: list[float]) -> None:
    """Enqueue, claim and finish jobs one by one, and note how long each finish took."""
    worker = await register(store)
    while not stop.is_set():
        await insert(store, 1)
        (job,) = await store.claim_jobs(request(worker))
        begin = time.perf_counter()
        (finish,) = (await store.finish_jobs([completed(job.id, job.claim)])).finishes
        took.append(time.perf_counter() - begin)
        assert finish.verdict is Verdict.DONE


async def upkeep_with_a_reader(dsn: str, rivals: Rivals, keeper: PostgresStore) -> list[float]:
    """Move time on week by week, keeping history, while a reader idles in its transaction; return the finish times."""
    now = datetime.now(UTC)
    await rivals.one.set_time(now)
    (old,) = await running(rivals.one, 1)
    await rivals.one.finish_jobs([completed(old.id, old.claim)])
    took: list[float] = []
    stop = asyncio.Event()
    async with connected(dsn) as reader:
        await reader.execute("BEGIN")
        await reader.fetch(rivals.sql("SELECT count(*) FROM holdfast.history"))
        finishing = asyncio.create_task(finish_all_the_time(rivals.one, stop, took))
        for step in range(1, size(4, 13)):
            await rivals.two.set_time(now + timedelta(weeks=step))
            kept = await keeper.keep_history(100)
            assert kept.made == 1
            assert kept.dropped == 0 or step > 1
        assert not finishing.done()
        stop.set()
        await finishing
        assert await rivals.now(old.id) is None, "what has expired is not shown, although its table is still there"
    return took


@pytest.mark.real_time
async def test_no_finish_waits_for_upkeep_that_waits_for_a_reader(
    dsn: str, rivals: Rivals, keeper: PostgresStore
) -> None:
    before = await weeks(rivals)
    took = sorted(await upkeep_with_a_reader(dsn, rivals, keeper))
    p99 = took[int(len(took) * 0.99)]
    median, longest = took[len(took) // 2], took[-1]
    show(
        f"{len(took)} finishes during upkeep with a reader: median {median * 1e3:.1f} ms, p99 {p99 * 1e3:.1f} ms, "
        f"longest {longest * 1e3:.1f} ms"
    )
    assert took[-1] < 1.0
    if CHAOS:
        assert p99 < 0.1
    # The reader is gone: what it held up is now done.
    for _ in range(3):
        await keeper.keep_history(100)
    clock = await rivals.watcher.fetchval(rivals.sql("SELECT holdfast.clock()"))
    left = {datetime.strptime(week[-8:], "%Y%m%d").replace(tzinfo=UTC) for week in await weeks(rivals)}
    assert all(week + timedelta(weeks=1) > clock for week in left)
    assert await pending(rivals) == 0
    assert before - await weeks(rivals)


async def test_dropping_a_week_at_once_makes_finishes_wait(dsn: str, rivals: Rivals) -> None:
    """What the rule forbids (F14): the drop waits for the reader, and every finish behind the drop."""
    (job,) = await running(rivals.one, 1)
    (week,) = await rivals.watcher.fetch(f"{WEEKS} ORDER BY 1 LIMIT 1", f'"{rivals.schema}"')
    async with connected(dsn) as reader, connected(dsn) as dropper:
        await reader.execute("BEGIN")
        await reader.fetch(rivals.sql("SELECT count(*) FROM holdfast.history"))
        drop = rivals.sql(f"DROP TABLE holdfast.{week[0]}")
        dropping = asyncio.create_task(dropper.execute(drop))
        await until_held_up(rivals.watcher, rivals.schema, dropping)
        finishing = asyncio.create_task(rivals.one.finish_jobs([completed(job.id, job.claim)]))
        await until_held_up(rivals.watcher, rivals.schema, dropping, finishing)
        assert not dropping.done()
        assert not finishing.done()
        await reader.execute("COMMIT")
        await dropping
        await finishing


async def test_an_upkeep_that_gave_up_leaves_no_session_behind(dsn: str, rivals: Rivals, keeper: PostgresStore) -> None:
    """Nothing may go on waiting on the server with a lock on history after the caller has gone."""
    now = datetime.now(UTC)
    await rivals.one.set_time(now + timedelta(weeks=2))
    async with connected(dsn) as reader:
        await reader.execute("BEGIN")
        await reader.fetch(rivals.sql("SELECT count(*) FROM holdfast.history"))
        await keeper.keep_history(100)
        sql = (
            "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE state = 'active' AND pid <> pg_backend_pid() "
            "AND query LIKE '%DETACH%' AND position($1 IN query) > 0)"
        )
        await until(lambda: rivals.watcher.fetchval(sql, rivals.schema), "the server has given up too", 5)


async def drop_weeks(rivals: Rivals) -> None:
    """Lose every week that lies ahead, as if upkeep had not run for a long time."""
    for week in await weeks(rivals):
        await rivals.watcher.execute(rivals.sql(f"DROP TABLE holdfast.{week}"))


async def test_a_finish_makes_a_missing_week(rivals: Rivals) -> None:
    jobs = await running(rivals.one, 3)
    await insert(rivals.one, 1)
    await drop_weeks(rivals)
    worked = await rivals.one.finish_jobs(
        [completed(job.id, job.claim) for job in jobs], claim=request(await register(rivals.one))
    )
    assert [finish.verdict for finish in worked.finishes] == [Verdict.DONE] * 3
    assert len(worked.claimed) == 1
    assert {job.state for job in await rivals.one.get_jobs([job.id for job in jobs])} == {JobState.COMPLETED}


async def test_many_finishes_meet_a_missing_week_at_once(rivals: Rivals) -> None:
    jobs = await running(rivals.one, 20)
    await drop_weeks(rivals)
    finishes = (
        store.finish_jobs([completed(job.id, job.claim)])
        for job, store in zip(jobs, (rivals.one, rivals.two) * 10, strict=True)
    )
    assert {worked.finishes[0].verdict for worked in await asyncio.gather(*finishes)} == {Verdict.DONE}


async def test_a_cancel_makes_a_missing_week(rivals: Rivals) -> None:
    (job_id,) = await insert(rivals.one, 1)
    await drop_weeks(rivals)
    (answered,) = await rivals.one.cancel_jobs([job_id], actor=None, reason=None)
    assert answered.answer is Answer.DONE


async def test_a_forced_cancel_makes_a_missing_week(rivals: Rivals) -> None:
    (job,) = await running(rivals.one, 1)
    await rivals.one.cancel_jobs([job.id], actor=None, reason=None)
    await drop_weeks(rivals)
    assert await rivals.one.force_cancels(-1_000, 10) == (job.id,)


async def test_a_rescue_makes_a_missing_week(rivals: Rivals) -> None:
    (job,) = await running(rivals.one, 1)
    await rivals.one.cancel_jobs([job.id], actor=None, reason=None)
    await rivals.expire(job.worker)
    await drop_weeks(rivals)
    assert (await rivals.one.rescue_jobs(10)).cancelled == (job.id,)


async def test_a_worker_leaves_although_a_week_is_missing(rivals: Rivals) -> None:
    (job,) = await running(rivals.one, 1)
    await rivals.one.cancel_jobs([job.id], actor=None, reason=None)
    await drop_weeks(rivals)
    assert await rivals.one.retire_worker(job.worker or 0) == 1


async def test_a_missing_week_does_not_disturb_jobs_that_wait_again(rivals: Rivals) -> None:
    (job,) = await running(rivals.one, 1)
    await drop_weeks(rivals)
    (finish,) = (await rivals.one.finish_jobs([retried(job.id, job.claim, FAILURE, 0)])).finishes
    assert (finish.verdict, finish.state) == (Verdict.DONE, JobState.QUEUED)


async def test_without_upkeep_in_the_finish_a_missing_week_would_refuse_it(rivals: Rivals, caller: Connection) -> None:
    (job,) = await running(rivals.one, 1)
    await replace_function(
        caller, rivals.schema, "keep_partitions", ("WHILE v_week <= v_last LOOP", "WHILE false LOOP")
    )
    await drop_weeks(rivals)
    with pytest.raises(Exception, match="no partition"):
        await rivals.one.finish_jobs([completed(job.id, job.claim)])


async def test_several_keepers_make_each_week_once(rivals: Rivals) -> None:
    await rivals.one.set_time(datetime.now(UTC) + timedelta(weeks=3))
    kept = await asyncio.gather(*(store.keep_history(0) for store in (rivals.one, rivals.two) * 3))
    assert sum(one.made for one in kept) == 3
