"""A long way to the server: a TCP proxy that hands on every byte so many milliseconds later, in both directions.

`python -m benchmarks.scale.delay --dsn DSN --ms 1` prints its port and works until its standard input ends.
"""

import argparse
import asyncio
import selectors
import socket
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from benchmarks.scale import children


class _End(asyncio.Protocol):
    """One end of a link; what comes in here goes out at the other end later."""

    def __init__(self, delay_s: float) -> None:
        self.transport: asyncio.Transport | None = None
        self.other: _End | None = None
        self._delay_s = delay_s
        self._waiting: deque[tuple[float, bytes]] = deque()
        self._is_over = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send small packets at once; asyncio sets TCP_NODELAY by itself, but not on every kind of socket."""
        if not isinstance(transport, asyncio.Transport):
            raise TypeError
        self.transport = transport
        made = transport.get_extra_info("socket")
        if made.family != socket.AF_UNIX:
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def data_received(self, data: bytes) -> None:
        """Keep what came until it is due at the other end; pieces never overtake each other."""
        loop = asyncio.get_running_loop()
        self._waiting.append((loop.time() + self._delay_s, data))
        if len(self._waiting) == 1:
            loop.call_at(self._waiting[0][0], self._hand_on)

    def connection_lost(self, exc: Exception | None) -> None:
        """Close the other end too, after what is still on its way."""
        del exc
        self._is_over = True
        if not self._waiting:
            self._close_other()

    def _hand_on(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting and self._waiting[0][0] <= loop.time():
            _, data = self._waiting.popleft()
            if self.other is not None and self.other.transport is not None:
                self.other.transport.write(data)
        if self._waiting:
            loop.call_at(self._waiting[0][0], self._hand_on)
        elif self._is_over:
            self._close_other()

    def _close_other(self) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.close()


class _Front(_End):
    """The end at which clients arrive; each gets a connection of its own to the server."""

    def __init__(self, delay_s: float, dsn: str) -> None:
        super().__init__(delay_s)
        self._dsn = dsn
        self._reaching: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Reach for the server; the client waits meanwhile."""
        super().connection_made(transport)
        if self.transport is not None:
            self.transport.pause_reading()
        self._reaching = asyncio.get_running_loop().create_task(self._reach())

    async def _reach(self) -> None:
        loop = asyncio.get_running_loop()
        self.other = back = _End(self._delay_s)
        back.other = self
        host, port = _address(self._dsn)
        if host.startswith("/"):
            await loop.create_unix_connection(lambda: back, f"{host}/.s.PGSQL.{port}")
        else:
            await loop.create_connection(lambda: back, host, port)
        if self.transport is not None:
            self.transport.resume_reading()


def _address(dsn: str) -> tuple[str, int]:
    parts = urlsplit(dsn)
    query = dict(parse_qsl(parts.query))
    return query.get("host") or parts.hostname or "localhost", parts.port or int(query.get("port", 5432))


@contextmanager
def delayed(dsn: str, delay_ms: float) -> Iterator[str]:
    """Give the address of the same server by a long way."""
    with children.beside("benchmarks.scale.delay", "--dsn", dsn, "--ms", delay_ms) as child:
        if child.stdout is None:
            raise ValueError
        port = int(child.stdout.readline())
        parts = urlsplit(dsn)
        user = parts.netloc.rpartition("@")[0]
        query = [(name, value) for name, value in parse_qsl(parts.query) if name not in {"host", "port"}]
        where = f"{user}@127.0.0.1:{port}" if user else f"127.0.0.1:{port}"
        yield urlunsplit((parts.scheme, where, parts.path, urlencode([*query, ("sslmode", "disable")]), ""))


async def _serve(dsn: str, delay_s: float) -> None:
    loop = asyncio.get_running_loop()
    over = asyncio.Event()
    loop.add_reader(sys.stdin.fileno(), over.set)
    server = await loop.create_server(lambda: _Front(delay_s, dsn), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await over.wait()


def main() -> None:
    """Stand between clients and the server."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--dsn", required=True)
    parser.add_argument("--ms", type=float, required=True)
    arguments = parser.parse_args()
    # epoll counts in whole milliseconds and rounds up, select in microseconds.
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selectors.SelectSelector())) as runner:
        runner.run(_serve(arguments.dsn, arguments.ms / 1_000))


if __name__ == "__main__":
    main()
