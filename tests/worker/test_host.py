"""Programs that have a worker inside and end without a word: quickly, in silence, and with nothing lost."""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import pytest

from holdfast import Holdfast, Job, JobState
from tests.support.wait import PATIENCE_S
from tests.support.workers import MakeApp

ROOT = Path(__file__).parents[2]

HEAD = """
import asyncio, os, sys, threading, time
from holdfast import Holdfast

app = Holdfast(sys.argv[1], schema=sys.argv[2])
begun = threading.Event()

@app.task
async def wait() -> None:
    begun.set()
    await asyncio.Event().wait()

@app.task
def wait_in_a_thread() -> None:
    begun.set()
    threading.Event().wait()

@app.task
async def quick() -> int:
    return os.getpid()

def leaving():
    print(f"leaving {time.monotonic()}", flush=True)

async def until_begun():
    await asyncio.to_thread(begun.wait)
"""

PROGRAMS = {
    "asyncio.run ends": """
async def main():
    async with app:
        worker = asyncio.create_task(app.run_worker())
        await wait.enqueue()
        await until_begun()
        leaving()
asyncio.run(main())
""",
    "asyncio.run ends, a thread runs": """
async def main():
    async with app:
        worker = asyncio.create_task(app.run_worker())
        await wait_in_a_thread.enqueue()
        await until_begun()
        leaving()
asyncio.run(main())
""",
    "asyncio.run ends in the first moment": """
async def main():
    async with app:
        worker = asyncio.create_task(app.run_worker())
        await wait.enqueue()
        leaving()
asyncio.run(main())
""",
    "sys.exit inside": """
async def main():
    async with app:
        worker = asyncio.create_task(app.run_worker())
        await wait.enqueue()
        await until_begun()
        leaving()
        sys.exit(0)
asyncio.run(main())
""",
    "sys.exit in the block of a worker thread": """
with app.blocking() as queue:
    queue.enqueue(quick.call())
    with app.worker_thread():
        queue.enqueue(quick.call()).result(20)
        leaving()
        sys.exit(0)
""",
}


class Ended(NamedTuple):
    """How a program ended."""

    code: int
    output: str
    errors: str
    seconds: float


def run(app: Holdfast, program: str) -> Ended:
    """Run a program to its end; the seconds count from when it meant to leave."""
    done = subprocess.run(
        [sys.executable, "-c", HEAD + program, app.config.url, app.config.schema],
        cwd=ROOT,
        env={**os.environ, "PYTHONWARNINGS": ""},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    ended_at = time.monotonic()
    leaving = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("leaving")]
    return Ended(done.returncode, done.stdout, done.stderr, ended_at - float(leaving[0]) if leaving else -1)


def jobs_of(app: Holdfast) -> list[Job]:
    """Read what is left."""
    with app.blocking() as queue:
        return queue.jobs.list().jobs


@pytest.mark.real_time  # how soon a process ends
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_that_ends_without_stopping_its_worker(make_shared_app: MakeApp, program: str) -> None:
    app = make_shared_app()
    with app.blocking():  # which makes the file
        pass
    ended = run(app, PROGRAMS[program])
    assert (ended.code, ended.errors) == (0, "")
    assert 0 <= ended.seconds < 4  # 2 s and what this machine takes to end a process while it does other things
    for job in jobs_of(app):
        expected = (JobState.COMPLETED, 1, 0) if job.kind == "quick" else (JobState.QUEUED, 0, 0)
        assert (job.state, job.attempt, job.crashes) == expected


FORKS = """
with app.worker_thread() as worker, app.blocking() as queue:
    queue.enqueue(quick.call()).result(20)
    over, done = os.pipe()
    pid = os.fork()
    if pid == 0:  # the copy of a program: it has no worker, and must not act as if it had
        os.close(done)
        os.read(over, 1)  # until the jobs below have ended
        os._exit(7)
    pids = {queue.enqueue(quick.call()).result(20) for _ in range(20)}
    assert pids == {os.getpid()}, pids
    os.close(done)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
    leaving()
"""


def test_the_copy_of_a_program_with_a_worker_claims_nothing(make_shared_app: MakeApp) -> None:
    app = make_shared_app()
    with app.blocking():
        pass
    ended = run(app, FORKS)
    assert (ended.code, ended.errors) == (0, "")
    jobs = jobs_of(app)
    assert {(job.state, job.claim) for job in jobs} == {(JobState.COMPLETED, 1)}
    assert len(jobs) == 21
