"""A job, as the client, the HTTP API, the command line and the dashboard show it: in lists, and whole."""

from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from typing import Annotated, Any, Self

from holdfast import payload, public_id
from holdfast.about import About
from holdfast.job import TERMINAL, JobState
from holdfast.phases import PhaseState
from holdfast.resources.examples import JOB_ID, MOMENT
from holdfast.resources.redaction import ArgumentSecrets
from holdfast.resources.webhook import Delivery

_CURSOR = f"{MOMENT}/{JOB_ID}"
_NEXT = About("Where the next page begins, for `after`; null on the last one.", _CURSOR)
_SEARCHED_TO = About(
    "How far back a search has looked that ended early, because it took long; the next page goes on there.", MOMENT
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a handler is, as it reported last: in the whole job, and in the phase that it is in."""

    percent: Annotated[float | None, About("How much of the job is done.", 42.0)] = None
    message: Annotated[str | None, About("What the handler says.", "420 of 1,000 rows", quotes=True)] = None
    data: Annotated[Any, About("Whatever else the handler reported.", {"rows": 420}, quotes=True)] = None
    phase: Annotated[str | None, About("The phase that the job is in, or was in last.", "import")] = None
    phase_percent: Annotated[float | None, About("How much of that phase is done.", 84.0)] = None
    updated_at: Annotated[datetime, About("When the handler reported it.", MOMENT)]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class JobSummary:
    """A job, as lists show it."""

    id: Annotated[str, About("Its public id.", JOB_ID)]
    kind: Annotated[str, About("Its kind: the name of its task.", "send_email")]
    queue: Annotated[str, About("The queue that it belongs to.", "default")]
    priority: Annotated[int, About("0 goes first, 10 last.", 5)]
    state: Annotated[JobState, About("Where it stands.", "queued")]
    tags: Annotated[dict[str, str], About("Its tags.", {"customer": "17"})] = field(default_factory=dict)
    actor: Annotated[str | None, About("On whose behalf it runs.", "checkout")] = None
    attempt: Annotated[int, About("How many attempts have begun.", 1)] = 0
    max_attempts: Annotated[int, About("After how many attempts it fails.", 5)]
    crashes: Annotated[int, About("How often its worker process died while it ran.", 1)] = 0
    run: Annotated[int, About("1, and one more for each retry by hand.", 1)] = 1
    progress: Annotated[Progress | None, About("How far its handler is.")] = None
    enqueued_at: Annotated[datetime, About("When it was stored.", MOMENT)]
    run_at: Annotated[datetime, About("When it may run.", MOMENT)]
    claimed_at: Annotated[datetime | None, About("When a worker took it last.", MOMENT)] = None
    started_at: Annotated[datetime | None, About("When its handler was called last.", MOMENT)] = None
    finished_at: Annotated[datetime | None, About("When it finished.", MOMENT)] = None
    cancel_requested_at: Annotated[datetime | None, About("When its running handler was asked to stop.", MOMENT)] = None
    worker: Annotated[str | None, About("The worker that has it, or had it last.", "12")] = None
    schedule: Annotated[str | None, About("The schedule that made it.", "nightly")] = None
    fire_time: Annotated[datetime | None, About("The time of the schedule that it was made for.", MOMENT)] = None
    unique_key: Annotated[str | None, About("No other live job of its kind has this key.", "welcome:17")] = None
    parent: Annotated[str | None, About("The job whose handler enqueued it.", JOB_ID)] = None
    origin: Annotated[str | None, About("The job that it is a changed copy of.", JOB_ID)] = None
    error_class: Annotated[str | None, About("The class of its last error.", "ConnectionError")] = None
    error: Annotated[str | None, About("What the last error says.", "the mail server does not answer", quotes=True)] = (
        None
    )
    error_fingerprint: Annotated[
        str | None, About("The same for all errors of one cause.", "ConnectionError send_email", quotes=True)
    ] = None
    unreadable: Annotated[
        list[str],
        About(
            "What of its row cannot be read, because another program wrote it, and is left out here.",
            ["extra.estimate: Expected `int`, got `str`"],
            quotes=True,
        ),
    ] = field(default_factory=list)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} {self.kind} {self.state}>"  # its arguments may hold secrets

    @property
    def number(self) -> int:
        """Its id as the database has it."""
        return public_id.decode(self.id)

    @property
    def phase(self) -> str | None:
        """The phase that it is in, or was in last."""
        return None if self.progress is None else self.progress.phase

    @property
    def is_finished(self) -> bool:
        """Whether this run of the job has finished."""
        return self.state in TERMINAL


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPhase:
    """One phase of a job."""

    name: Annotated[str, About("Its name.", "import")]
    weight: Annotated[float, About("How much of the whole job it is, beside the weights of the others.", 1.0)] = 1.0
    state: Annotated[PhaseState, About("Where it stands.", "running")] = PhaseState.PENDING
    claim: Annotated[int | None, About("The claim that worked on it last.", 1)] = None
    percent: Annotated[float | None, About("How much of it is done.", 84.0)] = None
    message: Annotated[str | None, About("What the handler says.", "420 of 500 rows", quotes=True)] = None
    data: Annotated[Any, About("Whatever else the handler reported.", {"rows": 420}, quotes=True)] = None
    error: Annotated[str | None, About("Why it failed.", "the file has no header", quotes=True)] = None
    result: Annotated[Any, About("What it returned.", 500, quotes=True)] = None
    started_at: Annotated[datetime | None, About("When it began.", MOMENT)] = None
    finished_at: Annotated[datetime | None, About("When it finished.", MOMENT)] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemSet:
    """How many items of a set there are, and how they have finished."""

    total: Annotated[int, About("How many there are.", 4)] = 0
    completed: Annotated[int, About("How many are completed.", 2)] = 0
    skipped: Annotated[int, About("How many were skipped.", 1)] = 0
    failed: Annotated[int, About("How many have failed.", 1)] = 0
    in_progress: Annotated[int, About("How many have not finished.", 0)] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One finished claim of a job: which worker had it, when, and how it finished."""

    claim: Annotated[int, About("The number of the claim.", 1)]
    attempt: Annotated[int, About("The number of the attempt; a claim that was not charged begins none.", 1)]
    worker: Annotated[str | None, About("The worker that had it.", "12")] = None
    claimed_at: Annotated[datetime | None, About("When the worker took it.", MOMENT)] = None
    started_at: Annotated[datetime | None, About("When its handler was called.", MOMENT)] = None
    finished_at: Annotated[datetime, About("When that finished.", MOMENT)]
    outcome: Annotated[str, About("How it finished.", "retry")]
    error_class: Annotated[str | None, About("The class of the error.", "ConnectionError")] = None
    error: Annotated[str | None, About("What the error says.", "the mail server does not answer", quotes=True)] = None
    traceback: Annotated[
        str | None, About("Where the error came from.", 'File "mail.py", line 7, in send_email', quotes=True)
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Job(JobSummary):
    """A job with all that is kept of it; what its task calls secret is covered."""

    args: Annotated[Any, About("The arguments of its task.", {"to": "ada@example.org"})] = None
    result: Annotated[Any, About("What its handler returned.", "sent", quotes=True)] = None
    timeout_ms: Annotated[int | None, About("How long an attempt may take; null sets no limit.", 300_000)] = None
    max_crashes: Annotated[int, About("After how many crashes it fails.", 3)]
    claim: Annotated[int, About("How often a worker has taken it.", 1)] = 0
    key: Annotated[str | None, About("Its idempotency key.", "order-17")] = None
    limit_key: Annotated[str | None, About("The limit or the budget that it is held for.", "mailer:17")] = None
    fifo_key: Annotated[str | None, About("Jobs with this key run one after the other.", "orders:17")] = None
    trace: Annotated[str | None, About("The trace that it was enqueued in.", "4bf92f3577b34da6a3ce929d0e0e4736")] = None
    stale_at: Annotated[datetime | None, About("When it becomes stale.", MOMENT)] = None
    delete_at: Annotated[datetime | None, About("When it will be deleted.", MOMENT)] = None
    cancelled_by: Annotated[str | None, About("Who cancelled it.", "ada")] = None
    cancel_reason: Annotated[str | None, About("Why it was cancelled.", "the order was withdrawn", quotes=True)] = None
    traceback: Annotated[
        str | None, About("Where its last error came from.", 'File "mail.py", line 7, in send_email', quotes=True)
    ] = None
    phases: Annotated[list[JobPhase], About("Its phases, in order.")] = field(default_factory=list)
    items: Annotated[dict[str, ItemSet], About("How far its sets of items are, by their names.")] = field(
        default_factory=dict
    )
    attempts: Annotated[list[Attempt], About("Its finished claims, oldest first; at most the last hundred.")] = field(
        default_factory=list
    )
    webhooks: Annotated[list[Delivery], About("The messages about its ends.")] = field(default_factory=list)
    webhook_sent: Annotated[
        bool, About("Whether the receiver took the message about the end of this run.", example=False)
    ] = False

    @property
    def is_stale(self) -> bool:
        """Whether its queue's policy calls this finished job stale, by the clock of this machine."""
        return self.stale_at is not None and self.stale_at <= datetime.now(UTC)

    def summary(self) -> JobSummary:
        """Leave out what lists do not show."""
        return JobSummary(**{field.name: getattr(self, field.name) for field in fields(JobSummary)})

    def enqueued(self, *, created: bool) -> "EnqueuedJob":
        """Show it as what an enqueue has stored or found."""
        return EnqueuedJob(**{field.name: getattr(self, field.name) for field in fields(Job)}, created=created)

    def redacted(self) -> Self:
        """Cover what its task calls secret, in the arguments and in the result."""
        args, result = payload.covered(self.args), ArgumentSecrets(self.args).cover(self.result)
        return self if (args, result) == (self.args, self.result) else replace(self, args=args, result=result)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class EnqueuedJob(Job):
    """A job that an enqueue has stored or found."""

    created: Annotated[bool, About("False when its key or its unique key found a job that was there.", example=True)]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSummaryPage:
    """One page of jobs as lists show them, newest first."""

    jobs: list[JobSummary]
    next: Annotated[str | None, _NEXT] = None
    searched_to: Annotated[datetime | None, _SEARCHED_TO] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPage:
    """One page of jobs, newest first."""

    jobs: list[Job]
    next: Annotated[str | None, _NEXT] = None
    searched_to: Annotated[datetime | None, _SEARCHED_TO] = None

    def summary(self) -> JobSummaryPage:
        """Leave out what lists do not show."""
        return JobSummaryPage(jobs=[job.summary() for job in self.jobs], next=self.next, searched_to=self.searched_to)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobList:
    """Some jobs."""

    jobs: list[Job]
