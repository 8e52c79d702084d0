"""One claimed job on its way through a worker process."""

import asyncio
import math
import time
from collections.abc import Callable, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from holdfast.context import Context
from holdfast.job import JobRow
from holdfast.journal import Entry, Journal
from holdfast.phasing import Phasing
from holdfast.policies.allowance import Allowance
from holdfast.tasks.registry import AnyTask
from holdfast.worker.marks import UNMARKED, Way

_PERMIT = '"permit_at"'
_PERMIT_S = 0.1  # how long a permit is good for


class Why(StrEnum):
    """Why a handler is asked to stop."""

    CANCELLED = "cancelled"
    TIMED_OUT = "timed out"
    LEAVING = "the worker leaves"
    LOST = "the claim was lost"
    IN_DOUBT = "its transaction may have been committed"


def _wait_s(job: JobRow) -> float:
    """How long after its claim a job may start; both times are the store's."""
    permit_us = job.extra.get("permit_at")
    if not isinstance(permit_us, int) or job.claimed_at is None:
        return 0.0
    return max(permit_us / 1e6 - job.claimed_at.timestamp(), 0.0)


def _bare_context(run: "Run") -> Context[Any]:
    return Context(run.job)


class Run:
    """The value that every step of the executor works on."""

    # What few runs ever change stands here, so that making one sets little.
    started_at: float | None = None
    not_before = -math.inf  # when it may start, by the monotonic clock, if a throttle has given it a time
    ended_at: float | None = None  # when the handler had ended, before the store knows of it
    task: AnyTask | None = None
    arguments: Mapping[str, Any] = MappingProxyType({})
    make_context: Callable[["Run"], Context[Any]] = staticmethod(_bare_context)
    way = Way.LOOP
    mark = UNMARKED
    why: Why | None = None
    handler: asyncio.Task[None] | None = None
    deadline = math.inf  # by the monotonic clock
    journal: Journal | None = None  # what the handler said and the store does not know yet
    stored: JobRow | None = None  # what earlier claims have left, if it was asked for
    parent_span: Mapping[str, str] = MappingProxyType({})  # around it, in the process that has sent it here
    is_telling = False  # what the handler said is on its way to the store
    is_recorded = False  # the store knows when the handler began
    is_waiting = False  # its handler has a slot and has not taken its first step
    is_settled = False  # the end of the claim was decided, whether or not the handler has ended
    is_known = False  # the store has answered how the claim ended
    is_committing = False  # the handler's own transaction is on its way
    is_committed = False  # the handler completed the job in its own transaction
    is_overdue = False  # it was told to stop because its deadline has passed
    is_ended = False  # the handler does no more
    is_alone = False  # nothing runs beside it, for it once brought a process down
    is_held = False  # its budget has ended the claim, and the job waits
    allowance: Allowance | None = None  # how far its budget has come, once an estimate was set aside
    spends = 0  # how often the handler has reported money
    _context: Context[Any] | None = None

    def __init__(self, job: JobRow) -> None:
        self.job = job
        self.key = (job.id, job.claim)  # what names this claim
        self.claimed_at = time.monotonic()
        if job.extra_json is not None and _PERMIT in job.extra_json:
            self.not_before = self.claimed_at + _wait_s(job)

    @property
    def is_late(self) -> bool:
        """Whether the time that a throttle has given it is over."""
        return self.not_before + _PERMIT_S < time.monotonic() and self.not_before > -math.inf

    @property
    def must_be_recorded(self) -> bool:
        """Whether the store has to know that the handler begins, because the next crash may be charged to it for good.

        Where the marks are lost with the machine, the store alone can tell a handler that had begun from one that
        waited.
        """
        return self.job.crashes > 0 or self.job.max_crashes == 1

    @property
    def is_last_chance(self) -> bool:
        """Whether the handler has crashed before, and fails for good by its next crash."""
        return self.job.crashes > 0 and self.job.crashes + 1 >= self.job.max_crashes

    @property
    def context(self) -> Context[Any]:
        """What the handler is given; made when somebody asks for it, which most handlers never do."""
        if self._context is None:
            self._context = self.make_context(self)
        return self._context

    @property
    def phasing(self) -> Phasing | None:
        """The phases of the handler, if it can have any."""
        return None if self._context is None else self._context.phasing

    @property
    def has_news(self) -> bool:
        """Whether the handler said something that the store does not know yet."""
        return self.is_telling or (self.journal is not None and not self.journal.is_empty)

    def say(self, entry: Entry) -> None:
        """Take one thing that the handler said."""
        if self.journal is None:
            self.journal = Journal()
        self.journal.add(entry)

    @property
    def timeout_s(self) -> float | None:
        """How long the handler may run."""
        return None if self.job.timeout_ms is None else self.job.timeout_ms / 1_000

    @property
    def started_ago_ms(self) -> int | None:
        """How long ago the handler began."""
        return None if self.started_at is None else round((time.monotonic() - self.started_at) * 1_000)

    def stop(self, why: Why) -> None:
        """Ask the handler to stop; the first reason counts, except that a lost claim outdoes all."""
        if self.why is None or why is Why.LOST:
            self.why = why
        # A coroutine that is cancelled before its first step never comes to its end: it looks for the reason itself.
        if self.handler is not None and not self.is_ended and not self.is_waiting:
            self.handler.cancel()
