"""Who of many processes runs the services: a lease in the store, or a key at Redis.

Nothing but promptness rests on it: two leaders cost work and never correctness. Any error means "not leader".
"""

import asyncio
import logging
import os
import random
import socket
import time
import uuid
from typing import Protocol

from holdfast import moments
from holdfast.config import Settings
from holdfast.errors import HoldfastError
from holdfast.stores.cluster import LeaderStore

_logger = logging.getLogger("holdfast")

LEASE = "upkeep"  # as the last release calls it, whose processes take part in the same election
LEASE_S = 10.0
RENEW_S = 3.0
CAMPAIGN_S = 0.9  # so that a lease that has ended is noticed within a second
MARGIN_S = 1.0  # for which the own clock may be slower than the store's
_FAREWELL_S = 1.0


class Leadership(Protocol):
    """A way to find one leader among many processes."""

    holder: str

    @property
    def is_leader(self) -> bool:
        """Whether this process leads, as far as it can know."""

    async def serve(self) -> None:
        """Campaign and renew for ever."""

    async def resign(self) -> None:
        """Let another lead at once; never raises."""


def own_name() -> str:
    """Name this process so that no other has the same name: two containers may share host name and process id."""
    return f"{socket.gethostname()}/{os.getpid()}/{uuid.uuid4().hex[:12]}"


class StoreLeader:
    """Leads by a lease in the store."""

    def __init__(
        self,
        store: LeaderStore,
        *,
        lease: str = LEASE,
        lease_s: float = LEASE_S,
        renew_s: float = RENEW_S,
        campaign_s: float = CAMPAIGN_S,
    ) -> None:
        self.holder = own_name()
        self.term: int | None = None  # of the last lease that was ours, so that a late renewal names it
        self._store = store
        self._lease = lease
        self._lease_s = lease_s
        self._renew_s = renew_s
        self._campaign_s = campaign_s
        self._until = 0.0  # by the monotonic clock, a margin before the store's
        self._was_leader = False

    @property
    def is_leader(self) -> bool:
        """Whether the lease is surely still ours."""
        return time.monotonic() < self._until

    async def serve(self) -> None:
        """Campaign and renew for ever."""
        while True:
            await self.ask()
            pause = self._renew_s if self.is_leader else self._campaign_s
            await asyncio.sleep(pause * random.uniform(0.9, 1.0))

    async def ask(self) -> None:
        """Ask once for the lease, or to keep it."""
        asked_at = time.monotonic()
        try:
            term = await self._store.lead(self._lease, self.holder, self.term, round(self._lease_s * 1_000))
        except Exception as error:  # noqa: BLE001 - whatever it is, it means "not leader" until the next answer
            self._until = 0.0
            level = logging.DEBUG if isinstance(error, HoldfastError) else logging.WARNING
            _logger.log(level, "nobody knows who leads: %s: %s", type(error).__name__, error)
            self._tell()
            return
        self.term = term
        # guard: leader-from-asking, without: self._until = time.monotonic() + self._lease_s - MARGIN_S
        self._until = 0.0 if term is None else asked_at + self._lease_s - min(MARGIN_S, self._lease_s / 5)
        self._tell()

    async def resign(self) -> None:
        """Let another lead at once."""
        self._until = 0.0
        if self.term is None:
            return
        try:
            async with asyncio.timeout(_FAREWELL_S):
                await self._store.resign(self._lease, self.holder, self.term)
        except Exception as error:  # noqa: BLE001 - a farewell that fails costs the others some seconds
            _logger.debug("the lease of the leader ends by itself: %s", error)

    def _tell(self) -> None:
        if self.is_leader != self._was_leader:
            self._was_leader = self.is_leader
            moments.reach("elected" if self.is_leader else "deposed", holder=self.holder, term=self.term)
            words = "leads" if self.is_leader else "does not lead any more"
            _logger.info("%s %s (term %s)", self.holder, words, self.term)


def make_leadership(settings: Settings, store: LeaderStore) -> Leadership:
    """Lead by a lease in the store, or by a key at Redis if the settings say so."""
    if settings.leader is None:
        return StoreLeader(store)
    from holdfast.services.redis_leader import RedisLeader  # noqa: PLC0415 - only who uses Redis needs its package

    return RedisLeader(settings.leader)
