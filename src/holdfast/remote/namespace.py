"""What the namespaces of a remote client have in common."""

from typing import Any, ClassVar, Generic, TypeVar

from holdfast.remote.link import Link, refuse_actor
from holdfast.resources.queue import SettingRequest
from holdfast.resources.request import Request

T = TypeVar("T")


class RemoteNamespace:
    """Verbs of one resource, each a request below one path of the API."""

    path: ClassVar[str]

    def __init__(self, link: Link) -> None:
        self._link = link

    async def _get(self, answer: type[T], *path: int | str, **query: Any) -> T:
        return await self._link.ask(answer, "GET", self.path, *map(str, path), **query)

    async def _change(
        self, method: str, answer: type[T], *path: int | str, body: Request | None = None, actor: str | None = None
    ) -> T:
        refuse_actor(actor)
        return await self._link.ask(answer, method, self.path, *map(str, path), body=body)


class RemoteSettable(RemoteNamespace, Generic[T]):
    """Verbs of a resource that has settings: queues, limits and budgets."""

    _info: type[T]

    async def set(
        self, name: str, setting: str, value: Any, *, actor: str | None = None, reason: str | None = None
    ) -> T:
        """Change a setting for all apps."""
        body = SettingRequest(value=value, reason=reason)
        return await self._change("PUT", self._info, name, "settings", setting, body=body, actor=actor)

    async def reset(self, name: str, setting: str) -> T:
        """Let a setting be again what apps and their configuration say."""
        return await self._change("DELETE", self._info, name, "settings", setting)
