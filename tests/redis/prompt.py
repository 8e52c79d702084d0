"""What tests of a worker with delivery by Redis share: looking inside, and being impatient."""

import asyncio
import dataclasses
from collections.abc import Callable
from typing import Any

from holdfast import Holdfast, JobHandle, JobState
from holdfast.delivery.redis import ByRedis
from tests.worker.working import BRISK, Working, ended

SELDOM = dataclasses.replace(BRISK, poll="30s")  # so that what starts promptly did so by a hint
PROMPT_S = 2.0  # about a second, on a machine that does other things too


def carried(app: Holdfast) -> ByRedis:
    found = app.client.delivery
    assert isinstance(found, ByRedis)
    return found


def known(handle: JobHandle[Any]) -> int:
    assert handle.id is not None
    return handle.id


async def promptly(handle: JobHandle[Any]) -> None:
    """Wait for the end of a job, not for long."""
    async with asyncio.timeout(PROMPT_S):
        assert (await ended(handle)).state is JobState.COMPLETED


class Gate:
    """Keeps handlers waiting until it is opened."""

    def __init__(self) -> None:
        self.began = 0
        self.opened = asyncio.Event()

    async def pass_(self) -> None:
        self.began += 1
        await self.opened.wait()


def hold_claims(busy: Working) -> Callable[[], None]:
    """Let a worker claim nothing, as while a job runs that brought a process down before."""
    busy.worker._starting.is_alone = True

    def release() -> None:
        busy.worker._starting.is_alone = False
        busy.worker._exchange.wake()

    return release
