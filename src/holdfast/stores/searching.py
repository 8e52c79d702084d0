"""Searching jobs within a bounded time: what a store can do, by which way it goes, and when it stops.

A search walks back from the newest job in windows, along the index that fits its narrowest condition, and looks at the
others row by row. Live and finished jobs are two streams, which are read by turns: what has been found counts as far
back as both have come.
"""

import re
import time
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

from holdfast.job import LIVE, TERMINAL, JobState
from holdfast.stores.values import Counted, Cursor, Found, JobFilter

BUDGET_MS = 125  # of the 150 that a list call has: what is left is for reading the jobs of the page
COUNTING_MS = 100  # a number beside a tab is worth less of a wait than the page
COUNTING_WINDOW = 2_048
COUNT_CAP = 10_001
_MOST_STREAMS = 8  # an index is read once for each value; with more of them everything is looked at
_NARROW = 1 << 15  # ids
SEARCHED = 32_000  # letters of the arguments in which words are looked for: what is more would take too long
_WINDOWS = (4_096, 1_024, 256)  # a few sizes, so that few statements are prepared
LEAST_WINDOW = 16  # where one row may take long; so many are looked at however long they take
_WORDS: dict[str, bool | None] = {"true": True, "false": False, "null": None}
_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,17})(\.[0-9]{1,15})?", re.ASCII)

Place = tuple[Any, int]
"""When a job was enqueued, and its id: where a stream has come to."""


class SearchStore(Protocol):
    """What is asked of jobs by people who wait for the answer."""

    async def search_jobs(
        self, which: JobFilter, *, limit: int, after: Cursor | None = None, budget_ms: int = BUDGET_MS
    ) -> Found:
        """Find the newest jobs that fit, in one snapshot; when the time is over, answer with those found so far."""

    async def count_found(self, which: JobFilter, *, most: int = COUNT_CAP, budget_ms: int = COUNTING_MS) -> Counted:
        """Count jobs that fit, no more than `most` and for no longer than the budget."""


class Way(StrEnum):
    """The index that finished jobs are read along; all but IDS and TAGS have the order of lists."""

    IDS = "ids"
    PARENT = "parent"
    ORIGIN = "origin"
    TAGS = "tags"
    FINGERPRINT = "fingerprint"
    UNIQUE = "unique"
    TROUBLE_KIND = "trouble_kind"
    TROUBLE_QUEUE = "trouble_queue"
    TROUBLE = "trouble"
    ERRORS = "errors"
    SCHEDULE = "schedule"
    ACTOR = "actor"
    KIND = "kind"
    QUEUE = "queue"
    LISTED = "listed"


def way_of(which: JobFilter) -> Way:
    """Choose the way on which the fewest jobs lie."""
    is_trouble = bool(which.states) and JobState.COMPLETED not in which.states
    by_kind, by_queue = (0 < len(names) <= _MOST_STREAMS for names in (which.kinds, which.queues))
    ways = (
        (Way.IDS, bool(which.ids) or is_narrow(which.id_range)),
        (Way.ORIGIN, which.origin is not None),
        (Way.PARENT, which.parent is not None),
        (Way.FINGERPRINT, which.fingerprint is not None),
        (Way.UNIQUE, which.unique is not None),
        (Way.TAGS, bool(which.tags)),
        (Way.TROUBLE_KIND, is_trouble and by_kind),
        (Way.TROUBLE_QUEUE, is_trouble and by_queue),
        (Way.TROUBLE, is_trouble),
        (Way.ERRORS, any(one is not None for one in (which.has_error, which.error_class, which.error_name))),
        (Way.SCHEDULE, which.schedule is not None),
        (Way.ACTOR, which.actor is not None),
        (Way.KIND, by_kind),
        (Way.QUEUE, by_queue),
    )
    return next((way for way, is_open in ways if is_open), Way.LISTED)


def live_way_of(which: JobFilter) -> Way:
    """Choose the way through live jobs: there are few of them, and but for these ways all are looked at."""
    way = way_of(which)
    if way in {Way.IDS, Way.TAGS, Way.PARENT, Way.ORIGIN}:
        return way
    marks = (which.has_error, which.error_class, which.error_name, which.fingerprint)  # each means an error
    return Way.ERRORS if any(mark is not None for mark in marks) else Way.LISTED


def is_narrow(id_range: tuple[int, int] | None) -> bool:
    """Whether so few ids lie in a range that all may be read."""
    return id_range is not None and id_range[1] - id_range[0] < _NARROW


def is_costly(which: JobFilter) -> bool:
    """Whether it takes long to see if one job fits."""
    return bool(which.args or which.words or which.id_ending)


def halves(which: JobFilter) -> tuple[bool, bool]:
    """Whether live jobs, and whether finished ones can fit."""
    states = frozenset(which.states) or frozenset(JobState)
    is_finished = which.finished_from is not None or which.finished_until is not None
    return bool(states & LIVE) and not is_finished, bool(states & TERMINAL)


def spellings(value: str) -> list[str | int | float | bool | None]:
    """Give what may be meant by a value of the arguments: the text, or what JSON reads so."""
    if value in _WORDS:
        return [value, _WORDS[value]]
    if not _NUMBER.fullmatch(value):
        return [value]
    return [value, float(value) if "." in value else int(value)]


class Step(NamedTuple):
    """What one window of a stream held: the places of jobs that fit, where it ended, and whether there is no more."""

    found: Sequence[Place]
    edge: Place | None
    is_last: bool


class Stream:
    """One half of the jobs on the way back, as far as it has been read."""

    def __init__(self, query: Any, *, is_whole: bool) -> None:
        self.query = query
        self.is_whole = is_whole  # its query reads as far as a page is full, instead of so many rows
        self.edge: Place | None = None
        self.is_done = False


class Walk:
    """Reads streams by turns until a page is full, nothing is left, or the time is over."""

    def __init__(
        self,
        streams: Sequence[Stream],
        wanted: int,
        budget_ms: int,
        now: Callable[[], float] = time.monotonic,
        *,
        is_costly: bool = False,
    ) -> None:
        self.found: list[Place] = []
        self._windows = (*_WINDOWS, LEAST_WINDOW) if is_costly else _WINDOWS
        self.window = self._windows[-1]
        self._streams = streams
        self._wanted = wanted
        self._now = now
        self._ends_at = now() + budget_ms / 1_000
        self._patience_s = 2 * budget_ms / 1_000
        self._began = now()

    @property
    def is_done(self) -> bool:
        """Whether everything has been looked at."""
        return all(stream.is_done for stream in self._streams)

    @property
    def horizon(self) -> Place | None:
        """How far back all streams have come."""
        open_ = [stream.edge for stream in self._streams if not stream.is_done]
        return max((edge for edge in open_ if edge is not None), default=None)

    def behind(self) -> Stream | None:
        """Tell which stream to read next; None when it is enough."""
        open_ = [stream for stream in self._streams if not stream.is_done]
        fresh = next((stream for stream in open_ if stream.edge is None), None)
        if fresh is not None or not open_:
            self._began = self._now()
            return fresh
        if len(self.settled()) >= self._wanted or self._now() >= self._ends_at:
            return None
        self._began = self._now()
        return max(open_, key=lambda stream: stream.edge or (0, 0))

    def add(self, stream: Stream, step: Step) -> None:
        """Take what a window held."""
        self.found += step.found
        stream.edge = step.edge or stream.edge
        stream.is_done = step.is_last
        now = self._now()
        took, left = max(now - self._began, 1e-6), self._ends_at - now
        fitting = (size for size in self._windows if size * took <= left * self.window)
        self.window = next(fitting, self._windows[-1])

    def give_up(self) -> None:
        """Note that a window took too long: the next one, if any has to be read, is small."""
        self.window = self._windows[-1]

    @property
    def patience_s(self) -> float | None:
        """How long the next window may take; the smallest may take as long as the store allows."""
        return None if self.window == self._windows[-1] else self._patience_s

    def settled(self) -> list[Place]:
        """Give what was found as far back as all streams have come, newest first."""
        horizon = self.horizon
        places = sorted(set(self.found), reverse=True)
        return places if horizon is None else [place for place in places if place >= horizon]

    def page(self, limit: int) -> tuple[list[Place], Place | None, bool]:
        """Give the places of a page, where the next one begins, and whether nothing before that is left out."""
        places = self.settled()
        if len(places) > limit:
            return places[:limit], places[limit - 1], True
        return places, None if self.is_done else self.horizon, self.is_done
