"""No job is parked just as the last slot comes free, and nobody runs beyond the limit, whoever meets whom."""

import asyncio
from collections import Counter

import pytest

from holdfast.job import JobRow, JobState
from holdfast.stores.limits import LimitRow
from holdfast.stores.postgres.store import PostgresStore
from holdfast.transitions import completed
from tests.races.rivals import Rivals
from tests.support.connections import insert, register, replace_function, request, show, until_held_up
from tests.support.sizes import size

JOBS = size(200, 20_000)  # of each side
SLOTS = 3
IDLE_CALLS = 50  # in a row that find nothing, after which a worker of the storm sweeps
TENANTS = "abcd"
UNPARKED = ("PERFORM pg_advisory_xact_lock(holdfast.key_lock(v_group.limit_key));", "NULL;")
UNLOCKED = ("    PERFORM pg_advisory_xact_lock_shared(", "    PERFORM abs(")

FINISH = """
SELECT holdfast.finish_jobs(
    ARRAY[$1::bigint], ARRAY[$2::integer], '{complete}', '{completed}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}'
)
"""
CLAIM = "SELECT id FROM holdfast.claim_jobs($1, $2, 1, '{default}', '{5}', '{1}', '{0}')"


@pytest.fixture
async def limited(rivals: Rivals) -> Rivals:
    """Give two stores on a schema in which one job at a time runs."""
    await rivals.one.define_limits([LimitRow(name="one", queue="default", concurrency=1)], ["default"])
    return rivals


async def one_runs_and_one_waits(rivals: Rivals) -> tuple[JobRow, int, int]:
    """Let one of two jobs run; the other is queued, and the answer names both and another worker."""
    first, second = await insert(rivals.one, 2)
    (running,) = await rivals.one.claim_jobs(request(await register(rivals.one)))
    assert running.id == first
    return running, second, await register(rivals.two)


async def claimed_while_a_slot_comes_free(rivals: Rivals) -> tuple[list[JobRow], JobRow | None]:
    """Claim while the end of the only running job is not committed yet."""
    running, second, worker = await one_runs_and_one_waits(rivals)
    async with rivals.blocker.transaction():
        await rivals.blocker.fetch(rivals.sql(FINISH), running.id, running.claim)
        claiming = asyncio.ensure_future(rivals.two.claim_jobs(request(worker)))
        await until_held_up(rivals.watcher, rivals.schema, claiming)
    return await claiming, await rivals.now(second)


async def freed_while_a_job_is_parked(rivals: Rivals, *, claims: bool = False) -> JobRow | None:
    """End the only running job while another is parked, which is not committed yet; the same call may claim as well."""
    running, second, worker = await one_runs_and_one_waits(rivals)
    async with rivals.blocker.transaction():
        assert await rivals.blocker.fetch(rivals.sql(CLAIM), worker, 1) == []
        wanted = request(running.worker or 0, queue="empty") if claims else None
        ending = asyncio.ensure_future(rivals.one.finish_jobs([completed(running.id, running.claim)], claim=wanted))
        await until_held_up(rivals.watcher, rivals.schema, ending)
    await ending
    return await rivals.now(second)


async def test_a_claim_waits_for_a_slot_that_comes_free(limited: Rivals) -> None:
    claimed, second = await claimed_while_a_slot_comes_free(limited)
    assert second is not None
    assert ([job.id for job in claimed], second.state) == ([second.id], JobState.RUNNING)


async def test_a_slot_that_comes_free_waits_for_who_is_parked(limited: Rivals) -> None:
    second = await freed_while_a_job_is_parked(limited)
    assert second is not None
    assert second.state is JobState.QUEUED


async def test_a_slot_that_nobody_was_handed_waits_for_who_is_parked(limited: Rivals) -> None:
    second = await freed_while_a_job_is_parked(limited, claims=True)
    assert second is not None
    assert second.state is JobState.QUEUED


async def test_without_its_lock_too_a_job_is_left_behind(limited: Rivals) -> None:
    await replace_function(limited.watcher, limited.schema, "free_rest", UNLOCKED)
    second = await freed_while_a_job_is_parked(limited, claims=True)
    assert second is not None
    assert second.state is JobState.HELD


async def test_without_the_lock_of_the_key_a_job_is_left_behind(limited: Rivals) -> None:
    """What the lock is for: with it removed on either side the job stays held although the slot is free."""
    await replace_function(limited.watcher, limited.schema, "pass_gates", UNPARKED)
    claimed, second = await claimed_while_a_slot_comes_free(limited)
    assert claimed == []
    assert second is not None
    assert second.state is JobState.HELD
    assert (await limited.one.sweep_limits("", 10, leaks=False)).released == 1  # and the sweep mends it


async def test_without_the_lock_on_the_other_side_it_is_left_behind_too(limited: Rivals) -> None:
    await replace_function(limited.watcher, limited.schema, "free_slots", UNLOCKED)
    second = await freed_while_a_job_is_parked(limited)
    assert second is not None
    assert second.state is JobState.HELD


class Storm:
    """Workers that claim and finish jobs of a few tenants at once, and count how many they hold."""

    def __init__(self, store: PostgresStore) -> None:
        self.store = store
        self.running: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self.done = 0
        self.swept = 0

    async def work(self, storms: "list[Storm]") -> None:
        """Claim, hold and finish, the next claim in the same call."""
        worker = await register(self.store)
        held: list[JobRow] = []
        idle = 0
        while held or sum(storm.done for storm in storms) < len(storms) * JOBS:
            for job in held:
                self.running[job.payload["tenant"]] -= 1
            ended = [completed(job.id, job.claim) for job in held]
            worked = await self.store.finish_jobs(ended, claim=request(worker, 4))
            self.done += len(ended)
            held = worked.claimed
            for job in held:
                tenant = job.payload["tenant"]
                self.running[tenant] += 1
                self.most[tenant] = max(self.most[tenant], self.running[tenant])
            idle = 0 if held else idle + 1
            if idle == IDLE_CALLS:
                idle = 0
                await self._sweep()
            await asyncio.sleep(0)  # or one worker would hold none while another claims

    async def _sweep(self) -> None:
        """Do what every worker does each second.

        A call that gives a slot back waits for no key that another call parks jobs for in that moment, or both might
        wait for each other: those jobs go on with the next sweep.
        """
        self.swept += (await self.store.sweep_limits("", 10, leaks=False)).released

    async def feed(self) -> None:
        """Keep all tenants busy."""
        for _ in range(JOBS // (5 * len(TENANTS))):
            for tenant in TENANTS:
                await insert(self.store, 5, payload=f'{{"tenant": "{tenant}"}}')


@pytest.mark.real_time  # PostgreSQL waits in spite of SKIP LOCKED for a row that is updated just then: rarely a ring
async def test_a_storm_of_claims_and_ends_keeps_every_limit_and_meets_no_deadlock(rivals: Rivals) -> None:
    limits = [
        LimitRow(name="all", queue="default", concurrency=7),
        LimitRow(name="tenants", queue="default", path=("payload", "tenant"), concurrency=SLOTS),
    ]
    await rivals.one.define_limits(limits, ["default"])
    storms = [Storm(rivals.one), Storm(rivals.two)]
    await asyncio.gather(
        *(storm.work(storms) for storm in storms for _ in range(4)), *(storm.feed() for storm in storms)
    )
    done = sum(storm.done for storm in storms)
    for name in ("all", "tenants"):
        usage = await rivals.one.limit_usage(name)
        assert usage is not None
        assert usage.taken == 0
    swept = sum(storm.swept for storm in storms)
    show(f"{done} jobs, {swept} let go by a sweep; at most {[dict(storm.most) for storm in storms]} at once")
    assert done == len(storms) * JOBS
    # Each side counts what it holds itself: together they would need one clock.
    assert max(max(storm.most.values()) for storm in storms) <= SLOTS
