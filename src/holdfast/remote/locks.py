"""Locks, over HTTP."""

from holdfast.client.locks import List
from holdfast.remote.namespace import RemoteNamespace
from holdfast.resources.lock import LockInfo, LockList, ReleaseRequest


class RemoteLocks(RemoteNamespace):
    """The locks of a server."""

    path = "locks"

    async def list(self) -> List[LockInfo]:
        """Read the locks that are held."""
        return (await self._get(LockList)).locks

    async def release(self, name: str, token: int) -> LockInfo:
        """Take a lock from a holder that hangs."""
        return await self._change("POST", LockInfo, "release", body=ReleaseRequest(name=name, token=token))
