"""What a store can do: small role protocols, one method per verb.

A store is the only truth, and its clock decides everything that machines compare. Every call has a deadline. A passed
deadline, a broken link or a cancelled caller means *unknown* (`OutcomeUnknown`), never *failed*; each verb says how
the unknown is resolved. `StoreUnavailable` means that nothing was changed.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from enum import StrEnum
from typing import Any, ClassVar, Protocol

import msgspec

from holdfast.job import Job, JobState, NewJob
from holdfast.rollup import Rollup
from holdfast.transitions import Transition

# ---- values --------------------------------------------------------------------------------------------------------


class Insertion(StrEnum):
    """What became of one job of an insert."""

    CREATED = "created"
    EXISTING = "existing"
    CONFLICT = "conflict"  # the idempotency key stands for another kind or payload


class Inserted(msgspec.Struct, frozen=True, gc=False):
    """The answer for one inserted job; `id` is None only in a caller's REPEATABLE READ transaction."""

    outcome: Insertion
    id: int | None


class Answer(StrEnum):
    """What an operator's verb did to one job."""

    DONE = "done"
    REQUESTED = "requested"  # cancel: the running handler was marked and will be told
    WRONG_STATE = "wrong_state"
    UNIQUE_CLASH = "unique_clash"  # retry: `other` is the live job that holds the unique key
    EXPIRING = "expiring"  # retry: too close to the end of its retention
    NOT_FOUND = "not_found"


class Answered(msgspec.Struct, frozen=True):
    """The answer for one job: what was done, and the state it is in now."""

    id: int
    answer: Answer
    state: JobState | None
    other: int | None = None


class Lane(msgspec.Struct, frozen=True):
    """One line that a claim reads: jobs of one queue and priority, beyond the given position."""

    queue: str
    priority: int
    limit: int
    after: int = 0


class Claim(msgspec.Struct, frozen=True):
    """A request for work: lanes in order of preference, at most `limit` jobs in all.

    `batch` is a number that this worker never used before: it names this very request if its reply is lost.
    """

    worker: int
    batch: int
    limit: int
    lanes: tuple[Lane, ...]


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
    claimed: list[Job]
    worker_lost: bool = False


class Started(msgspec.Struct, frozen=True):
    """A handler began: `started_ago_ms` before this call, by the worker's monotonic clock."""

    id: int
    claim: int
    started_ago_ms: int


class ProgressReport(msgspec.Struct, frozen=True):
    """One report of a running handler; `data` is JSON."""

    id: int
    claim: int
    percent: float | None = None
    message: str | None = None
    data: str | None = None


class Promoted(msgspec.Struct, frozen=True):
    """How many due jobs became `queued`, in which queues, and when the next one is due."""

    jobs: int
    queues: tuple[str, ...]
    next_due_ms: int | None


class Rescued(msgspec.Struct, frozen=True):
    """What a rescue sweep did: workers marked dead, and where their jobs went."""

    workers: int
    requeued: tuple[int, ...]
    failed: tuple[int, ...]
    cancelled: tuple[int, ...]


class Kept(msgspec.Struct, frozen=True):
    """What retention did: partitions made and dropped (PostgreSQL), rows deleted."""

    made: int
    dropped: int
    deleted: int


class Diagnosis(msgspec.Struct, frozen=True):
    """What a store tells about itself; `history_until` is where the prepared weeks of history end, if it has weeks."""

    software: str
    version: tuple[int, ...]
    now: datetime
    history_until: datetime | None


class WorkerInfo(msgspec.Struct, frozen=True):
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
    """A worker as the store shows it."""

    id: int
    info: WorkerInfo
    registered_at: datetime
    renewed_at: datetime
    lease_until: datetime
    dead_at: datetime | None
    running: int


class Held(msgspec.Struct, frozen=True):
    """A claim that the store shows for a worker."""

    worker: int
    id: int
    claim: int
    batch: int | None
    age_ms: int
    cancel_requested: bool


class Renewal(msgspec.Struct, frozen=True):
    """The reply to a lease renewal: the workers still alive, and all they hold (with the cancel marks)."""

    alive: frozenset[int]
    held: list[Held]


class Retention(msgspec.Struct, frozen=True):
    """How long finished jobs of a queue are kept, per outcome, in milliseconds; None keeps them for ever."""

    completed_ms: int | None
    completed_with_errors_ms: int | None
    failed_ms: int | None
    cancelled_ms: int | None


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


class Cursor(msgspec.Struct, frozen=True):
    """Where a page ends: lists go by `(enqueued_at, id)`, newest first."""

    enqueued_at: datetime
    id: int


class Page(msgspec.Struct, frozen=True):
    """One page of a list, and where the next one begins (None: there is no more)."""

    jobs: list[Job]
    next: Cursor | None


# ---- roles ---------------------------------------------------------------------------------------------------------


class JobStore(Protocol):
    """What callers ask of jobs."""

    async def take_ids(self, count: int) -> list[int]:
        """Draw ids that nobody else has. Unknown: draw others; ids are never short."""

    async def insert_jobs(self, jobs: Sequence[NewJob], *, again: bool = False) -> list[Inserted]:
        """Store jobs in one commit, answers in the order asked.

        Unknown: send the same jobs with `again`; a job that is there already, live or finished, counts as created.
        """

    async def get_jobs(self, ids: Sequence[int]) -> list[Job]:
        """Read jobs, live or finished, in one snapshot; missing ones are left out. Reads may simply be repeated."""

    async def finished_jobs(self, ids: Sequence[int]) -> list[Job]:
        """Read those of the given jobs that are not live any more."""

    async def list_jobs(self, which: JobFilter, *, limit: int, after: Cursor | None = None) -> Page:
        """Read one page of jobs, newest first."""

    async def count_jobs(self) -> list[Count]:
        """Count live jobs by queue and state, reading at most 10,001 entries of an index for each number."""

    async def cancel_jobs(self, ids: Sequence[int], *, actor: str | None, reason: str | None) -> list[Answered]:
        """Move waiting jobs to `cancelled`, mark running ones. Unknown: ask again; a cancelled job answers so."""

    async def retry_jobs(self, ids: Sequence[int]) -> list[Answered]:
        """Give finished jobs a new life. Unknown: look at the job; its `life` tells."""

    async def delete_jobs(self, ids: Sequence[int]) -> list[Answered]:
        """Delete finished jobs. Unknown: ask again; "not found" then means deleted."""

    async def reschedule_jobs(
        self, ids: Sequence[int], *, run_at: datetime | None, delay_ms: int | None
    ) -> list[Answered]:
        """Set when waiting jobs are due. Unknown: ask again; the same time is set twice."""

    async def reprioritise_jobs(self, ids: Sequence[int], priority: int) -> list[Answered]:
        """Move waiting jobs to another lane, at its end. Unknown: ask again."""


class WorkStore(Protocol):
    """What workers ask; every write names `(id, claim)`."""

    is_remote: ClassVar[bool]
    """Whether the store does its work outside this process, so that the process can do its own meanwhile."""

    async def claim_jobs(self, claim: Claim) -> list[Job]:
        """Take jobs from the lanes, in order. Unknown: `give_back_batch` with the same batch, then claim anew."""

    async def claim_jobs_by_id(self, claim: Claim, ids: Sequence[int]) -> list[Job]:
        """Take the named jobs if they may run now; the claim's lanes are not read. Unknown: as `claim_jobs`."""

    async def give_back_batch(self, worker: int, batch: int) -> int:
        """Give back uncharged what a claim whose reply was lost may have taken. Unknown: ask again."""

    async def start_jobs(self, starts: Sequence[Started]) -> list[Verdict]:
        """Record that handlers began. Unknown: ask again; the same time is set twice."""

    async def finish_jobs(
        self, transitions: Sequence[Transition], *, rollups: Sequence[Rollup] = (), claim: Claim | None = None
    ) -> Worked:
        """End claims, and take the next jobs in the same commit; no job may be named twice.

        Unknown: send the transitions again without claim and roll-ups (`ALREADY` says it was us), and give the
        claim's batch back. A job whose cancellation was requested ends `cancelled` instead of waiting again.
        """

    async def save_progress(self, reports: Sequence[ProgressReport]) -> list[Verdict]:
        """Keep the last report of each running job; no job may be named twice. Unknown: ask again."""


class UpkeepStore(Protocol):
    """What keeps the store going; any number of processes may do it at once. Unknown: the next sweep does the rest."""

    async def promote_jobs(self, limit: int) -> Promoted:
        """Make due jobs `queued`, earliest first."""

    async def rescue_jobs(self, limit: int) -> Rescued:
        """Mark workers whose lease has ended as dead, and give back every running job without a living worker."""

    async def force_cancels(self, grace_ms: int, limit: int) -> tuple[int, ...]:
        """End running jobs whose cancellation was requested longer than the grace ago."""

    async def keep_history(self, limit: int) -> Kept:
        """Delete what has outlived its retention and make room for what is to come."""

    async def prune_keys(self, limit: int) -> int:
        """Delete idempotency keys that have expired and workers dead for a day."""

    async def diagnose(self) -> Diagnosis:
        """Read what a person who looks for trouble wants to know of the database."""

    async def read_rollups(self, since: datetime) -> list[Rollup]:
        """Read the counts since a time, merged per queue, kind and state."""


class LeaseStore(Protocol):
    """What says who is alive."""

    async def register_worker(self, info: WorkerInfo, lease_ms: int) -> int:
        """Enter a worker and get its id. Unknown: register again; the lost row expires by itself."""

    async def renew_workers(self, workers: Sequence[int], lease_ms: int) -> Renewal:
        """Extend the leases of an instance's workers. Unknown: ask again before the lease ends."""

    async def retire_worker(self, worker: int) -> int:
        """Remove a worker and give back, uncharged, whatever it still holds. Unknown: ask again."""

    async def release_worker(self, worker: int, ends: Sequence[Transition]) -> Rescued:
        """Declare a worker dead whose process is known to be gone, in one commit.

        The claims named in `ends` end so, everything else that it holds is given back uncharged. Unknown: ask again.
        """

    async def list_workers(self) -> list[WorkerRow]:
        """Read the workers that are entered, dead ones included until they are pruned."""


class QueueStore(Protocol):
    """What is known of queues."""

    async def define_queues(self, retentions: Mapping[str, Retention]) -> None:
        """Publish how long each queue keeps finished jobs; unchanged ones cost no write. Unknown: ask again."""

    async def pause_queue(self, name: str, *, actor: str | None, reason: str | None) -> QueueRow:
        """Let no job of the queue be claimed until it is resumed. Unknown: ask again."""

    async def resume_queue(self, name: str) -> QueueRow:
        """Let jobs of the queue be claimed again. Unknown: ask again."""

    async def list_queues(self) -> list[QueueRow]:
        """Read every queue that has live jobs, a definition or a pause."""


class Listening(Protocol):
    """Hints that arrive."""

    @property
    def is_live(self) -> bool:
        """Whether hints can be relied on at present; while they cannot, workers look more often."""


class WakeStore(Protocol):
    """How workers learn that there is work; losing every hint costs latency and nothing else."""

    async def announce(self, queues: Sequence[str]) -> None:
        """Hint to every worker that jobs of these queues may run. Unknown: leave it; workers look by themselves too."""

    def listen(self, queues: Sequence[str], wake: Callable[[str], None]) -> AbstractAsyncContextManager[Listening]:
        """Call `wake` on this event loop with the name of a queue, whenever jobs of it may run."""


class StoreTransaction(Protocol):
    """A transaction in which a handler's effect and the end of its claim commit together."""

    @property
    def connection(self) -> Any:
        """The driver's own connection: of asyncpg, or of sqlite3."""

    async def finish(self, transition: Transition) -> Finish:
        """End the claim, as the last statement before the commit; after `LOST` everything is rolled back."""


class TransactionStore(Protocol):
    """Where a handler's effect and its completion become one commit."""

    def transaction(self, budget_s: float) -> AbstractAsyncContextManager[StoreTransaction]:
        """Open a transaction; leaving the block commits if the end of the claim was accepted, else it rolls back.

        Unknown (the commit's reply was lost): give the claim back; the fence refuses that if the commit went through.
        Where writers exclude each other (SQLite) a body that takes longer than the budget is rolled back at once, and
        leaving raises `TransactionTooLong`.
        """


class Store(JobStore, WorkStore, UpkeepStore, LeaseStore, QueueStore, WakeStore, TransactionStore, Protocol):
    """All roles together, and the life of the connection."""

    def reserve(self) -> AbstractAsyncContextManager[LeaseStore]:
        """Open a way to the same store that leases have for themselves, so that no load keeps them waiting."""

    async def open(self) -> None:
        """Connect, and check that the schema fits this release."""

    async def close(self) -> None:
        """Let calls in flight end, then disconnect."""
