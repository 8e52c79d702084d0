"""Test code that enqueues: an app in memory, and a clock that the test moves."""

import asyncio
from datetime import UTC, datetime

from holdfast import Holdfast
from holdfast.testing import in_memory

app = Holdfast("postgresql://localhost/shop")  # the test never connects to it


@app.task
async def remind(email: str, text: str) -> None:
    """Stand for real work."""


async def sign_up(email: str) -> None:
    """Be the code under test."""
    async with app:
        await remind.using(run_in="1d", unique=email, unique_for="3d").enqueue(email, "Finish your profile")


async def test_sign_up_reminds_once_in_three_days() -> None:
    """Prove it without a database, a worker or a sleep."""
    async with in_memory(app) as jobs:
        start = await jobs.clock.freeze(datetime(2030, 1, 1, tzinfo=UTC))
        await sign_up("ada@example.org")
        await sign_up("ada@example.org")
        (job,) = await jobs.assert_enqueued(remind, email="ada@example.org")
        print("one reminder, due after", job.run_at - start)

        await jobs.app.cancel(job.id)
        await jobs.clock.advance("2d")
        await sign_up("ada@example.org")
        print("two days later:", len(await jobs.enqueued(remind)))

        await jobs.clock.advance("2d")
        await sign_up("ada@example.org")
        print("four days later:", len(await jobs.enqueued(remind)))
        await jobs.assert_not_enqueued(remind, email="grace@example.org")


if __name__ == "__main__":
    asyncio.run(test_sign_up_reminds_once_in_three_days())
