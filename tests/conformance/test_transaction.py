"""A handler's effect and the end of its claim: both are committed, or neither."""

import asyncio
from typing import Any

import pytest

from holdfast.errors import ConfigError, DataRefused, HoldfastError, NotOpen
from holdfast.job import JobState
from holdfast.stores.postgres.store import PostgresStore
from holdfast.stores.store import Store
from holdfast.stores.values import Finish, Inserted, Insertion, Verdict
from holdfast.transitions import completed, crashed, interrupted, retried
from tests.support.builders import FAILURE, cancel, claim_one, end, find, new_job, read, running, state_of
from tests.support.clock import Clock
from tests.support.effects import Effects

BUDGET_S = 30.0
DONE = Finish(Verdict.DONE, JobState.COMPLETED)


@pytest.fixture
async def effects(store: Store) -> Effects:
    """Give a table of the user's own, empty."""
    made = Effects(store)
    await made.make()
    return made


class HandlerError(Exception):
    """What a handler may raise."""


async def execute(connection: Any, sql: str) -> None:
    """Run a statement on either driver."""
    answer = connection.execute(sql)
    if asyncio.iscoroutine(answer):
        await answer


# ---- together --------------------------------------------------------------------------------------------------------


async def test_the_effect_and_the_end_of_the_claim_are_one(store: Store, effects: Effects, clock: Clock) -> None:
    job = await running(store)
    await clock.advance(seconds=2)
    async with store.transaction(BUDGET_S) as tx:
        await effects.write(tx.connection, 1)
        assert await tx.finish(completed(job.id, job.claim, '{"n": 1}', started_ago_ms=500)) == DONE
    now = await read(store, job.id)
    assert (now.state, now.result, now.finished_at) == (JobState.COMPLETED, {"n": 1}, clock.now)
    assert await effects.numbers() == [1]
    assert await end(store, completed(job.id, job.claim)) == Finish(Verdict.ALREADY, JobState.COMPLETED)


async def test_several_transactions_follow_each_other(store: Store, effects: Effects) -> None:
    for number in range(3):
        job = await running(store)
        async with store.transaction(BUDGET_S) as tx:
            await effects.write(tx.connection, number)
            assert await tx.finish(completed(job.id, job.claim)) == DONE
    assert await effects.numbers() == [0, 1, 2]


async def test_transactions_at_once_are_all_kept(store: Store, effects: Effects) -> None:
    jobs = [await running(store) for _ in range(8)]

    async def handle(number: int) -> None:
        async with store.transaction(BUDGET_S) as tx:
            await effects.write(tx.connection, number)
            await asyncio.sleep(0)
            assert await tx.finish(completed(jobs[number].id, jobs[number].claim)) == DONE

    await asyncio.gather(*(handle(number) for number in range(8)))
    assert await effects.numbers() == list(range(8))
    assert {await state_of(store, job.id) for job in jobs} == {JobState.COMPLETED}


async def test_a_job_may_be_enqueued_in_it(store: Store, effects: Effects) -> None:
    assert hasattr(store, "insert_on")
    first, second = await running(store), await running(store)
    new = new_job(0, payload='{"n": 2}')
    async with store.transaction(BUDGET_S) as tx:
        (rolled_back,) = await store.insert_on(tx.connection, [new])
    assert await find(store, rolled_back.id) is None
    async with store.transaction(BUDGET_S) as tx:
        (kept,) = await store.insert_on(tx.connection, [new])
        await tx.finish(completed(first.id, first.claim))
    assert kept == Inserted(Insertion.CREATED, kept.id)
    assert (await read(store, kept.id)).payload == {"n": 2}
    assert await state_of(store, second.id) is JobState.RUNNING


async def test_a_retry_may_be_what_ends_the_claim(store: Store, effects: Effects) -> None:
    job = await running(store)
    async with store.transaction(BUDGET_S) as tx:
        await effects.write(tx.connection, 1)
        assert await tx.finish(retried(job.id, job.claim, FAILURE, 0)) == Finish(Verdict.DONE, JobState.QUEUED)
    assert (await claim_one(store)).id == job.id
    assert await effects.numbers() == [1]


async def test_a_completion_that_is_achieved_stands_although_a_cancel_was_requested(
    store: Store, effects: Effects
) -> None:
    job = await running(store)
    await cancel(store, job.id)
    async with store.transaction(BUDGET_S) as tx:
        await effects.write(tx.connection, 1)
        assert await tx.finish(completed(job.id, job.claim)) == DONE
    assert (await state_of(store, job.id), await effects.numbers()) == (JobState.COMPLETED, [1])


# ---- neither ---------------------------------------------------------------------------------------------------------


async def test_what_a_zombie_wrote_is_rolled_back(store: Store, effects: Effects) -> None:
    job = await running(store)
    await end(store, crashed(job.id, job.claim, FAILURE))
    heir = await claim_one(store)
    async with store.transaction(BUDGET_S) as tx:
        await effects.write(tx.connection, 1)
        assert await tx.finish(completed(job.id, job.claim)) == Finish(Verdict.LOST, None)
    assert await effects.numbers() == []
    now = await read(store, job.id)
    assert (now.state, now.claim, now.worker) == (JobState.RUNNING, heir.claim, heir.worker)


async def test_a_second_transaction_of_the_same_claim_is_rolled_back(store: Store, effects: Effects) -> None:
    job = await running(store)
    for number in range(2):
        async with store.transaction(BUDGET_S) as tx:
            await effects.write(tx.connection, number)
            finish = await tx.finish(completed(job.id, job.claim))
            assert finish.verdict is (Verdict.ALREADY if number else Verdict.DONE)
    assert await effects.numbers() == [0]


@pytest.mark.parametrize("is_finished", [False, True])
async def test_an_error_of_the_body_leaves_it_and_rolls_back(store: Store, effects: Effects, is_finished: bool) -> None:
    job = await running(store)

    async def handle() -> None:
        async with store.transaction(BUDGET_S) as tx:
            await effects.write(tx.connection, 1)
            if is_finished:
                await tx.finish(completed(job.id, job.claim))
            raise HandlerError

    with pytest.raises(HandlerError):
        await handle()
    assert await effects.numbers() == []
    assert await read(store, job.id) == job
    assert await end(store, completed(job.id, job.claim)) == DONE


async def test_without_an_end_of_the_claim_nothing_is_kept(store: Store, effects: Effects) -> None:
    job = await running(store)
    async with store.transaction(BUDGET_S) as tx:
        await effects.write(tx.connection, 1)
    assert (await effects.numbers(), await state_of(store, job.id)) == ([], JobState.RUNNING)


async def test_an_end_that_the_database_refuses_rolls_back(store: Store, effects: Effects) -> None:
    job = await running(store)

    async def handle() -> None:
        async with store.transaction(BUDGET_S) as tx:
            await effects.write(tx.connection, 1)
            await tx.finish(completed(job.id, job.claim, '"\x00'))

    with pytest.raises(DataRefused):
        await handle()
    assert (await effects.numbers(), await state_of(store, job.id)) == ([], JobState.RUNNING)


async def test_the_claim_is_ended_once(store: Store, effects: Effects) -> None:
    job = await running(store)

    async def handle() -> None:
        async with store.transaction(BUDGET_S) as tx:
            await tx.finish(completed(job.id, job.claim))
            await tx.finish(interrupted(job.id, job.claim))

    with pytest.raises(ConfigError, match="already"):
        await handle()
    assert await state_of(store, job.id) is JobState.RUNNING


async def test_a_cancelled_body_is_rolled_back_and_holds_nothing_up(store: Store, effects: Effects) -> None:
    job = await running(store)
    begun = asyncio.Event()

    async def body() -> None:
        async with store.transaction(BUDGET_S) as tx:
            await effects.write(tx.connection, 1)
            begun.set()
            await asyncio.Event().wait()

    for _ in range(30):  # more than there are connections
        begun.clear()
        task = asyncio.create_task(body())
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert await effects.numbers() == []
    async with store.transaction(BUDGET_S) as tx:
        await effects.write(tx.connection, 2)
        await tx.finish(completed(job.id, job.claim))
    assert await effects.numbers() == [2]


async def test_who_is_cancelled_while_waiting_for_a_transaction_leaves_no_lock(store: Store, effects: Effects) -> None:
    job = await running(store)
    entered: list[int] = []

    async def body() -> None:
        async with store.transaction(BUDGET_S):
            entered.append(1)

    async with store.transaction(BUDGET_S) as tx:
        await effects.write(tx.connection, 1)
        waiting = [asyncio.create_task(body()) for _ in range(5)]
        for _ in range(3):  # they have asked for it; where writers exclude each other they wait for this one
            await asyncio.sleep(0)
        for task in waiting:
            task.cancel()
        await asyncio.wait(waiting)
        assert {task.cancelled() for task in waiting} == {True}
        await tx.finish(completed(job.id, job.claim))
    assert entered == []
    again = await running(store)
    async with store.transaction(BUDGET_S) as tx:
        await effects.write(tx.connection, 2)
        await tx.finish(completed(again.id, again.claim))
    assert await effects.numbers() == [1, 2]


# ---- what a body may not do ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("statement", ["COMMIT", "ROLLBACK", "/* now */ end", "-- so\n  commit;"])
async def test_a_body_that_ends_the_transaction_by_hand_is_refused(
    store: Store, effects: Effects, statement: str
) -> None:
    job = await running(store)

    async def handle() -> None:
        async with store.transaction(BUDGET_S) as tx:
            await execute(tx.connection, statement)
            await tx.finish(completed(job.id, job.claim))

    with pytest.raises(ConfigError, match="block"):
        await handle()
    assert await state_of(store, job.id) is JobState.RUNNING
    async with store.transaction(BUDGET_S) as tx:
        await effects.write(tx.connection, 1)
        assert await tx.finish(completed(job.id, job.claim)) == DONE
    assert await effects.numbers() == [1]


async def test_a_body_may_have_savepoints(store: Store, effects: Effects) -> None:
    job = await running(store)
    async with store.transaction(BUDGET_S) as tx:
        await effects.write(tx.connection, 1)
        await execute(tx.connection, "SAVEPOINT mine")
        await effects.write(tx.connection, 2)
        await execute(tx.connection, "ROLLBACK TO mine")
        await execute(tx.connection, "RELEASE mine")
        await tx.finish(completed(job.id, job.claim))
    assert await effects.numbers() == [1]


async def test_the_connection_is_of_no_use_after_the_block(store: Store, effects: Effects) -> None:
    job = await running(store)
    async with store.transaction(BUDGET_S) as tx:
        connection = tx.connection
        await effects.write(connection, 1)
        await tx.finish(completed(job.id, job.claim))
    with pytest.raises(Exception, match=r"released|over|ended its claim") as refused:
        await effects.write(connection, 2)
    assert isinstance(refused.value, HoldfastError) is not isinstance(store, PostgresStore)
    async with store.transaction(BUDGET_S):
        with pytest.raises(Exception, match=r"released|over|ended its claim"):
            await effects.write(connection, 3)
    assert await effects.numbers() == [1]


async def test_a_closed_store_has_no_transactions(store: Store) -> None:
    await store.close()
    with pytest.raises(NotOpen):
        async with store.transaction(BUDGET_S):
            pass
    await store.open()
