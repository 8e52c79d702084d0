"""Budgets on two real connections: what is set aside never passes the ceiling, and no sum is off by a millionth."""

import asyncio
import random

import pytest

from holdfast.job import JobRow, JobState
from holdfast.stores.budgets import PeriodRow, Reserving
from holdfast.stores.postgres.store import PostgresStore
from holdfast.transitions import completed, crashed
from tests.races.rivals import Rivals
from tests.support.budgets import DEFER, budget, periods, reserve, spend
from tests.support.connections import FAILURE, replace_function, running, until_held_up
from tests.support.sizes import size

CEILING = 100
UNLOCKED = (
    "AND key = p_key AND starts_at = p_starts\n    FOR UPDATE;",
    "AND key = p_key AND starts_at = p_starts;",
)
UNSHARED = ("WHERE name = p_budget FOR SHARE;", "WHERE name = p_budget;")


def sides(rivals: Rivals, jobs: list[JobRow]) -> list[tuple[PostgresStore, JobRow]]:
    """Deal jobs to both sides."""
    return [((rivals.one, rivals.two)[place % 2], job) for place, job in enumerate(jobs)]


async def only(rivals: Rivals) -> PeriodRow:
    """Read the one period there is."""
    (found,) = await periods(rivals.one)
    return found


async def overdrawn(rivals: Rivals, rounds: int) -> list[str]:
    """Let more be set aside at once than there is; tells what went wrong."""
    wrong: list[str] = []
    await rivals.one.define_budgets([budget(CEILING)])
    for _ in range(rounds):
        await rivals.watcher.execute(rivals.sql("DELETE FROM holdfast.budget_periods"))
        await rivals.watcher.execute(rivals.sql("DELETE FROM holdfast.reservations"))
        jobs = await running(rivals.one, 10)
        answers = await asyncio.gather(*(reserve(store, job, 30) for store, job in sides(rivals, jobs)))
        granted = sum(answer.outcome is Reserving.GRANTED for answer in answers)
        aside = (await only(rivals)).reserved
        if aside > CEILING or granted != 3 or aside != 90:
            wrong.append(f"{granted} were granted, {aside} set aside")
        await rivals.watcher.execute(rivals.sql("DELETE FROM holdfast.jobs"))
    return wrong


async def test_no_more_is_set_aside_than_there_is(rivals: Rivals) -> None:
    assert await overdrawn(rivals, size(10, 200)) == []


async def test_without_the_lock_of_the_period_too_much_is_set_aside(rivals: Rivals) -> None:
    await replace_function(rivals.watcher, rivals.schema, "reserve_spend", UNLOCKED)
    assert await overdrawn(rivals, 20)


async def held_past_a_raise(rivals: Rivals) -> bool:
    """Raise a budget just as a job is held for it; whether the job now waits although there is money."""
    await rivals.one.define_budgets([budget(CEILING, thresholds=DEFER)])
    (rich, poor) = await running(rivals.one, 2)
    await spend(rivals.one, rich, CEILING)
    async with rivals.blocker.transaction():
        await rivals.blocker.execute(rivals.sql("LOCK TABLE holdfast.attempts IN EXCLUSIVE MODE"))
        holding = asyncio.create_task(reserve(rivals.one, poor, 30))
        await until_held_up(rivals.watcher, rivals.schema, holding)
        raising = asyncio.create_task(_raise(rivals.two))
        await until_held_up(rivals.watcher, rivals.schema, holding, raising)  # or it is through, without its guard
    await asyncio.gather(holding, raising)
    job = await rivals.now(poor.id)
    assert job is not None
    assert job.state is JobState.HELD
    promoted = await rivals.one.promote_jobs(10)
    return promoted.jobs == 0


async def _raise(store: PostgresStore) -> None:
    await store.define_budgets([budget(2 * CEILING, thresholds=DEFER)])
    await store.release_deferred("ai", 10)


async def test_nobody_is_held_by_what_a_budget_was(rivals: Rivals) -> None:
    assert not await held_past_a_raise(rivals)


async def test_without_a_look_at_the_budget_under_lock_a_raise_passes_a_job_by(rivals: Rivals) -> None:
    await replace_function(rivals.watcher, rivals.schema, "reserve_spend", UNSHARED)
    assert await held_past_a_raise(rivals)


@pytest.mark.parametrize("is_crash", [False, True], ids=["finish", "crash"])
async def test_a_spend_meets_the_end_of_its_claim(rivals: Rivals, is_crash: bool) -> None:
    await rivals.one.define_budgets([budget(10**9)])
    jobs = await running(rivals.one, size(40, 2_000))
    await asyncio.gather(*(reserve(store, job, 30) for store, job in sides(rivals, jobs)))
    chosen = random.Random(7)

    async def told(store: PostgresStore, job: JobRow) -> int:
        amounts = [chosen.randrange(0, 40) for _ in range(2)]
        await asyncio.gather(*(spend(store, job, amount, n) for n, amount in enumerate(amounts, 1)))
        return sum(amounts)

    async def ended(store: PostgresStore, some: list[JobRow]) -> int:
        ends = [crashed(job.id, job.claim, FAILURE) if is_crash else completed(job.id, job.claim) for job in some]
        await store.finish_jobs(ends)
        return 0

    batches = [ended(rivals.two, jobs[start : start + 10]) for start in range(0, len(jobs), 10)]
    amounts = await asyncio.gather(*(told(store, job) for store, job in sides(rivals, jobs)), *batches)
    row = await only(rivals)
    entries = await rivals.one.read_ledger("ai", 100_000)
    assert sum(amounts) == sum(entry.amount for entry in entries) == row.spent
    lost = await rivals.one.list_lost("ai", 100_000)
    assert (row.reserved, row.lost) == (0, sum(max(one.amount - one.spent, 0) for one in lost))
    assert bool(lost) is is_crash
