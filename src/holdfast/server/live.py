"""The live streams of one server: how many there may be, whose they are, and how all of them end at once."""

import asyncio
import logging
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from fastapi import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from holdfast.server.gate import Gate
from holdfast.server.principal import Principal
from holdfast.server.problems import Problem
from holdfast.server.settings import ServerSettings
from holdfast.stream import EventResponse, EventStream

_logger = logging.getLogger("holdfast")

PING_S = 15.0
_LOOK_S = 0.25
_PATIENCE = {"retry-after": "5"}
_OWN_SITES = (None, "same-origin", "none")


class Live:
    """Counts who follows what, and sends everybody away when the server stops."""

    def __init__(self, gate: Gate, settings: ServerSettings) -> None:
        self._gate = gate
        self._most = settings.max_streams
        self._most_each = settings.max_streams_each
        self._held: Counter[tuple[object, ...]] = Counter()
        self._ending: asyncio.Future[None] | None = None
        self._looking_out: asyncio.Task[None] | None = None

    @property
    def open(self) -> int:
        """How many streams are open."""
        return self._held.total()

    def stop(self) -> None:
        """End every stream; those who followed are told to come back in a moment."""
        if self._ending is not None and not self._ending.done():
            self._ending.set_result(None)

    @contextmanager
    def place(self, principal: Principal) -> Iterator["asyncio.Future[None]"]:
        """Hold a place for a stream; what is given is done when the stream is to end."""
        key = (principal.via, principal.name, principal.token_id)
        if self._held[key] >= self._most_each:  # guard: streams-each
            detail = f"{principal.name} has {self._most_each} streams open, which is the most (server.max_streams_each)"
            raise Problem(429, f"{detail}; close one", "too-many-streams", headers=_PATIENCE)
        if self.open >= self._most:  # guard: streams-all
            detail = f"{self._most} streams are open, which is the most (server.max_streams); try again in a moment"
            raise Problem(503, detail, "too-many-streams", headers=_PATIENCE)
        ending = self._begun()
        self._held[key] += 1
        try:
            yield ending
        finally:
            self._held[key] -= 1
            if not self._held[key]:
                del self._held[key]
            if not self.open:
                self._end()

    def _begun(self) -> "asyncio.Future[None]":
        """What tells the streams to end, from the first one on; it belongs to the event loop of those."""
        if self._ending is None:
            self._ending = asyncio.get_running_loop().create_future()
            self._looking_out = asyncio.create_task(self._look_out(), name="holdfast streams")
        return self._ending

    def _end(self) -> None:
        """Forget it with the last one."""
        if self._looking_out is not None:
            self._looking_out.cancel()
        self._ending = self._looking_out = None

    async def still_holds(self, request: Request, principal: Principal) -> bool:
        """Whether somebody would be let in again, as the same and with the same rights; not known is no."""
        try:
            return await self._gate.principal(request) == principal
        except Exception as error:  # noqa: BLE001 - whatever keeps the question from being answered is a no
            _logger.info("a stream of %s ends, they could not be asked for again: %s", principal.name, error)
            return False

    async def _look_out(self) -> None:
        """End all streams when the web server stops: it would wait for their end before it tells anybody."""
        while True:
            await asyncio.sleep(_LOOK_S)
            if _is_stopping():
                self.stop()


class LiveResponse(Response):
    """A stream for somebody, for as long as they may see it."""

    media_type = "text/event-stream"

    def __init__(self, live: Live, principal: Principal, stream: EventStream) -> None:
        super().__init__()
        self._live = live
        self._principal = principal
        self._stream = stream

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Stream until the client leaves, may see it no more, or the server stops."""
        with self._live.place(self._principal) as ending:
            await EventResponse(self._stream, until=ending)(scope, receive, send)


def require_own_page(request: Request) -> None:
    """Refuse a page of another site, even as a link: it could read nothing, but each window would hold a place."""
    if request.headers.get("sec-fetch-site") not in _OWN_SITES:
        raise Problem(403, "a page of another site asked for this; only pages of this server may", "origin")


def _is_stopping() -> bool:
    """Whether uvicorn was told to stop; it handles signals by a method of the server that knows."""
    server = getattr(signal.getsignal(signal.SIGTERM), "__self__", None)
    return getattr(server, "should_exit", False) is True
