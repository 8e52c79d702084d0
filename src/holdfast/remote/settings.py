"""Settings, over HTTP."""

from typing import Any

from holdfast.client.settings import List
from holdfast.remote.namespace import RemoteNamespace
from holdfast.resources.queue import SettingRequest
from holdfast.resources.setting import Setting, SettingList, SettingReset


class RemoteSettings(RemoteNamespace):
    """The settings of a server and its app."""

    path = "settings"

    async def list(self) -> SettingList:
        """Read every setting of the server's app and the server, and where it comes from."""
        return await self._get(SettingList)

    async def overrides(self) -> List[Setting]:
        """Read the settings that people have changed at run time."""
        return (await self._get(SettingList, "overrides")).settings

    async def set(self, path: str, value: Any, *, actor: str | None = None, reason: str | None = None) -> Setting:
        """Change a setting of a limit, budget, queue or service for all apps."""
        body = SettingRequest(value=value, reason=reason)
        return await self._change("PUT", Setting, path, body=body, actor=actor)

    async def reset(self, path: str) -> bool:
        """Let a setting be again what apps and their configuration say."""
        return (await self._change("DELETE", SettingReset, path)).reset
