"""The pace of faults: how often one strikes, and how long it lasts; tests wait by `tests.support.wait`."""

import asyncio
from collections.abc import AsyncIterator, Callable


async def every(seconds: float | Callable[[], float], goes_on: Callable[[], object]) -> AsyncIterator[None]:
    """Strike again and again, so many seconds apart, as long as a condition holds."""
    while goes_on():
        await lasts(seconds() if callable(seconds) else seconds)
        yield


async def lasts(seconds: float) -> None:
    """Let a fault last: this pause is the fault itself, so that no signal could end it."""
    await asyncio.sleep(seconds)
