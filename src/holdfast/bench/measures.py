"""What is measured, one function for each; all of them on the open app of the bench."""

import asyncio
import time
from collections.abc import Coroutine, Iterable
from pathlib import Path
from typing import Any

from holdfast.bench import ledger, usage
from holdfast.bench.app import QUEUE, app, note
from holdfast.bench.audit import RunFailed
from holdfast.bench.crew import Crew
from holdfast.bench.place import rate
from holdfast.bench.plan import COROUTINES, LONGEST_S, PICKUP_RATE

_LOOK_S = 0.005
_STALLED_S = 30.0
_SETTLE_S = 0.5


class Jobs:
    """The jobs of one round: each has a number, and a record in the ledger for each of its runs."""

    def __init__(self, path: Path) -> None:
        self.ledger = path
        self.enqueued = 0

    def next(self) -> int:
        """Give the next number."""
        self.enqueued += 1
        return self.enqueued - 1

    async def bulk(self, jobs: int) -> None:
        """Enqueue many in one call."""
        await app.enqueue_many([note.call(number=self.next()) for _ in range(jobs)])

    async def run_by(self, crew: Crew) -> None:
        """Wait until a worker has run all of them and the store shows nothing open."""
        seen, since = -1, time.monotonic()
        while (runs := ledger.count(self.ledger)) < self.enqueued or await app.store.count_jobs():
            crew.require_alive()
            if runs != seen:
                seen, since = runs, time.monotonic()
            elif time.monotonic() - since > _STALLED_S:
                raise RunFailed(await self._stalled(runs), *crew.said())
            await asyncio.sleep(_LOOK_S)

    async def _stalled(self, runs: int) -> str:
        counts = ", ".join(f"{count.jobs:,} {count.state}" for count in await app.store.count_jobs()) or "nothing"
        message = f"nothing happened for {_STALLED_S:g} s: {runs:,} of {self.enqueued:,} jobs have run, and the store"
        return f"{message} shows as open: {counts}"


# ---- enqueue -------------------------------------------------------------------------------------------------------


async def enqueue_one_by_one(jobs: Jobs, most: int) -> float:
    """Enqueue jobs, each after the commit of the last; jobs per second."""
    await note.enqueue(number=jobs.next())  # connected, and with ids in hand
    return await rate(most, lambda _: note.enqueue(number=jobs.next()))


async def enqueue_at_once(jobs: Jobs, most: int) -> float:
    """Enqueue jobs from many coroutines at the same time; jobs per second."""
    places, began = iter(range(most)), time.monotonic()
    first = jobs.enqueued

    async def some() -> None:
        for _ in places:
            await note.enqueue(number=jobs.next())
            if time.monotonic() - began > LONGEST_S:
                return

    await _together(some() for _ in range(COROUTINES))
    return (jobs.enqueued - first) / (time.monotonic() - began)


# ---- a worker ------------------------------------------------------------------------------------------------------


async def warm_up(jobs: Jobs, crew: Crew, size: int) -> None:
    """Let a fresh worker run what there is, and some more, so that nothing is timed that it does for the first time."""
    await crew.ready(app.store)
    await jobs.bulk(size)
    await jobs.run_by(crew)


async def fill(jobs: Jobs, size: int) -> float:
    """Enqueue jobs in one call, while no worker may take any; jobs per second."""
    await app.queues.pause(QUEUE)
    began = time.monotonic()
    await jobs.bulk(size)
    return size / (time.monotonic() - began)


async def drain(jobs: Jobs, crew: Crew, size: int) -> float:
    """Let a worker run the jobs that were filled in; jobs per second."""
    began = time.monotonic()
    await app.queues.resume(QUEUE)
    await app.store.announce([QUEUE])
    await jobs.run_by(crew)
    return size / (time.monotonic() - began)


async def memory(crew: Crew) -> float:
    """Tell how much memory the process that runs jobs has in use; megabytes."""
    return max([await usage.resident_mb(pid) for pid in crew.processes])


async def idle(crew: Crew, seconds: float) -> float:
    """Watch a worker that has nothing to do, its supervisor included; per cent of a core."""
    await asyncio.sleep(_SETTLE_S)
    before, began = await _cpu_s(crew), time.monotonic()
    await asyncio.sleep(seconds)
    return 100 * (await _cpu_s(crew) - before) / (time.monotonic() - began)


async def pick_up(jobs: Jobs, crew: Crew, size: int) -> list[float]:
    """Enqueue at a steady rate; milliseconds from the call of `enqueue` to the start of the handler, for each job."""
    called: dict[int, float] = {}

    async def enqueue_at(moment: float) -> None:
        await asyncio.sleep(moment - time.monotonic())
        number = jobs.next()
        called[number] = time.monotonic()
        await note.enqueue(number=number)

    began = time.monotonic() + _LOOK_S
    await _together(enqueue_at(began + place / PICKUP_RATE) for place in range(size))
    await jobs.run_by(crew)
    return [1_000 * (ran - called[number]) for number, ran in ledger.read(jobs.ledger) if number in called]


async def _cpu_s(crew: Crew) -> float:
    return sum([await usage.cpu_s(pid) for pid in (crew.supervisor, *crew.processes)])


async def _together(work: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Do several things at the same time; the first error ends all of them."""
    try:
        async with asyncio.TaskGroup() as group:
            for one in work:
                group.create_task(one)
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None
