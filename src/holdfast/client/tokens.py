"""Tokens: who may use the server, in which role and for which queues."""

import getpass
from collections.abc import Iterable
from typing import Any, Protocol

import msgspec

from holdfast import names
from holdfast.client import secrets
from holdfast.client.repeat import until_answered
from holdfast.duration import Duration, positive_ms
from holdfast.errors import InvalidValue, TokenNotFound, shown
from holdfast.resources.token import CreatedToken, RoleName, Token
from holdfast.stores.access import AccessStore, NewAuditEntry, NewToken, TokenRow

List = list  # one of the verbs has that name

_LONGEST_NAME = 256
_ROLES = ("viewer", "operator", "admin")
_LARGEST = 2**63 - 1


class Tokens(Protocol):
    """What can be asked of tokens, and done to them."""

    async def list(self) -> List[Token]:
        """Read the tokens, the youngest first; for a month also those that expired or were revoked."""

    async def create(
        self,
        name: str,
        role: RoleName,
        *,
        queues: Iterable[str] | None = None,
        expires_in: Duration | None = None,
        actor: str | None = None,
    ) -> CreatedToken:
        """Make a token. Only this answer has its secret: the store keeps a digest of it."""

    async def revoke(self, number: int | str, *, actor: str | None = None) -> Token:
        """End a token, and the logins that began with it; TokenNotFound when there is none."""


class LocalTokens:
    """The tokens of one store; what is done to them is written into the audit."""

    def __init__(self, store: AccessStore, deadline_s: float) -> None:
        self._store = store
        self._deadline_s = deadline_s

    async def list(self) -> List[Token]:
        """Read the tokens, the youngest first; for a month also those that expired or were revoked."""
        rows = await until_answered(
            lambda _: self._store.list_tokens("token"), self._deadline_s, "tokens", changes=False
        )
        return [token(row) for row in rows]

    async def create(
        self,
        name: str,
        role: RoleName,
        *,
        queues: Iterable[str] | None = None,
        expires_in: Duration | None = None,
        actor: str | None = None,
    ) -> CreatedToken:
        """Make a token. Only this answer has its secret: the store keeps a digest of it."""
        who = _actor(actor)
        created = await add_token(self._store, name, role, queues=queues, expires_in=expires_in, actor=who)
        await self._note("create_token", created, who)
        return created

    async def revoke(self, number: int | str, *, actor: str | None = None) -> Token:
        """End a token, and the logins that began with it; TokenNotFound when there is none."""
        who, wanted = _actor(actor), token_number(number)
        if not await self._store.list_tokens("token", number=wanted):
            raise no_token(number)
        row = await until_answered(
            lambda _: self._store.revoke_token(wanted, actor=who), self._deadline_s, f"revoke token {number}"
        )
        if row is None:
            raise no_token(number)
        revoked = token(row)
        await self._note("revoke_token", revoked, who)
        return revoked

    async def _note(self, action: str, changed: Token, actor: str) -> None:
        """Write into the audit what was done, as the server does of requests."""
        detail = {"name": changed.name, "role": changed.role, "queues": changed.queues}
        entry = NewAuditEntry(
            actor=actor,
            role="admin",
            action=action,
            target=f"tokens/{changed.id}",
            queue=None,
            status=200,
            detail=msgspec.json.encode(detail).decode(),
            request="command line",
        )
        await self._store.add_audit(entry)


async def add_token(
    store: AccessStore,
    name: str,
    role: RoleName,
    *,
    queues: Iterable[str] | None,
    expires_in: Duration | None,
    actor: str,
) -> CreatedToken:
    """Make a token and keep a digest of its secret."""
    if role not in _ROLES:
        message = f"role: expected viewer, operator or admin, got {shown(role)}"
        raise InvalidValue(message)
    secret = secrets.new_secret()
    row = await store.add_token(
        NewToken(
            kind="token",
            name=names.text(name, "name", _LONGEST_NAME),
            digest=secrets.digest_of(secret),
            hint=secrets.hint_of(secret),
            role=role,
            queues=queue_names(queues),
            created_by=actor,
            lasts_ms=None if expires_in is None else positive_ms(expires_in, "expires_in"),
        )
    )
    return CreatedToken(**_fields(row), secret=secret)


def queue_names(queues: Iterable[str] | None) -> tuple[str, ...] | None:
    """Check the queues that a token may see."""
    return None if queues is None else tuple(sorted({names.name(queue, "queues") for queue in queues}))


def token(row: TokenRow) -> Token:
    """Put together what is known of one token."""
    return Token(**_fields(row))


def token_number(number: int | str) -> int:
    """Read the number of a token; what is no number is that of no token."""
    text = str(number)
    if not (text.isascii() and text.isdecimal()) or int(text) > _LARGEST:
        raise no_token(number)
    return int(text)


def no_token(number: int | str) -> TokenNotFound:
    """Make the error for a token that does not exist."""
    message = f"there is no token {number}; `holdfast tokens list` shows all"
    return TokenNotFound(message)


def _fields(row: TokenRow) -> dict[str, Any]:
    fields = {name: getattr(row, name) for name in Token.__slots__}
    return fields | {"id": str(row.id), "queues": None if row.queues is None else List(row.queues)}


def _actor(actor: str | None) -> str:
    if actor is not None:
        return names.text(actor, "actor", _LONGEST_NAME)
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may have no name for its user
        return "command line"
