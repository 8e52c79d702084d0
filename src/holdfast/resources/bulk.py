"""A bulk operation: one change to all jobs that fit a filter, made batch by batch."""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

from holdfast.about import About
from holdfast.names import HIGHEST_PRIORITY, LOWEST_PRIORITY
from holdfast.resources.examples import JOB_ID, MOMENT
from holdfast.resources.queue import JobCount
from holdfast.resources.request import LENGTH, REASON, Instant, Length, Reason, Request

MOST_IDS = 1_000

_FILTER = "kind:send_email state:failed since:1h"


class BulkVerb(StrEnum):
    """What a bulk operation does to each job."""

    RETRY = "retry"
    DELETE = "delete"
    CANCEL = "cancel"
    REPRIORITISE = "reprioritise"
    RESCHEDULE = "reschedule"


class BulkState(StrEnum):
    """Where a bulk operation stands."""

    RUNNING = "running"
    PAUSED = "paused"
    CANCELLED = "cancelled"
    ENDED = "ended"
    FAILED = "failed"


Verb = Annotated[BulkVerb, About("What it does to each job.", "retry")]
Query = Annotated[str | None, About("The jobs, in the filter language; empty text means all.", _FILTER)]
Ids = Annotated[list[str] | None, About("The public ids of the jobs, instead of `q`.", [JOB_ID])]
IDS = {"min_length": 1, "max_length": MOST_IDS}


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkOperation:
    """A bulk operation: what it does, to which jobs, for whom, and how far it is."""

    id: Annotated[str, About("Its number.", "17")]
    verb: Verb
    state: Annotated[BulkState, About("Where it stands.", "running")]
    which: Annotated[
        dict[str, Any],
        About("The conditions that choose its jobs.", {"kinds": ["send_email"], "states": ["failed"]}, quotes=True),
    ]
    priority: Annotated[int | None, About("The new priority, with reprioritise.", 1)] = None
    run_at: Annotated[datetime | None, About("When its jobs may run, with reschedule.", MOMENT)] = None
    delay_ms: Annotated[int | None, About("How long after their turn its jobs may run.", 300_000)] = None
    actor: Annotated[str | None, About("Who started it.", "ada")] = None
    reason: Annotated[str | None, About("Why it was started.", "the mail provider is back", quotes=True)] = None
    expected: Annotated[JobCount, About("How many jobs fitted when it was started.")]
    done: Annotated[int, About("How many jobs it has changed.", 64)]
    refused: Annotated[
        int, About("How many it could not change, because they had changed or something stood in the way.", 0)
    ]
    per_second: Annotated[float | None, About("How many jobs it changes in a second at most.", 50.0)] = None
    started_at: Annotated[datetime, About("When it was started.", MOMENT)]
    finished_at: Annotated[datetime | None, About("When it finished.", MOMENT)] = None
    errors: Annotated[int, About("How often in a row its next batch could not be done.", 0)]
    error: Annotated[str | None, About("Why the last batch could not be done.", "OSError: disk full", quotes=True)] = (
        None
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkOperationList:
    """Bulk operations of the last 30 days, newest first."""

    operations: list[BulkOperation]


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkPreviewRequest(Request):
    """What would be done to which jobs: either `q` or `ids` chooses them."""

    verb: Verb
    q: Query = None
    ids: Ids = field(default=None, metadata=IDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkRequest(Request):
    """What to do to which jobs: either `q` or `ids` chooses them."""

    verb: Verb
    q: Query = None
    ids: Ids = field(default=None, metadata=IDS)
    priority: Annotated[int | None, About("The new priority, 0 to 10, with reprioritise.", 1)] = field(
        default=None, metadata={"ge": HIGHEST_PRIORITY, "le": LOWEST_PRIORITY, "strict": True}
    )
    run_at: Annotated[Instant | None, About("When they may run, with reschedule.", MOMENT)] = None
    delay: Annotated[
        Length | None, About("How long after their turn they may run, with reschedule, instead of `run_at`.", "5m")
    ] = field(default=None, metadata=LENGTH)
    rate: Annotated[str | None, About("At most so many jobs in a time.", "50/s")] = field(
        default=None, metadata={"max_length": 40}
    )
    reason: Reason = field(default=None, metadata=REASON)
