"""Kinds of jobs, over HTTP."""

from holdfast.client.kinds import List
from holdfast.remote.namespace import RemoteNamespace
from holdfast.resources.kind import KindInfo, KindList


class RemoteKinds(RemoteNamespace):
    """The kinds that a server knows."""

    path = "kinds"

    async def list(self) -> List[KindInfo]:
        """Read the kinds that the server's app defines or apps have published, by name."""
        return (await self._get(KindList)).kinds

    async def get(self, name: str) -> KindInfo:
        """Read one kind by its name or an alias."""
        return await self._get(KindInfo, name)
