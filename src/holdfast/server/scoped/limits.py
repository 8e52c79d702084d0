"""Limits, as far as one caller may see them: which of their jobs hold slots."""

from dataclasses import replace
from typing import Any

from holdfast import names
from holdfast.client.client import LocalClient
from holdfast.client.limits import List, no_limit
from holdfast.resources.limit import LimitInfo
from holdfast.server.principal import Principal
from holdfast.server.scoped.scope import Scope


class ScopedLimits(Scope):
    """The limits of one caller."""

    def __init__(self, client: LocalClient, principal: Principal) -> None:
        super().__init__(principal)
        self._client = client

    async def list(self) -> List[LimitInfo]:
        """Read the limits in force.

        A caller for some queues sees those that jobs of these queues hold slots of, and no number that jobs of other
        queues are counted in.
        """
        limits = await self._client.limits.list()
        if self.sees_all:
            return limits
        holders = {holder.job for limit in limits for holder in limit.holders}
        jobs = (await self._client.jobs.get_many(sorted(holders))).values() if holders else ()
        own = {job.id for job in jobs if self.sees(job.queue)}  # guard: scope-limits, without: own = holders
        narrowed = [_narrowed(limit, own) for limit in limits]
        return [limit for limit in narrowed if limit.holders]

    async def get(self, name: str, key: str | None = None) -> LimitInfo:
        """Read one limit, and how much of it is in use."""
        return await self._client.limits.get(self._shared(name), key)

    async def set(
        self, name: str, setting: str, value: Any, *, actor: str | None = None, reason: str | None = None
    ) -> LimitInfo:
        """Change a setting of a limit for all apps."""
        limit, who = self._shared(name), self.acting(actor)
        return await self._client.limits.set(limit, setting, value, actor=who, reason=reason)

    async def reset(self, name: str, setting: str) -> LimitInfo:
        """Let a setting of a limit be again what apps and their configuration say."""
        return await self._client.limits.reset(self._shared(name), setting)

    def _shared(self, name: str) -> str:
        """Refuse a caller for some queues: jobs of all queues share a limit."""
        if not self.sees_all:
            raise no_limit(name)
        return names.name(name, "limit")


def _narrowed(limit: LimitInfo, jobs: set[str]) -> LimitInfo:
    holders = [holder for holder in limit.holders if holder.job in jobs]
    return replace(
        limit,
        maximum=None,
        taken=len(holders),
        available=None,
        held=0,
        next_at=None,
        holders=holders,
        keys=[],
        has_more_keys=False,
    )
