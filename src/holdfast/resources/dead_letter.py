"""A dead letter is a job that has failed for good; a group of dead letters shares one kind and one cause."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any, TypedDict

from holdfast.about import About
from holdfast.resources.examples import JOB_ID, MOMENT
from holdfast.resources.queue import JobCount
from holdfast.resources.request import REASON, Instant, Reason, Request

_GROUP = "3f9a0c71be42"
_CAUSE = "ConnectionError@mail.py:send"

Rate = Annotated[str | None, About("At most so many jobs in a time.", "50/s")]
RATE = {"max_length": 40}


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterGroup:
    """The failed jobs of one kind with one cause."""

    id: Annotated[str, About("Its id, the same as long as kind and cause are.", _GROUP)]
    kind: Annotated[str, About("The kind of its jobs.", "send_mail")]
    queue: Annotated[str, About("The queue of the last job that failed.", "high")]
    error_class: Annotated[str | None, About("The class of the error.", "ConnectionError")] = None
    error: Annotated[str | None, About("What the last error said.", "the mail provider is down", quotes=True)] = None
    fingerprint: Annotated[str, About("The cause: the error and where it comes from.", _CAUSE, quotes=True)]
    seen: Annotated[int, About("How many jobs have ever failed so.", 12)]
    left: Annotated[JobCount, About("How many of them are still there.")]
    first_at: Annotated[datetime, About("When the first one failed.", MOMENT)]
    last_at: Annotated[datetime, About("When the last one failed.", MOMENT)]
    last_job: Annotated[str, About("The public id of the last one.", JOB_ID)]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterGroupPage:
    """A page of groups of dead letters; the group that a job was added to last comes first."""

    groups: list[DeadLetterGroup]
    next: Annotated[
        str | None, About("`after` of the next page; null on the last page.", f"2026-11-16T09:30:00.123456Z~{_GROUP}")
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """A failed job, with all that helps to find out why, and without secrets."""

    id: Annotated[str, About("Its public id.", JOB_ID)]
    group: Annotated[str, About("The group that it belongs to.", _GROUP)]
    kind: Annotated[str, About("Its kind.", "send_mail")]
    queue: Annotated[str, About("Its queue.", "high")]
    priority: Annotated[int, About("Its priority.", 2)]
    args: Annotated[Any, About("Its arguments; secret ones are covered.", {"to": "ada@example.org"})]
    tags: Annotated[dict[str, str], About("Its tags.", {"customer": "17"})]
    actor: Annotated[str | None, About("Who enqueued it.", "ada")] = None
    run: Annotated[int, About("The run that failed, from 1.", 1)]
    attempt: Annotated[int, About("The attempt that failed.", 5)]
    max_attempts: Annotated[int, About("After how many attempts it fails.", 5)]
    crashes: Annotated[int, About("How often its worker process crashed.", 0)]
    enqueued_at: Annotated[datetime, About("When it was enqueued.", MOMENT)]
    finished_at: Annotated[datetime | None, About("When it failed.", MOMENT)] = None
    error_class: Annotated[str | None, About("The class of the error.", "ConnectionError")] = None
    error: Annotated[str | None, About("What the error said.", "the mail provider is down", quotes=True)] = None
    error_fingerprint: Annotated[str | None, About("The cause.", _CAUSE, quotes=True)] = None
    traceback: Annotated[str | None, About("Where the error was raised.", "File mail.py, line 7", quotes=True)] = None


class FailedJobs(TypedDict, total=False):
    """Which failed jobs are meant: all conditions must hold; `error` is the class of the error."""

    kind: str | None
    queue: str | None
    error: str | None
    since: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRequest(Request):
    """How fast the failed jobs of a group are changed, and why."""

    rate: Rate = field(default=None, metadata=RATE)
    reason: Reason = field(default=None, metadata=REASON)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterRequest(Request):
    """The failed jobs to change; every condition must hold, and there must be one."""

    rate: Rate = field(default=None, metadata=RATE)
    reason: Reason = field(default=None, metadata=REASON)
    kind: Annotated[str | None, About("Of this kind.", "send_mail")] = field(default=None, metadata={"max_length": 64})
    queue: Annotated[str | None, About("Of this queue.", "high")] = field(default=None, metadata={"max_length": 64})
    error: Annotated[str | None, About("With this class of error.", "ConnectionError")] = field(
        default=None, metadata={"max_length": 200}
    )
    since: Annotated[Instant | None, About("Failed since then.", MOMENT)] = None

    def conditions(self) -> FailedJobs:
        """The conditions, as a client takes them."""
        return FailedJobs(kind=self.kind, queue=self.queue, error=self.error, since=self.since)
