"""Settings, asked of a server."""

from typing import Any

from holdfast.remote.link import NULL, Link, refuse_actor


class RemotePolicies:
    """The verbs of settings."""

    link: Link

    async def settings_in_force(self) -> list[tuple[str, Any, str]]:
        """Read every setting of the server's app: its path, its value, and where that comes from."""
        told = (await self.link.get("settings"))["settings"]
        return [(row["path"], row["value"], row["origin"]) for row in told]

    async def set_policy(self, path: str, value: Any, *, actor: str | None = None, reason: str | None = None) -> None:
        """Change a policy for everybody until it is reset."""
        refuse_actor(actor)
        await self.link.put("settings", path, body={"value": NULL if value is None else value, "reason": reason})

    async def reset_policy(self, path: str) -> bool:
        """Let a policy hold again as programs say."""
        return bool((await self.link.delete("settings", path))["reset"])
