"""Redis flushed, killed, silent or full while jobs flow: none lost, none finished twice, and none waits for long."""

import asyncio
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from statistics import median

import asyncpg
import pytest

from holdfast import Holdfast
from holdfast.job import JobRow, JobState
from tests.redis.program import make_app
from tests.redis.prompt import carried, known
from tests.support.figures import show
from tests.support.oracle import Oracle, all_ended, loudest
from tests.support.place import Place
from tests.support.sizes import size
from tests.support.valkey import Valkey
from tests.support.wait import until

pytestmark = [pytest.mark.real_time, pytest.mark.sample]

JOBS = size(500, 5_000)
FEEDING_S = size(6, 60)
POLL_S = 1.0
BUSY_S = 5.0  # what a machine that does other things too may add; nothing else finds a job whose id was lost
LOCKED_S = 1.9  # less than a call to Redis may take
BATCH = 5


class Feed:
    """Enqueues as a program does, and looks how long that takes."""

    def __init__(self, app: Holdfast) -> None:
        self.accepted: list[int] = []
        self.longest_s = 0.0  # that enqueuing took
        self._app = app

    async def flows(self, seconds: float) -> None:
        """Wait until so many more jobs were enqueued as are in a time."""
        wanted = len(self.accepted) + round(seconds * JOBS / FEEDING_S)
        await until(lambda: len(self.accepted) >= wanted, "jobs flow", math.inf)

    async def serve(self, jobs: int, seconds: float) -> None:
        """Enqueue jobs, a few at a time, evenly over a time."""
        task = self._app.tasks.get("effect")
        began = time.monotonic()
        for number in range(0, jobs, BATCH):
            await asyncio.sleep(max(began + seconds * number / jobs - time.monotonic(), 0))
            calls = [task.using(priority=1 + 8 * (each % 2)).call(each % 10) for each in range(BATCH)]
            asked = time.monotonic()
            handles = await self._app.enqueue_many(calls)
            self.longest_s = max(self.longest_s, time.monotonic() - asked)
            self.accepted += [known(handle) for handle in handles]


Fault = Callable[[Valkey, Feed], Awaitable[None]]


# ---- faults ----------------------------------------------------------------------------------------------------------


async def beside(act: Callable[..., object], *args: str | int) -> None:
    """Do something in a thread, to its end even if this is cancelled: a server must not be left half started."""
    acting = asyncio.ensure_future(asyncio.to_thread(act, *args))
    try:
        await asyncio.shield(acting)
    except asyncio.CancelledError:
        await acting
        raise


async def flush(valkey: Valkey, feed: Feed) -> None:
    await feed.flows(size(1, 2))
    await beside(valkey.ask, "FLUSHALL")


async def kill(valkey: Valkey, feed: Feed) -> None:
    await feed.flows(1)
    await beside(valkey.kill)
    await feed.flows(1)
    await beside(valkey.start)


async def silence(valkey: Valkey, feed: Feed) -> None:
    await feed.flows(1)
    valkey.pause()
    await feed.flows(size(4, 28))
    valkey.resume()


async def fill(valkey: Valkey, feed: Feed) -> None:
    await feed.flows(1)
    await beside(valkey.ask, "CONFIG", "SET", "maxmemory", 1)
    await feed.flows(size(4, 28))
    await beside(valkey.ask, "CONFIG", "SET", "maxmemory", 0)


@asynccontextmanager
async def happening(fault: Fault, valkey: Valkey, feed: Feed) -> AsyncIterator[None]:
    """Let a fault happen again and again, and leave the server whole."""

    async def rage() -> None:
        while True:
            await fault(valkey, feed)

    raging = asyncio.create_task(rage())
    try:
        yield
    finally:
        raging.cancel()
        await asyncio.gather(raging, return_exceptions=True)
        valkey.close()


# ---- those who look --------------------------------------------------------------------------------------------------


async def longest_idle(place: Place) -> float:
    """Look until it is cancelled for how long a session of this test keeps a transaction open and does nothing."""
    own = await asyncpg.connect(place.url.replace(f"application_name={place.schema}", "application_name=looks"))
    longest = 0.0

    async def look() -> bool:
        nonlocal longest
        found = await own.fetchval(
            "SELECT max(extract(epoch FROM clock_timestamp() - state_change)) FROM pg_stat_activity"
            " WHERE application_name = $1 AND state LIKE 'idle in transaction%'",
            place.schema,
        )
        longest = max(longest, float(found or 0))
        return False

    try:
        await until(look, "it is cancelled", math.inf)
    except asyncio.CancelledError:
        return longest
    finally:
        own.terminate()
    return longest


def waits(jobs: Sequence[JobRow]) -> list[float]:
    """How long each job waited until it was claimed."""
    return sorted((job.claimed_at - job.enqueued_at).total_seconds() for job in jobs if job.claimed_at is not None)


# ---- the tests -------------------------------------------------------------------------------------------------------


@pytest.fixture
async def app(postgres_place: Place, valkey: Valkey) -> AsyncIterator[Holdfast]:
    place = postgres_place
    place.env |= {"REDIS_TEST_HIGH": valkey.url, "REDIS_TEST_LOW": valkey.url}
    async with make_app(place.url, place.schema, valkey.url, valkey.url) as app:
        yield app


async def run_with(fault: Fault, place: Place, app: Holdfast, valkey: Valkey, **env: str) -> tuple[Feed, list[JobRow]]:
    """Let jobs flow while a fault happens, and wait until all of them have ended."""
    place.start("--processes", "2", "--concurrency", "16", app="tests.redis.program:app", **env)
    await place.arrived(2)
    feed = Feed(app)
    looking = asyncio.create_task(longest_idle(place))
    async with happening(fault, valkey, feed):
        await feed.serve(JOBS, FEEDING_S)
        jobs = await all_ended(place.store, feed.accepted, 30)
    looking.cancel()
    assert await looking < LOCKED_S
    oracle = Oracle(jobs, place.notes(), await place.effects())
    oracle.check(feed.accepted)
    assert oracle.overlaps == 0
    return feed, list(jobs.values())


@pytest.mark.timeout(180)
@pytest.mark.parametrize("fault", [flush, kill, silence, fill], ids=lambda fault: fault.__name__)
async def test_nothing_is_lost_and_nothing_waits_for_long(
    fault: Fault, postgres_place: Place, app: Holdfast, valkey: Valkey
) -> None:
    feed, jobs = await run_with(fault, postgres_place, app, valkey, REDIS_TEST_HOLES="sweep")
    assert len(jobs) == JOBS
    assert {(job.state, job.claim) for job in jobs} == {(JobState.COMPLETED, 1)}
    waited = waits(jobs)
    show(f"{fault.__name__}: {JOBS} jobs waited {median(waited) * 1e3:.1f} ms, at most {waited[-1]:.2f} s")
    show(f"enqueuing took {feed.longest_s:.2f} s at most; {carried(app).dropped} ids dropped")
    assert waited[-1] <= POLL_S + BUSY_S
    count, text = loudest(postgres_place.groups[0].said())
    assert count <= FEEDING_S * 3, text
    alive = [row for row in await postgres_place.store.list_workers() if row.dead_at is None]
    assert len(alive) == 2, "a worker process died that nobody killed"
