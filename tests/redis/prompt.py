"""What tests of a worker with delivery by Redis share.

Workers look by themselves once an hour here, and nothing is announced again: a job that starts at all within the
patience of a test was delivered.
"""

import asyncio
import dataclasses
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from holdfast import Holdfast, JobHandle, JobState, Service
from holdfast.delivery.redis import ByRedis
from tests.support.builders import claim_one, crash
from tests.support.wait import until
from tests.support.workers import BRISK, Working, ended, working

SELDOM = dataclasses.replace(BRISK, poll="1h")
NO_SWEEP = {"announcements": Service(enabled=False)}


def carried(app: Holdfast) -> ByRedis:
    found = app.client.delivery
    assert isinstance(found, ByRedis)
    return found


def known(handle: JobHandle[Any]) -> int:
    assert handle.number is not None
    return handle.number


async def promptly(*handles: JobHandle[Any]) -> None:
    """Wait for the end of jobs, which no look at the store can have started."""
    for handle in handles:
        assert (await ended(handle)).state is JobState.COMPLETED


class Gate:
    """Keeps handlers waiting until it is opened."""

    def __init__(self) -> None:
        self.began = 0
        self.opened = asyncio.Event()

    async def pass_(self) -> None:
        self.began += 1
        await self.opened.wait()


@asynccontextmanager
async def working_alone(app: Holdfast, gate: Gate, **options: Any) -> AsyncIterator[Working]:
    """Let a worker run that may claim nothing until the gate opens: its job brought a process down before."""

    @app.task
    async def dangerous() -> None:
        await gate.pass_()

    await dangerous.enqueue()
    await crash(app.store, await claim_one(app.store))
    async with working(app, **options) as busy:
        await until(lambda: gate.began == 1, "the dangerous job runs")
        yield busy
