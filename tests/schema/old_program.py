"""A program that any release can run: `python old_program.py URL SCHEMA enqueue|work|stay`; it says which one it is.

The last of them works until a line comes, enqueues once more by itself, and works until nothing is left.
"""

import asyncio
import sys

import holdfast
from holdfast import Context, Holdfast, Pipeline, WorkerSettings, phase

url, schema, what = sys.argv[1:4]
app = Holdfast(url, schema=schema, worker=WorkerSettings(poll="100ms"))


@app.task
async def plain(number: int) -> int:
    """Give back a number."""
    return number


@app.task(max_attempts=1)
async def telling(ctx: Context, number: int) -> int:
    """Say how far it is, and fail for odd numbers."""
    await ctx.progress(50, "half way", number=number)
    if number % 2:
        message = "odd"
        raise ValueError(message)
    return number


@app.task(max_attempts=1)
class Staged(Pipeline):
    """Two phases."""

    number: int

    @phase
    async def first(self, ctx: Context) -> int:
        """Give back a number."""
        return self.number

    @phase
    async def second(self, ctx: Context) -> int:
        """Give back what the first phase gave."""
        return int(ctx.result("first"))


async def enqueue() -> None:
    """Enqueue ten of each."""
    calls = [make(number) for number in range(10) for make in (plain.call, telling.call)]
    await app.enqueue_many(calls)
    await app.enqueue_many(Staged(number=number).call() for number in range(10))
    await telling.using(unique="one", tags={"by": "key"}).enqueue(2)


async def stay() -> None:
    """Work until a line comes."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_reader(sys.stdin.fileno(), stop.set)
    worker = asyncio.create_task(app.run_worker(stop=stop))
    await (await plain.enqueue(1)).result(timeout=30)
    sys.stdout.write("works\n")
    sys.stdout.flush()
    await worker
    await enqueue()
    await app.run_worker(until="empty")


async def main() -> None:
    """Do what was asked."""
    async with app:
        if what == "enqueue":
            await enqueue()
        elif what == "work":
            await app.run_worker(until="empty")
        else:
            await stay()
    sys.stdout.write(f"{holdfast.__version__}\n")


asyncio.run(main())
