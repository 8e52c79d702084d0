"""`holdfast serve`: closed to others by default, one address, a clean end."""

import contextlib
import json
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx2
import pytest

from holdfast import Holdfast
from holdfast.cli.main import standalone
from holdfast.errors import InvalidValue
from holdfast.server import serving
from holdfast.server.settings import ServerSettings
from tests.cli.conftest import Shop, alone, sqlite_shop
from tests.server import guessing
from tests.server.running import fields, program
from tests.server.speaking import poured, resident_mb, spoken
from tests.support.connections import show
from tests.support.sizes import size
from tests.support.web import PAGE, bearing, made_token

__all__ = ["alone", "sqlite_shop"]

QUEUES = "/api/v1/queues"
EVERYWHERE = "0.0.0.0"  # noqa: S104 - that is what is refused


@pytest.mark.real_time
@pytest.mark.timeout(300)
def test_it_serves_and_ends_cleanly(sqlite_shop: Shop) -> None:
    """One server, all that needs a real one: F50, metrics, what the operating system knows of it, SIGTERM."""
    sqlite_shop.ok("migrate", "up")
    with program(sqlite_shop.folder, "serve", "-A", "shop:app", "--port", "0", "--metrics") as server:
        address = server.address()
        assert address.startswith("http://127.0.0.1:")
        with httpx2.Client(base_url=address) as web:
            assert web.get("/healthz").text == "ok"
            assert web.get("/readyz").text == "ready"
            assert web.get(QUEUES).status_code == 200, "there is no token, and this is the same machine"
            assert web.get("/queues", headers=PAGE).status_code == 200
            sqlite_shop.ok("queues", "pause", "high")
            metrics = web.get("/metrics")
            assert metrics.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
            listed = 'holdfast_http_request_duration_seconds_count{method="GET",route="list_queues",status="200"} 1.0'
            assert listed in metrics.text
            assert "holdfast_queue_paused" not in metrics.text, "the process that leads says that, and no other"
            port = address.rpartition(":")[2]
            for path in ("/healthz", QUEUES, "/api/v1/stream"):
                rebound = web.get(path, headers={"host": f"evil.example:{port}"})
                assert rebound.status_code == 421
            evil = {"origin": "http://evil.example"}
            assert web.post(f"{QUEUES}/high/pause", headers=evil).status_code == 403
            assert web.get("/api/v1/stream", headers=evil | {"accept": "text/event-stream"}).status_code == 403
            forwarded = {"x-forwarded-for": "127.0.0.1"}
            assert web.get(QUEUES, headers=forwarded).status_code == 401, "uvicorn believes no header by itself"
            assert "server" not in web.get("/healthz").headers
        speak(int(port), server.process.pid)
        secret = sqlite_shop.ok("tokens", "create", "--name", "ops", "--role", "viewer").strip()
        with httpx2.Client(base_url=address) as web:
            assert web.get(QUEUES, headers=bearing(secret)).status_code == 200
            assert web.post(f"{QUEUES}/high/pause", headers=bearing(secret)).status_code == 403
            withstand(web, secret)
        cmdline = Path(f"/proc/{server.process.pid}/cmdline").read_bytes()
        assert secret.encode() not in cmdline
        assert server.end(signal.SIGTERM) == 0
        assert not any(secret in line for line in server.lines)


GET, PAUSE, HERE = "GET /api/v1/queues HTTP/1.1", f"POST {QUEUES}/high/pause HTTP/1.1", "Host: 127.0.0.1"
SOCKET = ("Upgrade: websocket", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version: 13")
SPOKEN: list[tuple[int, tuple[str, ...], bytes]] = [
    (200, (GET, HERE), b""),
    (400, (GET, HERE, "Host: evil.example"), b""),
    (400, (GET,), b""),
    (421, ("GET /healthz HTTP/1.0",), b""),
    (421, ("GET /static/app.css HTTP/1.1", "Host: evil.example"), b""),
    (400, (PAUSE, HERE, "Content-Length: 2", "Content-Length: 3"), b"{}x"),
    (400, (PAUSE, HERE, "Content-Length: 2", "Transfer-Encoding: chunked"), b"0\r\n\r\nGET / HTTP/1.1\r\n\r\n"),
    (400, (PAUSE, HERE, "Transfer-Encoding: xchunked"), b"0\r\n\r\n"),
    (400, (GET, HERE, f"X: {'a' * 200_000}"), b""),
    (400, (f"GET {QUEUES}?{'a' * 200_000} HTTP/1.1", HERE), b""),
    (421, (GET, "Host: evil.example", *SOCKET), b""),
    (403, (GET, HERE, "Origin: http://evil.example", *SOCKET), b""),
    (200, (GET, HERE, *SOCKET), b""),
    (405, ("TRACE / HTTP/1.1", HERE, "X-Secret: canary"), b""),
    (405, (f"GET {QUEUES}/high/pause HTTP/1.1", HERE, "X-HTTP-Method-Override: POST"), b""),
    (400, ("GET http://evil.example/api/v1/queues HTTP/1.1", HERE), b""),
]


def speak(port: int, pid: int) -> None:
    """Say what no client would; a body without an end is refused once it is too large, and takes no memory (F4)."""
    for status, lines, body in SPOKEN:
        said = spoken(port, *lines, body=body)
        assert said.startswith(f"HTTP/1.1 {status} "), (lines[0][:80], said[:200])
        assert said.count("HTTP/1.1 ") == 1
        assert "canary" not in said
    before = resident_mb(pid)
    for path in (f"{QUEUES}/high/pause", "/queues/high/pause", "/login"):
        said = poured(port, path, size(20_000_000, 200_000_000))
        assert said.startswith("HTTP/1.1 413 "), said[:200]
    assert resident_mb(pid) - before < 10


def withstand(good: httpx2.Client, secret: str) -> None:
    """Let somebody at the same address guess (H16), while a token that was right goes on.

    What that costs the other is shown and not asserted: one process answers both.
    """
    rate, seconds = size(200, 1_000), size(1, 10)

    def p95_ms() -> float:
        took = []
        for _ in range(size(20, 1_000)):
            start = time.perf_counter()
            assert good.get(QUEUES, headers=bearing(secret)).status_code == 200
            took.append(time.perf_counter() - start)
        return sorted(took)[len(took) * 95 // 100] * 1_000

    quiet = p95_ms()
    command = [sys.executable, guessing.__file__, str(good.base_url.port), QUEUES, str(rate), str(seconds)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as others:
        flooded = p95_ms()
        told, _ = others.communicate()
    found = json.loads(told)
    show(f"p95 {quiet:.1f} ms; while others guess {found['rate']:.0f} times a second {flooded:.1f} ms")
    assert found["statuses"].keys() == {"401", "429"}
    assert found["statuses"]["401"] <= 20, "a few more are let through as time goes on"


def test_a_public_address_without_a_token_is_refused(sqlite_shop: Shop) -> None:
    sqlite_shop.ok("migrate", "up")
    public = (
        ["--host", EVERYWHERE],
        ["--host", "::"],
        ["--url", "https://jobs.example.org"],
        ["--proxy", "10.0.0.0/8"],
    )
    for more in public:
        result = sqlite_shop("serve", "--port", "0", *more)
        assert (result.exit_code, result.stdout) == (2, "")
        assert "holdfast tokens create" in result.stderr
        assert "127.0.0.1" in result.stderr


async def test_what_opens_a_public_address(memory_app: Holdfast) -> None:
    public = ServerSettings(host=EVERYWHERE)
    store = memory_app.store
    assert await serving.lets_in_anybody(store, ServerSettings()) is True
    assert await serving.lets_in_anybody(store, ServerSettings(host="::1", url="http://localhost:1/")) is True
    with pytest.raises(InvalidValue):
        await serving.lets_in_anybody(store, public)
    sign_on = ServerSettings(host=EVERYWHERE, proxies=("10.0.0.0/8",), user_header="x-user")
    assert await serving.lets_in_anybody(store, sign_on) is False
    assert await serving.lets_in_anybody(store, ServerSettings(authorize=lambda _: None)) is False
    await made_token(memory_app, lasts_ms=1)
    await made_token(memory_app, kind="session")
    (token,) = await store.list_tokens("token")
    await store.revoke_token(token.id, actor="ada")
    with pytest.raises(InvalidValue):
        await serving.lets_in_anybody(store, public)
    await made_token(memory_app)
    assert await serving.lets_in_anybody(store, public) is False
    assert await serving.lets_in_anybody(store, ServerSettings()) is False


def test_a_file_an_option_and_a_path_of_its_own(sqlite_shop: Shop) -> None:
    """The section `server` holds, options lie over it, and the path of `url` is taken from what people see."""
    sqlite_shop.ok("migrate", "up")
    secret = sqlite_shop.ok("tokens", "create", "--name", "ops", "--role", "viewer").strip()
    file = sqlite_shop.folder / "holdfast.yaml"
    file.write_text(fields(url="https://jobs.example.org/tools", port=1, max_body=2_000), encoding="utf-8")
    env = {"HOLDFAST_SERVER__MAX_BODY": "4000"}
    with program(sqlite_shop.folder, "serve", "--port", "0", "--log-format", "json", **env) as server:
        server.until("https://jobs.example.org/tools/")
        ports = _ports(server.process.pid)
        assert len(ports) == 1
        with httpx2.Client(base_url=f"http://127.0.0.1:{ports[0]}") as web:
            for root in ("", "/tools"):  # a proxy that cuts it off, and one that does not
                answer = web.get(f"{root}/queues", headers=PAGE)
                assert (answer.status_code, answer.headers["location"]) == (303, "/tools/login?next=/tools/queues")
                assert web.get(f"{root}{QUEUES}", headers=bearing(secret)).status_code == 200
            answer = web.post(f"{QUEUES}/a/pause", headers=bearing(secret), content=b"x" * 4_001)
            assert answer.json()["detail"].startswith("the body may have 4,000 bytes")
        assert server.end(signal.SIGINT) == 0


def _ports(pid: int) -> list[int]:
    """Read on which ports a process listens."""
    links = []
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # it may close one while this looks
            links.append(str(link.readlink()))
    inodes = {link.removeprefix("socket:[").removesuffix("]") for link in links if link.startswith("socket:")}
    rows = [line.split() for line in Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]]
    return [int(row[1].rpartition(":")[2], 16) for row in rows if row[3] == "0A" and row[9] in inodes]


def test_what_cannot_be_served(sqlite_shop: Shop) -> None:
    assert sqlite_shop("serve", "--store", "sqlite:///nowhere.db", app=False).exit_code == 1
    assert sqlite_shop("serve", "--store", "sqlite://", app=False).exit_code == 1
    assert sqlite_shop("serve", "--proxy", "somewhere").exit_code == 1
    with socket.create_server(("127.0.0.1", 0)) as taken:
        result = sqlite_shop("serve", "--port", str(taken.getsockname()[1]))
    assert result.exit_code == 1
    assert "--port" in result.stderr
    assert "Traceback" not in result.output


def test_the_options_are_those_of_the_settings() -> None:
    given = {option.name for option in standalone.commands["serve"].params}
    assert {"host", "port", "url", "hosts", "proxies", "user_header", "role_header", "allow_unknown"} <= given
