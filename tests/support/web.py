"""Asking a server in this process, as programs and browsers do."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2

from holdfast import Holdfast
from holdfast.client import secrets
from holdfast.server.application import make_application
from holdfast.server.settings import ServerSettings
from holdfast.stores.access import NewToken, TokenKind, TokenRow
from tests.server.reaching import Reached, reached

HERE = "127.0.0.1"
PAGE = {"accept": "text/html,application/xhtml+xml"}


@asynccontextmanager
async def visit(
    app: Holdfast,
    settings: ServerSettings | None = None,
    *,
    is_open: bool = False,
    client: str = HERE,
    base: str = f"http://{HERE}",
) -> AsyncIterator[httpx2.AsyncClient]:
    """Ask an app's server from some address."""
    application = make_application(app.served(settings or ServerSettings(), is_open=is_open))
    transport = httpx2.ASGITransport(app=application, client=(client, 4711), raise_app_exceptions=False)
    async with httpx2.AsyncClient(transport=transport, base_url=base) as web:
        yield web


async def made(
    app: Holdfast,
    role: str = "admin",
    *,
    kind: TokenKind = "token",
    queues: tuple[str, ...] | None = None,
    lasts_ms: int | None = None,
    name: str | None = None,
    parent: int | None = None,
) -> tuple[str, TokenRow]:
    """Make a way in: its secret, and what is kept of it."""
    secret = secrets.new_secret()
    new = NewToken(
        kind=kind,
        name=name or role,
        digest=secrets.digest_of(secret),
        hint=secrets.hint_of(secret),
        role=role,
        queues=queues,
        created_by="test",
        lasts_ms=60_000 if kind == "link" and lasts_ms is None else lasts_ms,
        parent=parent,
    )
    return secret, await app.store.add_token(new)


async def made_token(app: Holdfast, role: str = "admin", **given: Any) -> str:
    """Make a way in, and give its secret; `given` is what `made` takes."""
    return (await made(app, role, **given))[0]


def bearing(secret: str) -> dict[str, str]:
    """The header of a program."""
    return {"authorization": f"Bearer {secret}"}


def routes_of(app: Holdfast) -> list[Reached]:
    """List every route of the application: none is written here by hand."""
    return list(reached(make_application(app.served(ServerSettings()))))


def filled(path: str, **values: str) -> str:
    """Fill the places of a path."""
    return re.sub(r"\{(\w+)(:\w+)?\}", lambda found: values.get(found[1], "x"), path)


def form_token(answer: httpx2.Response) -> str:
    """Read from a page what its forms carry."""
    found = re.search(r'name="form-token" content="([0-9a-f]+)"', answer.text)
    assert found is not None
    return found[1]
