"""An app with one pipeline, whose phases write down that they began; the second one lasts until it is told to end."""

import os
from pathlib import Path
from typing import Any

from holdfast import Context, Holdfast, Pipeline, WorkerSettings, phase
from tests.support.wait import until

ENV = os.environ
_GATE_S = 600.0  # longer than any test

app = Holdfast(
    ENV.get("CHAOS_URL", "sqlite://"),
    schema=ENV.get("CHAOS_SCHEMA", "holdfast"),
    worker=WorkerSettings(concurrency=2, lease=10.0),
)


def note(what: str, ctx: Context) -> None:
    """Append one line to the ledger of all processes."""
    line = f"{what} {ctx.job.number} {ctx.job.claim} {os.getpid()} 0\n"
    file = os.open(ENV["CHAOS_LEDGER"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(file, line.encode())
    finally:
        os.close(file)


@app.task(on_retry="restart" if "CHAOS_FORGETS" in ENV else "resume")
class Work(Pipeline):
    """Draw something that no other run would, and hold on to it through whatever happens."""

    @phase
    async def draw(self, ctx: Context) -> str:
        """Draw."""
        note("draw", ctx)
        return os.urandom(8).hex()

    @phase(weight=3)
    async def hold(self, ctx: Context) -> list[Any]:
        """Work through items, the last of which lasts until it is told to end."""
        note("hold", ctx)

        async def one(key: str) -> None:
            note(f"item-{key}", ctx)
            if key == "last":
                await until(Path(ENV["CHAOS_LEDGER"] + ".go").exists, "the test has opened the gate", _GATE_S)

        async with ctx.items("parts", ["first", "second", "last"], concurrency=1) as items:
            await ctx.progress(50, "holding", claim=ctx.job.claim)
            await items.each(one)
        return [ctx.job.claim, ctx.result("draw")]

    @phase
    def give(self, ctx: Context) -> dict[str, Any]:
        """Return what was drawn and held."""
        note("give", ctx)
        return dict(ctx.results)


@app.task(executor="process")
class Away(Work):
    """Do the same in a process of its own."""
