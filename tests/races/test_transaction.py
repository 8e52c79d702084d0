"""A handler's transaction on PostgreSQL: what it locks, what a broken link means, and what it leaves behind."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import asyncpg
import pytest

from holdfast.errors import DataRefused, OutcomeUnknown, StoreError, StoreUnavailable
from holdfast.job import Answer, JobState
from holdfast.stores.postgres.connection import Connection
from holdfast.stores.postgres.store import PostgresStore
from holdfast.stores.sql import in_schema
from holdfast.stores.store import StoreTransaction
from holdfast.stores.values import Finish, Verdict
from holdfast.transitions import completed, interrupted
from tests.races.rivals import Rivals
from tests.support.connections import connected, expire, insert, register, request, running, until_held_up
from tests.support.effects import Effects
from tests.support.proxy import Fault, Proxy, proxied
from tests.support.wait import until

BUDGET_S = 1.0
DONE = Finish(Verdict.DONE, JobState.COMPLETED)


@pytest.fixture
async def effects(postgres: PostgresStore) -> Effects:
    """Give a table of the user's own, empty."""
    made = Effects(postgres)
    await made.make()
    return made


@pytest.fixture
async def proxy(dsn: str) -> AsyncIterator[Proxy]:
    """Give a proxy in front of the server."""
    async with proxied(dsn) as proxy:
        yield proxy


@pytest.fixture
async def far(proxy: Proxy, schema: str) -> AsyncIterator[PostgresStore]:
    """Give a store that reaches the server through the proxy, with a deadline of one second."""
    store = PostgresStore(proxy.dsn, schema=schema, deadline=1.0)
    await store.open()
    yield store
    proxy.heal()
    await store.close()


async def state(store: PostgresStore, job_id: int) -> JobState:
    (job,) = await store.get_jobs([job_id])
    return job.state


async def sessions_in_transaction(connection: Connection) -> int:
    """Count the sessions of this database that are left inside a transaction."""
    sql = "SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'"
    return int(await connection.fetchval(sql))


# ---- locks and connections -------------------------------------------------------------------------------------------


async def test_nothing_of_the_job_is_locked_while_the_body_runs(rivals: Rivals, effects: Effects) -> None:
    """Cancel, rescue and a new claim go on; the body then ends as a zombie, and its effect is rolled back."""
    (job,) = await running(rivals.one, 1)
    async with rivals.one.transaction(BUDGET_S) as tx:
        await effects.write(tx.connection, 1)
        (answered,) = await rivals.two.cancel_jobs([job.id], actor=None, reason=None)
        assert answered.answer is Answer.REQUESTED
        assert (await rivals.two.renew_workers([job.worker or 0], 10_000)).held[0].cancel_requested
        await rivals.expire(job.worker)
        assert (await rivals.two.rescue_jobs(10)).cancelled == (job.id,)
        assert (await tx.finish(completed(job.id, job.claim))).verdict is Verdict.LOST
    assert (await effects.numbers(), await state(rivals.two, job.id)) == ([], JobState.CANCELLED)


async def test_a_finish_waits_for_its_rival_and_is_fenced(rivals: Rivals, effects: Effects) -> None:
    """The rival has rescued the job and not committed yet when the body ends."""
    (job,) = await running(rivals.one, 1)

    async def handle() -> Finish:
        async with rivals.one.transaction(BUDGET_S) as tx:
            await effects.write(tx.connection, 1)
            return await tx.finish(completed(job.id, job.claim))

    async with rivals.blocker.transaction():
        await rivals.blocker.fetchval(rivals.sql("SELECT holdfast.retire_worker($1)"), job.worker)
        task = asyncio.create_task(handle())
        await until_held_up(rivals.watcher, rivals.schema, task)
        assert not task.done()
    assert (await task).verdict is Verdict.LOST
    assert (await effects.numbers(), await state(rivals.two, job.id)) == ([], JobState.QUEUED)


async def test_open_transactions_keep_no_worker_waiting(dsn: str, schema: str) -> None:
    store = PostgresStore(dsn, schema=schema, pool_size=2, deadline=5.0)
    await store.open()
    jobs = await running(store, 8)
    is_over, begun = asyncio.Event(), [asyncio.Event() for _ in jobs]

    async def handle(number: int) -> Finish:
        async with store.transaction(BUDGET_S) as tx:
            await tx.connection.execute("SELECT 1")
            begun[number].set()
            await is_over.wait()
            return await tx.finish(completed(jobs[number].id, jobs[number].claim))

    tasks = [asyncio.create_task(handle(number)) for number in range(len(jobs))]
    for event in begun:
        await event.wait()
    async with store.reserve() as leases:  # all connections of transactions are taken, those of the store are not
        assert len((await leases.renew_workers([jobs[0].worker or 0], 10_000)).held) == 8
    await insert(store, 3)
    claimed = await store.claim_jobs(request(await register(store), 3))
    assert [finish.verdict for finish in (await store.finish_jobs([completed(job.id, 1) for job in claimed])).finishes]
    is_over.set()
    assert await asyncio.gather(*tasks) == [DONE] * 8
    await store.close()


async def test_who_gets_no_connection_is_told_in_time(dsn: str, schema: str) -> None:
    store = PostgresStore(dsn, schema=schema, pool_size=1)
    await store.open()
    transactions = [store.transaction(BUDGET_S) for _ in range(4)]
    for transaction in transactions:
        await transaction.__aenter__()
    store.lending._deadline = 0.3
    with pytest.raises(StoreUnavailable, match="4 transactions are open"):
        await store.transaction(BUDGET_S).__aenter__()
    store.lending._deadline = 10.0
    for transaction in transactions:
        await transaction.__aexit__(None, None, None)
    async with store.transaction(BUDGET_S) as tx:
        assert await tx.connection.fetchval("SELECT 1") == 1
    await store.close()


async def test_closing_waits_for_a_body_that_ends(dsn: str, schema: str) -> None:
    store = PostgresStore(dsn, schema=schema)
    await store.open()
    (job,) = await running(store, 1)
    async with store.transaction(BUDGET_S) as tx:
        closing = asyncio.create_task(store.close())
        await asyncio.sleep(0)
        assert await tx.finish(completed(job.id, job.claim)) == DONE
    await closing
    await store.open()
    assert await state(store, job.id) is JobState.COMPLETED
    await store.close()


async def test_the_reserved_connection_is_there_when_all_others_are_busy(dsn: str, schema: str) -> None:
    store = PostgresStore(dsn, schema=schema, pool_size=1, deadline=5.0)
    await store.open()
    worker = await register(store)
    async with store.reserve() as leases, connected(dsn) as watcher:
        busy = asyncio.create_task(store.pool.fetch("SELECT pg_sleep(30)"))
        sleeping = "SELECT count(*) FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(30)' AND state = 'active'"

        async def is_busy() -> bool:
            return bool(await watcher.fetchval(sleeping))

        await until(is_busy, "the only connection of the store is busy")
        for _ in range(3):
            assert (await leases.renew_workers([worker], 10_000)).alive == {worker}
        assert not busy.done()
        busy.cancel()
        await asyncio.wait([busy])
    await store.close()


# ---- broken links ----------------------------------------------------------------------------------------------------


async def end_through(far: PostgresStore, effects: Effects, job_id: int, claim: int) -> None:
    async with far.transaction(BUDGET_S) as tx:
        await effects.write(tx.connection, 1)
        await tx.finish(completed(job_id, claim))


@pytest.mark.parametrize("fault", [Fault.CUT_REPLY, Fault.CUT_WITHIN_REPLY, Fault.CUT_BEFORE], ids=lambda f: f.name)
async def test_a_lost_reply_to_the_commit_is_unknown_and_resolved_by_giving_back(
    far: PostgresStore, postgres: PostgresStore, proxy: Proxy, effects: Effects, fault: Fault
) -> None:
    (job,) = await running(postgres, 1)
    proxy.arm(fault, "COMMIT;")
    with pytest.raises(OutcomeUnknown, match="may have happened"):
        await end_through(far, effects, job.id, job.claim)
    assert proxy.faults == 1
    (finish,) = (await far.finish_jobs([interrupted(job.id, job.claim)])).finishes
    if fault is Fault.CUT_BEFORE:  # never the completion: it would be accepted, and stand without its effect
        assert (finish, await effects.numbers()) == (Finish(Verdict.DONE, JobState.QUEUED), [])
    else:
        assert (finish, await effects.numbers()) == (Finish(Verdict.ALREADY, JobState.COMPLETED), [1])


@pytest.mark.parametrize("marker", ["BEGIN", "effects", "finish_jobs("])
async def test_a_link_cut_before_the_commit_changes_nothing(
    far: PostgresStore, postgres: PostgresStore, proxy: Proxy, effects: Effects, marker: str
) -> None:
    (job,) = await running(postgres, 1)
    proxy.arm(Fault.CUT_REPLY, marker)
    # In the body the error is the driver's own; what the store asks is told in its words.
    kinds = (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) if marker == "effects" else (StoreUnavailable,)
    with pytest.raises(kinds):
        await end_through(far, effects, job.id, job.claim)
    assert proxy.faults == 1
    await end_through(far, effects, job.id, job.claim)
    assert (await effects.numbers(), await state(postgres, job.id)) == ([1], JobState.COMPLETED)


async def test_a_body_that_swallows_a_broken_link_cannot_finish(
    far: PostgresStore, postgres: PostgresStore, proxy: Proxy
) -> None:
    (job,) = await running(postgres, 1)

    async def handle() -> None:
        async with far.transaction(BUDGET_S) as tx:
            proxy.arm(Fault.CUT_BEFORE, "SELECT 1")
            with pytest.raises((OSError, asyncpg.PostgresError, asyncpg.InterfaceError)):
                await tx.connection.execute("SELECT 1")
            await tx.finish(completed(job.id, job.claim))

    with pytest.raises(StoreUnavailable, match="nothing was changed"):
        await handle()
    assert await state(postgres, job.id) is JobState.RUNNING


@pytest.mark.parametrize("when", ["begin", "finish", "commit"])
async def test_in_a_black_hole_every_step_ends_by_its_deadline(
    far: PostgresStore, postgres: PostgresStore, proxy: Proxy, when: str
) -> None:
    (job,) = await running(postgres, 1)

    async def handle() -> None:
        if when == "begin":
            proxy.silence()
        async with far.transaction(BUDGET_S) as tx:
            if when == "finish":
                proxy.silence()
            await tx.finish(completed(job.id, job.claim))
            proxy.silence()

    async with asyncio.timeout(10):
        with pytest.raises(OutcomeUnknown if when == "commit" else StoreUnavailable):
            await handle()
    proxy.heal()
    (finish,) = (await postgres.finish_jobs([interrupted(job.id, job.claim)])).finishes
    assert finish.verdict in ({Verdict.DONE, Verdict.ALREADY} if when == "commit" else {Verdict.DONE})


async def test_a_link_that_falls_silent_after_the_commit_is_a_commit(
    far: PostgresStore, postgres: PostgresStore, proxy: Proxy, effects: Effects
) -> None:
    (job,) = await running(postgres, 1)
    proxy.arm(Fault.SILENT_AFTER, "COMMIT;")
    async with asyncio.timeout(10):
        await end_through(far, effects, job.id, job.claim)
    assert (await effects.numbers(), await state(postgres, job.id)) == ([1], JobState.COMPLETED)


async def test_a_session_that_the_server_ends_before_the_commit_changed_nothing(
    postgres: PostgresStore, effects: Effects, caller: Connection
) -> None:
    (job,) = await running(postgres, 1)

    async def handle() -> None:
        async with postgres.transaction(BUDGET_S) as tx:
            await effects.write(tx.connection, 1)
            await caller.execute(
                "SELECT pg_terminate_backend($1)", await tx.connection.fetchval("SELECT pg_backend_pid()")
            )
            await tx.finish(completed(job.id, job.claim))

    with pytest.raises(StoreUnavailable, match="nothing was changed"):
        await handle()
    assert (await effects.numbers(), await state(postgres, job.id)) == ([], JobState.RUNNING)


# ---- errors of the body ----------------------------------------------------------------------------------------------


async def fail_quietly(connection: Any) -> None:
    with pytest.raises(asyncpg.PostgresError):
        await connection.execute("SELECT 1 / 0")


@pytest.mark.parametrize("is_finished", [False, True], ids=["before the finish", "after the finish"])
async def test_a_swallowed_error_of_a_statement_is_found_out(
    postgres: PostgresStore, effects: Effects, is_finished: bool
) -> None:
    """The server would answer the COMMIT with ROLLBACK, and no error."""
    (job,) = await running(postgres, 1)

    async def handle() -> None:
        async with postgres.transaction(BUDGET_S) as tx:
            await effects.write(tx.connection, 1)
            if not is_finished:
                await fail_quietly(tx.connection)
            await tx.finish(completed(job.id, job.claim))
            await fail_quietly(tx.connection)

    with pytest.raises(StoreError, match="an earlier statement of its body failed"):
        await handle()
    assert (await effects.numbers(), await state(postgres, job.id)) == ([], JobState.RUNNING)


async def test_an_error_inside_a_savepoint_does_no_harm(postgres: PostgresStore, effects: Effects) -> None:
    (job,) = await running(postgres, 1)
    async with postgres.transaction(BUDGET_S) as tx:
        with pytest.raises(asyncpg.PostgresError):
            async with tx.connection.transaction():
                await tx.connection.execute("SELECT 1 / 0")
        await effects.write(tx.connection, 1)
        assert await tx.finish(completed(job.id, job.claim)) == DONE
    assert await effects.numbers() == [1]


async def test_a_constraint_that_is_checked_at_the_commit_keeps_nothing(
    postgres: PostgresStore, effects: Effects
) -> None:
    (job,) = await running(postgres, 1)
    await postgres.fetch_sql("CREATE TABLE holdfast.later (n int UNIQUE DEFERRABLE INITIALLY DEFERRED)")

    async def handle() -> None:
        async with postgres.transaction(BUDGET_S) as tx:
            sql = in_schema("INSERT INTO holdfast.later VALUES (1), (1)", postgres.schema)
            await tx.connection.execute(sql)
            assert await tx.finish(completed(job.id, job.claim)) == DONE

    with pytest.raises(DataRefused):
        await handle()
    assert await state(postgres, job.id) is JobState.RUNNING


async def test_a_missing_week_of_history_is_made_and_the_body_may_run_again(
    postgres: PostgresStore, effects: Effects
) -> None:
    (job,) = await running(postgres, 1)
    for (week,) in await postgres.pool.fetch(
        "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = $1::text::regclass",
        f"{postgres.schema}.history",
    ):
        await postgres.pool.fetch(f"DROP TABLE {week}")
    with pytest.raises(StoreUnavailable, match="run it again"):
        await end_through(postgres, effects, job.id, job.claim)
    await end_through(postgres, effects, job.id, job.claim)
    assert (await effects.numbers(), await state(postgres, job.id)) == ([1], JobState.COMPLETED)


async def test_a_cancelled_statement_of_the_body_leaves_no_session_behind(
    postgres: PostgresStore, effects: Effects, caller: Connection
) -> None:
    async def handle() -> None:
        async with postgres.transaction(BUDGET_S) as tx:
            await effects.write(tx.connection, 1)
            await tx.connection.execute("SELECT pg_sleep(60)")

    sleeping = "SELECT count(*) FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(60)' AND state = 'active'"
    for _ in range(3):
        task = asyncio.create_task(handle())

        async def has_begun() -> bool:
            return bool(await caller.fetchval(sleeping))

        await until(has_begun, "the body's statement runs")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

        async def is_gone() -> bool:
            return not await caller.fetchval(sleeping) and not await sessions_in_transaction(caller)

        await until(is_gone, "the session has ended")
    assert await effects.numbers() == []


# ---- what a body leaves on its session -------------------------------------------------------------------------------


async def set_zone(tx: StoreTransaction) -> None:
    await tx.connection.execute("SET TimeZone = 'Asia/Tokyo'")


async def set_role(tx: StoreTransaction) -> None:
    await tx.connection.execute("SET ROLE pg_monitor")


async def make_temporary_table(tx: StoreTransaction) -> None:
    await tx.connection.execute("CREATE TEMP TABLE mine (n int)")


async def lock(tx: StoreTransaction) -> None:
    await tx.connection.execute("SELECT pg_advisory_lock(4711)")


async def set_codec(tx: StoreTransaction) -> None:
    await tx.connection.set_type_codec("jsonb", encoder=lambda _: "1", decoder=lambda _: 1, schema="pg_catalog")


LEFT = """
SELECT
    current_setting('TimeZone') = 'Asia/Tokyo', current_user = 'pg_monitor', to_regclass('pg_temp.mine') IS NOT NULL,
    EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND objid = 4711), '{}'::jsonb::text <> '{}'
"""


@pytest.mark.parametrize("leave", [set_zone, set_role, make_temporary_table, lock, set_codec])
async def test_the_next_body_finds_nothing_of_the_last_one(
    dsn: str, schema: str, leave: Callable[[StoreTransaction], Any]
) -> None:
    store = PostgresStore(dsn, schema=schema, pool_size=1)
    await store.open()
    jobs = await running(store, 6)
    for job in jobs:  # more than there are connections, one after the other
        async with store.transaction(BUDGET_S) as tx:
            assert [tuple(row) for row in await tx.connection.fetch(LEFT)] == [(False,) * 5]
            assert await tx.connection.fetchval("SELECT '{}'::jsonb") == "{}"
            assert await tx.connection.fetchval("SHOW transaction_isolation") == "read committed"
            if leave is not set_role:  # which may not use the tables of Holdfast
                await leave(tx)
            assert await tx.finish(completed(job.id, job.claim, '{"n": [1]}')) == DONE
            if leave is set_role:
                await leave(tx)
    assert [job.result for job in await store.get_jobs([job.id for job in jobs])] == [{"n": [1]}] * 6
    await store.close()


async def test_a_worker_that_was_declared_dead_loses_its_transaction(rivals: Rivals, effects: Effects) -> None:
    (job,) = await running(rivals.one, 1)
    async with rivals.one.transaction(BUDGET_S) as tx:
        await effects.write(tx.connection, 1)
        await expire(rivals.watcher, rivals.schema, [job.worker or 0])
        assert (await rivals.two.release_worker(job.worker or 0, [])).requeued == (job.id,)
        (again,) = await rivals.two.claim_jobs(request(await register(rivals.two)))
        assert (await tx.finish(completed(job.id, job.claim))).verdict is Verdict.LOST
    assert await effects.numbers() == []
    assert (await rivals.two.finish_jobs([completed(again.id, again.claim)])).finishes == [DONE]
