"""The app whose handlers hold a lock until they are killed, or for a moment."""

import asyncio
import threading

from holdfast import Context, Holdfast
from tests.support import ledger_app as work

app = Holdfast(
    work.app.config.url,
    schema=work.app.config.schema,
    retry=work.app.config.retry,
    worker=work.app.config.worker,
)


@app.task
async def hold(ctx: Context, name: str) -> int:
    """Hold a lock, and write down when that began and ended."""
    async with ctx.lock(name) as lock:
        work.note("begin", ctx)
        await asyncio.Event().wait()
        work.note("end", ctx)
        return lock.token


@app.task
async def hold_until(ctx: Context, name: str, gate: str) -> int:
    """Hold a lock until a file is there."""
    async with ctx.lock(name) as lock:
        work.note("begin", ctx)
        await work.opened(gate)
        work.note("end", ctx)
        return lock.token


@app.task(executor="process")
def hold_in_a_process(ctx: Context, name: str) -> int:
    """Do the same in a process of its own."""
    with ctx.lock(name) as lock:
        work.note("begin", ctx)
        threading.Event().wait()
        work.note("end", ctx)
        return lock.token
