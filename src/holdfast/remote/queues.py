"""Queues, over HTTP."""

from typing import Any

from holdfast.client.queues import List
from holdfast.remote.link import Link, refuse_actor
from holdfast.resources.queue import PauseRequest, QueueInfo, QueueList, SettingRequest


class RemoteQueues:
    """The queues of a server."""

    def __init__(self, link: Link) -> None:
        self._link = link

    async def list(self) -> List[QueueInfo]:
        """Read every queue."""
        return (await self._link.ask(QueueList, "GET", "queues")).queues

    async def get(self, name: str) -> QueueInfo:
        """Read one queue."""
        return await self._link.ask(QueueInfo, "GET", "queues", name)

    async def pause(self, name: str, *, actor: str | None = None, reason: str | None = None) -> QueueInfo:
        """Let no job of a queue start until it is resumed."""
        refuse_actor(actor)
        return await self._link.ask(QueueInfo, "POST", "queues", name, "pause", body=PauseRequest(reason=reason))

    async def resume(self, name: str) -> QueueInfo:
        """Let the jobs of a queue start again."""
        return await self._link.ask(QueueInfo, "POST", "queues", name, "resume")

    async def set(
        self, name: str, setting: str, value: Any, *, actor: str | None = None, reason: str | None = None
    ) -> QueueInfo:
        """Change a setting of a queue for all programs."""
        refuse_actor(actor)
        body = SettingRequest(value=value, reason=reason)
        return await self._link.ask(QueueInfo, "PUT", "queues", name, "settings", setting, body=body)

    async def reset(self, name: str, setting: str) -> QueueInfo:
        """Let a setting of a queue be again what programs and their configuration say."""
        return await self._link.ask(QueueInfo, "DELETE", "queues", name, "settings", setting)
