"""Tokens: the ways in for programs, made by admins and shown once."""

from datetime import timedelta
from typing import Annotated, Literal

from fastapi import Request
from pydantic import Field

from holdfast import names
from holdfast.duration import positive_ms
from holdfast.server import secrets
from holdfast.server.api.parameters import NAME, Number
from holdfast.server.api.shape import Asked, Moment, Shape
from holdfast.server.pages.clock import store_time
from holdfast.server.principal import Principal
from holdfast.server.problems import Problem, not_found
from holdfast.server.roles import Permission, read_role
from holdfast.server.routing import Routes, Seen, Who, noted
from holdfast.server.sight import Sight
from holdfast.stores.access import NewPass, Pass

routes = Routes("tokens", "/tokens")

_MOST_QUEUES = 100
_CREATED = 201

QueueName = Annotated[str, Field(max_length=NAME)]


class NewToken(Asked):
    """What a token is for: its name in the audit, what it may do, which queues it may see, and how long."""

    name: str = Field(min_length=1, max_length=NAME, examples=["ci"])
    role: Literal["viewer", "operator", "admin"] = Field("viewer", examples=["operator"])
    queues: list[QueueName] | None = Field(
        None, min_length=1, max_length=_MOST_QUEUES, description="All where none are named.", examples=[["high"]]
    )
    expires_in: str | None = Field(None, max_length=40, description="Never without one.", examples=["90d"])


class TokenShape(Shape):
    """A token; of its secret only the end is known."""

    id: str = Field(examples=["17"])
    name: str = Field(examples=["ci"])
    hint: str = Field(description="The end of its secret.", examples=["Yk4w"])
    role: str = Field(examples=["operator"])
    queues: list[str] | None = Field(description="Null for all.", examples=[["high"]])
    created_at: Moment = Field(examples=["2026-11-16T09:30:00Z"])
    created_by: str = Field(examples=["ann"])
    expires_at: Moment | None = Field(examples=["2027-02-14T09:30:00Z"])
    used_at: Moment | None = Field(description="To the minute.", examples=[None])
    revoked_at: Moment | None = Field(examples=[None])
    revoked_by: str | None = Field(examples=[None])


class TokenList(Shape):
    """All tokens, the youngest first, after them those that hold no more, for a month."""

    tokens: list[TokenShape]


class MadeToken(TokenShape):
    """A token that was just made: its secret is shown this once."""

    secret: str = Field(examples=["hf_4f5nJ0ZJx1S9m0rUq9mE6v0nN8i4l2b7o3c6d5e8Yk4w"])


@routes.get("", Permission.MANAGE_TOKENS, summary="List tokens")
async def list_tokens(sight: Seen) -> TokenList:
    """Read who may come in by token; those that see more than the asker are not shown."""
    rows = await sight.store.list_passes("token")
    return TokenList(tokens=[token_shape(row) for row in rows if is_within(sight.principal, row.queues)])


@routes.post("", Permission.MANAGE_TOKENS, status_code=_CREATED, summary="Make a token")
async def create_token(asked: NewToken, sight: Seen, who: Who, request: Request) -> MadeToken:
    """Make a token; nobody can give more than they have, and its secret is shown in this answer only."""
    queues = None if asked.queues is None else tuple(sorted({names.name(queue, "queues") for queue in asked.queues}))
    noted(request, name=asked.name, role=asked.role, queues=queues, expires_in=asked.expires_in)
    if not who.may(read_role(asked.role)) or not is_within(who, queues):  # guard: token-gift
        detail = f"{who.name} can make tokens for what they may see themselves: {', '.join(sorted(who.queues or ()))}"
        raise Problem(403, detail, "scope")
    lasts_ms = None if asked.expires_in is None else positive_ms(asked.expires_in, "expires_in")
    await _require_end(sight, lasts_ms)  # guard: token-end
    secret = secrets.new_secret()
    made = await sight.store.add_pass(
        NewPass(
            kind="token",
            name=names.text(asked.name, "name", NAME * 4),
            digest=secrets.digest_of(secret),
            hint=secrets.hint_of(secret),
            role=asked.role,
            queues=queues,
            created_by=who.name,
            lasts_ms=lasts_ms,
        )
    )
    noted(request, token=made.id)
    return MadeToken(**token_shape(made).model_dump(), secret=secret)


@routes.delete("/{number}", Permission.MANAGE_TOKENS, summary="Revoke a token")
async def revoke_token(number: Number, sight: Seen, who: Who) -> TokenShape:
    """Let a token, and the logins begun with it, hold no more; nobody can revoke the one they came with."""
    found = next(iter(await sight.store.list_passes("token", number=int(number))), None)
    if found is None or not is_within(who, found.queues):  # guard: token-scope, without: if found is None:
        raise not_found("token", number)
    if found.id in await _own(sight):  # guard: own-token
        detail = f"token {number} is the one you came with: revoke it with another, or with `holdfast tokens revoke`"
        raise Problem(409, detail, "own-token")
    revoked = await sight.store.revoke_pass(found.id, actor=who.name)
    if revoked is None:
        raise not_found("token", number)
    return token_shape(revoked)


async def _require_end(sight: Sight, lasts_ms: int | None) -> None:
    """Refuse a token that would outlast the one they came with: whoever got that for a day would be in for ever."""
    # Each is read by its number: in the list, a thousand others could stand before it.
    own = [row for number in await _own(sight) for row in await sight.store.list_passes("token", number=number)]
    for end in [row.expires_at for row in own if row.expires_at is not None]:
        left = end - await store_time(sight.store)
        if lasts_ms is None or timedelta(milliseconds=lasts_ms) > left:
            detail = f"your own token ends at {end:%Y-%m-%d %H:%M} UTC: name an end before that with expires_in"
            raise Problem(403, detail, "scope")


async def _own(sight: Sight) -> set[int]:
    """The pass somebody came with, and the one that began with."""
    own = sight.principal.pass_id
    if own is None:
        return set()
    logins = await sight.store.list_passes("session", number=own)
    return {own, *(row.parent for row in logins if row.parent is not None)}


def is_within(who: Principal, queues: tuple[str, ...] | None) -> bool:
    """Whether somebody may see all that a token may."""
    return who.queues is None or (queues is not None and who.queues.issuperset(queues))


def token_shape(row: Pass) -> TokenShape:
    """Show a token."""
    return TokenShape(
        id=str(row.id),
        name=row.name,
        hint=row.hint,
        role=row.role,
        queues=None if row.queues is None else list(row.queues),
        created_at=row.created_at,
        created_by=row.created_by,
        expires_at=row.expires_at,
        used_at=row.used_at,
        revoked_at=row.revoked_at,
        revoked_by=row.revoked_by,
    )
