"""Whether this machine is let in without a token: as long as there is none, and never again after that."""

import asyncio
import logging
import time

from holdfast.server.served import Served

_logger = logging.getLogger("holdfast")

LOOK_S = 2.0


class Latch:
    """Falls shut with the first token that somebody makes, and does not open when the last one is revoked."""

    def __init__(self, served: Served) -> None:
        self._served = served
        self._is_up = served.is_open
        self._looked_at: float | None = None
        self._looking = asyncio.Lock()

    async def is_up(self) -> bool:
        """Whether there is no token yet, as was seen within the last seconds; those who ask meanwhile share a look."""
        if not self._is_up:
            return False
        async with self._looking:
            now = time.monotonic()
            if self._is_up and (self._looked_at is None or now - self._looked_at >= LOOK_S):
                self._is_up = not await (await self._served.opened()).store.has_token()  # guard: local-until-token
                self._looked_at = now
                if not self._is_up:
                    _logger.warning("somebody has made a token, so nobody is let in without one any more")
        return self._is_up
