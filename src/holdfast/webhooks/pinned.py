"""A transport of httpx2 that connects to addresses which were checked, and to nothing else.

Every request has a connection of its own: one kept open from an earlier request would be one that no check has seen.
It can be imported only where httpx2 is installed.
"""

import logging
import os
import ssl
from collections.abc import Iterable, Sequence
from contextlib import aclosing
from typing import Any

import httpcore2
import httpx2

from holdfast.webhooks.address import Refused, Target

BODY_BYTES = 65_536
_ADDRESSES = 4  # tried in turn; a name with more does not get more of our time


class _Checked(httpcore2.AsyncNetworkBackend):
    """Connects to the first checked address that answers, whatever name it is asked for."""

    def __init__(self, addresses: Sequence[str]) -> None:
        self._addresses = addresses[:_ADDRESSES]
        self._tcp = httpcore2.AnyIOBackend()
        self._stream: httpcore2.AsyncNetworkStream | None = None

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """Connect; the host serves only TLS and the Host header, which are not made here."""
        trouble: Exception = httpcore2.ConnectError(f"no address for {host}")
        for address in self._addresses:
            try:
                self._stream = await self._tcp.connect_tcp(address, port, timeout, local_address, socket_options)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                trouble = error
            else:
                return self._stream
        raise trouble

    async def aclose(self) -> None:
        """Close the socket itself, also when a TLS handshake on it was cut short."""
        if self._stream is not None:
            await self._stream.aclose()


class _PinnedTransport(httpx2.AsyncBaseTransport):
    """Sends a request to the target and the addresses in its extensions, and reads a bounded answer."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        target: Target = request.extensions["holdfast.target"]
        url = httpcore2.URL(scheme=target.scheme, host=target.host, port=target.port, target=target.path)
        backend = _Checked(request.extensions["holdfast.addresses"])
        connection = httpcore2.AsyncHTTPConnection(url.origin, self._context, network_backend=backend)
        sent = httpcore2.Request(
            request.method,
            url,
            headers=request.headers.raw,
            content=request.stream,
            extensions={"timeout": request.extensions["timeout"]},
        )
        try:
            answer = await connection.handle_async_request(sent)
            body = await _first_bytes(answer)
        finally:
            await backend.aclose()
        # The client above sees nothing that it could unpack, follow or keep as a cookie.
        headers = [(name, value) for name, value in answer.headers if name.lower() == b"retry-after"]
        return httpx2.Response(answer.status, headers=headers, stream=httpx2.ByteStream(body))


def make_client(context: ssl.SSLContext | None, connect_s: float) -> httpx2.AsyncClient:
    """A client without proxies, redirects, cookies and anything else from its surroundings."""
    # It would write a line for every message that went well, and the log of a worker says nothing of such things.
    logging.getLogger("httpx2").setLevel(max(logging.WARNING, logging.getLogger("httpx2").level))
    context = context or httpx2.create_ssl_context(trust_env=False)
    timeout = httpx2.Timeout(None, connect=connect_s)
    return httpx2.AsyncClient(transport=_PinnedTransport(context), timeout=timeout, trust_env=False)


async def send(
    client: httpx2.AsyncClient, target: Target, addresses: Sequence[str], headers: dict[str, str], body: bytes
) -> tuple[int, str | None, bytes]:
    """Post a body; returns the status, Retry-After and the first bytes of the answer as they came."""
    extensions: dict[str, Any] = {"holdfast.target": target, "holdfast.addresses": addresses}
    # The client writes the URL that it knows to the log: the path and the query stay out of it.
    known = f"{target.scheme}://{target.authority}/"
    async with client.stream("POST", known, headers=headers, content=body, extensions=extensions) as answer:
        content = b"".join([part async for part in answer.aiter_raw()])
        return answer.status_code, answer.headers.get("retry-after"), content


def describe(error: Exception) -> str:
    """Say what went wrong in our own words: the library's may hold what was sent."""
    if isinstance(error, Refused):
        return str(error)
    if isinstance(error, httpcore2.TimeoutException):
        return "could not connect in time"
    if isinstance(error, httpcore2.ConnectError):
        return f"could not connect: {_cause(error)}"
    if isinstance(error, httpcore2.RemoteProtocolError):
        return "the answer is not HTTP/1.1, ended too soon or has headers that are too large"
    if isinstance(error, httpcore2.NetworkError):
        return "the connection broke before the answer was complete"
    if isinstance(error, httpcore2.LocalProtocolError):
        return "a header of the request holds what HTTP cannot carry"
    return f"unexpected {type(error).__name__}"


async def _first_bytes(answer: httpcore2.Response) -> bytes:
    body = bytearray()
    stream: Any = answer.stream  # an async generator behind a wider type
    async with aclosing(aiter(stream)) as parts:
        async for part in parts:
            body += part
            if len(body) >= BODY_BYTES:  # guard: webhook-answer-bytes
                break
    return bytes(body[:BODY_BYTES])


def _cause(error: BaseException) -> str:
    """The innermost reason that the system or TLS gives."""
    reason = type(error).__name__
    current: BaseException | None = error
    while current is not None:
        if isinstance(current, ssl.SSLError):
            return f"TLS: {getattr(current, 'verify_message', None) or current.reason or 'handshake failed'}"
        if isinstance(current, OSError) and current.errno:
            reason = os.strerror(current.errno)  # its own text holds the address
        current = current.__cause__ or current.__context__
    return reason
