"""Let the effect of a job and its completion be one commit: the job may run twice, its effect happens once."""

import asyncio
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

from holdfast import Context, Holdfast, backoff

FILE = Path(tempfile.mkdtemp()) / "shop.db"

app = Holdfast(f"sqlite:///{FILE}", retry=backoff("fixed", "100ms", jitter=0))


@app.task
async def pay_out(ctx: Context, customer: str, amount: int) -> int:
    """Book a payment; the first attempt fails in the middle of it."""
    async with ctx.transaction() as tx:
        tx.connection.execute("INSERT INTO payments VALUES (?, ?)", (customer, amount))
        if ctx.job.attempt == 1:
            message = "the power went out"
            raise RuntimeError(message)
        (balance,) = tx.connection.execute("SELECT sum(amount) FROM payments").fetchone()
        tx.result = balance
    return int(balance)  # ignored: leaving the block has completed the job


async def main() -> None:
    """Two runs, one payment."""
    with closing(sqlite3.connect(FILE)) as shop:
        shop.execute("CREATE TABLE payments (customer TEXT, amount INTEGER)")
    async with app:
        stop = asyncio.Event()
        worker = asyncio.create_task(app.run_worker(stop=stop))
        handle = await pay_out.enqueue("ada", amount=40)
        print("balance: ", await handle.result(timeout="10s"))
        stop.set()
        await worker
        print("attempts:", (await handle.get()).attempt)
    with closing(sqlite3.connect(FILE)) as shop:
        print("payments:", shop.execute("SELECT * FROM payments").fetchall())


if __name__ == "__main__":
    asyncio.run(main())
