"""Taking the ids of jobs from a delivery that carries them: as many as can start, and none is kept from others."""

import asyncio
import contextlib
from collections.abc import Callable

from holdfast.delivery.delivery import Ready, Source
from holdfast.worker.pump import Pump

_HELD_S = 0.2  # how long ids may lie here that cannot be claimed after all
_FAREWELL_S = 1.0


class Popper:
    """Offers ids to the pump of one process."""

    def __init__(self, source: Source, pump: Pump, wake: Callable[[], None], may_claim: Callable[[], bool]) -> None:
        self._source = source
        self._pump = pump
        self._wake = wake
        self._may_claim = may_claim
        self._looks = asyncio.Event()
        self._popping: asyncio.Future[list[Ready]] | None = None

    def look(self) -> None:
        """Look whether there is room: something has ended, or a claim was answered."""
        self._looks.set()

    async def serve(self) -> None:
        """Take ids whenever there is room."""
        while True:
            if excess := self._pump.excess():
                await self._source.put_back(excess)
            if self._pump.room < 1 or not (rooms := self._pump.rooms()) or not self._may_claim():
                await self._until_room()
                continue
            asked = min(self._pump.room, sum(rooms.values()))
            popping = self._popping = asyncio.ensure_future(self._source.pop(rooms, asked))
            try:
                await asyncio.wait([popping])
            finally:
                popping.cancel()
            if popping.cancelled() or not (popped := popping.result()):
                continue
            if self._pump.is_closed:
                await self._source.put_back(popped)
                continue
            self._pump.offer(popped, abound=len(popped) >= asked)
            self._wake()

    async def close(self) -> None:
        """Leave to others what was not claimed; first nothing more is taken, or it would take what it puts back."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_FAREWELL_S):
                if self._popping is not None:
                    self._popping.cancel()
                    await asyncio.wait([self._popping])
                await self._source.put_back(self._pump.withdraw())

    async def _until_room(self) -> None:
        self._looks.clear()
        try:
            async with asyncio.timeout(_HELD_S):
                await self._looks.wait()
        except TimeoutError:
            if self._pump.has_ids and (self._pump.wanted < 1 or not self._may_claim()):
                await self._source.put_back(self._pump.withdraw())
