"""Receivers that mean no good, servers that must never be reached, and addresses that lead to them."""

import asyncio
import contextlib
import gzip
import re
import ssl
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

from holdfast.webhooks.address import Target

Behaviour = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

# `{port}` is where a trap listens on 127.0.0.1 and ::1.
LOCAL_URLS = (
    "http://127.0.0.1:{port}/",
    "http://0x7f.1:{port}/",
    "http://0x7f000001:{port}/",
    "http://2130706433:{port}/",
    "http://0177.0.0.1:{port}/",
    "http://127.1:{port}/",
    "http://127.0.0.1.:{port}/",
    "http://0.0.0.0:{port}/",
    "http://0:{port}/",
    "http://10.0.0.1:{port}/",
    "http://172.16.0.1:{port}/",
    "http://192.168.0.1:{port}/",
    "http://100.64.0.1:{port}/",
    "http://169.254.169.254:{port}/latest/meta-data/",
    "http://168.63.129.16:{port}/",
    "http://192.0.0.192:{port}/",
    "http://198.18.0.1:{port}/",
    "http://224.0.0.1:{port}/",
    "http://255.255.255.255:{port}/",
    "http://[::1]:{port}/",
    "http://[0:0:0:0:0:0:0:1]:{port}/",
    "http://[::]:{port}/",
    "http://[::ffff:7f00:1]:{port}/",
    "http://[::ffff:169.254.169.254]:{port}/",
    "http://[::127.0.0.1]:{port}/",
    "http://[64:ff9b::7f00:1]:{port}/",
    "http://[2002:7f00:1::]:{port}/",
    "http://[2001:0:7f00:1::]:{port}/",
    "http://[2001:db8::1]:{port}/",
    "http://[fc00::1]:{port}/",
    "http://[fd00:ec2::254]:{port}/",
    "http://[fe80::1]:{port}/",
    "http://[fe80::1%eth0]:{port}/",
    "http://[fec0::1]:{port}/",
    "http://[ff02::1]:{port}/",
    "http://localhost:{port}/",
    "http://localhost.:{port}/",
    "http://LOCALHOST:{port}/",
    "http://hooks.localhost:{port}/",
    "http://ip6-localhost:{port}/",
    "http://metadata.google.internal:{port}/",
    "http://printer.local:{port}/",
    "http://①②⑦.⓪.⓪.①:{port}/",
    "http://１２７.０.０.１:{port}/",  # noqa: RUF001 - full-width digits are the point
    "http://127。0。0。1:{port}/",
    "http://ｌｏｃａｌｈｏｓｔ:{port}/",  # noqa: RUF001 - full-width letters are the point
    "http://user@127.0.0.1:{port}/",
    "http://example.org@127.0.0.1:{port}/",
    "http://example.org:80\\@127.0.0.1:{port}/",
    "http://127.0.0.1:{port}\r\n/",
    "http://127.0.0.1:{port}/a\r\nX-Smuggled: 1",
    "file://localhost/etc/passwd",
    "gopher://127.0.0.1:{port}/_x",
)

# Made only for these tests: it proves nothing to anybody who does not trust CERTIFICATE on purpose.
CERTIFICATE = """-----BEGIN CERTIFICATE-----
MIIBdTCCARygAwIBAgIBATAKBggqhkjOPQQDAjAcMRowGAYDVQQDDBFob29rcy5l
eGFtcGxlLm9yZzAgFw0yMDAxMDEwMDAwMDBaGA8yMTAwMDEwMTAwMDAwMFowHDEa
MBgGA1UEAwwRaG9va3MuZXhhbXBsZS5vcmcwWTATBgcqhkjOPQIBBggqhkjOPQMB
BwNCAAT0G4a1eF7RKUG68UUTnBvGmju7ksaOEJ71fxnj+vXhDtYDCBQZePuWeq9+
8Rm542COS1vxFHSP17S42DJMkIDwo00wSzAcBgNVHREEFTATghFob29rcy5leGFt
cGxlLm9yZzAMBgNVHRMEBTADAQH/MB0GA1UdDgQWBBT3Ue4KwyXWbkZtgsIKfASf
9eQj9zAKBggqhkjOPQQDAgNHADBEAiA53aHAWRB2RISzSWypEAceIU4/lgDLwkkF
jvLximeoJAIgBldt4HNdnp9ux/MP9VekqqbHFNJVzGNq0kstm+m/vPc=
-----END CERTIFICATE-----
"""
_KEY = """-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgPxIf+xafl68qsp9M
cxxY7QCp6hixEpMXokHcypvybhihRANCAAT0G4a1eF7RKUG68UUTnBvGmju7ksaO
EJ71fxnj+vXhDtYDCBQZePuWeq9+8Rm542COS1vxFHSP17S42DJMkIDw
-----END PRIVATE KEY-----
"""


def unguarded(url: str, port: int) -> Target:
    """A target as it would be stored if registration had no guard at all."""
    found = re.match(r"(?P<scheme>\w+)://(?:[^@/]*@)?(?P<host>\[[^\]]*\]|[^:/]*)(?::\d+)?(?P<path>.*)", url, re.DOTALL)
    assert found is not None
    return Target(found["scheme"], found["host"].strip("[]"), port, found["path"])


def server_context() -> ssl.SSLContext:
    """TLS as `hooks.example.org`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "both.pem"
        file.write_text(CERTIFICATE + _KEY)
        context.load_cert_chain(file)
    return context


@contextlib.asynccontextmanager
async def serving(behaviour: Behaviour, context: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """Serve on 127.0.0.1 until the block ends; gives the port."""
    running: set[asyncio.Task[None]] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        running.add(task)
        with contextlib.suppress(OSError, asyncio.CancelledError, asyncio.IncompleteReadError):
            await behaviour(reader, writer)
        writer.transport.abort()

    server = await asyncio.start_server(handle, "127.0.0.1", 0, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


class Trap:
    """Listens on 127.0.0.1 and ::1 at one port, and counts who comes."""

    def __init__(self) -> None:
        self.hits = 0
        self.port = 0

    async def _hit(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.hits += 1
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
        writer.close()

    @contextlib.asynccontextmanager
    async def listening(self) -> AsyncIterator["Trap"]:
        async with contextlib.AsyncExitStack() as stack:
            server = await asyncio.start_server(self._hit, "127.0.0.1", 0)
            stack.callback(server.close)
            self.port = server.sockets[0].getsockname()[1]
            with contextlib.suppress(OSError):  # a machine without IPv6 has no ::1 to protect
                stack.callback((await asyncio.start_server(self._hit, "::1", self.port)).close)
            yield self


class Recorder:
    """Keeps every request byte by byte, and answers as told."""

    def __init__(self, answer: bytes = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok") -> None:
        self.answer = answer
        self.heads: list[bytes] = []
        self.bodies: list[bytes] = []

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head, body = await read_request(reader)
        self.heads.append(head)
        self.bodies.append(body)
        writer.write(self.answer)
        await writer.drain()
        await reader.read()  # until the sender closes: the end of an answer is not ours to decide


async def read_request(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """Read one request with a Content-Length."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = re.search(rb"(?i)\r\ncontent-length: (\d+)", head)
    return head, await reader.readexactly(int(length[1]) if length else 0)


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Accept, and never read or answer."""
    await asyncio.Event().wait()


async def dripping(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer a byte every tenth of a second."""
    for byte in b"HTTP/1.1 200 OK\r\nx-patience: " + b"z" * 10_000:
        writer.write(bytes([byte]))
        await asyncio.sleep(0.1)


async def dripping_body(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer the head at once and the body a byte every tenth of a second."""
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 10000\r\n\r\n")
    while True:
        writer.write(b"z")
        await asyncio.sleep(0.1)


async def always_continuing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Announce an answer for ever."""
    while True:
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n" * 100)
        await writer.drain()


class EndlessBody:
    """Answers a body without end, and counts what the other side took of it."""

    def __init__(self) -> None:
        self.ended = asyncio.Event()

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        try:
            while True:
                writer.write(b"x" * 65_536)
                await writer.drain()
        finally:
            self.ended.set()


def gzip_bomb() -> bytes:
    """An answer of some ten kilobytes that would unpack to ten megabytes."""
    packed = gzip.compress(b"\0" * 10_000_000)
    head = f"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: {len(packed)}\r\n\r\n"
    return head.encode() + packed


async def closing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Close at once."""
    writer.close()


def saying(answer: bytes) -> Behaviour:
    """Answer these bytes to whatever was asked, and close."""

    async def say(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(answer)
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    return say
