"""Settings and tokens, asked of a server."""

from typing import Any

from holdfast.remote import shapes
from holdfast.remote.link import NULL, Link, NotThere, refuse_actor
from holdfast.stores.access import Pass


class RemotePolicies:
    """The verbs of settings and tokens."""

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

    # ---- tokens ----------------------------------------------------------------------------------------------------

    async def tokens(self) -> list[Pass]:
        """Read who may come in by token."""
        return [_token(told) for told in (await self.link.get("tokens"))["tokens"]]

    async def create_token(
        self, name: str, role: str, queues: tuple[str, ...] | None, expires: str | None
    ) -> tuple[Pass, str]:
        """Make a token; its secret is told this once."""
        body = {"name": name, "role": role, "queues": queues, "expires_in": expires}
        told = await self.link.post("tokens", body=body)
        return _token(told), told["secret"]

    async def revoke_token(self, number: int) -> Pass | None:
        """Let a token hold no more; None when there is none."""
        try:
            return _token(await self.link.delete("tokens", str(number)))
        except NotThere:
            return None


def _token(told: shapes.Told) -> Pass:
    moments = {name: shapes.moment(told[name]) for name in ("expires_at", "used_at", "revoked_at")}
    same: dict[str, Any] = {name: told[name] for name in ("name", "hint", "role", "created_by", "revoked_by")}
    return Pass(
        id=int(told["id"]),
        kind="token",
        queues=None if told["queues"] is None else tuple(told["queues"]),
        created_at=shapes.instant(told["created_at"]),
        parent=None,
        **(same | moments),
    )
