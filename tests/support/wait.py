"""Waiting for a condition; a test says what it waits for, never how long.

Where a worker, a service or a store publishes the moment, `tests.support.moments` waits for it without polling.
"""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable

PATIENCE_S = 30.0  # after which a test has failed, however busy the machine is
_PAUSE_S = 0.002
_LONGEST_PAUSE_S = 0.05


async def until(
    condition: Callable[[], object] | Callable[[], Awaitable[object]],
    what: str = "it is so",
    patience_s: float = PATIENCE_S,
) -> None:
    """Ask until the answer is yes."""
    end, pause = time.monotonic() + patience_s, _PAUSE_S
    while True:
        answer = condition()
        if await answer if inspect.isawaitable(answer) else answer:
            return
        assert time.monotonic() < end, f"waited {patience_s:g} s in vain until {what}"
        await asyncio.sleep(pause)
        pause = min(pause * 1.5, _LONGEST_PAUSE_S)


def wait_until(condition: Callable[[], object], what: str = "it is so", patience_s: float = PATIENCE_S) -> None:
    """Ask likewise where there is no event loop."""
    end, pause = time.monotonic() + patience_s, _PAUSE_S
    while not condition():
        assert time.monotonic() < end, f"waited {patience_s:g} s in vain until {what}"
        time.sleep(pause)
        pause = min(pause * 1.5, _LONGEST_PAUSE_S)
