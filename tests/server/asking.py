"""Asking the server of an app, as somebody with a role and queues."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import httpx2

from holdfast import Holdfast
from holdfast.server.application import make_application
from holdfast.server.settings import ServerSettings
from tests.support.web import HERE, bearing, made_token


@asynccontextmanager
async def asking(
    app: Holdfast,
    role: str = "admin",
    queues: tuple[str, ...] | None = None,
    *,
    settings: ServerSettings | None = None,
    knows_tasks: bool = True,
) -> AsyncIterator[httpx2.AsyncClient]:
    """Give a client with a token; without tasks, the server knows of kinds what workers have published."""
    served = app.served(settings or ServerSettings())
    application = make_application(served if knows_tasks else replace(served, tasks=None))
    async with httpx2.AsyncClient(
        transport=httpx2.ASGITransport(app=application),
        base_url=f"http://{HERE}",
        headers=bearing(await made_token(app, role, queues=queues)),
    ) as web:
        yield web
