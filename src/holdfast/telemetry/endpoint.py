"""A place where Prometheus reads metrics: HTTP of the simplest sort, in the process that has the numbers."""

import asyncio
import contextlib
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus

from holdfast.errors import ConfigError, InvalidValue, shown
from holdfast.telemetry.exposition import CONTENT_TYPE, require_metrics

_logger = logging.getLogger("holdfast")

_ADDRESS = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s:\[\]/]+):([0-9]{1,5})", re.ASCII)
_LARGEST_PORT = 65_535
_LARGEST_HEAD = 16_384
_PATIENCE_S = 5.0

Text = Callable[[], Awaitable[str]]


def read_address(given: str, what: str = "--metrics") -> tuple[str, int]:
    """Read a host and a port; port 0 takes any that is free."""
    found = _ADDRESS.fullmatch(given)
    if found is None or int(found[2]) > _LARGEST_PORT:
        message = f"{what}: expected HOST:PORT, such as 127.0.0.1:9464 or [::]:9464, got {shown(given)}"
        raise InvalidValue(message)
    return found[1].strip("[]"), int(found[2])


@asynccontextmanager
async def serving(address: str, text: Text) -> AsyncIterator[None]:
    """Serve metrics while the block runs."""
    require_metrics()
    host, port = read_address(address)
    endpoint = _Endpoint(text)
    try:
        server = await asyncio.start_server(endpoint.answer, host, port, limit=_LARGEST_HEAD)
    except OSError as error:
        message = f"--metrics: the address {address} cannot be used: {error.strerror or error}; take another one, or"
        message += " end the program that has it"
        raise ConfigError(message) from error
    named, bound = server.sockets[0].getsockname()[:2]
    _logger.info("metrics are at http://%s:%d/metrics", f"[{named}]" if ":" in named else named, bound)
    try:
        yield
    finally:
        server.close()  # and nobody is waited for: one who asks slowly must not keep the process


class _Endpoint:
    def __init__(self, text: Text) -> None:
        self._text = text

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request, and close: whoever asks every few seconds needs no more."""
        try:
            with contextlib.suppress(ConnectionError, TimeoutError):
                async with asyncio.timeout(_PATIENCE_S):
                    status, body, is_head = await self._answer(reader)
                    kind = CONTENT_TYPE if status is HTTPStatus.OK else "text/plain; charset=utf-8"
                    head = f"HTTP/1.1 {status} {status.phrase}\r\nContent-Type: {kind}\r\nConnection: close\r\n"
                    head += f"Content-Length: {len(body)}\r\nCache-Control: no-store\r\n\r\n"
                    writer.write(head.encode() + (b"" if is_head else body))
                    await writer.drain()
        finally:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader) -> tuple[HTTPStatus, bytes, bool]:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            method, target, _ = head.split(b"\r\n", 1)[0].decode("ascii").split(" ")
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
            return HTTPStatus.BAD_REQUEST, b"this is no request\n", False
        path = target.partition("?")[0]
        if path not in ("/metrics", "/healthz"):
            return HTTPStatus.NOT_FOUND, b"there are /metrics and /healthz\n", method == "HEAD"
        if method not in ("GET", "HEAD"):
            return HTTPStatus.METHOD_NOT_ALLOWED, b"only GET and HEAD\n", False
        if path == "/healthz":
            return HTTPStatus.OK, b"ok\n", method == "HEAD"
        try:
            return HTTPStatus.OK, (await self._text()).encode(), method == "HEAD"
        except Exception:
            _logger.exception("metrics could not be written")
            return HTTPStatus.SERVICE_UNAVAILABLE, b"metrics could not be written, the log says why\n", method == "HEAD"
