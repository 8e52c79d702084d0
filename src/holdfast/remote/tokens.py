"""Tokens, over HTTP."""

from collections.abc import Iterable

from holdfast.client.tokens import List
from holdfast.duration import Duration, positive_ms
from holdfast.remote.namespace import RemoteNamespace
from holdfast.resources.token import CreatedToken, RoleName, Token, TokenList, TokenRequest


class RemoteTokens(RemoteNamespace):
    """The tokens of a server."""

    path = "tokens"

    async def list(self) -> List[Token]:
        """Read the tokens that see no more than the caller."""
        return (await self._get(TokenList)).tokens

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
        length = None if expires_in is None else f"{positive_ms(expires_in, 'expires_in')}ms"
        body = TokenRequest(name=name, role=role, queues=None if queues is None else List(queues), expires_in=length)
        return await self._change("POST", CreatedToken, body=body, actor=actor)

    async def revoke(self, number: int | str, *, actor: str | None = None) -> Token:
        """End a token, and the logins that began with it."""
        return await self._change("DELETE", Token, number, actor=actor)
