"""Limits, over HTTP."""

from typing import Any

from holdfast.client.limits import List
from holdfast.remote.link import Link, refuse_actor
from holdfast.resources.limit import LimitInfo, LimitList
from holdfast.resources.queue import SettingRequest


class RemoteLimits:
    """The limits of a server."""

    def __init__(self, link: Link) -> None:
        self._link = link

    async def list(self) -> List[LimitInfo]:
        """Read the limits in force."""
        return (await self._link.ask(LimitList, "GET", "limits")).limits

    async def get(self, name: str, key: str | None = None) -> LimitInfo:
        """Read one limit, and how much of it is in use: under one key, or in all."""
        return await self._link.ask(LimitInfo, "GET", "limits", name, key=key)

    async def set(
        self, name: str, setting: str, value: Any, *, actor: str | None = None, reason: str | None = None
    ) -> LimitInfo:
        """Change a setting of a limit for all programs."""
        refuse_actor(actor)
        body = SettingRequest(value=value, reason=reason)
        return await self._link.ask(LimitInfo, "PUT", "limits", name, "settings", setting, body=body)

    async def reset(self, name: str, setting: str) -> LimitInfo:
        """Let a setting of a limit be again what programs and their configuration say."""
        return await self._link.ask(LimitInfo, "DELETE", "limits", name, "settings", setting)
