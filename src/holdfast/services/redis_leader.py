"""Leads by a key at a Redis server, renewed on a thread of its own."""

import asyncio

from holdfast.delivery.redis_elector import RedisElector
from holdfast.election import RedisElection
from holdfast.services.leader import LEASE_S, RENEW_S, own_name


class RedisLeader:
    """Leads as long as the key is surely held; no safety rests on it."""

    def __init__(self, election: RedisElection, *, lease_s: float = LEASE_S, renew_s: float = RENEW_S) -> None:
        self._elector = RedisElector(election.url, election.key, own_name(), lease_s, renew_s)
        self.holder = self._elector.holder
        self._has_begun = False

    @property
    def is_leader(self) -> bool:
        """Whether the key is surely held."""
        return self._elector.is_leader

    async def serve(self) -> None:
        """Stand for election until this is cancelled."""
        self._has_begun = True
        self._elector.start()
        await asyncio.Event().wait()

    async def resign(self) -> None:
        """Give the key back."""
        if self._has_begun:
            await asyncio.to_thread(self._elector.stop)
