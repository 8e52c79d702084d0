"""Tokens: access for programs, made by admins and shown once."""

from fastapi import Request

from holdfast.client.tokens import queue_names
from holdfast.resources.token import CreatedToken, Token, TokenList, TokenRequest
from holdfast.server.api.parameters import Number
from holdfast.server.roles import Permission
from holdfast.server.routing import Routes, Seen, noted

routes = Routes("tokens", "/tokens")

_CREATED = 201


@routes.get("", Permission.MANAGE_TOKENS, summary="List tokens")
async def list_tokens(client: Seen) -> TokenList:
    """Read the tokens; those that see more than the caller are not shown."""
    return TokenList(tokens=await client.tokens.list())


@routes.post("", Permission.MANAGE_TOKENS, status_code=_CREATED, summary="Make a token")
async def create_token(asked: TokenRequest, client: Seen, request: Request) -> CreatedToken:
    """Make a token. It gets no more than the caller has, and its secret is shown in this answer only."""
    noted(request, name=asked.name, role=asked.role, queues=queue_names(asked.queues), expires_in=asked.expires_in)
    made = await client.tokens.create(asked.name, asked.role, queues=asked.queues, expires_in=asked.expires_in)
    noted(request, token=int(made.id))
    return made


@routes.delete("/{number}", Permission.MANAGE_TOKENS, summary="Revoke a token")
async def revoke_token(number: Number, client: Seen) -> Token:
    """End a token, and the logins that began with it. Callers cannot revoke the token that they came with."""
    return await client.tokens.revoke(number)
