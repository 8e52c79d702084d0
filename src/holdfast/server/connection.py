"""One connection: what is asked for must be said briefly and soon, or it is closed."""

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MOST_BYTES = 65_536
MOST_S = 10.0


class Unreadable(ValueError):
    """What the parser takes for a mistake of whoever asks: 400, and the connection is closed."""


class Connection(HttpToolsProtocol):
    """Bounds the head of each request (its first line and headers), which uvicorn leaves to whoever asks."""

    _head = 0  # bytes of the head that is being read
    _end: asyncio.TimerHandle | None = None  # set while a head is awaited

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn has it
        """Await the first head."""
        super().connection_made(transport)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Await nothing any more."""
        self._has_head()
        super().connection_lost(exc)

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
