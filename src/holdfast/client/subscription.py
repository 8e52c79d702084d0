"""One who watches: the events that wait for it, and never more of them than it may have."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import msgspec

from holdfast import moments
from holdfast.errors import HoldfastError, InvalidValue
from holdfast.events import EventType
from holdfast.public_id import decode, encode
from holdfast.resources.event import Event

MOST_WAITING = 1_000


class EventsMissed(HoldfastError):
    """Events were lost for this watcher: it read too slowly, or the store was away; look at the jobs themselves."""


class EventFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which events a subscriber wants; every condition given must hold."""

    types: frozenset[EventType] = frozenset()
    kinds: frozenset[str] = frozenset()
    queues: frozenset[str] = frozenset()
    jobs: frozenset[str] = frozenset()

    def fits(self, event: Event) -> bool:
        """Whether an event is wanted."""
        return (
            (not self.types or event.type in self.types)
            and (not self.kinds or event.kind in self.kinds)
            and (not self.queues or event.queue in self.queues)
            and (not self.jobs or event.id in self.jobs)
        )


def read_filter(
    types: Iterable[str] = (), kinds: Iterable[str] = (), queues: Iterable[str] = (), jobs: Iterable[int | str] = ()
) -> EventFilter:
    """Make a filter of what a caller named."""
    return EventFilter(
        types=frozenset(_type(name) for name in types),
        kinds=frozenset(kind.lower() for kind in kinds),
        queues=frozenset(queue.lower() for queue in queues),
        jobs=frozenset(encode(decode(job) if isinstance(job, str) else job) for job in jobs),
    )


def _type(name: str) -> EventType:
    if name not in set(EventType):
        message = f"types: expected some of {', '.join(EventType)}, got {name!r}"
        raise InvalidValue(message)
    return EventType(name)


@dataclass(frozen=True, slots=True, eq=False)  # each is only itself, so that what is made of it can be remembered
class Numbered:
    """An event with its number in the order in which this process heard of it."""

    number: int
    event: Event


class Subscription:
    """What waits for one watcher; `async for` gives the events, and raises EventsMissed where some were lost."""

    def __init__(self, wanted: EventFilter, left: Callable[["Subscription"], None], most: int = MOST_WAITING) -> None:
        self._wanted = wanted
        self._left = left
        self._most = most
        self._waiting: deque[Numbered] = deque()
        self._has_news = asyncio.Event()
        self._is_missing = False
        self._is_doubtful = False
        self._is_closed = False

    def hear(self, numbered: Numbered) -> None:
        """Take an event if it is wanted; one who lets too many wait loses them all, and is told so."""
        if self._is_missing or not self._wanted.fits(numbered.event):
            return
        if len(self._waiting) >= self._most:
            self.miss()
            return
        self._waiting.append(numbered)
        self._has_news.set()

    def miss(self) -> None:
        """Say that events were lost."""
        self._waiting.clear()
        self._is_missing = True
        self._has_news.set()

    def doubt(self) -> None:
        """Say that events may have been lost; those that came are still there."""
        self._is_doubtful = True
        self._has_news.set()

    def close(self) -> None:
        """Hear no more; whoever waits is told that it is over."""
        if not self._is_closed:
            self._is_closed = True
            self._waiting.clear()
            self._has_news.set()
            self._left(self)

    async def next(self) -> Numbered:
        """Wait for the next event."""
        while not self._waiting or self._is_doubtful:
            if self._is_closed:
                raise StopAsyncIteration
            if self._is_missing or self._is_doubtful:
                self._is_missing = self._is_doubtful = False
                message = "events were lost: they came faster than they were read, the store was away, or a change that"
                message += " was older than the watch took long"
                raise EventsMissed(message)
            self._has_news.clear()
            moments.reach("news_awaited")
            await self._has_news.wait()
        return self._waiting.popleft()

    def next_waiting(self) -> Numbered | None:
        """Take the next event if it is here already."""
        return self._waiting.popleft() if self._waiting and not self._is_doubtful else None

    def __aiter__(self) -> "Subscription":
        return self

    async def __anext__(self) -> Event:
        return (await self.next()).event
