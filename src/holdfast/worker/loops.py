"""Loops that go on for as long as the worker does."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from holdfast.errors import HoldfastError

_logger = logging.getLogger("holdfast")

_PAUSE_AFTER_A_BUG_S = 0.5


async def keep_going(serve: Callable[[], Awaitable[None]]) -> None:
    """Run a loop for ever: what it did not expect is logged, and it is begun anew."""
    while True:
        try:
            await serve()
        except HoldfastError as error:
            _logger.warning("%s", error)
        except Exception:
            _logger.exception("a loop of the worker met something unexpected and is begun anew")
        await asyncio.sleep(_PAUSE_AFTER_A_BUG_S)
