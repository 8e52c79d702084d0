"""No storm: jobs that fail together come back spread out, as the fourth seed's table of delays says."""

from collections import Counter
from datetime import UTC, datetime

import pytest

from holdfast import Holdfast, Queue, backoff
from holdfast.testing import in_memory
from tests.support.sizes import size

JOBS = size(500, 5_000)
SEED_TABLE = {1: (22.5, 37.5), 2: (45, 75), 3: (90, 150), 4: (180, 300), 5: (360, 600)}


@pytest.mark.parametrize("attempt", SEED_TABLE)
def test_delays_are_those_of_the_table(attempt: int) -> None:
    policy = backoff()
    delays = [policy.delay_ms(attempt) / 1_000 for _ in range(1_000)]
    shortest, longest = SEED_TABLE[attempt]
    assert shortest <= min(delays) < shortest * 1.1
    assert longest * 0.95 < max(delays) <= longest


async def test_jobs_that_fail_together_come_back_spread_out() -> None:
    app = Holdfast("sqlite://", queues=[Queue("default")])

    @app.task(max_attempts=5)
    async def call_out() -> None:
        message = "the dependency is down"
        raise ConnectionError(message)

    async with in_memory(app) as jobs:
        begun = await jobs.clock.freeze(datetime(2030, 1, 1, tzinfo=UTC))
        await app.enqueue_many(call_out.call() for _ in range(JOBS))
        assert await jobs.drain() == []
        failed = [job async for job in app.jobs.iterate()]
        assert {(job.state, job.attempt) for job in failed} == {("scheduled", 1)}
        assert len(failed) == JOBS
        seconds = Counter(int((job.run_at - begun).total_seconds()) for job in failed)
    assert min(seconds) >= 22
    assert max(seconds) <= 38
    spread = max(seconds) - min(seconds) + 1
    assert max(seconds.values()) <= 3 * JOBS / spread, seconds
