"""A handler that has a slot and has not taken its first step: nothing of it has begun, and it can be stopped."""

import asyncio

import pytest

from holdfast import Context, Holdfast
from holdfast.context import LockBlock, TransactionBlock
from holdfast.duration import Duration
from holdfast.job import JobRow
from holdfast.policies.money import Amount
from holdfast.services.sweeps import crashes
from holdfast.stores.sqlite.store import SqliteStore
from holdfast.stores.values import WorkerProcess
from holdfast.transitions import Transition, Verb
from holdfast.worker.executor import Executor
from holdfast.worker.isolation import Isolation
from holdfast.worker.marks import Marks
from holdfast.worker.run import Run, Why
from tests.support.connections import new_job, request
from tests.support.wait import PATIENCE_S, until

app = Holdfast("sqlite://")
begun: list[int] = []


@app.task
async def on_the_loop(ctx: Context) -> None:
    begun.append(ctx.job.number)


@app.task
def in_a_thread(ctx: Context) -> None:
    begun.append(ctx.job.number)


class Ends:
    """Remembers what an executor tells its worker."""

    is_ending = False

    def __init__(self) -> None:
        self.settlements: list[Transition] = []
        self.freed_runs: list[Run] = []

    def settled(self, run: Run, transition: Transition) -> None:
        self.settlements.append(transition)

    def freed(self, run: Run) -> None:
        self.freed_runs.append(run)


class Grants:
    """Lets every job run, and is not asked for anything else."""

    def reported(self, run: Run) -> None:
        raise NotImplementedError

    async def kept(self, run: Run) -> None:
        raise NotImplementedError

    async def load(self, run: Run) -> JobRow | None:
        raise NotImplementedError

    async def record(self, run: Run) -> None:
        raise NotImplementedError

    async def admit(self, run: Run) -> Transition | None:
        return None

    async def ending(self, run: Run, transition: Transition) -> None:
        raise NotImplementedError

    async def spend(self, run: Run, amount: Amount, note: str | None) -> None:
        raise NotImplementedError

    def transaction(self, run: Run) -> TransactionBlock:
        raise NotImplementedError

    def lock(self, run: Run, name: str, timeout: Duration | None) -> LockBlock:
        raise NotImplementedError

    def vanished(self, run: Run) -> None:
        raise NotImplementedError


class Admissions(Grants):
    """Lets no job run before it is told to."""

    def __init__(self) -> None:
        self.requests = 0
        self.admitted = asyncio.Event()

    async def admit(self, run: Run) -> Transition | None:
        self.requests += 1
        await self.admitted.wait()
        return None


async def claimed(store: SqliteStore, kind: str, jobs: int) -> list[Run]:
    """Give runs of jobs that a worker has claimed."""
    worker = await store.register_worker(WorkerProcess("test", "localhost", 1), 60_000)
    await store.insert_jobs([new_job(job_id, kind=kind) for job_id in await store.take_ids(jobs)])
    return [Run(job) for job in await store.claim_jobs(request(worker, jobs))]


def unisolated() -> Isolation:
    return Isolation(app.parts, has_processes=False, is_embedded=True)


async def end_of(run: Run) -> None:
    assert run.handler is not None
    await asyncio.wait_for(asyncio.shield(run.handler), PATIENCE_S)
    assert run.is_ended


@pytest.mark.parametrize("kind", ["on_the_loop", "in_a_thread"])
async def test_one_that_is_stopped_before_it_begins_ends_and_frees_its_slot(
    sqlite_memory: SqliteStore, kind: str
) -> None:
    begun.clear()
    (run,) = await claimed(sqlite_memory, kind, 1)
    ends = Ends()
    executor = Executor(app.parts, Marks.create(None, 8), ends, Grants(), unisolated())
    executor.begin(run)
    run.stop(Why.LEAVING)
    await end_of(run)
    assert ends.freed_runs == [run]
    assert [(end.id, end.verb) for end in ends.settlements] == [(run.job.id, Verb.INTERRUPT)]
    assert not executor.runs
    assert not begun


@pytest.mark.parametrize("kind", ["on_the_loop", "in_a_thread"])
async def test_it_is_marked_as_begun_with_its_first_step(sqlite_memory: SqliteStore, kind: str) -> None:
    begun.clear()
    runs = await claimed(sqlite_memory, kind, 3)
    marks, ends = Marks.create(None, 8), Ends()
    executor = Executor(app.parts, marks, ends, Grants(), unisolated())
    for run in runs:
        executor.begin(run)
    assert not list(marks.begun()), "one that keeps the loop would keep these from being started elsewhere"
    for run in runs:
        await end_of(run)
    assert sorted(begun) == sorted(entry.id for entry in marks.begun()) == sorted(run.job.id for run in runs)
    assert not marks.suspects(with_supervisor=True), (
        "one that has ended brings nothing down, although the store does not know it yet"
    )


@pytest.mark.parametrize("kind", ["on_the_loop", "in_a_thread"])
async def test_a_claim_that_waits_for_the_store_is_no_suspect(sqlite_memory: SqliteStore, kind: str) -> None:
    """Its budget, or what earlier claims have left, comes from the store before its code is called."""
    begun.clear()
    runs = await claimed(sqlite_memory, kind, 3)
    marks, admissions = Marks.create(None, 8), Admissions()
    executor = Executor(app.parts, marks, Ends(), admissions, unisolated())
    for run in runs:
        executor.begin(run)
    await until(lambda: admissions.requests == len(runs), "all wait to be admitted")
    assert not marks.suspects(with_supervisor=True), "a kill from outside would be charged to handlers that never began"
    admissions.admitted.set()
    for run in runs:
        await end_of(run)
    assert sorted(begun) == sorted(run.job.id for run in runs)


def test_of_two_claims_of_one_job_only_the_last_answers_for_a_crash() -> None:
    """A thread whose claim was lost may still run when the same process holds the job's next claim."""
    assert [(end.id, end.claim) for end in crashes([(7, 2), (5, 1), (7, 1)], "killed")] == [(5, 1), (7, 2)]
