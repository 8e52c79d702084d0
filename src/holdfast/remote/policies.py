"""Settings, asked of a server."""

from typing import Any

from holdfast.remote.link import NULL, Link, refuse_actor
from holdfast.resources.setting import SettingList


class RemotePolicies:
    """The verbs of settings."""

    link: Link

    async def settings_in_force(self) -> SettingList:
        """Read every setting of the server's app, and of the server."""
        return await self.link.ask(SettingList, "GET", "settings")

    async def set_policy(self, path: str, value: Any, *, actor: str | None = None, reason: str | None = None) -> None:
        """Change a policy for everybody until it is reset."""
        refuse_actor(actor)
        await self.link.put("settings", path, body={"value": NULL if value is None else value, "reason": reason})

    async def reset_policy(self, path: str) -> bool:
        """Let a policy hold again as programs say."""
        return bool((await self.link.delete("settings", path))["reset"])
