"""Kinds of jobs, over HTTP."""

from holdfast.client.kinds import List
from holdfast.remote.link import Link
from holdfast.resources.kind import KindInfo, KindList


class RemoteKinds:
    """The kinds that a server knows."""

    def __init__(self, link: Link) -> None:
        self._link = link

    async def list(self) -> List[KindInfo]:
        """Read the kinds that the server's app defines or programs have published, by name."""
        return (await self._link.ask(KindList, "GET", "kinds")).kinds

    async def get(self, name: str) -> KindInfo:
        """Read one kind by its name or an alias."""
        return await self._link.ask(KindInfo, "GET", "kinds", name)
