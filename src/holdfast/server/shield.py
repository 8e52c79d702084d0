"""Around every request: whom it may come from, how large it may be, and the headers of every answer."""

import asyncio
import json
import logging
import re
import secrets
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holdfast.server import problems
from holdfast.server.problems import BrokenOff, Problem
from holdfast.server.settings import ServerSettings, is_loopback
from holdfast.server.whence import is_secure

_logger = logging.getLogger("holdfast")

BODY_S = 60.0  # from when a body is read for the first time until it is whole
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; connect-src 'self';"
    " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "content-security-policy": CSP,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_.-]+)(:[0-9]{1,5})?")
_OWN = ("same-origin", "none")
_REFUSED = 1008  # "policy violation", to those who ask for a WebSocket
_OURS = ("principal", "facts")
_DIGITS = 15


class Shield:
    """Refuses what no page and no program of ours would send."""

    def __init__(self, app: ASGIApp, settings: ServerSettings, turn_away: Callable[[HTTPConnection], None]) -> None:
        self.app = app
        self._settings = settings
        self._turn_away = turn_away

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer why not."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": _REFUSED})  # guard: websocket-refusal
        elif scope["type"] == "http":
            await self._shielded(scope, receive, send)
        else:
            await self.app(scope, receive, send)

    async def _shielded(self, scope: Scope, receive: Receive, send: Send) -> None:
        connection = HTTPConnection(scope)
        answering = _Answering(send)
        bounded = _Bounded(receive, self._settings.max_body, answering)
        try:
            self._turn_away(connection)
            state = self._state_of(connection, answering.request_id)
            self._require_host(connection.headers, scope)  # guard: host-check
            self._require_origin(connection.headers, scope, is_secure=state["is_secure"])  # guard: origin-check
            bounded.require_length(connection.headers)  # guard: body-length
            await self.app({**scope, "state": state}, bounded, answering)
        except Problem as problem:
            await answering.tell(problem)
        except BrokenOff as reason:
            _logger.warning("request %s (%s %r) was broken off: %s", *_told(answering, scope), reason)
        except Exception:
            _logger.exception("request %s (%s %r) failed", *_told(answering, scope))
            await answering.tell(Problem(500, problems.OPAQUE, "unexpected"))

    def _state_of(self, connection: HTTPConnection, request_id: str) -> dict[str, Any]:
        """What is known of a request, beside what a program around this one keeps there for `authorize`."""
        # What we read there only we may have set.
        kept = {name: value for name, value in (connection.scope.get("state") or {}).items() if name not in _OURS}
        return kept | {"request_id": request_id, "is_secure": is_secure(connection, self._settings)}

    def _require_host(self, headers: Headers, scope: Scope) -> None:
        """Refuse names that are not ours: a page elsewhere may let its own name lead to this machine."""
        given = headers.getlist("host")
        found = _HOST.fullmatch(given[0]) if len(given) == 1 else None
        if found is None or not self.is_ours(found[1].strip("[]"), scope):
            name = ", ".join(given)[:100]
            message = f"the server is not asked by the name {name!r}; name it in server.hosts or server.url"
            raise Problem(421, message, "host")

    def is_ours(self, name: str, scope: Scope) -> bool:
        """Whether a host name is one of this server."""
        settings = self._settings
        named = {host.lower() for host in settings.hosts}
        if settings.url is not None:
            named.add((urlsplit(settings.url).hostname or "").lower())
        if name.lower() in named or is_loopback(name.lower()):
            return True
        server = scope.get("server")
        return not is_loopback(settings.host) and (name == settings.host or (server is not None and name == server[0]))

    def _require_origin(self, headers: Headers, scope: Scope, *, is_secure: bool) -> None:
        """Refuse what a page of another site asks for; a link there may lead here, and no more than that."""
        site, origins = headers.get("sec-fetch-site"), headers.getlist("origin")
        is_link = (
            scope["method"] in SAFE
            and headers.get("sec-fetch-mode") == "navigate"
            and headers.get("sec-fetch-dest", "document") == "document"
        )
        is_foreign = site not in (None, *_OWN) and not is_link
        for origin in origins:
            # A browser that hides where it comes from, as ours are asked to, still says whether that is here.
            is_hidden = origin == "null" and site == "same-origin"
            own = self._is_own_origin(origin, headers.get("host", ""), is_secure=is_secure)
            is_foreign = is_foreign or not (is_hidden or own)
        if is_foreign:
            raise Problem(403, "a page of another site asked for this; only pages of this server may", "origin")

    def _is_own_origin(self, origin: str, host: str, *, is_secure: bool) -> bool:
        try:
            parts = urlsplit(origin)
        except ValueError:
            return False
        own = {host.lower()} | ({urlsplit(self._settings.url).netloc.lower()} if self._settings.url else set())
        return parts.scheme in ({"https"} if is_secure else {"http", "https"}) and parts.netloc.lower() in own


def _told(answering: "_Answering", scope: Scope) -> tuple[str, str, str]:
    """Name a request in the log."""
    return answering.request_id, scope["method"], scope["path"]


class _Answering:
    """The way of an answer: its headers are put on, and only one answer goes out."""

    def __init__(self, send: Send) -> None:
        self.request_id = secrets.token_hex(8)
        self.refusal: Problem | None = None
        self._send = send
        self._has_begun = False
        self._is_told = False

    async def __call__(self, message: Message) -> None:
        """Send a part of an answer; not any more after ours."""
        if self._is_told:
            return
        if message["type"] == "http.response.start":
            if self.refusal is not None:  # whatever became of it further in
                await self.tell(self.refusal)
                return
            self._has_begun = True
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)  # guard: answer-headers
            headers.setdefault("cache-control", "no-store")  # guard: no-store
            headers["x-request-id"] = self.request_id
        await self._send(message)

    async def tell(self, problem: Problem) -> None:
        """Answer with a problem, unless an answer is on its way."""
        if self._has_begun or self._is_told:
            return
        self.refusal = None
        body = json.dumps(problem.body(self.request_id)).encode()
        headers: list[tuple[bytes, bytes]] = [
            (b"content-type", problems.TYPE.encode()),
            (b"content-length", str(len(body)).encode()),
            *((name.encode(), value.encode()) for name, value in problem.headers.items()),
        ]
        start: dict[str, Any] = {"type": "http.response.start", "status": problem.status, "headers": headers}
        await self(start)
        await self({"type": "http.response.body", "body": body})
        self._is_told = True


class _Bounded:
    """The way of a body: it is refused as soon as it is known to be too large, or has not come in time."""

    def __init__(self, receive: Receive, most: int, answering: _Answering) -> None:
        self._receive = receive
        self._most = most
        self._answering = answering
        self._read = 0
        self._is_whole = False
        self._ends_at: float | None = None

    def require_length(self, headers: Headers) -> None:
        """Refuse what is said to be too large, and what is said in two ways: others may have read it in the other."""
        length = headers.get("content-length", "")
        if length and "transfer-encoding" in headers:  # guard: body-length-once
            raise Problem(400, "the length of the body is told in two ways; tell it in one", "length")
        if length.isdecimal() and (len(length) > _DIGITS or int(length) > self._most):
            raise self._problem()

    async def __call__(self) -> Message:
        """Read a part."""
        part = await self._part()
        self._read += len(part.get("body", b""))
        if self._read > self._most:  # guard: body-bytes
            self._answering.refusal = self._problem()
            raise self._answering.refusal
        return part

    async def _part(self) -> Message:
        """Wait for a part; behind the body comes only that somebody leaves, which may be hours later."""
        if self._is_whole:
            return await self._receive()
        if self._ends_at is None:
            self._ends_at = asyncio.get_running_loop().time() + BODY_S
        try:
            async with asyncio.timeout_at(self._ends_at):
                part = await self._receive()
        except TimeoutError:
            message = f"the body was not there within {BODY_S:g} s; send it faster, or less of it"
            self._answering.refusal = Problem(408, message, "too-slow", headers={"connection": "close"})
            raise self._answering.refusal from None
        self._is_whole = not part.get("more_body", False)
        return part

    def _problem(self) -> Problem:
        message = f"the body may have {self._most:,} bytes; send less, or several requests"
        return Problem(413, message, "too-large")
