"""Connections: how many there may be, and how briefly and soon each has to say what it asks for."""

import asyncio
import functools
import logging
import time
from collections import OrderedDict
from typing import Any, cast

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from holdfast.server.routing import HOLD

_logger = logging.getLogger("holdfast")

MOST_BYTES = 65_536
MOST_S = 10.0
_RESERVED = 8  # one of so many places is never held, so that a new connection always finds one
_QUIET_S = 60.0  # between two lines of the log


class Unreadable(ValueError):
    """What the parser takes for a mistake of whoever asks: 400, and the connection is closed."""


class Connections(ServerState):
    """The connections of a server, at most so many: a new one takes the place of the one that has waited longest.

    A connection waits until its caller is let in and again after each answer. A request of a caller who was let in
    holds its connection until it is answered; some places cannot be held, so that `/healthz` is always answered.
    """

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most
        self._most_held = most - max(most // _RESERVED, 1)
        self._waiting: OrderedDict[Connection, None] = OrderedDict()  # the longest first
        self._held: set[Connection] = set()
        self._closed = 0
        self._logged_at: float | None = None

    def add(self, connection: "Connection") -> None:
        """Count a new connection."""
        self._waiting[connection] = None
        if len(self._waiting) + len(self._held) > self._most:  # guard: connections-most
            oldest, _ = self._waiting.popitem(last=False)
            oldest.transport.abort()
            self._log_closed()

    def remove(self, connection: "Connection") -> None:
        """Forget a connection that is closed."""
        self._waiting.pop(connection, None)
        self._held.discard(connection)

    def hold(self, connection: "Connection") -> bool:
        """Keep a connection until its request is answered; False if too many are held."""
        if connection in self._waiting:  # else it is held already, or was closed meanwhile
            if len(self._held) >= self._most_held:  # guard: connections-reserve
                return False
            del self._waiting[connection]
            self._held.add(connection)
        return True

    def holds(self, connection: "Connection") -> bool:
        """Whether the caller of its request was let in."""
        return connection in self._held

    def release(self, connection: "Connection") -> None:
        """Let a connection wait again, as the last, because its request was answered."""
        if connection in self._held or connection in self._waiting:
            self.remove(connection)
            self._waiting[connection] = None

    def _log_closed(self) -> None:
        """Log that connections were closed, once a minute."""
        self._closed += 1
        now = time.monotonic()
        if self._logged_at is None or now - self._logged_at >= _QUIET_S:  # guard: connections-log
            message = "%d connections are open, which is the most; %d that waited longest without a token were closed;"
            message += " bound them in a proxy, or raise the limit of open files"
            _logger.warning(message, self._most, self._closed)
            self._logged_at, self._closed = now, 0


class Connection(HttpToolsProtocol):
    """Bounds the head of each request (its first line and headers), which uvicorn leaves to whoever asks."""

    _head = 0  # bytes of the head that is being read
    _end: asyncio.TimerHandle | None = None  # set while a head is awaited

    def __init__(
        self,
        config: Config,
        server_state: Connections,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._all = server_state

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn has it
        """Await the first head."""
        super().connection_made(transport)
        self._all.add(self)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Await nothing any more."""
        self._has_head()
        self._all.remove(self)
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        self._all.release(self)
        super().on_response_complete()

    def data_received(self, data: bytes) -> None:
        """Read on; what has come of a head that is not whole yet counts, also where its header has no end."""
        if self.cycle is None or self.cycle.response_complete:  # an empty line is no request, and keeps nothing open
            self._await_head()
        begun = self._head
        super().data_received(data)
        if self._end is not None and begun and not self.transport.is_closing():
            self._head = max(self._head, begun + len(data))
            if self._head > MOST_BYTES:
                self.send_400_response("The headers are too large.")

    def shutdown(self) -> None:
        """Close when the server stops, after the answer to a request that is whole or whose caller was let in."""
        if self.cycle is not None and self.cycle.more_body and not self._all.holds(self):
            self.transport.abort()
        else:
            super().shutdown()

    def on_message_begin(self) -> None:
        """Begin with a head."""
        self._head = 1
        self._await_head()
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """Read a part of the address."""
        self._count(url)
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Read a header."""
        self._count(name, value)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Let a request take the time that it needs, if it is plain whom it asks for what."""
        self._has_head()
        self._head = 0  # what comes now is a body, even where nobody reads it
        hosts = sum(name == b"host" for name, _ in self.headers)
        if not self.url.startswith(b"/") or (hosts != 1 and self.parser.get_http_version() == "1.1"):
            raise Unreadable
        cast("dict[str, Any]", self.scope)[HOLD] = functools.partial(self._all.hold, self)
        super().on_headers_complete()

    def _count(self, *parts: bytes) -> None:
        self._head += sum(map(len, parts))
        if self._head > MOST_BYTES:
            raise Unreadable

    def _await_head(self) -> None:
        if self._end is None:
            self._end = self.loop.call_later(MOST_S, self._give_up)

    def _has_head(self) -> None:
        if self._end is not None:
            self._end.cancel()
            self._end = None

    def _give_up(self) -> None:
        self._end = None
        if not self.transport.is_closing():
            self.transport.close()
