"""Dead letters: failed jobs in groups of one kind and one error, and what a store can do with them."""

import hashlib
from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

import msgspec

from holdfast.job import NewJob
from holdfast.stores.values import Inserted

LEFT_CAP = 10_001
KEPT_DAYS = 400
_ID_DIGITS = 12


class DeadLetterRow(msgspec.Struct, frozen=True):
    """The failed jobs of one kind with one error.

    `seen` is how many there ever were, `left` how many are still there, at most 10,001 of them counted. The rest is how
    the last one looked.
    """

    id: str
    kind: str
    fingerprint: str
    queue: str
    error_class: str | None
    error: str | None
    seen: int
    first_at: datetime
    last_at: datetime
    last_job: int
    left: int


class DeadCursor(msgspec.Struct, frozen=True):
    """Where a page of groups ends: they go by `(last_at, id)`, latest first."""

    last_at: datetime
    id: str


class DeadPage(msgspec.Struct, frozen=True):
    """One page of groups, and where the next one begins (None: there is no more)."""

    groups: list[DeadLetterRow]
    next: DeadCursor | None


class DeadFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which groups a list shows: every condition given must hold, and a job be left unless `empty` is asked for.

    With `queues` a group is what it is in those queues, in each of its figures.
    """

    ids: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()
    error_class: str | None = None
    since: datetime | None = None
    empty: bool = False


def group_id(kind: str, fingerprint: str) -> str:
    """Name a group: short, and the same on every store."""
    return hashlib.sha256(f"{kind}\n{fingerprint}".encode()).hexdigest()[:_ID_DIGITS]


class FailureStore(Protocol):
    """What is kept of jobs that have failed, beside the jobs themselves."""

    async def fold_failures(self, limit: int) -> int:
        """Add the oldest failures that are not counted yet to their groups, and say how many; exact, whoever does it.

        Unknown: ask again; what was added is counted no second time.
        """

    async def list_dead_letters(self, which: DeadFilter, *, limit: int, after: DeadCursor | None = None) -> DeadPage:
        """Read one page of groups, the latest first, with what is not folded yet."""

    async def insert_replay(self, job: NewJob, origin: int, *, again: bool = False) -> Inserted:
        """Store a job that stands for another one, which it names. Unknown: send it with `again`, as `insert_jobs`."""

    async def prune_dead_letters(self, limit: int) -> int:
        """Forget groups of which nothing was seen for 400 days and no job is left, and what they were in each queue."""


def page_of(groups: Sequence[DeadLetterRow], limit: int) -> DeadPage:
    """Cut a page from groups that were read with one more than it has room for."""
    shown = list(groups[:limit])
    has_more = len(groups) > limit
    return DeadPage(shown, DeadCursor(shown[-1].last_at, shown[-1].id) if has_more else None)
