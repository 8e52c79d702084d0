"""More connections than a server has files: callers without a token cannot take them all, nor fill the log."""

import contextlib
import resource
import signal
import socket
import threading
import time
from collections import deque
from collections.abc import Iterator

import httpx2
import pytest

from holdfast.server import serving
from holdfast.server.settings import ServerSettings
from tests.cli.conftest import Shop, alone, migrated_file, postgres_shop, shop, sqlite_shop
from tests.server.running import program
from tests.server.test_many_clients import Served
from tests.server.test_many_clients import serving as served
from tests.support.connections import show
from tests.support.sizes import size
from tests.support.wait import PATIENCE_S, until
from tests.support.web import bearing
from tests.support.workers import MakeApp

__all__ = ["alone", "migrated_file", "postgres_shop", "shop", "sqlite_shop"]

QUEUES = "/api/v1/queues"
FILES = size(192, 1_024)
CONNECTIONS = size(400, 1_500)
_FORM = b"POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n"
_FORM += b"Content-Type: application/x-www-form-urlencoded\r\n\r\ntoken="
_BETWEEN_S = 0.02


class Flood:
    """Holds many connections, each with a form that never ends, and always opens further ones."""

    def __init__(self, port: int, count: int) -> None:
        self._port = port
        self._count = count
        self._links: deque[socket.socket] = deque()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.is_full = threading.Event()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                link = socket.create_connection(("127.0.0.1", self._port), PATIENCE_S)
            except OSError:
                return  # the server has ended
            self._links.append(link)
            with contextlib.suppress(OSError):
                link.sendall(_FORM)
            if len(self._links) > self._count:
                self.is_full.set()
                self._links.popleft().close()
                self._stop.wait(_BETWEEN_S)  # the fault itself: new connections at a steady rate

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Attack while a block runs."""
        self._thread.start()
        try:
            assert self.is_full.wait(PATIENCE_S), "the server takes no more connections"
            yield
        finally:
            self._stop.set()
            self._thread.join(PATIENCE_S)
            for link in self._links:
                link.close()


def open_stream(port: int, secret: str) -> socket.socket:
    """Follow everything."""
    link = socket.create_connection(("127.0.0.1", port), PATIENCE_S)
    head = f"GET /api/v1/stream HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {secret}\r\n\r\n"
    link.sendall(head.encode())
    read = b""
    while b"event: snapshot" not in read:
        read += link.recv(65_536)
    return link


def is_open(link: socket.socket) -> bool:
    """Whether the other end has not closed."""
    link.setblocking(False)
    try:
        while link.recv(65_536):
            pass
    except BlockingIOError:
        return True
    return False


@pytest.mark.real_time
@pytest.mark.timeout(120)
@pytest.mark.guards("connections-most", "connections-log")
def test_a_server_answers_beside_more_connections_than_it_may_open_files(shop: Shop) -> None:
    shop.ok("migrate", "up")
    secret = shop.ok("tokens", "create", "--name", "ops", "--role", "viewer").strip()
    took = []
    with program(shop.folder, "serve", "-A", "shop:app", "--port", "0") as server:
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (FILES, FILES))
        address = server.address()
        port = int(address.rpartition(":")[2])
        with contextlib.closing(open_stream(port, secret)) as stream, Flood(port, CONNECTIONS).running():
            for _ in range(size(10, 200)):
                for path, status in (("/healthz", 200), ("/readyz", 200), (QUEUES, 200), ("/api/v1/nothing", 404)):
                    began = time.perf_counter()
                    answer = httpx2.get(f"{address}{path}", headers=bearing(secret), timeout=PATIENCE_S)
                    took.append(time.perf_counter() - began)
                    assert answer.status_code == status, answer.text
            assert is_open(stream), "a caller with a token loses nothing to those without"
            assert server.end(signal.SIGTERM) == 0
        log = server.rest()
    show(f"the slowest of {len(took)} answers took {max(took) * 1_000:.0f} ms")
    assert [line for line in log if "is the most" in line], log
    assert len(log) < 5, log


@pytest.mark.guards("connections-reserve", "connections-held")
async def test_streams_leave_places_for_those_who_look_whether_a_server_lives(make_sqlite_memory: MakeApp) -> None:
    most = 8
    app = make_sqlite_memory()
    async with app, app.events(), served(app, most=most) as server:
        streams = await server.clients(most - 1)
        base = f"http://127.0.0.1:{server.port}"
        async with httpx2.AsyncClient(base_url=base, headers=bearing(server.token)) as web:
            refused = await web.get(QUEUES)
            assert (refused.status_code, refused.json()["type"]) == (503, "urn:holdfast:too-many-connections")
            assert refused.headers["retry-after"] == "5"
            assert (await web.get("/healthz")).text == "ok"
            assert (await web.get("/readyz")).text == "ready"
            streams[0].transport.abort()
            await until(lambda: server.streams.open == most - 2, "a stream is gone")
            assert (await web.get(QUEUES)).status_code == 200
        assert not any(stream.left.is_set() for stream in streams[1:])


async def test_an_answered_connection_waits_again_behind_those_that_wait(make_sqlite_memory: MakeApp) -> None:
    """Of connections without a request, the one that was used last is closed last."""
    app = make_sqlite_memory()
    async with app, app.events(), served(app, most=4) as server:
        used, idle = connected(server), connected(server)
        used.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        await until(lambda: readable(used), "it is answered")
        others = [connected(server) for _ in range(3)]
        await until(lambda: not is_open(idle), "the oldest is closed")
        assert is_open(used)
        assert all(map(is_open, others))
        for link in (used, idle, *others):
            link.close()


def connected(server: Served) -> socket.socket:
    """Connect; a server accepts in this order."""
    return socket.create_connection(("127.0.0.1", server.port), PATIENCE_S)


def readable(link: socket.socket) -> bool:
    """Whether something has come, without taking it."""
    link.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        return bool(link.recv(1, socket.MSG_PEEK))
    return False


@pytest.mark.parametrize("files, most", [(1_024, 896), (192, 96), (1_000_000, 3_000)])
def test_a_server_has_fewer_connections_than_files(monkeypatch: pytest.MonkeyPatch, files: int, most: int) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (files, files))
    assert serving.most_connections(ServerSettings()) == most
