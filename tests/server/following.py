"""Following a stream of the server within the test's own process, as a browser would."""

import asyncio
import json
from collections.abc import AsyncIterator, MutableMapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

from starlette.types import ASGIApp

from holdfast import Holdfast
from tests.support.wait import PATIENCE_S
from tests.support.web import made

Frame = dict[str, Any]


class Followed:
    """One request of a stream, and what came of it."""

    def __init__(self, asgi: ASGIApp, target: str, headers: dict[str, str]) -> None:
        parts = urlsplit(target)
        given = {"host": "127.0.0.1", "accept": "text/event-stream", **headers}
        self._scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "GET",
            "scheme": "http",
            "path": parts.path,
            "raw_path": parts.path.encode(),
            "query_string": parts.query.encode(),
            "root_path": "",
            "headers": [(name.lower().encode(), value.encode()) for name, value in given.items()],
            "client": ("127.0.0.1", 4_000),
            "server": ("127.0.0.1", 80),
        }
        self._asgi = asgi
        self._has_asked = False
        self._leaves = asyncio.Event()
        self._begun = asyncio.Event()
        self._bytes: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._text = ""
        self._frames: list[Frame] = []
        self.status = 0
        self.headers: dict[str, str] = {}
        self.last_id: str | None = None
        self.retry_ms: int | None = None
        self.body = b""
        self.answering = asyncio.create_task(self._answer())

    async def _answer(self) -> None:
        try:
            await self._asgi(self._scope, self._receive, self._send)
        finally:
            self._begun.set()
            self._bytes.put_nowait(None)

    async def _receive(self) -> MutableMapping[str, Any]:
        if not self._has_asked:
            self._has_asked = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self._leaves.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {name.decode(): value.decode() for name, value in message["headers"]}
            self._begun.set()
        else:
            self.body += message["body"]
            self._bytes.put_nowait(message["body"])

    async def begun(self) -> "Followed":
        """Wait for the head of the answer."""
        async with asyncio.timeout(PATIENCE_S):
            await self._begun.wait()
        return self

    async def take(self) -> Frame | None:
        """Take the next event, pings left out; None at the end."""
        while True:
            while not self._frames:
                async with asyncio.timeout(PATIENCE_S):
                    part = await self._bytes.get()
                if part is None:
                    self._bytes.put_nowait(None)
                    return None
                self._read(part.decode())
            if (frame := self._frames.pop(0))["event"] != "ping":
                return frame

    def _read(self, text: str) -> None:
        *whole, self._text = (self._text + text).split("\n\n")
        for frame in whole:
            fields: Frame = dict(line.split(": ", 1) for line in frame.split("\n"))
            self.last_id = fields.get("id", self.last_id)
            if "retry" in fields:
                self.retry_ms = int(fields["retry"])
            if "event" in fields:
                self._frames.append({**fields, "data": json.loads(fields["data"])})

    async def taken(self, event: str) -> Frame:
        """Take events up to the first of a kind."""
        while (frame := await self.take()) is not None:
            if frame["event"] == event:
                return frame
        message = f"the stream ended before {event} came"
        raise AssertionError(message)

    async def end(self) -> None:
        """Wait for the end that the server makes."""
        while await self.take() is not None:
            pass
        async with asyncio.timeout(PATIENCE_S):
            await self.answering

    async def leave(self) -> None:
        """Leave, as a browser does that is closed."""
        self._leaves.set()
        async with asyncio.timeout(PATIENCE_S):
            await self.answering


@asynccontextmanager
async def followed(asgi: ASGIApp, target: str, token: str | None = None, **headers: str) -> AsyncIterator[Followed]:
    """Follow a stream; leaving the block leaves it."""
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    if token is not None:
        given["authorization"] = f"Bearer {token}"
    page = Followed(asgi, target, given)
    try:
        yield await page.begun()
    finally:
        await page.leave()


async def made_token(app: Holdfast, *, role: str = "viewer", **given: Any) -> tuple[str, int]:
    """Make a way in: its secret, and its number."""
    secret, kept = await made(app, role, **given)
    return secret, kept.id
