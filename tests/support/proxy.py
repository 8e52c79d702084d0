"""A link that can be slow, silent or cut: a TCP proxy in front of PostgreSQL that reads along.

It follows the protocol just far enough to know which statement is being executed and when the server has answered it,
so that a link can be cut exactly between the server's commit and the client's knowledge of it.
"""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from enum import Enum
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

_CHUNK = 65_536
_READY = b"Z"


INSERTS = (".insert_jobs(", ".jobs (")  # what a client sends: the function, or for one plain job the statement itself


class Fault(Enum):
    """What happens around one statement."""

    CUT_BEFORE = "the request never reaches the server"
    CUT_REPLY = "the server has answered, the client never hears it"
    CUT_WITHIN_REPLY = "the client hears the first bytes of the answer"
    SILENT_AFTER = "the client hears the answer, then nothing any more"


class Proxy:
    """Forwards connections to a server, and breaks them on request."""

    def __init__(self, dsn: str) -> None:
        self.faults = 0
        self.latency_s = 0.0
        self._upstream = dsn
        self._armed: list[tuple[Fault, tuple[bytes, ...], int]] = []
        self._flows = asyncio.Event()
        self._flows.set()
        self._links: set[_Link] = set()
        self._server: asyncio.Server | None = None

    async def open(self) -> None:
        """Listen on a free port of the loopback interface."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)

    async def close(self) -> None:
        """Stop listening and cut what is still connected."""
        if self._server is not None:
            self._server.close()
            await self.cut_all()
            await self._server.wait_closed()

    @property
    def dsn(self) -> str:
        """The server's address, through this proxy."""
        assert self._server is not None
        port = self._server.sockets[0].getsockname()[1]
        parts = urlsplit(self._upstream)
        user = parts.netloc.rpartition("@")[0]
        query = [(name, value) for name, value in parse_qsl(parts.query) if name not in {"host", "port"}]
        netloc = f"{user}@127.0.0.1:{port}" if user else f"127.0.0.1:{port}"
        return urlunsplit((parts.scheme, netloc, parts.path, urlencode([*query, ("sslmode", "disable")]), ""))

    @property
    def links(self) -> int:
        """How many connections there are."""
        return len(self._links)

    def arm(self, fault: Fault, *markers: str, times: int = 1) -> None:
        """Let a fault happen around the next executions of a statement that contains one of the markers."""
        self._armed.append((fault, tuple(marker.encode() for marker in markers), times))

    def disarm(self) -> None:
        """Let no further fault happen."""
        self._armed.clear()

    def silence(self) -> None:
        """Forward nothing any more: the black hole."""
        self._flows.clear()

    def heal(self) -> None:
        """Forward again, what was held back too."""
        self._flows.set()

    async def cut_all(self) -> None:
        """Reset every connection."""
        links = list(self._links)
        for link in links:
            link.reset()
        await asyncio.gather(*(link.ended() for link in links))

    def take(self, sql: bytes) -> Fault | None:
        """Find the fault that is to happen around this statement."""
        for place, (fault, markers, times) in enumerate(self._armed):
            if any(marker in sql for marker in markers):
                if times == 1:
                    del self._armed[place]
                else:
                    self._armed[place] = (fault, markers, times - 1)
                self.faults += 1
                return fault
        return None

    async def flow(self) -> None:
        """Wait as long as the link is silent or slow."""
        if self.latency_s:
            await asyncio.sleep(self.latency_s)  # the fault itself: a slow link
        await self._flows.wait()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = _Link(self, reader, writer)
        self._links.add(link)
        try:
            await link.run()
        finally:
            self._links.discard(link)

    async def connect_upstream(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to the server itself."""
        parts = urlsplit(self._upstream)
        query = dict(parse_qsl(parts.query))
        host, port = query.get("host") or parts.hostname or "localhost", parts.port or int(query.get("port", 5432))
        if host.startswith("/"):
            return await asyncio.open_unix_connection(f"{host}/.s.PGSQL.{port}")
        return await asyncio.open_connection(host, port)


class _Link:
    """One client's connection and its counterpart."""

    def __init__(self, proxy: Proxy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._proxy = proxy
        self._client = (reader, writer)
        self._writers = [writer]
        self._pumps: list[asyncio.Task[None]] = []
        self._statements: dict[bytes, bytes] = {}
        self._fault: Fault | None = None
        self._over = asyncio.Event()

    async def run(self) -> None:
        try:
            await self._proxy.flow()
            server = await self._proxy.connect_upstream()
            self._writers.append(server[1])
            self._pumps = [
                asyncio.create_task(self._requests(self._client[0], server[1])),
                asyncio.create_task(self._replies(server[0], self._client[1])),
            ]
            await asyncio.wait(self._pumps, return_when=asyncio.FIRST_COMPLETED)
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            await self._end()

    def reset(self) -> None:
        """Break both sides at once; the peer sees a reset, not an orderly end."""
        for writer in self._writers:
            _abort(writer)
        for pump in self._pumps:
            pump.cancel()
        self._over.set()

    async def ended(self) -> None:
        await self._over.wait()

    async def _end(self) -> None:
        for pump in self._pumps:
            pump.cancel()
        await asyncio.gather(*self._pumps, return_exceptions=True)
        for writer in self._writers:
            _abort(writer)
            with suppress(OSError):
                await writer.wait_closed()
        self._over.set()

    async def _requests(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        messages = _Messages(starts_untyped=True)
        while data := await _read(reader):
            for kind, body in messages.feed(data):
                self._notice(kind, body)
            if self._fault is Fault.CUT_BEFORE:
                return
            await self._proxy.flow()
            if not await _write(writer, data):
                return

    def _notice(self, kind: bytes, body: bytes) -> None:
        """Follow which statement is being executed."""
        if kind == b"P":
            name, sql, *_ = body.split(b"\0")
            self._statements[name] = sql
        elif kind == b"B":
            _, name, *_ = body.split(b"\0")
            self._fault = self._fault or self._proxy.take(self._statements.get(name, b""))
        elif kind == b"Q":
            self._fault = self._fault or self._proxy.take(body)

    async def _replies(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        messages = _Messages(starts_untyped=False)
        while data := await _read(reader):
            ready = any(kind == _READY for kind, _ in messages.feed(data))
            await self._proxy.flow()
            if self._fault in {None, Fault.SILENT_AFTER}:
                if not await _write(writer, data):
                    return
                if self._fault and ready:
                    self._proxy.silence()
                    self._fault = None
            elif self._fault is Fault.CUT_WITHIN_REPLY:
                await _write(writer, data[: max(1, len(data) // 2)])
                return
            elif ready:  # everything up to here was swallowed
                return


class _Messages:
    """Cuts a stream into messages of the PostgreSQL protocol."""

    def __init__(self, *, starts_untyped: bool) -> None:
        self._buffer = b""
        self._untyped = starts_untyped

    def feed(self, data: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Give every message that is complete now."""
        self._buffer += data
        while True:
            head = 4 if self._untyped else 5
            if len(self._buffer) < head:
                return
            (length,) = struct.unpack("!I", self._buffer[head - 4 : head])
            end = head - 4 + length
            if len(self._buffer) < end:
                return
            kind = b"" if self._untyped else self._buffer[:1]
            body, self._buffer = self._buffer[head:end], self._buffer[end:]
            self._untyped = False
            yield kind, body


async def _read(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read(_CHUNK)
    except OSError:
        return b""


async def _write(writer: asyncio.StreamWriter, data: bytes) -> bool:
    try:
        writer.write(data)
        await writer.drain()
    except OSError:
        return False
    return True


def _abort(writer: asyncio.StreamWriter) -> None:
    raw: Any = writer.get_extra_info("socket")
    if raw is not None and raw.family == socket.AF_INET:
        with suppress(OSError):
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


@asynccontextmanager
async def proxied(dsn: str) -> AsyncIterator[Proxy]:
    """Give a proxy in front of a server."""
    proxy = Proxy(dsn)
    await proxy.open()
    try:
        yield proxy
    finally:
        proxy.heal()
        await proxy.close()
