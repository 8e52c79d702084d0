"""Who may do what, and who has done what: tokens, sessions, and the audit."""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal, Protocol

import msgspec

TokenKind = Literal["token", "session", "link"]


class NewToken(msgspec.Struct, frozen=True, kw_only=True):
    """A way in that is to be kept: of the secret itself only its digest, and its last characters to tell it by.

    A `token` is made by a person, a `session` by a login, a `link` lets somebody in once. `queues` is None for all.
    `parent` is the pass a session was begun with: it ends with that.
    """

    kind: TokenKind
    name: str
    digest: str
    hint: str
    role: str
    queues: tuple[str, ...] | None
    created_by: str
    lasts_ms: int | None
    parent: int | None = None


class TokenRow(msgspec.Struct, frozen=True, kw_only=True):
    """A way in, as it is kept."""

    id: int
    kind: TokenKind
    name: str
    hint: str
    role: str
    queues: tuple[str, ...] | None
    created_at: datetime
    created_by: str
    expires_at: datetime | None
    used_at: datetime | None
    revoked_at: datetime | None
    revoked_by: str | None
    parent: int | None


class NewAuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """What a caller did, or tried to do: `action` in words of the API, `target` what it was done to.

    `status` is what came of it, as HTTP has it. `detail` is what was asked for, a JSON object with secrets covered.
    """

    actor: str
    role: str
    action: str
    target: str
    queue: str | None
    status: int
    detail: str
    request: str


class AuditRow(NewAuditEntry, frozen=True, kw_only=True):
    """An entry of the audit."""

    id: int
    at: datetime


class AuditFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which entries a list shows; all conditions must hold. `first` is the oldest number that is looked at."""

    actor: str | None = None
    action: str | None = None
    target: str | None = None
    queues: tuple[str, ...] | None = None
    first: int = 0


class AccessStore(Protocol):
    """Keeps who may come in, and what they did."""

    async def add_token(self, new: NewToken) -> TokenRow:
        """Store a token. Unknown: make another, and revoke the first, whose secret is lost."""

    async def find_token(self, digest: str, *, lasts_ms: int | None = None) -> TokenRow | None:
        """Find a way in that holds now, itself and its parent; remembers, once a minute, that it was used.

        A session lasts for `lasts_ms` from its last use.
        """

    async def use_link(self, digest: str) -> TokenRow | None:
        """Find a link that was never used, and let it be used up. Unknown: it may be used up; ask for another."""

    async def has_token(self) -> bool:
        """Whether there is a token that holds now."""

    async def list_tokens(self, kind: TokenKind, *, number: int | None = None) -> list[TokenRow]:
        """Read the ways in, the youngest first, after them those that hold no more, for a month; 1,000 at most.

        With a `number` only that one is read, however many there are.
        """

    async def revoke_token(self, number: int, *, actor: str) -> TokenRow | None:
        """Let a way in and the sessions begun with it hold no more; None when there is none. Unknown: ask again."""

    async def add_audit(self, entry: NewAuditEntry) -> int:
        """Write down what a caller did. Unknown: it may be written twice."""

    async def list_audit(self, which: AuditFilter, *, limit: int, before: int | None = None) -> Sequence[AuditRow]:
        """Read what was done, the latest first, before a number."""

    async def prune_access(self, limit: int) -> int:
        """Forget the audit after 400 days, tokens a month after they ended. Unknown: the next sweep does the rest."""
