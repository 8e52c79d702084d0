"""Asking a store until it answers: an unknown outcome is resolved by asking again, never guessed."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeVar

from holdfast.errors import OutcomeUnknown, StoreUnavailable

T = TypeVar("T")

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.05, 1.0


async def pauses() -> AsyncIterator[None]:
    """Wait a little longer each time, spread so that many callers do not come back at once."""
    longest = FIRST_PAUSE_S
    while True:
        await asyncio.sleep(longest * random.uniform(0.5, 1))
        yield
        longest = min(longest * 2, LONGEST_PAUSE_S)


async def until_answered(
    ask: Callable[[bool], Awaitable[T]], deadline_s: float, what: str, *, changes: bool = True
) -> T:
    """Ask until the store answers or the deadline passes.

    `ask` is told whether an earlier asking may have had its effect, so that it can read the answer accordingly.
    What `changes` nothing (a read, drawing ids) is never in doubt afterwards.
    """
    unknown = in_flight = False
    failure: OutcomeUnknown | StoreUnavailable | None = None
    try:
        async with asyncio.timeout(deadline_s):
            waits = pauses()
            while True:
                in_flight = True
                try:
                    return await ask(unknown)
                except OutcomeUnknown as error:
                    unknown, failure = True, error  # guard: unknown-outcome, without: failure = error
                except StoreUnavailable as error:
                    failure = error
                in_flight = False
                await anext(waits)
    except TimeoutError:
        why = "the store did not answer" if failure is None else str(failure)
        if changes and (unknown or in_flight):
            message = f"{what}: no answer within {deadline_s:g} s, it may or may not have happened: {why}"
            raise OutcomeUnknown(message) from failure
        message = f"{what}: not possible within {deadline_s:g} s, nothing was changed: {why}"
        raise StoreUnavailable(message) from failure
