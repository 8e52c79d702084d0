"""Test code that enqueues: an app in memory, a clock that the test moves, and jobs that run when it says so."""

import asyncio
from datetime import UTC, datetime

from holdfast import Holdfast
from holdfast.testing import in_memory

app = Holdfast("postgresql://localhost/shop")  # the test never connects to it
sent: list[tuple[str, str]] = []


@app.task
async def remind(email: str, text: str) -> None:
    """Stand for a mail server that is down for a while."""
    sent.append((email, text))
    if len(sent) == 1:
        message = "the mail server is down"
        raise ConnectionError(message)


async def sign_up(email: str) -> None:
    """Be the code under test."""
    async with app:
        await remind.using(delay="1d", unique=email, unique_for="3d").enqueue(email, "Finish your profile")


async def test_sign_up_reminds_once_in_three_days() -> None:
    """Prove it without a database, a second process or a sleep."""
    async with in_memory(app) as jobs:
        start = await jobs.clock.freeze(datetime(2030, 1, 1, tzinfo=UTC))
        await sign_up("ada@example.org")
        await sign_up("ada@example.org")
        (job,) = await jobs.assert_enqueued(remind, email="ada@example.org")
        print("one reminder, due after", job.run_at - start)
        print("ended on the first day:", len(await jobs.drain()))

        await jobs.clock.advance("1d")
        print("ended after the failure:", len(await jobs.drain()))
        await jobs.clock.advance("1m")
        (job,) = await jobs.drain()
        print("ended after the retry:", job.state, "on attempt", job.attempt)

        await jobs.clock.advance("2d")
        await sign_up("ada@example.org")
        print("three days later:", len(await jobs.enqueued(remind)))


if __name__ == "__main__":
    asyncio.run(test_sign_up_reminds_once_in_three_days())
