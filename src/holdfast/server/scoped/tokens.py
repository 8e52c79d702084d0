"""Tokens, as far as one caller may give and end them: no token gets more than its maker has."""

from collections.abc import Iterable
from datetime import timedelta

from holdfast.client.tokens import List, add_token, no_token, queue_names, token, token_number
from holdfast.duration import Duration, positive_ms
from holdfast.resources.token import CreatedToken, RoleName, Token
from holdfast.server.principal import Principal
from holdfast.server.problems import Problem
from holdfast.server.roles import read_role
from holdfast.server.scoped.scope import Scope
from holdfast.stores.store import Store


class ScopedTokens(Scope):
    """The tokens that see no more than one caller; the server writes the audit of what is done to them."""

    def __init__(self, store: Store, principal: Principal) -> None:
        super().__init__(principal)
        self._store = store

    async def list(self) -> List[Token]:
        """Read the tokens that see no more than the caller, the youngest first."""
        return [token(row) for row in await self._store.list_tokens("token") if self._is_within(row.queues)]

    async def create(
        self,
        name: str,
        role: RoleName,
        *,
        queues: Iterable[str] | None = None,
        expires_in: Duration | None = None,
        actor: str | None = None,
    ) -> CreatedToken:
        """Make a token that may do and see no more than the caller, and lasts no longer."""
        who, own = self._principal, queue_names(queues)
        if not who.may(read_role(role)) or not self._is_within(own):  # guard: token-gift
            detail = (
                f"{who.name} can make tokens for what they may see themselves: {', '.join(sorted(who.queues or ()))}"
            )
            raise Problem(403, detail, "scope")
        await self._require_end(expires_in)  # guard: token-end
        actor = self.acting(actor)
        return await add_token(self._store, name, role, queues=own, expires_in=expires_in, actor=actor)

    async def revoke(self, number: int | str, *, actor: str | None = None) -> Token:
        """End a token, and the logins that began with it; callers cannot end the token that they came with."""
        wanted = token_number(number)
        row = next(iter(await self._store.list_tokens("token", number=wanted)), None)
        if row is None or not self._is_within(row.queues):  # guard: token-scope, without: if row is None:
            raise no_token(number)
        if row.id in await self._own():  # guard: own-token
            detail = (
                f"token {number} is the one you came with: revoke it with another, or with `holdfast tokens revoke`"
            )
            raise Problem(409, detail, "own-token")
        revoked = await self._store.revoke_token(row.id, actor=self.acting(actor))
        if revoked is None:
            raise no_token(number)
        return token(revoked)

    async def _require_end(self, expires_in: Duration | None) -> None:
        """Refuse a token that would outlast the caller's own: with that, access for a day would be access for ever."""
        lasts_ms = None if expires_in is None else positive_ms(expires_in, "expires_in")
        # Each is read by its number: in the list, a thousand others could stand before it.
        own = [row for number in await self._own() for row in await self._store.list_tokens("token", number=number)]
        for end in [row.expires_at for row in own if row.expires_at is not None]:
            left = end - (await self._store.diagnose()).now
            if lasts_ms is None or timedelta(milliseconds=lasts_ms) > left:
                detail = f"your own token ends at {end:%Y-%m-%d %H:%M} UTC: name an end before that with expires_in"
                raise Problem(403, detail, "scope")

    async def _own(self) -> set[int]:
        """The token or login that the caller came with, and the token that the login began with."""
        own = self._principal.token_id
        if own is None:
            return set()
        logins = await self._store.list_tokens("session", number=own)
        return {own, *(row.parent for row in logins if row.parent is not None)}

    def _is_within(self, queues: tuple[str, ...] | None) -> bool:
        """Whether the caller may see all that a token may."""
        mine = self._principal.queues
        return mine is None or (queues is not None and mine.issuperset(queues))
