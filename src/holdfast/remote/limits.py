"""Limits, over HTTP."""

from holdfast.client.limits import List
from holdfast.remote.namespace import RemoteSettable
from holdfast.resources.limit import LimitInfo, LimitList


class RemoteLimits(RemoteSettable[LimitInfo]):
    """The limits of a server."""

    path = "limits"
    _info = LimitInfo

    async def list(self) -> List[LimitInfo]:
        """Read the limits in force."""
        return (await self._get(LimitList)).limits

    async def get(self, name: str, key: str | None = None) -> LimitInfo:
        """Read one limit, and how much of it is in use: under one key, or in all."""
        return await self._get(LimitInfo, name, key=key)
