"""Bodies that come late or never: they hold no connection for longer than a while."""

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest

from holdfast import Holdfast
from holdfast.server import shield
from holdfast.server.application import make_application
from holdfast.server.settings import ServerSettings
from holdfast.stores.access import AuditFilter
from tests.support.wait import PATIENCE_S
from tests.support.web import bearing, made_token, visit

FORM = {"content-type": "application/x-www-form-urlencoded", "content-length": "100"}
SOON_S = 0.2
pytestmark = pytest.mark.real_time  # a bound in time must really pass


async def test_a_body_that_does_not_come_holds_nothing(memory_app: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    async def parts() -> AsyncIterator[bytes]:
        yield b"token="
        await asyncio.Event().wait()

    monkeypatch.setattr(shield, "BODY_S", SOON_S)
    secret = await made_token(memory_app)
    async with visit(memory_app) as web, asyncio.timeout(PATIENCE_S):
        for path, headers in (("/login", FORM), ("/api/v1/queues/a/pause", bearing(secret))):
            answer = await web.post(path, headers=headers, content=parts())
            assert (answer.status_code, answer.json()["type"]) == (408, "urn:holdfast:too-slow"), path
            assert answer.headers["connection"] == "close"


@pytest.mark.parametrize("path, logged", [("/login", 0), ("/api/v1/queues/a/pause", 1), ("/queues/a/pause", 1)])
async def test_a_caller_who_hangs_up_in_a_body_leaves_no_traceback(
    memory_app: Holdfast, caplog: pytest.LogCaptureFixture, path: str, logged: int
) -> None:
    """Nothing is logged; the audit has a row if the caller was let in."""
    parts = [{"type": "http.request", "body": b"to", "more_body": True}, {"type": "http.disconnect"}]

    async def receive() -> Any:
        return parts.pop(0)

    async def send(_message: Any) -> None: ...

    asgi = make_application(memory_app.served(ServerSettings()))
    headers = {"host": "127.0.0.1", **FORM, **bearing(await made_token(memory_app))}
    scope = {"type": "http", "method": "POST", "path": path, "scheme": "http", "query_string": b""}
    scope["headers"] = [(name.encode(), value.encode()) for name, value in headers.items()]
    await asgi(scope, receive, send)
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
    deeds = await memory_app.store.list_audit(AuditFilter(), limit=2)
    assert [deed.status for deed in deeds] == [400] * logged


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
