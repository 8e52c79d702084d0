"""An app whose handlers bring everything down at once, as the kernel does to a container that has no memory left."""

import contextlib
import os
import signal
from pathlib import Path

from holdfast import Context, Holdfast, WorkerSettings
from tests.support.ledger_app import block_for, note, work_for

ENV = os.environ
NAME = "CHAOS_CONTAINER"  # in the environment of all its processes; its value is a folder

app = Holdfast(
    ENV.get("CHAOS_URL", "sqlite://"),
    schema=ENV.get("CHAOS_SCHEMA", "holdfast"),
    worker=WorkerSettings(lease=float(ENV.get("CHAOS_LEASE", "10")), transaction_budget=0.2),
)


@app.task
async def on_the_loop(ctx: Context) -> None:
    """Bring everything down from the event loop."""
    note("begin", ctx)
    bring_down()


@app.task
def in_a_thread(ctx: Context) -> None:
    """Bring everything down from a thread."""
    note("begin", ctx)
    bring_down()


@app.task(executor="process")
def in_a_process(ctx: Context) -> None:
    """Bring everything down from a process of its own."""
    note("begin", ctx)
    bring_down()


@app.task
async def patient(ctx: Context, ms: int) -> None:
    """Work a while on the event loop."""
    note("begin", ctx)
    await work_for(ms)
    note("end", ctx)


@app.task
def busy(ctx: Context, ms: int) -> None:
    """Work a while in a thread."""
    note("begin", ctx)
    block_for(ms)
    note("end", ctx)


def bring_down() -> None:
    """Kill every process of the container; the supervisor first, with which the kernel kills the others."""
    others = [pid for pid in _inside(ENV[NAME]) if pid != os.getpid()]
    for number in (signal.SIGSTOP, signal.SIGKILL):
        if number is signal.SIGKILL and "CHAOS_LOSES_MARKS" in ENV:
            for file in Path(ENV[NAME]).rglob("*.marks"):
                file.unlink(missing_ok=True)
        for pid in others:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
    os.kill(os.getpid(), signal.SIGKILL)


def _inside(name: str) -> list[int]:
    """List the processes of a container, the oldest first."""
    found: list[tuple[int, int]] = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if f"{NAME}={name}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                born = (folder / "stat").read_text().rpartition(")")[2].split()[19]
                found.append((int(born), int(folder.name)))
    return [pid for _, pid in sorted(found)]
