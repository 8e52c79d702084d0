"""SIGHUP: a worker has its app and its file read again, and goes on as it was when they are wrong."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

from holdfast import Holdfast
from tests.configuration.conftest import Write

APP = """
import asyncio
from holdfast import Holdfast

app = Holdfast.from_config("holdfast.yaml")

@app.task
async def who() -> int:
    return app.config.max_attempts

@app.task
async def sit() -> None:
    print("it sits", flush=True)
    await asyncio.sleep(0.3)
"""
FILE = "store: sqlite:///jobs.db\nworker: {{concurrency: {0}, shutdown_grace: 10s}}\ndefaults: {{max_attempts: {0}}}\n"


def heard(process: subprocess.Popen[str], text: str) -> str:
    """Read what a worker logs, up to a line with a text."""
    assert process.stderr is not None
    lines = []
    while (line := process.stderr.readline()) and text not in line:
        lines.append(line)
    assert text in line, "".join(lines)
    return "".join(lines)


async def ran(kind: str) -> tuple[str, int, object]:
    """Run a job, and give its state, its attempts and its result."""
    app = Holdfast("sqlite:///jobs.db")

    @app.task(kind=kind)
    async def work() -> int: ...  # type: ignore[empty-body] # the worker has the real one

    async with app:
        handle = await work.enqueue()
        job = await app.jobs.wait(handle.id, timeout=20)
    return job.state.value, job.attempt, job.result


async def test_the_file_is_read_again(write: Write, tmp_path: Path) -> None:
    write(APP, "reread_app.py")
    write(FILE.format(3))
    process = subprocess.Popen(
        [sys.executable, "-m", "holdfast", "worker", "-A", "reread_app:app"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        heard(process, "3 slots in 1 process")
        sitting = asyncio.create_task(ran("sit"))
        assert process.stdout is not None
        assert await asyncio.to_thread(process.stdout.readline) == "it sits\n"
        write(FILE.format(7))
        process.send_signal(signal.SIGHUP)
        heard(process, "7 slots in 1 process")
        assert await sitting == ("completed", 1, None), "what ran could end"
        assert await ran("who") == ("completed", 1, 7)
        write(FILE.format("many"))
        process.send_signal(signal.SIGHUP)
        heard(process, "what was read is not used, and the worker goes on as it was")
        heard(process, "importing reread_app: holdfast.yaml: 2 errors")
        heard(process, "worker.concurrency: expected a whole number from 1 to 10000, got 'many'")
        heard(process, "defaults.max_attempts: expected a whole number")
        assert await ran("who") == ("completed", 1, 7)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 0
    finally:
        process.kill()
        process.communicate()
