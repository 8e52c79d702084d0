"""Queues, over HTTP."""

from holdfast.client.queues import List
from holdfast.remote.namespace import RemoteSettable
from holdfast.resources.queue import PauseRequest, QueueInfo, QueueList


class RemoteQueues(RemoteSettable[QueueInfo]):
    """The queues of a server."""

    path = "queues"
    _info = QueueInfo

    async def list(self) -> List[QueueInfo]:
        """Read every queue."""
        return (await self._get(QueueList)).queues

    async def get(self, name: str) -> QueueInfo:
        """Read one queue."""
        return await self._get(QueueInfo, name)

    async def pause(self, name: str, *, actor: str | None = None, reason: str | None = None) -> QueueInfo:
        """Let no job of a queue start until it is resumed."""
        return await self._change("POST", QueueInfo, name, "pause", body=PauseRequest(reason=reason), actor=actor)

    async def resume(self, name: str) -> QueueInfo:
        """Let the jobs of a queue start again."""
        return await self._change("POST", QueueInfo, name, "resume")
