"""The tasks of a little shop; each shows one way in which a job can go."""

import asyncio
import hashlib
import os
import time

from holdfast.app import Holdfast
from holdfast.context import Context
from holdfast.outcomes import Fatal, Skip, Snooze
from holdfast.policies.budgets import Budget
from holdfast.policies.channels import Email
from holdfast.policies.escalation import Escalation
from holdfast.queues import Queue
from holdfast.retry import backoff
from holdfast.tasks.pipeline import Pipeline, phase
from holdfast.worker_settings import WorkerSettings

STORE = "HOLDFAST_DEMO_STORE"
"""The environment variable that tells a worker of the demo where its store is."""

_SOON = backoff("fixed", "600ms", jitter=0)

app = Holdfast(
    os.environ.get(STORE, "sqlite://"),
    queues=[
        Queue("urgent", priority=0, colour="#c0392b", sla="10s", escalation="ops", description="Customers wait for it"),
        Queue("reports", priority=2, workers=4, colour="#8e44ad", description="Long, with progress"),
        Queue("mail", priority=4, colour="#2980b9", sla="1m", description="Letters and labels"),
        Queue("bulk", priority=8, colour="#27ae60", description="Whenever there is room"),
    ],
    budgets=[Budget(name="ai", amount="$5", period="day", kinds=("describe_photo",))],
    channels={"mail": Email(to="ops@example.org", sender="shop@example.org")},
    escalations=[Escalation(name="ops", channels=["mail"], digest_at="08:00")],  # within the demo, nothing is sent
    synchronous="normal",
    worker=WorkerSettings(concurrency=8, processes=2, shutdown_grace="10s"),
)


@app.task(queue="bulk")
async def thumbnail(number: int) -> str:
    """Be quick."""
    await asyncio.sleep(0.05)
    return f"{number}.png"


@app.task(queue="mail")
async def send_mail(to: str) -> str:
    """Be slow, and leave the event loop to others meanwhile."""
    await asyncio.sleep(0.4)
    return f"sent to {to}"


@app.task(queue="mail")
def print_label(ctx: Context, order: int) -> str:
    """Block, in a thread of its own."""
    for _ in range(5):
        if ctx.cancelled:
            break
        time.sleep(0.1)
    return f"label {order}"


@app.task(queue="urgent", retry=_SOON, max_attempts=5)
async def charge_card(ctx: Context, order: int, *, works_on: int) -> str:
    """Fail until a certain attempt."""
    await asyncio.sleep(0.1)
    if ctx.job.attempt < works_on:
        message = f"the bank closed the connection (order {order})"
        raise ConnectionError(message)
    return f"charged on attempt {ctx.job.attempt}"


@app.task(queue="urgent", retry=_SOON, max_attempts=2)
async def call_courier(order: int) -> None:
    """Fail on every attempt."""
    await asyncio.sleep(0.1)
    message = f"no courier goes there (order {order})"
    raise LookupError(message)


@app.task(queue="urgent")
async def refund(order: int) -> None:
    """Give up at once, because another attempt would not help."""
    message = f"order {order} was never paid"
    raise Fatal(message)


@app.task(queue="reports", max_crashes=10)
async def export(ctx: Context, year: int) -> dict[str, int]:
    """Take long, and say how far it is."""
    months = 12
    for month in range(months):
        await ctx.progress(100 * month / months, f"{year}-{month + 1:02}")
        await asyncio.sleep(0.7)
    await ctx.progress(100, "written")
    return {"year": year, "months": months}


@app.task(queue="reports", executor="process", max_crashes=10)
def checksum(ctx: Context, rounds: int) -> str:
    """Compute, in a process of its own."""
    digest, parts = b"", 10
    for part in range(parts):
        digest = hashlib.pbkdf2_hmac("sha256", digest, b"demo", rounds)
        ctx.progress(100 * (part + 1) / parts, f"part {part + 1} of {parts}")
    return digest.hex()


@app.task(queue="reports", kind="import_catalogue", max_crashes=10)
class ImportCatalogue(Pipeline):
    """Go through phases, and through items of which some go wrong."""

    supplier: str

    @phase
    async def download(self, ctx: Context) -> dict[str, int]:
        """Say how far it is."""
        for part in range(5):
            ctx.log.info("part %d of %s", part + 1, self.supplier)
            await ctx.progress(20 * (part + 1), f"part {part + 1} of 5")
            await asyncio.sleep(0.2)
        return {"parts": 5}

    @phase(weight=3)
    async def convert(self, ctx: Context) -> None:
        """Let each page end by itself."""

        async def convert_one(page: str) -> None:
            await asyncio.sleep(0.25)
            if page.endswith("-07"):
                message = f"{page} has no price"
                raise ValueError(message)
            if page.endswith("-11"):
                message = "nothing on it"
                raise Skip(message)

        pages = [f"page-{number:02}" for number in range(1, 13)]
        async with ctx.items("pages", pages, concurrency=3, word="page") as items:
            await items.each(convert_one)

    @phase
    async def publish(self, ctx: Context) -> str:
        """Be done."""
        await ctx.progress(100, "published")
        return self.supplier


@app.task(queue="bulk", estimate="$0.40")
async def describe_photo(ctx: Context, photo: str) -> str:
    """Spend money of a budget."""
    await asyncio.sleep(0.2)
    await ctx.spend(0.42, note=photo)
    return f"{photo}: a red chair"


@app.schedule(every="5s")
@app.task(queue="mail")
async def count_stock(ctx: Context) -> str:
    """Run by itself, every five seconds."""
    ctx.log.info("all shelves were counted")
    return "counted"


@app.task(queue="urgent")
async def await_stock(ctx: Context) -> str:
    """Ask to be called again later."""
    looks = 2
    if ctx.job.claim <= looks:
        raise Snooze(delay="1s", reason="not in stock yet")
    return "in stock"


@app.task(queue="bulk")
async def clean_up(folder: str) -> None:
    """Find that there is nothing to do."""
    message = f"{folder} is empty"
    raise Skip(message)
