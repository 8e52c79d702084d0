"""Verbs that change many jobs at once never wait for each other in a ring."""

import asyncio
import random
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import count

import pytest

from holdfast.errors import StoreError, WorkerLost
from holdfast.stores.postgres.connection import Connection
from holdfast.stores.postgres.store import PostgresStore
from holdfast.stores.values import ProgressReport, Started
from holdfast.transitions import Transition, completed, failed, interrupted, retried, snoozed
from tests.support.connections import FAILURE, connected, expire, in_database, new_job, register, request, show
from tests.support.sizes import size
from tests.support.wait import until

JOBS = 200
SECONDS = size(1, 20)


class Storm:
    """Verbs on overlapping sets of jobs, each on connections of its own, for some seconds."""

    def __init__(self, store: PostgresStore, watcher: Connection) -> None:
        self.store = store
        self.watcher = watcher
        self.ids: list[int] = []
        self.claims: dict[int, int] = {}
        self.random = random.Random(7)
        self.errors: list[str] = []
        self.calls: dict[str, int] = {}
        self._numbers = count()

    async def run(self, *verbs: Callable[[], Awaitable[object]]) -> None:
        """Call each verb again and again until the time is over."""
        loop = asyncio.get_running_loop()
        end = loop.time() + SECONDS

        async def repeat(verb: Callable[[], Awaitable[object]]) -> None:
            while loop.time() < end:
                try:
                    await verb()
                except WorkerLost:
                    pass  # declared dead by our own sweeps
                except StoreError as error:
                    self.errors.append(f"{verb.__name__}: {error}")
                self.calls[verb.__name__] = self.calls.get(verb.__name__, 0) + 1

        await asyncio.gather(*(repeat(verb) for verb in verbs))

    def some(self, most: int = JOBS) -> list[int]:
        """Choose among the youngest jobs, in no order."""
        pool = self.ids[-2 * JOBS :]
        return self.random.sample(pool, min(len(pool), self.random.randint(1, most)))

    async def insert(self) -> None:
        """Add jobs, some with unique keys and keys that others use too, in no order."""
        ids = await self.store.take_ids(20)
        keys = self.random.sample(range(40), 20)
        jobs = [
            new_job(
                job_id,
                unique=f"u{key}" if key % 2 else None,
                unique_for_ms=50 if key % 3 == 0 and key % 2 else None,
                key=f"k{self.random.randint(0, 30)}-{next(self._numbers) // 100}" if key % 5 == 0 else None,
            )
            for job_id, key in zip(ids, keys, strict=True)
        ]
        await self.store.insert_jobs(jobs)
        self.ids += ids

    async def work(self) -> None:
        worker = await register(self.store)
        for job in await self.store.claim_jobs(request(worker, 60)):
            self.claims[job.id] = job.claim

    async def finish(self) -> None:
        await self.store.finish_jobs([self._end(job_id, claim) for job_id, claim in self._some_claims()])

    async def start(self) -> None:
        await self.store.start_jobs([Started(job_id, claim, 5) for job_id, claim in self._some_claims()])

    async def progress(self) -> None:
        await self.store.save_progress([ProgressReport(job_id, claim, 50.0) for job_id, claim in self._some_claims()])

    async def rescue(self) -> None:
        workers = [worker.id for worker in await self.store.list_workers() if worker.dead_at is None]
        await expire(self.watcher, self.store.schema, self.random.sample(workers, len(workers) // 2))
        await self.store.rescue_jobs(100)
        await self.store.promote_jobs(100)

    async def release(self) -> None:
        """Declare a worker dead whose claims are ended, started and reported by others meanwhile."""
        workers = [worker.id for worker in await self.store.list_workers() if worker.running]
        if workers:
            ends = [self._end(job_id, claim) for job_id, claim in self._some_claims()]
            await self.store.release_worker(self.random.choice(workers), ends)

    async def transact(self) -> None:
        """End a claim in a transaction of its handler, in which another job is enqueued."""
        async with self.store.transaction(SECONDS) as tx:
            await self.store.insert_on(tx.connection, [new_job(0, unique=f"u{self.random.randint(0, 40)}")])
            for job_id, claim in self._some_claims()[:1]:
                await tx.finish(self._end(job_id, claim))

    async def cancel(self) -> None:
        await self.store.cancel_jobs(self.some(), actor="ops", reason=None)
        await self.store.force_cancels(-1_000, 20)

    async def retry(self) -> None:
        await self.store.retry_jobs(self.some())

    async def delete(self) -> None:
        await self.store.delete_jobs(self.some(60))

    async def reschedule(self) -> None:
        await self.store.reschedule_jobs(self.some(), run_at=None, delay_ms=0)
        await self.store.reprioritise_jobs(self.some(), 5)

    def _some_claims(self) -> list[tuple[int, int]]:
        held = list(self.claims.items())
        return self.random.sample(held, min(len(held), self.random.randint(1, JOBS)))

    def _end(self, job_id: int, claim: int) -> Transition:
        self.claims.pop(job_id, None)
        ends = (
            completed(job_id, claim),
            failed(job_id, claim, FAILURE),
            retried(job_id, claim, FAILURE, 0),
            snoozed(job_id, claim, 0),
            interrupted(job_id, claim),
        )
        return self.random.choice(ends)


@asynccontextmanager
async def counted(dsn: str) -> AsyncIterator[tuple[str, Callable[[], Awaitable[int]]]]:
    """Make a database of the test's own, in which deadlocks are seen soon; a session reports them when it ends."""
    name = f"hf_{uuid.uuid4().hex[:12]}"
    async with connected(dsn) as admin:
        await admin.execute(f"CREATE DATABASE {name}")
        await admin.execute(f"ALTER DATABASE {name} SET deadlock_timeout = '20ms'")

        async def are_all_gone() -> bool:
            return not await admin.fetchval("SELECT count(*) FROM pg_stat_activity WHERE datname = $1", name)

        async def deadlocks() -> int:
            await until(are_all_gone, "all sessions have ended")
            await admin.execute("SELECT pg_stat_clear_snapshot()")
            sql = "SELECT deadlocks FROM pg_stat_database WHERE datname = $1"
            return int(await admin.fetchval(sql, name))

        try:
            yield in_database(dsn, name), deadlocks
        finally:
            await admin.execute(f"DROP DATABASE {name} WITH (FORCE)")


@asynccontextmanager
async def storm(dsn: str) -> AsyncIterator[Storm]:
    """Give a store with a connection for each verb, on a fresh schema."""
    store = PostgresStore(dsn, pool_size=14, deadline=30)
    await store.migrator.up()
    await store.open()
    async with connected(dsn) as watcher:
        yield Storm(store, watcher)
    await store.close()


VERBS: dict[str, tuple[str, ...]] = {
    "everything": (
        "insert", "work", "finish", "start", "progress", "rescue", "cancel", "retry", "delete", "reschedule", "release",
        "transact",
    ),
    "keyed inserts": ("insert", "insert", "insert", "insert", "delete", "cancel"),
    "cancel and finish": ("insert", "work", "finish", "finish", "cancel", "cancel"),
    "retry, delete and finish": ("insert", "work", "finish", "finish", "retry", "retry", "delete", "delete"),
    "retry and keyed inserts": ("insert", "insert", "cancel", "retry", "retry"),
    "starts and finishes": ("insert", "work", "start", "start", "finish", "progress"),
    "releases and finishes": ("insert", "work", "work", "finish", "start", "progress", "release", "release", "cancel"),
    "transactions": ("insert", "work", "finish", "progress", "transact", "transact", "cancel", "retry", "release"),
    "plans and claims": ("insert", "work", "finish", "reschedule", "reschedule", "cancel"),
}  # fmt: skip


@pytest.mark.parametrize("verbs", list(VERBS))
async def test_no_two_verbs_deadlock(dsn: str, verbs: str) -> None:
    async with counted(dsn) as (own, deadlocks):
        async with storm(own) as made:
            while len(made.ids) < JOBS:
                await made.insert()
            await made.run(*(getattr(made, verb) for verb in VERBS[verbs]))
        show(f"{verbs}: {made.calls}, {await deadlocks()} deadlocks")
        assert made.errors == []
        assert await deadlocks() == 0


async def test_a_deadlock_would_be_counted(dsn: str) -> None:
    """Two transactions that lock the same rows in opposite order, as no verb may."""
    async with counted(dsn) as (own, deadlocks):
        async with storm(own) as made, connected(own) as one, connected(own) as two:
            await made.insert()
            lock = "SELECT FROM holdfast.jobs WHERE id = $1 FOR UPDATE"
            low, high = made.ids[0], made.ids[-1]
            async with one.transaction():
                await one.fetch(lock, low)
                transaction = two.transaction()
                await transaction.start()
                await two.fetch(lock, high)
                answers = await asyncio.gather(one.fetch(lock, high), two.fetch(lock, low), return_exceptions=True)
                await transaction.rollback()
                assert any(isinstance(answer, Exception) for answer in answers)
        assert await deadlocks() == 1
