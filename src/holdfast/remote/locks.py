"""Locks, over HTTP."""

from holdfast.client.locks import List
from holdfast.remote.link import Link
from holdfast.resources.lock import LockInfo, LockList, ReleaseRequest


class RemoteLocks:
    """The locks of a server."""

    def __init__(self, link: Link) -> None:
        self._link = link

    async def list(self) -> List[LockInfo]:
        """Read the locks that are held."""
        return (await self._link.ask(LockList, "GET", "locks")).locks

    async def release(self, name: str, token: int) -> LockInfo:
        """Take a lock from a holder that hangs."""
        body = ReleaseRequest(name=name, token=token)
        return await self._link.ask(LockInfo, "POST", "locks", "release", body=body)
