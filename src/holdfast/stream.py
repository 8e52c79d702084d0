"""Events for web pages: server-sent events as an async iterator of bytes, and as a small ASGI response.

A stream begins with a snapshot, unless it goes on where it was cut off: the id of an event is a number of this very
process, and whoever brings one that is remembered here gets everything that came after it. Any other gets `reset` and a
snapshot. A client that does not read costs a bounded number of events and slows nobody down.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, MutableMapping
from contextlib import aclosing
from typing import Any

import msgspec

from holdfast.client.client import Client
from holdfast.client.subscription import EventFilter, EventsMissed, Numbered, Subscription, read_filter
from holdfast.events import Event
from holdfast.job import LIVE, Job
from holdfast.stores.values import JobFilter

PING_S = 15.0
MOST_SHOWN = 100  # jobs of a snapshot

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),  # or a proxy would gather events before it passes them on
]


class EventStream:
    """The events of some jobs for one client; `async for chunk in stream` gives bytes until the client leaves."""

    def __init__(
        self,
        client: Client,
        *,
        job: int | str | None = None,
        queues: Iterable[str] = (),
        kinds: Iterable[str] = (),
        snapshot: bool = True,
        last_event_id: str | None = None,
        ping_s: float = PING_S,
    ) -> None:
        self._client = client
        self._wanted: EventFilter = read_filter(kinds, queues, (), () if job is None else (job,))
        self._has_snapshot = snapshot
        self._last_event_id = last_event_id
        self._ping_s = ping_s

    async def __aiter__(self) -> AsyncIterator[bytes]:
        watching, after = self._client.watching, self._last_event_id
        async with watching.subscribe(self._wanted, after=after) as events:
            if after is None and self._has_snapshot:
                yield await self._snapshot()
            while True:
                try:
                    numbered = await self._next(events)
                except EventsMissed:
                    yield _frame("reset", {})
                    if self._has_snapshot:
                        yield await self._snapshot()
                    continue
                except StopAsyncIteration:
                    return
                yield _PING if numbered is None else self._event(numbered)

    async def _next(self, events: Subscription) -> Numbered | None:
        """Wait for the next event; None when nothing came for a while."""
        try:
            async with asyncio.timeout(self._ping_s):
                return await events.next()
        except TimeoutError:
            return None

    def _event(self, numbered: Numbered) -> bytes:
        event = numbered.event
        return _frame(event.kind, as_json(event), self._client.watching.id_of(numbered.number))

    async def _snapshot(self) -> bytes:
        # Before the jobs are read: a client that is cut off then comes back to here, and hears of what happened since.
        watching = self._client.watching
        event_id = watching.id_of(watching.number)
        return _frame("snapshot", {"jobs": [job_as_json(job) for job in await self._jobs()]}, event_id)

    async def _jobs(self) -> list[Job]:
        wanted = self._wanted
        if wanted.jobs:
            return list((await self._client.get_many(list(wanted.jobs))).values())
        live = JobFilter(states=tuple(LIVE), queues=tuple(wanted.queues))
        return (await self._client.list(live, limit=MOST_SHOWN)).jobs


class EventResponse:
    """An `EventStream` as an ASGI application of one response; everything is released when the client leaves."""

    def __init__(self, stream: EventStream, headers: Mapping[str, str] | None = None) -> None:
        self._stream = stream
        self._headers = [(name.lower().encode(), value.encode()) for name, value in (headers or {}).items()]

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        """Stream until the client leaves or the app is closed."""
        sending = asyncio.create_task(self._send(send), name="holdfast stream")
        leaving = asyncio.create_task(_left(receive), name="holdfast stream client")
        try:
            await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (sending, leaving):
                task.cancel()
            await asyncio.gather(sending, leaving, return_exceptions=True)
        if not sending.cancelled() and (error := sending.exception()) is not None and not isinstance(error, OSError):
            raise error

    async def _send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [*_HEADERS, *self._headers]})
        async with aclosing(_chunks(self._stream)) as chunks:
            async for chunk in chunks:
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _chunks(stream: EventStream) -> Any:
    async for chunk in stream:
        yield chunk


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def as_json(event: Event) -> dict[str, Any]:
    """Write an event for readers outside; ids are texts, and null where a queue is told of."""
    return {
        "type": event.kind,
        "id": event.public_id or None,
        "at": event.at,
        "kind": event.task,
        "queue": event.queue,
        "status": event.state,
        "life": event.life,
        "attempt": event.attempt,
        "data": event.data,
    }


def job_as_json(job: Job) -> dict[str, Any]:
    """Write what a page shows of a job while it is under way."""
    progress = job.progress
    return {
        "id": job.public_id,
        "kind": job.kind,
        "queue": job.queue,
        "status": job.state,
        "life": job.life,
        "attempt": job.attempt,
        "enqueued_at": job.enqueued_at,
        "started_at": job.started_at,
        "finished_at": job.finished_at,
        "phase": None if progress is None else progress.phase,
        "phase_progress": None if progress is None else progress.phase_percent,
        "progress": None if progress is None else progress.percent,
        "message": None if progress is None else progress.message,
        "error": job.error,
    }


def _frame(event: str, data: object, event_id: str | None = None) -> bytes:
    named = "" if event_id is None else f"id: {event_id}\n"
    return f"{named}event: {event}\ndata: ".encode() + msgspec.json.encode(data) + b"\n\n"


_PING = _frame("ping", {})
