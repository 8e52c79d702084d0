"""A module with tasks that run in processes of their own, written anew for each test: its app knows its store."""

import importlib
import itertools
import sys
from pathlib import Path
from types import ModuleType

SOURCE = """
import asyncio, contextvars, os, pathlib, signal, subprocess, sys, threading, time
from contextlib import asynccontextmanager
from typing import Any
from holdfast import Budget, Cancel, Context, Fatal, Holdfast, Pipeline, Skip, Snooze, WorkerSettings, backoff, phase

folder = pathlib.Path({folder!r})
tenant = contextvars.ContextVar("tenant", default="nobody")

if os.environ.get("ERRANDS_BROKEN") and os.getpid() != {pid!r}:
    raise ImportError("this module cannot be imported elsewhere")

@asynccontextmanager
async def lifespan(app):
    yield {{"pid": os.getpid()}}

app = Holdfast(
    {url!r}, schema={schema!r}, lifespan=lifespan, synchronous="normal", retry=backoff("fixed", "1h", jitter=0),
    budgets=[Budget(name="ai", amount="$10", period="day", kinds=["spend"])],
    worker=WorkerSettings(embedded_lease="10s", transaction_budget="1s", kill_grace="300ms", poll="100ms"),
)

@app.around
async def set_tenant(ctx, call):
    tenant.set(f"tenant of {{ctx.job.kind}}")
    return await call()

def process(function=None, **options):
    return app.task(executor="process", **options) if function is None else app.task(executor="process")(function)

@process
async def add(ctx: Context, a: int, b: int) -> dict:
    return {{"sum": a + b, "pid": os.getpid(), "state": ctx.state["pid"], "tenant": tenant.get()}}

@process
async def ask_others() -> str:
    async with app:
        return (await add.using(delay="1h").enqueue(1, 2)).id

@process
def add_in_a_thread(ctx: Context, a: int, b: int) -> dict:
    return {{"sum": a + b, "pid": os.getpid(), "state": ctx.state["pid"], "tenant": tenant.get()}}

@process
class Steps(Pipeline):
    n: int

    @phase
    async def one(self, ctx: Context) -> int:
        return self.n + 1

    @phase
    def two(self, ctx: Context) -> list:
        return [ctx.result("one"), os.getpid()]

@process
async def fail(how: str) -> None:
    if how == "raise":
        raise ValueError("no such thing")
    if how == "fatal":
        raise Fatal("give up")
    if how == "snooze":
        raise Snooze(60)
    if how == "cancel":
        raise Cancel("unwanted")
    if how == "exit":
        raise SystemExit(3)
    if how == "skip":
        raise Skip("nothing new")
    if how == "group":
        raise ExceptionGroup("several", [Fatal("give up")])

@process
def odd_result(which: str) -> Any:
    return {{"object": object(), "huge": "x" * 300_000, "nan": float("nan")}}[which]

@process
async def report(ctx: Context, times: int) -> int:
    for number in range(times + 1):
        ctx.progress(100 * number / times, f"step {{number}}\\x00\\ud800", number=number)
    return times

@process
def report_in_a_thread(ctx: Context, times: int) -> int:
    for number in range(times + 1):
        ctx.progress(100 * number / times, f"step {{number}}", number=number)
    return times

@process
async def report_badly(ctx: Context) -> str:
    try:
        ctx.progress(1, data=object())
    except Exception as error:
        return type(error).__name__

@process(timeout="30s")
def die(ctx: Context, times: int, how: str = "kill") -> str:
    if ctx.job.crashes < times:
        if how == "exit":
            os._exit(3)
        os.kill(os.getpid(), signal.SIGKILL)
    return f"alive after {{ctx.job.crashes}}"

def wait_long():
    child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
    (folder / f"{{os.getpid()}}.started").write_text(str(child.pid))
    threading.Event().wait(60)

@process(timeout="1h")
def deaf() -> None:
    wait_long()

@process(timeout="1h")
async def polite() -> None:
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", "import signal; signal.pause()")
    (folder / f"{{os.getpid()}}.started").write_text(str(child.pid))
    await asyncio.Event().wait()

@process(timeout=None)
def deaf_for_ever() -> None:
    wait_long()

@process
async def fork(how: str) -> str:
    pid = os.fork()
    if pid == 0:
        if how == "waiting":
            await asyncio.sleep(0)
            (folder / "went on").touch()
        return "the copy"
    os.waitpid(pid, 0)
    return "the original"

@process
def fork_in_a_thread() -> str:
    pid = os.fork()
    if pid == 0:
        return "the copy"
    os.waitpid(pid, 0)
    return "the original"

@process(estimate="$2")
async def spend(ctx: Context) -> list:
    seen = [str(ctx.budget)]
    await ctx.spend(1.5, note="from afar")
    await asyncio.to_thread(lambda: ctx.spend(0.25))
    return [*seen, str(ctx.budget)]

@process
async def pay(ctx: Context, number: int, how: str = "return") -> str:
    async with ctx.transaction() as tx:
        done = tx.connection.execute(f"INSERT INTO {effects} VALUES ({{number}})")
        if asyncio.iscoroutine(done):
            await done
        tx.result = f"paid {{number}}"
        if how == "inside":
            raise Fatal("no")
    if how == "after":
        raise ValueError("too late")
    if how == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    return "ignored"

@app.task
async def here() -> int:
    return os.getpid()
"""

_numbers = itertools.count()


def write(folder: Path, url: str, schema: str, pid: int) -> ModuleType:
    """Write the module, and import it under a name of its own."""
    name = f"errands_{pid}_{next(_numbers)}"
    effects = "holdfast_effects" if url.startswith("sqlite") else f"{schema}.effects"
    text = SOURCE.format(folder=str(folder), url=url, schema=schema, pid=pid, effects=effects)
    (folder / f"{name}.py").write_text(text, encoding="utf-8")
    sys.path.insert(0, str(folder))
    return importlib.import_module(name)
