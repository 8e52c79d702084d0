"""Limits: which are in force, how much of each is in use, and changing their settings at run time."""

from typing import Any, Protocol

from holdfast import names, public_id
from holdfast.client.in_force import policy_path
from holdfast.client.policies import Policies
from holdfast.client.repeat import until_answered
from holdfast.errors import LimitNotFound, shown
from holdfast.policies.keys import shown_key
from holdfast.resources.limit import LimitInfo, LimitKey, SlotHolder
from holdfast.stores.limits import LimitRow, LimitStore, LimitUsage

List = list  # one of the verbs has that name


class Limits(Protocol):
    """What can be asked of limits, and done to them."""

    async def list(self) -> List[LimitInfo]:
        """Read the limits in force, by name, and how much of each is in use."""

    async def get(self, name: str, key: str | None = None) -> LimitInfo:
        """Read one limit, and how much of it is in use: under one key, or in all; LimitNotFound when there is none.

        `available` of all keys together counts the keys that were used last, and of a limit per instance what is free
        in all living instances that work its queue.
        """

    async def set(
        self, name: str, setting: str, value: Any, *, actor: str | None = None, reason: str | None = None
    ) -> LimitInfo:
        """Change a setting of a limit for all apps, within five seconds and until it is reset.

        await app.limits.set("tenant", "concurrency", 5, reason="the supplier is slow")
        """

    async def reset(self, name: str, setting: str) -> LimitInfo:
        """Let a setting of a limit be again what apps and their configuration say."""


class LocalLimits:
    """The limits of one store."""

    def __init__(self, store: LimitStore, deadline_s: float, policies: Policies) -> None:
        self._store = store
        self._deadline_s = deadline_s
        self._policies = policies

    async def list(self) -> List[LimitInfo]:
        """Read the limits in force, by name, and how much of each is in use."""
        rows = await self._rows()
        usages = {usage.name: usage for usage in await self._usages()} if rows else {}
        return [limit_info(row, usages[row.name]) for row in rows if row.name in usages]

    async def get(self, name: str, key: str | None = None) -> LimitInfo:
        """Read one limit, and how much of it is in use: under one key, or in all; LimitNotFound when there is none."""
        wanted = names.name(name, "limit")
        usage = await until_answered(
            lambda _: self._store.limit_usage(wanted, key), self._deadline_s, "limit", changes=False
        )
        row = next((row for row in await self._rows() if row.name == wanted), None)
        if usage is None or row is None:
            raise no_limit(wanted)
        return limit_info(row, usage)

    async def set(
        self, name: str, setting: str, value: Any, *, actor: str | None = None, reason: str | None = None
    ) -> LimitInfo:
        """Change a setting of a limit for all apps, within five seconds and until it is reset."""
        limit = await self.get(name)
        await self._policies.set(policy_path("limits", limit.name, setting), value, actor=actor, reason=reason)
        return await self.get(limit.name)

    async def reset(self, name: str, setting: str) -> LimitInfo:
        """Let a setting of a limit be again what apps and their configuration say."""
        limit = await self.get(name)
        await self._policies.reset(policy_path("limits", limit.name, setting))
        return await self.get(limit.name)

    async def _rows(self) -> List[LimitRow]:
        return await until_answered(lambda _: self._store.list_limits(), self._deadline_s, "limits", changes=False)

    async def _usages(self) -> List[LimitUsage]:
        return await until_answered(lambda _: self._store.limit_usages(), self._deadline_s, "limits", changes=False)


def limit_info(row: LimitRow, usage: LimitUsage) -> LimitInfo:
    """Put together what is known of one limit."""
    return LimitInfo(
        name=row.name,
        queue=row.queue,
        kinds=list(row.kinds),
        key_path=shown_key(row.path),
        concurrency=row.concurrency,
        scope=row.scope,
        throttle_us=row.throttle_us,
        burst=row.burst,
        rate_us=row.rate_us,
        rotate=row.rotate,
        fifo=row.fifo,
        metric=row.metric,
        key=usage.key,
        maximum=usage.most,
        taken=usage.taken,
        available=usage.available,
        held=usage.held,
        next_at=usage.next_at,
        holders=[
            SlotHolder(key=slot.key, job=public_id.encode(slot.job_id), claim=slot.claim, since=slot.since)
            for slot in usage.holders
        ],
        keys=[
            LimitKey(key=used.key, unit=used.sort, maximum=used.most, available=used.left, next_at=used.next_at)
            for used in usage.buckets
        ],
        has_more_keys=usage.has_more_buckets,
    )


def no_limit(name: str) -> LimitNotFound:
    """The error for a limit that is not in force."""
    return LimitNotFound(f"no limit {shown(name)} is in force: `holdfast limits list` names those that are")
