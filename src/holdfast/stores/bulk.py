"""Bulk operations: one change to all jobs that fit a filter, made batch by batch, and what a store can do with them."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Protocol

import msgspec

from holdfast.errors import DataRefused
from holdfast.job import LIVE, RETRYABLE, TERMINAL, WAITING, JobState
from holdfast.resources.bulk import BulkState, BulkVerb
from holdfast.stores.values import Cursor, JobFilter

KEPT_DAYS = 30
COUNT_CAP = 10_001
MOST_ERRORS = 20
FAILING_MS = 3_600_000  # an operation fails after so many errors in a row, and not before this time has passed


TAKES: dict[BulkVerb, frozenset[JobState]] = {
    BulkVerb.RETRY: RETRYABLE,
    BulkVerb.DELETE: TERMINAL,
    BulkVerb.CANCEL: LIVE,
    BulkVerb.REPRIORITISE: WAITING,
    BulkVerb.RESCHEDULE: WAITING,
}
"""The states that each verb can do something with."""


_KNOWN_BEFORE = 13  # the conditions that release 0.6 knew


class Due(msgspec.Struct, frozen=True, omit_defaults=True):
    """When the jobs of an operation may run: at a time, or so long after their turn has come."""

    run_at: datetime | None = None
    delay_ms: int | None = None


def written(new: "NewBulk") -> tuple[str, str]:
    """Write the verb and the filter of an operation as a store keeps them.

    A filter that an older release would not understand is written in brackets: a leader of that release then fails to
    read it, where it would otherwise leave out conditions and change jobs that nobody chose. For the same reason an
    operation that sets when jobs may run has that behind its filter, and goes by a verb that such a release knows.
    """
    newer = JobFilter.__struct_fields__[_KNOWN_BEFORE:]
    parts = [new.which] if new.due is None else [new.which, new.due]
    try:
        if new.due is not None or any(getattr(new.which, field) for field in newer):
            text = msgspec.json.encode(parts).decode()
        else:
            text = msgspec.json.encode(new.which).decode()
    except UnicodeEncodeError as error:
        message = f"expected text that has a form in UTF-8, got a filter without: {error}"
        raise DataRefused(message) from error
    return (BulkVerb.REPRIORITISE if new.verb is BulkVerb.RESCHEDULE else new.verb).value, text


def read(verb: str, text: str) -> tuple[BulkVerb, JobFilter, Due | None]:
    """Read the verb and the filter of an operation."""
    found = msgspec.json.decode(text, type=JobFilter | list[msgspec.Raw])
    if isinstance(found, JobFilter):
        return BulkVerb(verb), found, None
    which, *rest = found
    due = msgspec.json.decode(rest[0], type=Due) if rest else None
    return (
        BulkVerb(verb) if due is None else BulkVerb.RESCHEDULE,
        msgspec.json.decode(which, type=JobFilter),
        due,
    )


class NewBulk(msgspec.Struct, frozen=True, kw_only=True):
    """An operation to be started; `key` is a text of its own, `spacing_us` the least time from one job to the next.

    `due` goes with the verb reschedule.
    """

    key: str
    verb: BulkVerb
    which: JobFilter
    due: Due | None = None
    priority: int | None = None
    actor: str | None = None
    reason: str | None = None
    expected: int
    spacing_us: int = 0


class BulkOperationRow(msgspec.Struct, frozen=True):
    """An operation: what it does, to which jobs, for whom, and how far it is.

    `expected` is how many jobs there were when it began, at most 10,001 of them counted. `done` were changed, `refused`
    were not, because they had changed or something stood in the way. `errors` counts how often in a row its next batch
    could not be done, and `error` is the last reason; an operation that fails again and again ends as failed.
    """

    id: int
    verb: BulkVerb
    which: JobFilter
    priority: int | None
    actor: str | None
    reason: str | None
    state: BulkState
    expected: int
    spacing_us: int
    step: int
    done: int
    refused: int
    cursor: Cursor | None
    started_at: datetime
    next_at: datetime
    ended_at: datetime | None
    errors: int = 0
    error: str | None = None
    due: Due | None = None

    @property
    def open_to(self) -> JobFilter:
        """The jobs that are left to it: those that had ended, or were there, when it began.

        A job that fails again after the operation has retried it is not its business any more.
        """
        if self.verb in (BulkVerb.RETRY, BulkVerb.DELETE):
            given = self.which.finished_until
            until = self.started_at if given is None else min(given, self.started_at)
            return msgspec.structs.replace(self.which, finished_until=until)
        before = self.started_at + timedelta(milliseconds=1)
        given = self.which.enqueued_before
        return msgspec.structs.replace(self.which, enqueued_before=before if given is None else min(given, before))


class BulkStore(Protocol):
    """Bulk operations; any number of processes may work on one at once, and each batch is done once."""

    async def preview_jobs(self, which: JobFilter) -> int:
        """Count the jobs that fit, reading at most 10,001 of them."""

    async def start_bulk(self, new: NewBulk) -> BulkOperationRow:
        """Start an operation. Unknown: ask again; the same key is the same operation."""

    async def next_bulk(self) -> tuple[BulkOperationRow, int] | None:
        """Read the operation whose turn it is, and how many milliseconds it has to wait for that."""

    async def work_bulk(
        self, run: BulkOperationRow, ids: Sequence[int], *, cursor: Cursor | None
    ) -> tuple[BulkOperationRow, frozenset[int]] | None:
        """Do one batch and move the cursor in the same commit; without a cursor the operation has ended.

        Answers the operation, and the jobs that were changed; None when it has gone on without us, was paused or
        cancelled. Unknown: read the operation; its step tells.
        """

    async def fail_bulk(self, run: BulkOperationRow, error: str, delay_ms: int) -> BulkOperationRow | None:
        """Note why a batch could not be done; the operation waits, or ends as failed after too many in a row.

        None when the operation has gone on without us. Unknown: read the operation; its errors tell.
        """

    async def change_bulk(self, run: int, state: BulkState) -> BulkOperationRow | None:
        """Pause, go on with or cancel an operation that has not ended; None when there is none. Unknown: ask again.

        One that waits because of errors and is told to go on does so at once.
        """

    async def list_bulk(self, limit: int, *, run: int | None = None) -> list[BulkOperationRow]:
        """Read operations, the newest first, or the one of that number."""

    async def prune_bulk(self, limit: int) -> int:
        """Forget operations that ended 30 days ago."""
