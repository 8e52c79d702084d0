"""The head of a request: bounded in bytes, however it comes, and in time, whether or not anything comes."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send

from holdfast.server import connection
from holdfast.server.connection import MOST_BYTES, Connection, Connections
from tests.support.wait import PATIENCE_S

HEAD = b"GET / HTTP/1.1\r\nHost: here\r\n"
SOON_S = 0.2


async def told(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer when the whole body is there, or at once where that is asked for."""
    while scope["path"] != "/early" and (await receive()).get("more_body"):
        pass
    headers = [(b"content-length", b"2")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": scope["method"][:2].encode()})


async def rest(reader: asyncio.StreamReader) -> bytes:
    """Read until the connection is closed; nothing, if that was while something was on its way there."""
    try:
        return await reader.read()
    except ConnectionError:
        return b""


Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a head be awaited for a moment only."""
    monkeypatch.setattr(connection, "MOST_S", SOON_S)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a head be awaited for longer than any test takes."""
    monkeypatch.setattr(connection, "MOST_S", 1_000.0)


@pytest.fixture
async def streams() -> AsyncIterator[Streams]:
    """Give a connection to a server."""
    config = uvicorn.Config(told, http=Connection, ws="none", log_config=None, lifespan="off")
    state, loop = Connections(10), asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(config, state, {}), "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    async with asyncio.timeout(PATIENCE_S):
        yield reader, writer
    writer.close()
    server.close()


async def test_heads_of_any_cut(streams: Streams) -> None:
    """Several requests on one connection, cut anywhere, with bodies, and the next one begun before the answer."""
    reader, writer = streams
    body = b"POST / HTTP/1.1\r\nHost: here\r\nContent-Length: 70000\r\n\r\n" + b"x" * 70_000
    sent = (HEAD + b"\r\n" + body) * 3
    for cut in (4_999, 70_011, len(sent)):
        for start in range(0, len(sent), cut):
            writer.write(sent[start : start + cut])
            await writer.drain()
        for expected in (b"GE", b"PO") * 3:
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
            assert await reader.readexactly(2) == expected


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize(
    "parts",
    [
        [HEAD, b"X: " + b"a" * (MOST_BYTES + 1) + b"\r\n\r\n"],
        [HEAD, *[b"X: 1234567890\r\n"] * (MOST_BYTES // 10)],
        [HEAD, b"X: ", *[b"a" * 10_000] * 8],
        [b"GET /" + b"a" * (MOST_BYTES + 1) + b" HTTP/1.1\r\n"],
        [b"GET /", *[b"a" * 10_000] * 8],
    ],
    ids=["one header", "many headers", "a header without an end", "an address", "an address without an end"],
)
async def test_a_head_that_is_too_large(streams: Streams, parts: list[bytes]) -> None:
    reader, writer = streams
    for part in parts:
        writer.write(part)
        await asyncio.sleep(0)
    assert (await rest(reader))[:13] in {b"HTTP/1.1 400 ", b""}


async def test_a_head_of_the_largest_size(streams: Streams) -> None:
    reader, writer = streams
    writer.write(HEAD + b"X: " + b"a" * (MOST_BYTES - 100) + b"\r\n\r\n")
    assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")


@pytest.mark.real_time  # a bound in time must really pass
@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("begun", [b"", HEAD, HEAD + b"\r\n"], ids=["nothing", "a part", "a request before"])
async def test_a_head_that_does_not_come(streams: Streams, begun: bytes) -> None:
    """It is closed, also where a byte comes now and then."""
    reader, writer = streams
    writer.write(begun)
    if begun.endswith(b"\r\n\r\n"):
        await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(2)

    async def trickle() -> None:
        while True:
            writer.write(b"\r\n" if begun.endswith(b"\r\n\r\n") else b"a" if begun else b"")
            await asyncio.sleep(SOON_S / 10)  # the fault itself: a byte now and then

    trickling = asyncio.create_task(trickle())
    assert b"HTTP/1.1 200 " not in await rest(reader)
    trickling.cancel()


async def test_the_rest_of_a_body_that_nobody_reads_is_no_head(streams: Streams) -> None:
    """Whoever was refused early gets one answer, and the next request its own."""
    reader, writer = streams
    writer.write(b"POST /early HTTP/1.1\r\nHost: here\r\nContent-Length: 200000\r\n\r\n")
    assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
    assert await reader.readexactly(2) == b"PO"
    for _ in range(20):
        writer.write(b"x" * 10_000)
        await writer.drain()
    writer.write(HEAD + b"\r\n")
    assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
    assert await reader.readexactly(2) == b"GE"


@pytest.mark.real_time  # a bound in time must really pass
@pytest.mark.usefixtures("impatient")
async def test_a_body_may_take_its_time(streams: Streams) -> None:
    reader, writer = streams
    writer.write(b"POST / HTTP/1.1\r\nHost: here\r\nContent-Length: 2\r\n\r\n")
    await asyncio.sleep(SOON_S * 3)  # longer than a head may take
    writer.write(b"{}")
    assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
