"""Publishes what a program defines of its kinds, queues, limits and budgets."""

import asyncio
import logging
from collections.abc import Callable

from holdfast.client.definitions import Definitions
from holdfast.client.settling import SettledStore, publish, settle
from holdfast.config import Settings
from holdfast.delivery.delivery import Delivery
from holdfast.errors import HoldfastError

_logger = logging.getLogger("holdfast")

_AGAIN_S = 1.0
_LOOKS_S = 30.0  # within which a change takes effect of a process that died in the middle of it


class PolicyPublisher:
    """Publishes the policies of one program at its start, and keeps what holds in step with what was changed."""

    def __init__(
        self,
        store: SettledStore,
        delivery: Delivery,
        settings: Settings,
        definitions: Definitions,
        worker: Callable[[], int | None],
    ) -> None:
        self.published = asyncio.Event()
        self._store = store
        self._delivery = delivery
        self._settings = settings
        self._definitions = definitions
        self._worker = worker
        self._noted: int | None = None

    async def serve(self) -> None:
        """Publish, then look once in a while; a store that is away is asked again."""
        while True:
            try:
                await self._round()
            except HoldfastError as error:
                _logger.warning("policies are published later: %s", error)
                await asyncio.sleep(_AGAIN_S)
            else:
                await asyncio.sleep(_LOOKS_S)

    async def _round(self) -> None:
        if self.published.is_set():
            await settle(self._store)
        else:
            moved = await publish(self._store, self._settings, self._definitions)
            self.published.set()
            if moved:
                self._delivery.hint(moved)
        worker = self._worker()
        if worker is not None and worker != self._noted:
            await self._store.note_policies(worker, self._definitions.fingerprints())
            self._noted = worker
