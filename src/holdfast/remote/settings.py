"""Settings, over HTTP."""

from typing import Any

from holdfast.client.settings import List
from holdfast.remote.link import Link, refuse_actor
from holdfast.resources.queue import SettingRequest
from holdfast.resources.setting import Setting, SettingList, SettingReset


class RemoteSettings:
    """The settings of a server and its app."""

    def __init__(self, link: Link) -> None:
        self._link = link

    async def list(self) -> SettingList:
        """Read every setting of the server's app and the server, and where it comes from."""
        return await self._link.ask(SettingList, "GET", "settings")

    async def overrides(self) -> List[Setting]:
        """Read the settings that people have changed at run time."""
        return (await self._link.ask(SettingList, "GET", "settings", "overrides")).settings

    async def set(self, path: str, value: Any, *, actor: str | None = None, reason: str | None = None) -> Setting:
        """Change a setting of a limit, budget, queue or service for all apps."""
        refuse_actor(actor)
        return await self._link.ask(Setting, "PUT", "settings", path, body=SettingRequest(value=value, reason=reason))

    async def reset(self, path: str) -> bool:
        """Let a setting be again what apps and their configuration say."""
        return (await self._link.ask(SettingReset, "DELETE", "settings", path)).reset
