"""The app that chaos runs with limits: slots of a key, a pace, and a few at once in each instance."""

import os
from pathlib import Path

from holdfast import Context, Holdfast, Limit, backoff
from tests.support.ledger_app import ENV, _worker, note, opened, work_for

SLOTS = 3
RATE = 50

app = Holdfast(
    ENV.get("CHAOS_URL", "sqlite://"),
    schema=ENV.get("CHAOS_SCHEMA", "holdfast"),
    retry=backoff("fixed", "0.1s"),
    worker=_worker(),
    limits=[
        Limit(name="tenants", key="args.tenant", concurrency=SLOTS),
        Limit(name="pace", throttle=f"{RATE}/s"),
        Limit(name="shots", queue="shots", concurrency=SLOTS, scope="instance"),
    ],
)


@app.task(limits=["tenants"], max_crashes=100)
async def keyed(ctx: Context, tenant: str, ms: int) -> str:
    """Work a while for a tenant; one that has crashed runs in a process of its own, which ends with its parent."""
    written = Path(f"{ENV['CHAOS_LEDGER']}-written-{os.getpid()}")
    written.write_text(str(os.getppid()))
    written.replace(f"{ENV['CHAOS_LEDGER']}-parent-{os.getpid()}")  # whole, whenever it is killed
    note("begin", ctx)
    await work_for(ms)
    note("end", ctx)
    return tenant


@app.task(limits=["pace"])
async def paced(ctx: Context) -> None:
    """Tell when it began."""
    note("begin", ctx)
    note("end", ctx)


@app.task(queue="shots")
async def shot(ctx: Context, ms: int, gate: str) -> None:
    """Work until a file is there, and a while."""
    note("begin", ctx)
    await opened(gate)
    await work_for(ms)
    note("end", ctx)
