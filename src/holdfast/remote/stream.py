"""Events over the stream of a server, as a subscription gives them."""

import contextlib
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Any, Self

import msgspec

from holdfast.client.subscription import EventsMissed
from holdfast.remote.link import Link
from holdfast.resources.event import Event

_OWN = frozenset({"snapshot", "ping"})


class RemoteEvents:
    """The events of a server while a block runs; `async for` gives them."""

    def __init__(
        self,
        link: Link,
        types: tuple[str, ...] = (),
        kinds: frozenset[str] = frozenset(),
        queues: tuple[str, ...] = (),
        jobs: frozenset[str] = frozenset(),
    ) -> None:
        self._link = link
        self._types = types
        self._kinds = kinds
        self._queues = queues
        self._jobs = jobs
        self._held = contextlib.AsyncExitStack()
        self._lines: AsyncIterator[str] | None = None

    async def __aenter__(self) -> Self:
        path = ("jobs", next(iter(self._jobs)), "stream") if len(self._jobs) == 1 else ("stream",)
        asked: dict[str, Any] = {"snapshot": False}
        if path == ("stream",):
            asked |= {"types": ",".join(self._types) or None, "queues": ",".join(self._queues) or None}
        self._lines = await self._held.enter_async_context(self._link.lines(*path, **asked))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._held.aclose()

    def __aiter__(self) -> "RemoteEvents":
        return self

    async def __anext__(self) -> Event:
        while True:
            name, data = await self._next()
            if name == "reset":
                message = "events were lost: they came faster than they were read, or the server was away"
                raise EventsMissed(message)
            if name in _OWN:
                continue
            event = msgspec.json.decode(data, type=Event)
            if not self._kinds or event.kind in self._kinds:
                return event

    async def _next(self) -> tuple[str, str]:
        """Read one event: its name, and what it says."""
        name, data = "", ""
        if self._lines is None:
            raise StopAsyncIteration
        async for line in self._lines:
            if not line and name:
                return name, data
            field, _, value = line.partition(": ")
            if field == "event":
                name = value
            elif field == "data":
                data = value
        raise StopAsyncIteration
