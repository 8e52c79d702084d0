"""Events for web pages: server-sent events as an async iterator of bytes, and as a small ASGI response.

A stream begins with a snapshot, unless it goes on where it was cut off: the id of an event is a number of this very
process, and whoever brings one that is remembered here gets everything that came after it. Any other gets `reset` and a
snapshot. A client that does not read costs a bounded number of events and slows nobody down.
"""

import asyncio
import logging
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, MutableMapping
from contextlib import aclosing, suppress
from functools import lru_cache
from typing import Any

import msgspec

from holdfast.client.client import LocalClient
from holdfast.client.subscription import EventFilter, EventsMissed, Numbered, Subscription, read_filter
from holdfast.errors import HoldfastError
from holdfast.job import LIVE
from holdfast.resources.job import Job
from holdfast.resources.redaction import redact
from holdfast.stores.values import JobFilter

_logger = logging.getLogger("holdfast")

PING_S = 15.0
WRITE_S = 15.0  # that a client may take to read what was sent, before it is given up
MOST_SHOWN = 100  # jobs of a snapshot
_GAP_S = 0.1  # between two writes: what happens meanwhile goes together
_CALM_S = 1.0  # after a reset, so that one who always falls behind costs the store one snapshot a second
_CHUNK = 64_000  # bytes that are written at once, or a little more
_FAREWELL_S = 1.0
_SOONEST_MS, _LATEST_MS = 500, 3_000  # when those who are sent away come back, each at a time of its own

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),  # or a proxy would gather events before it passes them on
]


class EventStream:
    """The events of some jobs for one client; `async for chunk in stream` gives bytes until the client leaves.

    `check` is asked with every ping, and ends the stream when it says no: whoever was let in may be let in no more.
    """

    def __init__(
        self,
        client: LocalClient,
        *,
        job: int | str | None = None,
        queues: Iterable[str] = (),
        types: Iterable[str] = (),
        snapshot: bool = True,
        last_event_id: str | None = None,
        ping_s: float = PING_S,
        check: Callable[[], Awaitable[bool]] | None = None,
    ) -> None:
        self._client = client
        self._wanted: EventFilter = read_filter(types, (), queues, () if job is None else (job,))
        self._has_snapshot = snapshot
        self._last_event_id = last_event_id
        self._ping_s = ping_s
        self._check = check

    async def __aiter__(self) -> AsyncGenerator[bytes, None]:
        watching, after = self._client.watching, self._last_event_id
        now = asyncio.get_running_loop().time
        async with watching.subscribe(self._wanted, after=after) as events:
            if after is None and self._has_snapshot:
                yield await self._snapshot()
            ping_at = now() + self._ping_s
            while True:
                try:
                    chunk = await self._next(events, ping_at)
                except EventsMissed:
                    yield _frame("reset", {})
                    if self._has_snapshot:
                        yield await self._snapshot()
                    await asyncio.sleep(min(_CALM_S, self._ping_s))
                    continue
                except StopAsyncIteration:
                    return
                if chunk is not None:
                    yield chunk
                    await asyncio.sleep(_GAP_S)
                elif self._check is None or await self._check():
                    yield _PING
                    ping_at = now() + self._ping_s
                else:
                    return

    async def _next(self, events: Subscription, ping_at: float) -> bytes | None:
        """Wait for the next events; None when it is time for a ping, however much happens."""
        if asyncio.get_running_loop().time() >= ping_at:
            return None
        try:
            async with asyncio.timeout_at(ping_at):
                numbered: Numbered | None = await events.next()
        except TimeoutError:
            return None
        chunk = b""
        while numbered is not None:
            chunk += _event_frame(self._client.watching.id_of(numbered.number), numbered)
            numbered = events.next_waiting() if len(chunk) < _CHUNK else None
        return chunk

    async def _snapshot(self) -> bytes:
        # Before the jobs are read: a client that is cut off then comes back to here, and hears of what happened since.
        watching = self._client.watching
        event_id = watching.id_of(watching.number)
        return _frame("snapshot", {"jobs": [redact(job).summary() for job in await self._jobs()]}, event_id)

    async def _jobs(self) -> list[Job]:
        wanted = self._wanted
        if wanted.jobs:
            found = (await self._client.jobs.get_many(list(wanted.jobs))).values()
            return [job for job in found if not wanted.queues or job.queue in wanted.queues]
        live = JobFilter(states=tuple(LIVE), queues=tuple(wanted.queues))
        return (await self._client.jobs.list(live, limit=MOST_SHOWN)).jobs


class EventResponse:
    """An `EventStream` as an ASGI application of one response; everything is released when the client leaves.

    A client that takes nothing for 15 seconds is given up. `until` ends the stream early: the client is then told to
    come back in a moment.
    """

    def __init__(
        self,
        stream: EventStream,
        headers: Mapping[str, str] | None = None,
        *,
        until: "asyncio.Future[None] | None" = None,
    ) -> None:
        self._stream = stream
        self._headers = [(name.lower().encode(), value.encode()) for name, value in (headers or {}).items()]
        self._until = until
        self._has_begun = False

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        """Stream until the client leaves or the app is closed."""
        sending = asyncio.create_task(self._send(send), name="holdfast stream")
        leaving = asyncio.create_task(_left(receive), name="holdfast stream client")
        ends: set[asyncio.Future[None]] = {sending, leaving, *([] if self._until is None else [self._until])}
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (sending, leaving):
                task.cancel()
            await asyncio.gather(sending, leaving, return_exceptions=True)
        if sending.cancelled() and self._until is not None and self._until.done():
            await self._send_away(send)
        elif not sending.cancelled() and (error := sending.exception()) is not None and not isinstance(error, OSError):
            raise error

    async def _send(self, send: Send) -> None:
        await self._begin(send)
        try:
            async with aclosing(aiter(self._stream)) as chunks:
                async for chunk in chunks:
                    async with asyncio.timeout(WRITE_S):
                        await send({"type": "http.response.body", "body": chunk, "more_body": True})
        except HoldfastError as error:
            _logger.info("a stream of events ends, and its client may come back: %s", error)
        await send(_farewell())

    async def _begin(self, send: Send) -> None:
        self._has_begun = True
        await send({"type": "http.response.start", "status": 200, "headers": [*_HEADERS, *self._headers]})

    async def _send_away(self, send: Send) -> None:
        with suppress(OSError):  # it has left, or takes nothing: then nothing can be said to it
            async with asyncio.timeout(_FAREWELL_S):
                if not self._has_begun:
                    await self._begin(send)
                await send(_farewell())


def _farewell() -> MutableMapping[str, Any]:
    """The end of a stream: when to come back, so that not all who are sent away come back at once."""
    again_ms = random.randint(_SOONEST_MS, _LATEST_MS)
    return {"type": "http.response.body", "body": f"retry: {again_ms}\n\n".encode(), "more_body": False}


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


@lru_cache(maxsize=1_000)
def _event_frame(event_id: str, numbered: Numbered) -> bytes:
    """Write an event, once for all who watch."""
    return _frame(numbered.event.type, redact(numbered.event), event_id)


def _frame(event: str, data: object, event_id: str | None = None) -> bytes:
    named = "" if event_id is None else f"id: {event_id}\n"
    return f"{named}event: {event}\ndata: ".encode() + msgspec.json.encode(data) + b"\n\n"


_PING = _frame("ping", {})
