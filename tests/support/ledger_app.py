"""The app that chaos runs: every handler writes down when it began and ended, and some have an effect in the store."""

import asyncio
import os
import re
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

from holdfast import Context, Holdfast, WorkerSettings, backoff
from tests.support.wait import until

ENV = os.environ
_GATE_S = 600.0  # for which a handler waits: longer than any test
EFFECTS = "effects"


def _worker() -> WorkerSettings:
    lease = float(ENV.get("CHAOS_LEASE", "10"))
    return WorkerSettings(
        concurrency=int(ENV.get("CHAOS_CONCURRENCY", "4")),
        lease=lease,
        kill_grace=float(ENV.get("CHAOS_KILL_GRACE", "5")),
        shutdown_grace=float(ENV.get("CHAOS_GRACE", "10")),
        transaction_budget=min(lease / 10, 1.0),
    )


app = Holdfast(
    ENV.get("CHAOS_URL", "sqlite://"),
    schema=ENV.get("CHAOS_SCHEMA", "holdfast"),
    retry=backoff("fixed", "0.1s"),
    worker=_worker(),
    deadline=ENV.get("CHAOS_DEADLINE", "10s"),
)


def note(what: str, ctx: Context) -> None:
    """Append one line to the ledger of this process; O_APPEND keeps lines of many processes apart."""
    if "CHAOS_LEDGER" not in ENV:
        return
    line = f"{what} {ctx.job.number} {ctx.job.claim} {os.getpid()} {time.monotonic():.6f}\n"
    file = os.open(Path(ENV["CHAOS_LEDGER"]), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(file, line.encode())
    finally:
        os.close(file)


async def write_effect(connection: Any, ctx: Context) -> None:
    """Write the row that must be there once, if the job completed."""
    if ENV["CHAOS_URL"].startswith("sqlite"):
        connection.execute(f"INSERT INTO {EFFECTS} VALUES (?, ?)", (ctx.job.number, ctx.job.claim))
    else:
        await connection.execute(f"INSERT INTO {EFFECTS} VALUES ($1, $2)", ctx.job.number, ctx.job.claim)


async def opened(gate: str) -> None:
    """Wait until the test has made a file: it is another process, and a file is what it can tell all of these by."""
    await until(Path(gate).exists, "the test has opened the gate", _GATE_S)


async def work_for(ms: float) -> None:
    """Be busy on the event loop as a handler that waits for another system is: the load that faults strike."""
    await asyncio.sleep(ms / 1_000)


def block_for(ms: float) -> None:
    """Be busy likewise, and keep the thread."""
    time.sleep(ms / 1_000)


@app.task(queue="effects")
async def gated_effect(ctx: Context, gate: str) -> None:
    """Wait until a file for this claim is there, then write a row in the transaction that completes the job."""
    note("begin", ctx)
    await opened(f"{gate}-{ctx.job.claim}")
    async with ctx.transaction() as tx:
        await write_effect(tx.connection, ctx)
    note("end", ctx)


@app.task(queue="effects")
async def effect(ctx: Context, ms: int) -> int:
    """Work a while, then write a row in the transaction that completes the job."""
    note("begin", ctx)
    await work_for(ms)
    async with ctx.transaction() as tx:
        await write_effect(tx.connection, ctx)
        tx.result = ms
    note("end", ctx)
    return ms


@app.task
async def plain(ctx: Context, ms: int) -> int:
    """Work a while on the event loop."""
    note("begin", ctx)
    await work_for(ms)
    note("end", ctx)
    return ms


@app.task
def threaded(ctx: Context, ms: int) -> int:
    """Work a while in a thread."""
    note("begin", ctx)
    block_for(ms)
    note("end", ctx)
    return ms


@app.task(executor="process")
def spawned(ctx: Context, ms: int) -> int:
    """Work a while in a process."""
    note("begin", ctx)
    block_for(ms)
    note("end", ctx)
    return ms


@app.task
async def poison(ctx: Context, way: str) -> None:
    """Bring the process down."""
    note("begin", ctx)
    if way == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif way == "abort":
        os.abort()
    else:  # grow until somebody outside notices; ctx.job names what the watcher looks for
        hoard = []
        while True:
            hoard.append(bytearray(8_000_000))
            block_for(10)


@app.task(timeout=ENV.get("CHAOS_HOG_TIMEOUT", "20s"), max_attempts=1)
async def hog(ctx: Context, way: str) -> None:
    """Keep the event loop, or the whole interpreter, from going on."""
    note("begin", ctx)
    if way == "loop":
        threading.Event().wait()
    elif way == "gil":
        re.match(r"(a+)+$", "a" * 60 + "b")
    else:
        await asyncio.Event().wait()


@app.task
async def patient(ctx: Context, ms: int) -> int:
    """Work a while, and write down when somebody asks to stop."""
    note("begin", ctx)
    try:
        await work_for(ms)
    except asyncio.CancelledError:
        note("cancel", ctx)
        raise
    note("end", ctx)
    return ms


@app.task
async def gated(ctx: Context, gate: str) -> None:
    """Work until a file is there, and write down when it is asked to stop."""
    note("begin", ctx)
    try:
        await opened(gate)
    except asyncio.CancelledError:
        note("cancel", ctx)
        raise
    note("end", ctx)


@app.task
def orphans(ctx: Context, count: int) -> None:
    """Leave processes behind that nobody waits for, and that do not end by themselves."""
    note("begin", ctx)
    for _ in range(count):
        subprocess.run(["sh", "-c", "sleep 600 & exit 0"], check=True)
    note("end", ctx)


if "CHAOS_OLD" not in ENV:  # what a release before this one did not know

    @app.task
    async def newcomer(ctx: Context, ms: int) -> int:
        """Work a while, in new releases only."""
        note("begin", ctx)
        await work_for(ms)
        note("end", ctx)
        return ms


@app.task(queue="effects")
async def life(ctx: Context, ms: int) -> int:
    """Do whatever a job can do: report, enqueue another job, fail once, and write a row as it completes."""
    note("begin", ctx)
    ctx.progress(10, "begun")
    await work_for(ms)
    async with app:
        await plain.using(key=f"child of {ctx.job.number}").enqueue(ms=0)
    if ctx.job.attempt == 1:
        message = "once more"
        raise RuntimeError(message)
    ctx.progress(90, "nearly done")
    async with ctx.transaction() as tx:
        await write_effect(tx.connection, ctx)
        tx.result = ms
    note("end", ctx)
    return ms


@app.task
async def forker(ctx: Context) -> None:
    """Start a program that would outlive the job by far."""
    _start_a_program(ctx)
    await asyncio.Event().wait()


@app.task(executor="process")
def spawned_forker(ctx: Context) -> None:
    """Start such a program from a process task."""
    _start_a_program(ctx)
    threading.Event().wait()


def _start_a_program(ctx: Context) -> None:
    program = subprocess.Popen(["sleep", "600"])
    Path(ENV["CHAOS_PROGRAM"]).write_text(f"{program.pid} {os.getpid()}\n")
    note("begin", ctx)
