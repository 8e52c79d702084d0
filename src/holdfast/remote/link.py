"""Requests to a server, and its answers as values and errors of this package."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar
from urllib.parse import quote, urlsplit

import msgspec

from holdfast import errors
from holdfast.errors import ConfigError, HoldfastError, InvalidValue, OutcomeUnknown, StoreUnavailable, shown
from holdfast.release import RELEASE
from holdfast.resources.request import Request

if TYPE_CHECKING:
    import httpx2

T = TypeVar("T")

_PATH = "/api/v1"
_DEADLINE_S = 30.0
_LONGEST = 500
_LARGEST = 256 * 1024 * 1024  # bytes of an answer: a hundred whole jobs with long logs are less
_LARGEST_LINE = 8 * 1024 * 1024
_LONGEST_ANSWER_S = 300.0
_GOOD, _REDIRECT, _BAD = 200, 300, 400
_UNKNOWN, _NOT_FOUND, _BUSY, _AWAY = 401, 404, 429, 503
_JSON, _EVENTS = "application/json", "text/event-stream"

# What there was none of, by the first part of the path.
_MISSING: dict[str, type[HoldfastError]] = {
    "jobs": errors.JobNotFound,
    "kinds": errors.UnknownKind,
    "queues": errors.QueueNotFound,
    "schedules": errors.ScheduleNotFound,
    "budgets": errors.BudgetNotFound,
    "locks": errors.LockNotFound,
    "limits": errors.LimitNotFound,
    "dead-letters": errors.DeadLetterNotFound,
    "bulk": errors.BulkNotFound,
    "escalations": errors.EscalationNotFound,
    "maintenance": errors.ScheduleNotFound,
    "workers": errors.WorkerNotFound,
    "webhooks": errors.EndpointNotFound,
    "tokens": errors.TokenNotFound,
}
_BY_CODE: dict[str, type[HoldfastError]] = {
    "key-conflict": errors.KeyConflict,
    "unique-conflict": errors.UniqueConflict,
    "wrong-state": errors.WrongState,
    "conflict": errors.Conflict,
    "rate-limited": errors.RateLimited,
    "arguments": errors.ArgumentError,
    "unknown-kind": errors.UnknownKind,
    "configuration": errors.ConfigError,
    "data-refused": errors.DataRefused,
}


class ServerRefused(HoldfastError):
    """The server does not do this for whoever asks."""


class NotThere(ServerRefused):
    """The server knows nothing of that name."""


class Link:
    """One server, and the token it is asked with."""

    def __init__(self, url: str, token: str | None, *, transport: "httpx2.AsyncBaseTransport | None" = None) -> None:
        try:
            import httpx2  # noqa: PLC0415 - only who asks a server needs it
        except ImportError:
            message = '--server needs the package httpx2, which is not installed; run pip install "holdfast-jobs[http]"'
            raise ConfigError(message) from None
        if not _is_address(url, httpx2):
            message = f"server: expected an address such as https://jobs.example.org, got {shown(url)}"
            raise InvalidValue(message)
        if token is not None and not (token.isascii() and token.isprintable()):
            message = "the token for the server: expected letters, digits and signs of ASCII, got others"
            raise InvalidValue(message)
        self.url = url.rstrip("/")
        self.asked_at: datetime | None = None  # by the server's clock
        # Not compressed: a few bytes could become any number of them.
        headers = {"accept": _JSON, "accept-encoding": "identity", "user-agent": f"holdfast/{RELEASE}"}
        if token is not None:
            headers["authorization"] = f"Bearer {token}"
        self._has_token = token is not None
        self._errors = httpx2
        self._http = httpx2.AsyncClient(
            headers=headers, timeout=httpx2.Timeout(_DEADLINE_S, connect=5.0), transport=transport
        )

    async def ask(self, answer: type[T], method: str, *path: str, body: Request | None = None, **query: Any) -> T:
        """Send a request, and read the answer as a resource."""
        return msgspec.json.decode(await self._send(method, path, query=query, body=body), type=answer)

    async def delete(self, *path: str) -> None:
        """Remove something."""
        await self._send("DELETE", path)

    async def close(self) -> None:
        """Let go of the connections."""
        await self._http.aclose()

    @asynccontextmanager
    async def lines(self, *path: str, expected: str = _EVENTS, **query: Any) -> AsyncIterator[AsyncIterator[str]]:
        """Read an answer of an expected type line by line, for as long as it goes on."""
        headers = {"accept": expected}
        unbounded = self._errors.Timeout(_DEADLINE_S, connect=5.0, read=60.0)
        request = self._http.build_request(
            "GET", self._address(path), params=_given(query), headers=headers, timeout=unbounded
        )
        try:
            answer = await self._http.send(request, stream=True)
        except self._errors.TransportError as error:
            raise self._away(error) from error
        try:
            content = b"" if answer.status_code == _GOOD else await self._read(answer)
            self._refuse(answer, content, path, expected)
            yield self._lines(answer)
        except self._errors.TransportError as error:
            raise self._away(error) from error
        finally:
            await answer.aclose()

    async def _send(
        self,
        method: str,
        path: tuple[str, ...],
        *,
        query: Mapping[str, Any] | None = None,
        body: Request | None = None,
    ) -> bytes:
        request = self._http.build_request(
            method,
            self._address(path),
            params=_given(query or {}),
            headers={} if body is None else {"content-type": _JSON},
            content=None if body is None else msgspec.json.encode(body),
        )
        try:
            async with asyncio.timeout(_LONGEST_ANSWER_S), self._answered(request) as answer:
                content = await self._read(answer)
        except (self._errors.ConnectError, self._errors.ConnectTimeout) as error:
            raise self._away(error) from error
        except (self._errors.TransportError, TimeoutError) as error:
            if method == "GET":
                raise self._away(error) from error
            message = f"{self.url} did not answer: it may or may not have happened ({_reason(error)})"
            raise OutcomeUnknown(message) from error
        self._note_time(answer)
        self._refuse(answer, content, path, _JSON)
        return content

    @asynccontextmanager
    async def _answered(self, request: "httpx2.Request") -> AsyncIterator["httpx2.Response"]:
        answer = await self._http.send(request, stream=True)
        try:
            yield answer
        finally:
            await answer.aclose()

    async def _read(self, answer: "httpx2.Response") -> bytes:
        """Read an answer as far as any can be long."""
        content = bytearray()
        async for part in answer.aiter_raw():
            content += part
            if len(content) > _LARGEST:
                self._reject(f"with more than {_LARGEST:,} bytes")
        return bytes(content)

    async def _lines(self, answer: "httpx2.Response") -> AsyncIterator[str]:
        """Read lines as far as any can be long."""
        rest = b""
        async for part in answer.aiter_raw():
            *whole, rest = (rest + part).split(b"\n")
            for line in whole:
                yield line.rstrip(b"\r").decode()
            if len(rest) > _LARGEST_LINE:
                self._reject(f"with a line of more than {_LARGEST_LINE:,} bytes")
        if rest:
            yield rest.decode()

    def _refuse(self, answer: "httpx2.Response", content: bytes, path: tuple[str, ...], expected: str) -> None:
        """Raise the error that an answer is, and one for what no server of Holdfast answers."""
        status, headers = answer.status_code, answer.headers
        if status >= _BAD:
            raise self._error(status, content, path)
        if status >= _REDIRECT:
            message = (
                f"{self.url} answered {status} and leads to {shown(headers.get('location', 'nowhere'))}; if that is"
            )
            message += " the server, name it with --server"
            raise ServerRefused(message)
        found = headers.get("content-type", "").partition(";")[0].strip().lower()
        if (content or expected != _JSON) and found != expected:
            self._reject(f"with {shown(found or 'no type')} instead of {expected}")
        if headers.get("content-encoding", "identity") != "identity":
            self._reject(f"compressed by {shown(headers['content-encoding'])}, which was not asked for")

    def _reject(self, what: str) -> NoReturn:
        message = f"{self.url} answered {what}: expected a server of Holdfast; look at the address"
        raise ServerRefused(message)

    def _address(self, path: tuple[str, ...]) -> str:
        return f"{self.url}{_PATH}/{'/'.join(quote(part, safe='') for part in path)}"

    def _note_time(self, answer: "httpx2.Response") -> None:
        try:
            self.asked_at = parsedate_to_datetime(answer.headers["date"]).astimezone(UTC)
        except (KeyError, TypeError, ValueError, OverflowError):
            self.asked_at = datetime.now(UTC)

    def _away(self, error: Exception) -> StoreUnavailable:
        return StoreUnavailable(f"the server {self.url} cannot be reached: {_reason(error)}")

    def _error(self, status: int, content: bytes, path: tuple[str, ...]) -> HoldfastError:
        """Turn an answer that is an error into the error that the same verb raises on a store."""
        try:
            told = msgspec.json.decode(content, type=_Problem)
        except (msgspec.MsgspecError, RecursionError, ValueError):
            return ServerRefused(f"{self.url} answered {status}, and not as a server of Holdfast does")
        code, detail = told.type.rpartition(":")[2], " ".join(told.detail[:_LONGEST].split())
        if (found := _BY_CODE.get(code)) is not None:
            return found(detail)
        if status == _NOT_FOUND:
            return _MISSING.get(path[0], NotThere)(detail)
        if status in (_AWAY, _BUSY):
            return StoreUnavailable(f"{self.url}: {detail}")
        if status == _UNKNOWN and not self._has_token:
            return ServerRefused(
                f"{self.url} lets nobody in without a token; give --token @FILE, or set HOLDFAST_TOKEN"
            )
        if status in (_UNKNOWN, 403):
            return ServerRefused(f"{self.url}: {detail}")
        if status in (_BAD, 409, 413, 415, 422):
            return InvalidValue(detail)
        return ServerRefused(f"{self.url} answered {status}: {detail}")


class _Problem(msgspec.Struct):
    type: str
    detail: str


def _is_address(url: str, http: Any) -> bool:
    try:
        parts = urlsplit(url)
        _ = parts.port, http.URL(url)  # each raises for what it cannot read
    except (ValueError, http.InvalidURL):
        return False
    return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.username is None


def _given(query: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _spelled(value) for name, value in query.items() if value is not None and value != ()}


def _spelled(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.isoformat() if isinstance(value, datetime) else value


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__


def refuse_actor(actor: str | None) -> None:
    """Refuse another name: what a server does is written down under the name of the token."""
    if actor is not None:
        message = f"--actor: a server writes down whose token it was, expected none, got {shown(actor)}"
        raise InvalidValue(message)
