"""What is read of one job by itself: what happened to it, what it logged, its attempts and its items."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any

from holdfast import public_id
from holdfast.about import About
from holdfast.errors import JobNotFound, StoreError, UniqueConflict, WrongState
from holdfast.job import Answer, JobState
from holdfast.resources.examples import JOB_ID, MOMENT
from holdfast.resources.job import Attempt
from holdfast.why import Reason

ITEM_STATES = ("failed", "skipped", "in_progress", "completed")


@dataclass(frozen=True, slots=True)
class Why:
    """Why a job stands where it stands: a sentence for people, and the same in parts for programs."""

    reason: Annotated[Reason, About("What keeps it where it is, in one word.", "paused")]
    sentence: Annotated[
        str, About("The same for people.", "its queue default is paused by ada: the mail provider is down", quotes=True)
    ]
    details: Annotated[
        dict[str, Any],
        About("The same in parts; what they are follows from the reason.", {"queue": "default"}, quotes=True),
    ] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.sentence


@dataclass(frozen=True, slots=True, kw_only=True)
class StateChange:
    """One change of a job's state."""

    at: Annotated[datetime, About("When it happened.", MOMENT)]
    source: Annotated[JobState | None, About("Where the job stood before.", "queued")] = None
    target: Annotated[JobState, About("Where it stood after.", "running")]
    attempt: Annotated[int, About("The attempt that it was at.", 1)]
    worker: Annotated[str | None, About("The worker that had it.", "12")] = None
    reason: Annotated[str | None, About("Why.", "retry: the mail server does not answer", quotes=True)] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StateChangeList:
    """What has happened to a job, oldest first, as far as it is kept; at most the last hundred changes."""

    events: list[StateChange]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """A line that a handler logged."""

    claim: Annotated[int, About("The claim that logged it.", 1)]
    line: Annotated[int, About("Its number within the claim.", 0)]
    at: Annotated[datetime, About("When it was logged.", MOMENT)]
    level: Annotated[str, About("Its level.", "INFO")]
    text: Annotated[str, About("What it says.", "420 rows imported", quotes=True)]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPage:
    """What a handler logged, oldest first."""

    logs: list[LogLine]
    next: Annotated[str | None, About("Where the next page begins, for `after`; null on the last one.", "1-99")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptList:
    """The finished claims of a job, oldest first; at most the last hundred."""

    attempts: list[Attempt]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobItem:
    """One item of a set."""

    set: Annotated[str, About("The set that it belongs to.", "pages")]
    key: Annotated[str, About("What it is called.", "page-1")]
    state: Annotated[str, About(f"Where it stands: {', '.join(ITEM_STATES)}.", "failed")]
    note: Annotated[str | None, About("Why it failed or was skipped.", "TimeoutError: no answer", quotes=True)] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemPage:
    """Items of a job: those that failed first, then the skipped, the open and the completed ones."""

    items: list[JobItem]
    next: Annotated[str | None, About("Where the next page begins, for `after`; null on the last one.", "100")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobAnswer:
    """What a verb did to one of several jobs."""

    id: Annotated[str, About("The job.", JOB_ID)]
    answer: Annotated[Answer, About("What was done, or why it was refused.", "done")]
    state: Annotated[JobState | None, About("Where the job stands now.", "cancelled")] = None
    error: Annotated[str | None, About("Why it was refused, in a sentence.", "it is running", quotes=True)] = None
    other: Annotated[str | None, About("The live job that holds its unique key.", JOB_ID)] = None

    def require_done(self) -> None:
        """Raise why the verb was refused, if it was."""
        if self.error is None:
            return
        if self.answer is Answer.NOT_FOUND:
            raise JobNotFound(self.error)
        if self.answer is Answer.UNIQUE_CLASH:
            raise UniqueConflict(self.error, None if self.other is None else public_id.decode(self.other))
        raise WrongState(self.error)

    def state_after(self) -> JobState:
        """Return where the job stands now, or raise why the verb was refused."""
        self.require_done()
        if self.state is None:
            message = f"job {self.id}: the store named no state after it"
            raise StoreError(message)
        return self.state


@dataclass(frozen=True, slots=True, kw_only=True)
class JobAnswers:
    """What a verb did to each of several jobs."""

    jobs: list[JobAnswer]
