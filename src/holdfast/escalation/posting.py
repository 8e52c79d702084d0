"""Posting a webhook to a receiver that nobody here trusts: checked, pinned, bounded in time and in size."""

import asyncio
import ssl
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from types import TracebackType
from typing import Self

import msgspec

from holdfast.errors import ConfigError
from holdfast.failure import MESSAGE_BYTES, clean
from holdfast.release import RELEASE
from holdfast.webhooks.address import Allowed, Lookup, Target, look_up, resolve
from holdfast.webhooks.schedule import read_retry_after

DEADLINE_S = 20.0
_EXCERPT = 500
# These describe the message and the connection: whoever may choose them could smuggle a second request.
_OURS = frozenset(["accept-encoding", "connection", "content-length", "host", "transfer-encoding"])


class Posted(msgspec.Struct, frozen=True):
    """What became of a post: a status, or the error that left us without one."""

    status: int | None
    error: str | None
    retry_after_s: float | None
    took_ms: int
    excerpt: str


class Poster:
    """Posts webhooks to public addresses and to those allowed; `async with Poster(allowed) as poster`."""

    def __init__(
        self,
        allowed: Allowed,
        *,
        deadline_s: float = DEADLINE_S,
        lookup: Lookup = look_up,
        context: ssl.SSLContext | None = None,
    ) -> None:
        try:
            from holdfast.webhooks import pinned  # noqa: PLC0415 - only who sends webhooks needs httpx2
        except ImportError as error:
            message = 'webhooks need the package httpx2, which is not installed; run pip install "holdfast-jobs[http]"'
            raise ConfigError(message) from error
        self._allowed = allowed
        self._deadline_s = deadline_s
        self._lookup = lookup
        self._pinned = pinned
        # Half of the time, so that a first address which is dead leaves enough for the next one.
        self._client = pinned.make_client(context, deadline_s / 2)

    async def __aenter__(self) -> Self:
        await self._client.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.__aexit__(kind, error, trace)

    async def close(self) -> None:
        """Let go of everything, without a block."""
        await self._client.aclose()

    async def post(self, target: Target, headers: Mapping[str, str], body: bytes) -> Posted:
        """Post a body once; whatever goes wrong is told by what comes back, and only cancellation is raised."""
        started = time.monotonic()
        try:
            async with asyncio.timeout(self._deadline_s):
                addresses = await resolve(target, self._allowed, self._lookup)
                sent = _with_ours(headers, target)
                status, retry_after, content = await self._pinned.send(self._client, target, addresses, sent, body)
            retry_after_s = read_retry_after(retry_after, datetime.now(UTC))
            return Posted(status, None, retry_after_s, _ms_since(started), _excerpt(content))
        except TimeoutError:
            error = f"no complete answer within {self._deadline_s:g} s"
        except Exception as trouble:  # noqa: BLE001 - a receiver may break a client in ways that nobody listed
            error = clean(self._pinned.describe(trouble), MESSAGE_BYTES)
        return Posted(None, error, None, _ms_since(started), "")


def _with_ours(headers: Mapping[str, str], target: Target) -> dict[str, str]:
    sent = {"accept": "*/*", "user-agent": f"holdfast/{RELEASE}"}
    sent |= {name.lower(): value for name, value in headers.items() if name.lower() not in _OURS}
    return sent | {"accept-encoding": "identity", "connection": "close", "host": target.authority}


def _excerpt(content: bytes) -> str:
    text = content.decode(errors="replace")[:_EXCERPT]
    return clean(text, MESSAGE_BYTES * 4)[:_EXCERPT]


def _ms_since(started: float) -> int:
    return round((time.monotonic() - started) * 1_000)
