"""Hearing of cancellations as soon as they are asked for; without a hint they come with the next renewal."""

import asyncio

from holdfast.errors import HoldfastError
from holdfast.stores.store import WorkStore
from holdfast.worker.custody import Custody
from holdfast.worker.pump import Pump


class Cancels:
    """Looks for claims of one worker that are asked to stop."""

    def __init__(self, store: WorkStore, pump: Pump, custody: Custody) -> None:
        self._store = store
        self._pump = pump
        self._custody = custody
        self._is_hinted = asyncio.Event()

    def look(self) -> None:
        """Look soon."""
        self._is_hinted.set()

    async def serve(self) -> None:
        """Look whenever there is a hint."""
        while True:
            await self._is_hinted.wait()
            self._is_hinted.clear()
            try:
                self._custody.cancel(await self._store.cancelled_claims(self._pump.worker))
            except HoldfastError:  # the next renewal brings it
                continue
