"""What tests of a worker with delivery by Redis share: looking inside, and being impatient."""

import asyncio
import dataclasses
from collections.abc import Callable
from typing import Any

from holdfast import Holdfast, JobHandle, JobState
from holdfast.delivery.redis import ByRedis
from tests.support.wait import until
from tests.support.workers import BRISK, Working, ended

SELDOM = dataclasses.replace(BRISK, poll="30s")  # so that what starts promptly did so by a hint
PROMPT_S = 2.0  # about a second, on a machine that does other things too


def carried(app: Holdfast) -> ByRedis:
    found = app.client.delivery
    assert isinstance(found, ByRedis)
    return found


async def settled_in(app: Holdfast, busy: Working) -> None:
    """Wait until a worker depends on Redis: it has read its lanes, and once more when it heard hints of the store."""
    listening = busy.worker._promoter.listening
    assert listening is not None

    def has_settled() -> bool:
        return carried(app).is_live and listening.is_live and busy.worker._pump.is_dry

    await until(has_settled, "both servers have answered, and no lane is read any more")


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
