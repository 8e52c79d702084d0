"""Bodies that come late or never: they hold no connection for longer than a while."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from holdfast import Holdfast
from holdfast.server import shield
from holdfast.server.settings import ServerSettings
from tests.support.wait import PATIENCE_S
from tests.support.web import bearing, made_pass, visit

FORM = {"content-type": "application/x-www-form-urlencoded", "content-length": "100"}
SOON_S = 0.2
pytestmark = pytest.mark.real_time  # a bound in time must really pass


async def test_a_body_that_does_not_come_holds_nothing(memory_app: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    async def parts() -> AsyncIterator[bytes]:
        yield b"token="
        await asyncio.Event().wait()

    monkeypatch.setattr(shield, "BODY_S", SOON_S)
    secret = await made_pass(memory_app)
    async with visit(memory_app) as web, asyncio.timeout(PATIENCE_S):
        for path, headers in (("/login", FORM), ("/api/v1/queues/a/pause", bearing(secret))):
            answer = await web.post(path, headers=headers, content=parts())
            assert (answer.status_code, answer.json()["type"]) == (408, "urn:holdfast:too-slow"), path
            assert answer.headers["connection"] == "close"


async def test_whoever_has_asked_may_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind a whole body it is only waited for that somebody leaves, as streams do for hours."""
    monkeypatch.setattr(shield, "BODY_S", SOON_S)
    parts = [{"type": "http.request", "body": b"a", "more_body": True}, {"type": "http.request", "body": b"b"}]
    left = asyncio.Event()
    heard: list[str] = []

    async def receive() -> Any:
        if parts:
            return parts.pop(0)
        asyncio.get_running_loop().call_later(SOON_S * 2, left.set)
        await left.wait()
        return {"type": "http.disconnect"}

    async def send(_message: Any) -> None:
        pytest.fail("nobody was to be answered")

    async def listens(_scope: Any, receive: Any, _send: Any) -> None:
        while not heard or heard[-1] != "http.disconnect":
            heard.append((await receive())["type"])

    around = shield.Shield(listens, ServerSettings(), turn_away=lambda _: None)
    scope = {"type": "http", "method": "POST", "path": "/", "headers": [(b"host", b"127.0.0.1")], "scheme": "http"}
    async with asyncio.timeout(PATIENCE_S):
        await around(scope, receive, send)
    assert heard == ["http.request", "http.request", "http.disconnect"]
