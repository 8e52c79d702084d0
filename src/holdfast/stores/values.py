"""The values that a store takes and gives: requests, answers, rows of its tables."""

from datetime import datetime
from enum import StrEnum

import msgspec

from holdfast.job import Answer, JobRow, JobState


class Insertion(StrEnum):
    """What became of one job of an insert."""

    CREATED = "created"
    EXISTING = "existing"
    CONFLICT = "conflict"  # the idempotency key stands for another kind or other arguments
    LIMITED = "limited"  # a rate limit refused it


class Refusal(msgspec.Struct, frozen=True, gc=False):
    """Which rate limit refused a job, for which key, and when it may come again; None: so many never fit at once."""

    limit: str
    key: str
    retry_ms: int | None


class Inserted(msgspec.Struct, frozen=True, gc=False):
    """The answer for one inserted job; `id` is None in a caller's REPEATABLE READ transaction, or of a refused one."""

    outcome: Insertion
    id: int | None
    refusal: Refusal | None = None


class Answered(msgspec.Struct, frozen=True):
    """The answer for one job: what was done, and the state it is in now."""

    id: int
    answer: Answer
    state: JobState | None
    other: int | None = None


class Ready(msgspec.Struct, frozen=True, gc=False):
    """A job that may run now: `due_ms`, since 1970, orders the hints of one lane and decides nothing.

    `claim` is how often it was claimed before: with the id it names this waiting and no other.
    """

    id: int
    queue: str
    priority: int
    due_ms: int
    claim: int = 0


class Lane(msgspec.Struct, frozen=True):
    """One line that a claim reads: jobs of one queue and priority, beyond the given position."""

    queue: str
    priority: int
    limit: int
    after: int = 0


class Claim(msgspec.Struct, frozen=True):
    """A request for work: lanes in order of preference, or the jobs with the given ids; at most `limit` in all.

    `batch` is a number that this worker never used before: it names this very request if its reply is lost.
    """

    worker: int
    batch: int
    limit: int
    lanes: tuple[Lane, ...]
    ids: tuple[int, ...] = ()


class Verdict(StrEnum):
    """Whether a fenced write was accepted."""

    DONE = "done"
    ALREADY = "already"  # an earlier send of the same write was accepted and only its reply was lost
    LOST = "lost"  # the claim is no longer ours: stop, and drop the result


class Finish(msgspec.Struct, frozen=True):
    """The verdict on one transition, and the state the job is in if the write was ours."""

    verdict: Verdict
    state: JobState | None


DONE = {state: Finish(Verdict.DONE, state) for state in JobState}
"""What nearly every finish gives back, made once."""


class Worked(msgspec.Struct, frozen=True):
    """What a finish with the next claim gives back: one verdict per transition, in order, and the claimed jobs.

    `worker_lost` says that the claiming worker was declared dead: nothing was claimed, the finishes stand.
    """

    finishes: list[Finish]
    claimed: list[JobRow]
    worker_lost: bool = False


class Started(msgspec.Struct, frozen=True):
    """A handler began: `started_ago_ms` before this call, by the worker's monotonic clock."""

    id: int
    claim: int
    started_ago_ms: int


class ProgressReport(msgspec.Struct, frozen=True):
    """One report of a running handler; `data` is JSON, and so is `changes` (see `journal.Changes`)."""

    id: int
    claim: int
    percent: float | None = None
    message: str | None = None
    data: str | None = None
    phase: str | None = None
    phase_percent: float | None = None
    changes: str | None = None


class Promoted(msgspec.Struct, frozen=True):
    """How many due jobs became `queued`, in which queues, and when the next one is due.

    `ready` names them, for a delivery that carries ids; `lag_ms` is how late the latest of them was.
    """

    jobs: int
    queues: tuple[str, ...]
    next_due_ms: int | None
    ready: tuple[Ready, ...] = ()
    lag_ms: int = 0


class Rescued(msgspec.Struct, frozen=True):
    """What a rescue sweep did: workers marked dead, and where their jobs went.

    `looked_at` is when it looked, by the store's clock; None if it had to wait and so looked at nobody.
    """

    workers: int
    requeued: tuple[int, ...]
    failed: tuple[int, ...]
    cancelled: tuple[int, ...]
    looked_at: datetime | None = None


class Kept(msgspec.Struct, frozen=True):
    """What retention did: partitions made and dropped (PostgreSQL), rows deleted."""

    made: int
    dropped: int
    deleted: int


class WorkerProcess(msgspec.Struct, frozen=True):
    """Who a worker process is, so that others can tell whether it still lives."""

    instance: str
    host: str
    pid: int
    boot_id: str | None = None
    pid_namespace: str | None = None
    process_start: int | None = None
    version: str | None = None
    queues: tuple[str, ...] = ()
    concurrency: int = 0


class WorkerRow(msgspec.Struct, frozen=True):
    """A worker by the clock of the store; `memory_bytes` is what its process had at its last renewal, if known."""

    id: int
    info: WorkerProcess
    registered_at: datetime
    renewed_at: datetime
    lease_until: datetime
    dead_at: datetime | None
    running: int
    drain_at: datetime | None = None
    drain_by: str | None = None
    memory_bytes: int | None = None
    is_lease_over: bool = False


class Held(msgspec.Struct, frozen=True):
    """A claim that the store shows for a worker."""

    worker: int
    id: int
    claim: int
    batch: int | None
    age_ms: int
    cancel_requested: bool


class Renewal(msgspec.Struct, frozen=True):
    """The reply to a lease renewal: the workers still alive, and all they hold (with the cancel marks).

    `is_draining` when somebody has asked their instance to leave.
    """

    alive: frozenset[int]
    held: list[Held]
    is_draining: bool = False


class QueueTerms(msgspec.Struct, frozen=True, kw_only=True):
    """What holds for the finished jobs of a queue; times in milliseconds, by outcome.

    `kept_ms` is how long they are kept (None: for ever), `stale_ms` when they become stale (a missing outcome: never).
    `tells` says that somebody wants to hear of both. `webhook` is the JSON object of where ends are posted to,
    `escalation` the name of the policy for those that fail.
    """

    kept_ms: dict[JobState, int | None]
    stale_ms: dict[JobState, int] = msgspec.field(default_factory=dict)
    tells: bool = False
    webhook: str | None = None
    escalation: str | None = None


class Horizon(msgspec.Struct, frozen=True):
    """Where the events of the future begin: after `last`, and with those before it that are still missing.

    `writing` names changes that began before the watch and have not ended: they tell nobody.
    """

    last: int
    missing: tuple[int, ...] = ()
    writing: tuple[str, ...] = ()


class RetentionDue(msgspec.Struct, frozen=True):
    """What has to be told of one finished job now: that it is stale, or that it is about to be deleted."""

    job_id: int
    life: int
    what: str
    tries: int


class QueueRow(msgspec.Struct, frozen=True):
    """A queue as the store knows it."""

    name: str
    paused_at: datetime | None
    paused_by: str | None
    paused_reason: str | None


class Count(msgspec.Struct, frozen=True):
    """How many live jobs of one queue are in one state; `capped` says "this many or more"."""

    queue: str
    state: JobState
    jobs: int
    capped: bool


class LaneGauge(msgspec.Struct, frozen=True):
    """How many jobs of one lane were in one state when that was last measured; `capped` says "this many or more".

    `oldest_at` is when the first job in line was due, of those that may run. A lane that has no such jobs any more is
    shown for a day with 0 of them; `measured_at` is then when it was last seen with some.
    """

    queue: str
    priority: int
    state: JobState
    jobs: int
    capped: bool
    oldest_at: datetime | None
    measured_at: datetime


class JobFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which jobs a list shows; every condition given must hold."""

    ids: tuple[int, ...] = ()
    states: tuple[JobState, ...] = ()
    kinds: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()
    tags: tuple[tuple[str, str], ...] = ()
    actor: str | None = None
    unique: str | None = None
    fingerprint: str | None = None
    enqueued_from: datetime | None = None
    enqueued_before: datetime | None = None
    error_class: str | None = None
    finished_from: datetime | None = None
    finished_until: datetime | None = None
    id_range: tuple[int, int] | None = None
    """From and to, both within: what begins with some digits of a public id."""
    id_ending: tuple[int, int] | None = None
    """A divisor and what it leaves: what ends with some digits of a public id."""
    priorities: tuple[int, ...] = ()
    schedule: str | None = None
    error_name: str | None = None
    """The name of an error, with or without the modules before it."""
    has_error: bool | None = None
    """Whether it has failed at least once; only those that have can be asked for."""
    args: tuple[tuple[tuple[str, ...], str], ...] = ()
    """Where in the arguments, and what is there: text, or a number, `true`, `false` or `null` so spelled."""
    words: tuple[str, ...] = ()
    """Each is somewhere in the kind, the error or the arguments; jobs with secrets keep their arguments out of it."""
    parent: int | None = None
    """The job whose handler enqueued it."""
    origin: int | None = None
    """The job that it replays."""


class Cursor(msgspec.Struct, frozen=True):
    """Where a page ends: lists go by `(enqueued_at, id)`, newest first."""

    enqueued_at: datetime
    id: int


class Page(msgspec.Struct, frozen=True):
    """One page of a list, and where the next one begins (None: there is no more)."""

    jobs: list[JobRow]
    next: Cursor | None


class Found(msgspec.Struct, frozen=True):
    """What a search has found: the newest jobs that fit, and where it goes on (None: there is no more).

    A search has so much time and no more. When that was over before the page was full, `is_whole` is False: jobs that
    were enqueued before `searched_to` were not looked at yet, and `next` goes on with them.
    """

    jobs: list[JobRow]
    next: Cursor | None
    searched_to: datetime | None
    is_whole: bool


class Counted(msgspec.Struct, frozen=True):
    """How many jobs fit; `capped` says "this many or more"."""

    jobs: int
    capped: bool
