"""Tokens, over HTTP."""

from collections.abc import Iterable

from holdfast.client.tokens import List
from holdfast.duration import Duration, positive_ms
from holdfast.remote.link import Link, refuse_actor
from holdfast.resources.token import CreatedToken, RoleName, Token, TokenList, TokenRequest


class RemoteTokens:
    """The tokens of a server."""

    def __init__(self, link: Link) -> None:
        self._link = link

    async def list(self) -> List[Token]:
        """Read the tokens that see no more than the caller."""
        return (await self._link.ask(TokenList, "GET", "tokens")).tokens

    async def create(
        self,
        name: str,
        role: RoleName,
        *,
        queues: Iterable[str] | None = None,
        expires_in: Duration | None = None,
        actor: str | None = None,
    ) -> CreatedToken:
        """Make a token. Only this answer has its secret."""
        refuse_actor(actor)
        length = None if expires_in is None else f"{positive_ms(expires_in, 'expires_in')}ms"
        body = TokenRequest(name=name, role=role, queues=None if queues is None else List(queues), expires_in=length)
        return await self._link.ask(CreatedToken, "POST", "tokens", body=body)

    async def revoke(self, number: int | str, *, actor: str | None = None) -> Token:
        """End a token, and the logins that began with it."""
        refuse_actor(actor)
        return await self._link.ask(Token, "DELETE", "tokens", str(number))
