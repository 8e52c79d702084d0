"""Run jobs inside a program that has an event loop: progress, a failure, and the retry after it."""

import asyncio

from holdfast import Context, Fatal, Holdfast, backoff

app = Holdfast("sqlite://", retry=backoff("fixed", "200ms", jitter=0))


class ShopClosedError(Exception):
    """Stand for something that may be better next time."""


@app.task(max_attempts=3)
async def import_orders(ctx: Context, day: str) -> int:
    """Fail once, then go through the orders of a day."""
    if day == "never":
        message = "there is no such day"
        raise Fatal(message)
    if ctx.job.attempt == 1:
        message = "the shop is closed"
        raise ShopClosedError(message)
    for percent in range(0, 100, 20):
        await ctx.progress(percent, f"orders of {day}", read=percent * 10)
        await asyncio.sleep(0.05)
    return 1_000


async def main() -> None:
    """Enqueue, watch, and leave."""
    async with app:
        stop = asyncio.Event()
        worker = asyncio.create_task(app.run_worker(concurrency=5, stop=stop))

        good, bad = await import_orders.enqueue("monday"), await import_orders.enqueue("never")
        print("orders:", await good.result(timeout="10s"))

        job = await good.get()
        for attempt in job.attempts:
            print(f"attempt {attempt.attempt}: {attempt.outcome}, {attempt.error}")
        if job.progress is not None:
            print(f"last report: {job.progress.percent:g} %, {job.progress.message}, {job.progress.data}")
        print("the other one:", (await app.jobs.wait(bad.id)).error)

        stop.set()  # what runs may end; nothing more is claimed
        await worker


if __name__ == "__main__":
    asyncio.run(main())
