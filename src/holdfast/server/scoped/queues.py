"""Queues, as far as one caller may see them."""

from typing import Any

from holdfast import names
from holdfast.client.queues import List, Queues, queue_named
from holdfast.resources.queue import QueueInfo
from holdfast.server.principal import Principal
from holdfast.server.scoped.scope import Scope


class ScopedQueues(Scope):
    """The queues of one caller."""

    def __init__(self, queues: Queues, principal: Principal) -> None:
        super().__init__(principal)
        self._queues = queues

    async def list(self) -> List[QueueInfo]:
        """Read every queue that the caller may see."""
        return [queue for queue in await self._queues.list() if self.sees(queue.name)]  # guard: scope-queue-list

    async def get(self, name: str) -> QueueInfo:
        """Read one queue that the caller may see."""
        return queue_named(await self.list(), self._own(name))

    async def pause(self, name: str, *, actor: str | None = None, reason: str | None = None) -> QueueInfo:
        """Let no job of a queue start until it is resumed; running jobs go on."""
        return await self._queues.pause(self._own(name), actor=self.acting(actor), reason=reason)

    async def resume(self, name: str) -> QueueInfo:
        """Let the jobs of a queue start again."""
        return await self._queues.resume((await self.get(name)).name)

    async def set(
        self, name: str, setting: str, value: Any, *, actor: str | None = None, reason: str | None = None
    ) -> QueueInfo:
        """Change a setting of a queue for all apps."""
        queue = await self.get(name)
        return await self._queues.set(queue.name, setting, value, actor=self.acting(actor), reason=reason)

    async def reset(self, name: str, setting: str) -> QueueInfo:
        """Let a setting of a queue be again what apps and their configuration say."""
        return await self._queues.reset((await self.get(name)).name, setting)

    def _own(self, name: str) -> str:
        return self.require(names.name(name, "queue"))
