"""An app with something on every page, and a program that works at full speed while as much is fed to it.

`python -m tests.server.draining URL SCHEMA` runs until it is killed.
"""

import asyncio
import sys
from datetime import timedelta
from typing import Any

from holdfast import Budget, Context, Escalation, Holdfast, Limit, Queue, Skip
from holdfast.policies.channels import Slack
from holdfast.telemetry.settings import TelemetrySettings

QUEUES = ("default", "high", "bulk", "mail")
NAME = "default"
"""What is asked for by name has this one: a queue, a schedule, a budget and a limit."""
_FED = 500


class Done:
    """How many jobs this process has run, and how many times as many as are fed at once were run."""

    jobs = 0
    portions = asyncio.Semaphore(0)


def make_app(url: str, schema: str) -> Holdfast:
    """Make the app of the server, and of the program that works."""
    given: dict[str, Any] = {} if url.startswith("sqlite") else {"schema": schema}
    app = Holdfast(
        url,
        queues=[Queue(name, sla="1m", escalation="ops", priority=0 if name == "high" else 5) for name in QUEUES],
        limits=[Limit(name=NAME, kinds=["rich"], key="args.host", concurrency=2)],
        budgets=[Budget(name=NAME, amount="$10000", period="month", kinds=["rich"])],
        channels={"chat": Slack(url="http://127.0.0.1:9/hook")},
        escalations=[Escalation(name="ops", channels=["chat"], respond_within="15m")],
        telemetry=TelemetrySettings(metrics=True),
        **given,
    )

    @app.task
    async def work(n: int) -> None:
        Done.jobs += 1
        if Done.jobs % _FED == 0:
            Done.portions.release()

    @app.task(queue="high", budget=NAME, estimate="$0.02", phases=("look", "copy", "tell", "rest"))
    async def rich(ctx: Context, host: str, is_endless: bool) -> dict[str, int]:
        for name in ("look", "copy", "tell"):
            async with ctx.phase(name):
                await ctx.progress(50, f"half of {name}")
                for line in range(60):
                    ctx.log.info("line %d of %s", line, name)
        async with ctx.phase("rest"), ctx.items("pages", [f"page-{n}" for n in range(500)]) as pages:
            await pages.each(_read)
            await ctx.spend("$0.01", note=host)
            if is_endless:
                async with ctx.lock("edition", host):
                    await asyncio.Event().wait()
        return {"pages": 500}

    app.schedule(every="6h", name=NAME)(work)
    for number in range(20):
        app.schedule(every=timedelta(hours=1 + number), name=f"every-{number}")(work)
    return app


async def _read(page: str) -> None:
    number = int(page.removeprefix("page-"))
    if number % 10 == 0:
        raise Skip(page)
    if number % 33 == 0:
        raise LookupError(page)


async def main(url: str, schema: str) -> None:
    """Work, and enqueue as many jobs as were worked off, so that there are always as many."""
    app = make_app(url, schema)

    async def feed() -> None:
        while True:
            await Done.portions.acquire()
            await app.enqueue_many([app.tasks.get("work").call(n=1) for _ in range(_FED)])

    async with app:
        await asyncio.gather(feed(), app.run_worker())


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
