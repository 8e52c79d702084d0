"""What `tokens ... --json` prints."""

from datetime import datetime

import msgspec

from holdfast.stores.access import Pass


class TokenShape(msgspec.Struct, frozen=True, kw_only=True):
    """One token, without its secret; `hint` is the end of that, `queues` is null for all."""

    id: str
    name: str
    role: str
    queues: list[str] | None
    hint: str
    created_at: datetime
    created_by: str
    expires_at: datetime | None
    used_at: datetime | None
    revoked_at: datetime | None
    revoked_by: str | None


class TokensShape(msgspec.Struct, frozen=True):
    """`tokens list --json`."""

    tokens: list[TokenShape]


class NewTokenShape(msgspec.Struct, frozen=True):
    """`tokens create --json`: the only time that the secret is shown."""

    token: TokenShape
    secret: str


def token(found: Pass) -> TokenShape:
    """Describe a token."""
    return TokenShape(
        id=str(found.id),
        name=found.name,
        role=found.role,
        queues=None if found.queues is None else list(found.queues),
        hint=found.hint,
        created_at=found.created_at,
        created_by=found.created_by,
        expires_at=found.expires_at,
        used_at=found.used_at,
        revoked_at=found.revoked_at,
        revoked_by=found.revoked_by,
    )
