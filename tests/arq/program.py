"""What the Arq workers of these tests run: `python -m arq tests.arq.program.WorkerSettings`."""

import asyncio
import logging
import math
import os
from pathlib import Path
from typing import Any

from holdfast import Holdfast, Retry, WorkerSettings as Work  # isort: skip - another class bears that name here
from holdfast.arq import arq_worker_settings
from holdfast.arq_delivery import ArqDelivery
from tests.support.lines import whole_lines
from tests.support.wait import until

FOLDER = Path(os.environ.get("ARQ_TEST_FOLDER", "."))

# Lanes are read once an hour: whatever runs was delivered by Arq.
WORK = Work(embedded_lease="2s", transaction_budget="200ms", poll="1h", shutdown_grace="20s")


def make_app(url: str, schema: str, redis_url: str, queue: str) -> Holdfast:
    """Make the app that the tests and their workers share."""
    app = Holdfast(url, schema=schema, delivery=ArqDelivery(redis_url, queue), worker=WORK)
    app.task(max_crashes=1_000)(work)
    app.task(max_attempts=3)(flaky)
    return app


async def work(name: str) -> str:
    """Say that it has begun, wait for its gate if there is one, and say that it has ended."""
    await begin(name)
    await asyncio.sleep(0.01)  # so that those who are killed are killed at work
    note(f"end {name}")
    return name.upper()


async def begin(name: str) -> None:
    """Say so, and wait for the gate."""
    note(f"begin {name}")
    gate = FOLDER / f"closed-{name}"
    await until(lambda: not gate.exists(), "the gate opens", math.inf)


async def flaky(name: str) -> str:
    """Fail once, and wait until the test sets when it is due."""
    note(f"begin {name}")
    if noted().count(f"begin {name}") == 1:
        raise Retry(delay="1h")
    return name.upper()


async def add(_ctx: dict[str, Any], payload: dict[str, Any]) -> int:
    """Be a function of the deployment's own."""
    return int(payload["a"]) + int(payload["b"])


async def linger(_ctx: dict[str, Any], payload: dict[str, Any]) -> None:
    """Be another one, which waits for its gate."""
    await begin(payload["name"])


def note(line: str) -> None:
    """Append a line to what all workers of a test have done."""
    with (FOLDER / "noted").open("a") as file:
        file.write(f"{line}\n")


def noted(folder: Path = FOLDER) -> list[str]:
    """Read what all workers of a test have done."""
    file = folder / "noted"
    return whole_lines(file)


if "ARQ_TEST_URL" in os.environ:
    logging.basicConfig(level=logging.INFO)
    WorkerSettings = arq_worker_settings(
        make_app(
            os.environ["ARQ_TEST_URL"],
            os.environ["ARQ_TEST_SCHEMA"],
            os.environ["ARQ_TEST_REDIS"],
            os.environ["ARQ_TEST_QUEUE"],
        ),
        functions=[add, linger],
        max_jobs=int(os.environ["ARQ_TEST_JOBS"]),
        job_timeout=os.environ["ARQ_TEST_TIMEOUT"],
        poll_delay=0.05,
    )
