"""What a store can do: small role protocols, one method per verb.

A store is the only truth, and its clock decides everything that machines compare. Every call has a deadline. A passed
deadline, a broken link or a cancelled caller means *unknown* (`OutcomeUnknown`), never *failed*; each verb says how
the unknown is resolved. `StoreUnavailable` means that nothing was changed.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Any, ClassVar, Protocol

from holdfast.events import EventRow
from holdfast.job import JobRow, NewJob
from holdfast.rollup import Rollup, SeriesPoint
from holdfast.stores.access import AccessStore
from holdfast.stores.alarms import AlarmStore, NoticeStore
from holdfast.stores.answers import LISTED, OperatorAnswers
from holdfast.stores.budgets import BudgetStore
from holdfast.stores.bulk import BulkStore
from holdfast.stores.cluster import AnnounceStore, LeaderStore, LockStore, ScheduleStore, SettingStore
from holdfast.stores.deliveries import DeliveryStore
from holdfast.stores.diagnosis import Diagnosis, TableSize
from holdfast.stores.failures import FailureStore
from holdfast.stores.limits import LimitStore
from holdfast.stores.policies import PolicyStore
from holdfast.stores.searching import SearchStore
from holdfast.stores.sla import SlaStore, TuningStore
from holdfast.stores.values import (
    Answered,
    Claim,
    Count,
    Cursor,
    Finish,
    Horizon,
    Inserted,
    JobFilter,
    Kept,
    LaneGauge,
    Page,
    ProgressReport,
    Promoted,
    QueueRow,
    QueueTerms,
    Renewal,
    Rescued,
    RetentionDue,
    Started,
    Verdict,
    Worked,
    WorkerProcess,
    WorkerRow,
)
from holdfast.stores.why import WhyStore
from holdfast.transitions import Transition


class JobStore(Protocol):
    """What callers ask of jobs."""

    async def take_ids(self, count: int) -> list[int]:
        """Draw ids that nobody else has. Unknown: draw others; ids are never short."""

    async def insert_jobs(self, jobs: Sequence[NewJob], *, again: bool = False, whole: bool = False) -> list[Inserted]:
        """Store jobs in one commit, answers in the order asked.

        Rate limits refuse each job by itself; with `whole`, one that is refused means that nothing is stored, whatever
        the other answers say. A debounced job may be merged with one that waits: its id is then that one's.

        Unknown: send the same jobs with `again`; a job that is there already, live or finished, counts as created.
        """

    async def get_jobs(self, ids: Sequence[int]) -> list[JobRow]:
        """Read jobs, live or finished, in one snapshot; missing ones are left out. Reads may simply be repeated."""

    async def finished_jobs(self, ids: Sequence[int]) -> list[JobRow]:
        """Read those of the given jobs that are not live any more."""

    async def list_jobs(self, which: JobFilter, *, limit: int, after: Cursor | None = None) -> Page:
        """Read one page of jobs, newest first."""

    async def count_jobs(self) -> list[Count]:
        """Count live jobs by queue and state, reading at most 10,001 entries of an index for each number."""

    async def cancel_jobs(self, ids: Sequence[int], *, actor: str | None, reason: str | None) -> list[Answered]:
        """Move waiting jobs to `cancelled`, mark running ones. Unknown: ask again; a cancelled job answers so."""

    async def retry_jobs(self, ids: Sequence[int], *, from_phase: str | None = None) -> list[Answered]:
        """Give finished jobs a new life, which forgets the named phase and all later ones.

        Unknown: look at the job; its `life` tells.
        """

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

    async def claim_jobs(self, claim: Claim) -> list[JobRow]:
        """Take jobs from the lanes, in order. Unknown: `give_back_batch` with the same batch, then claim anew."""

    async def claim_jobs_by_id(self, claim: Claim, ids: Sequence[int]) -> list[JobRow]:
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

    async def fail_refused(self, transition: Transition) -> Finish:
        """End as failed a claim whose end was refused in every other form; the job loses its notes and its report.

        Unknown: ask again.
        """

    async def save_progress(self, reports: Sequence[ProgressReport]) -> list[Verdict]:
        """Keep the last report of each running job, and what changed beside it; no job may be named twice.

        Unknown: ask again; the same words are kept twice.
        """

    async def cancelled_claims(self, worker: int) -> list[tuple[int, int]]:
        """Read which of a worker's claims are asked to stop."""


class UpkeepStore(Protocol):
    """What keeps the store going; any number of processes may do it at once. Unknown: the next sweep does the rest."""

    async def promote_jobs(self, limit: int, *, named: bool = False) -> Promoted:
        """Make due jobs `queued`, earliest first; `named` asks which they were."""

    async def rescue_jobs(self, limit: int, *, before: datetime | None = None) -> Rescued:
        """Mark workers whose lease has ended as dead, and give back every running job without a living worker.

        With `before` only leases that had ended by then count: whoever slept since then judges nobody for it.
        """

    async def force_cancels(self, grace_ms: int, limit: int) -> tuple[int, ...]:
        """End running jobs whose cancellation was requested longer than the grace ago."""

    async def keep_history(self, limit: int) -> Kept:
        """Delete what has outlived its retention and make room for what is to come."""

    async def prune_keys(self, limit: int) -> int:
        """Delete idempotency keys that have expired and workers dead for a day."""

    async def diagnose(self) -> Diagnosis:
        """Read what a person who looks for trouble wants to know of the database."""

    async def measure_tables(self) -> list[TableSize]:
        """Count the rows of every table, at most 10,001 of each."""

    async def read_rollups(self, since: datetime, queue: str | None = None) -> list[Rollup]:
        """Read the counts since a time, merged per queue, kind and state: of one queue, or of all.

        A row counts when its span begins at that time or later: what lies within a minute, hour or day that had begun
        before is left out. Whole minutes of the last 2 days, whole hours of the last 90, and whole days (UTC) before
        that are answered exactly, folded or not.
        """

    async def read_series(self, since: datetime, step_s: int) -> list[SeriesPoint]:
        """Read how many jobs ended since a time, per step of so many seconds, queue and state, in order of time.

        Steps begin at whole multiples of their length since 1970. What was folded into half an hour or more by now
        counts at the beginning of that.
        """

    async def fold_rollups(self, limit: int) -> int:
        """Merge old counts: a row per minute after 5 minutes, half hour after 2 hours, hour after 2 days, day after 90.

        At most `limit` rows are made, each of the rows of one queue, kind and state; the answer is how many. It is 0
        only when nothing is left to fold, or somebody else folds just now. No count is ever lost or added, whoever
        finishes or folds meanwhile.
        """

    async def measure_lanes(self) -> list[LaneGauge]:
        """Count live jobs by lane and state, reading at most 10,001 entries of an index for each number; keep that."""

    async def read_gauges(self) -> list[LaneGauge]:
        """Read what was measured last."""

    async def operator_answers(
        self, *, org_tag: str, project_tag: str, within_s: float, most: int = LISTED, queues: Sequence[str] = ()
    ) -> OperatorAnswers:
        """Count what operators ask for, in one snapshot; `StoreUnavailable` when the time is not enough.

        The tags are those that hold the ids of organisations and projects; `most` bounds what is looked at of each. Of
        that, only jobs of the queues are counted, where some are named.
        """


class LeaseStore(Protocol):
    """What says who is alive."""

    async def register_worker(self, info: WorkerProcess, lease_ms: int) -> int:
        """Enter a worker and get its id. Unknown: register again; the lost row expires by itself."""

    async def renew_workers(
        self, workers: Sequence[int], lease_ms: int, memory: Mapping[int, int | None] | None = None
    ) -> Renewal:
        """Extend the leases of an instance's workers, and note the bytes of memory that each has, where that is known.

        Unknown: ask again before the lease ends.
        """

    async def retire_worker(self, worker: int) -> int:
        """Remove a worker and give back, uncharged, whatever it still holds. Unknown: ask again."""

    async def release_worker(self, worker: int, ends: Sequence[Transition]) -> Rescued:
        """Declare a worker dead whose process is known to be gone, in one commit.

        The claims named in `ends` end so, everything else that it holds is given back uncharged. Unknown: ask again.
        """

    async def list_workers(self) -> list[WorkerRow]:
        """Read the workers that are entered, dead ones included until they are pruned."""

    async def drain_instance(self, instance: str, actor: str | None) -> None:
        """Ask an instance to leave; it learns of it with its next renewal. Unknown: ask again."""


class QueueStore(Protocol):
    """What is known of queues."""

    async def define_queues(self, terms: Mapping[str, QueueTerms]) -> None:
        """Publish what holds for finished jobs of queues; unchanged ones cost no write. Unknown: ask again."""

    async def pause_queue(self, name: str, *, actor: str | None, reason: str | None) -> QueueRow:
        """Let no job of the queue be claimed until it is resumed. Unknown: ask again."""

    async def resume_queue(self, name: str) -> QueueRow:
        """Let jobs of the queue be claimed again. Unknown: ask again."""

    async def list_queues(self) -> list[QueueRow]:
        """Read every queue that has live jobs, a definition or a pause."""


class EventStore(Protocol):
    """How those who watch hear of what happens; while nobody does, nothing is written."""

    async def watch(self, watcher: str, lasts_ms: int) -> None:
        """Let events be written for a while. Unknown: ask again."""

    async def unwatch(self, watcher: str) -> None:
        """Watch no more. Unknown: leave it; the while ends by itself."""

    async def first_event(self, patience_s: float) -> Horizon:
        """Tell where the events of the future begin, once every change has ended that began before the watch.

        One that takes longer than the patience is named in the answer.
        """

    async def still_writing(self, writing: Sequence[str]) -> tuple[str, ...]:
        """Read which of the changes that were named before the watch have not ended yet."""

    async def read_events(self, after: int, missing: Sequence[int], limit: int) -> list[EventRow]:
        """Read the events after a number, and of the missing ones those that are there by now, in order."""

    async def prune_events(self, limit: int) -> int:
        """Forget events of more than ten minutes ago."""


class RetentionStore(Protocol):
    """What has to be told of finished jobs before they are deleted."""

    async def claim_retention(self, queues: Sequence[str], limit: int, lease_ms: int) -> list[RetentionDue]:
        """Take what has to be told of jobs of these queues now. Unknown: its lease ends by itself."""

    async def kept_jobs(self, ids: Sequence[int]) -> list[JobRow]:
        """Read finished jobs, those that have expired too."""

    async def end_retention(self, due: RetentionDue) -> None:
        """Let what was told be done; a job that was to be deleted is gone with it. Unknown: ask again."""

    async def postpone_retention(self, due: RetentionDue, delay_ms: int, error: str) -> None:
        """Try again later what could not be told. Unknown: its lease ends by itself."""


class Listening(Protocol):
    """Hints that arrive."""

    @property
    def is_live(self) -> bool:
        """Whether hints can be relied on at present; while they cannot, workers look more often."""


EVERY_HINT = "*"
"""Takes the place of the queues' names for whoever wants to hear every hint."""


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

    async def finish(self, transition: Transition, report: ProgressReport | None = None) -> Finish:
        """End the claim, and keep its last report, as the last word before the commit.

        After `LOST` everything is rolled back.
        """

    async def report(self, report: ProgressReport) -> Verdict:
        """Keep a report instead, which ends a phase; after `LOST` everything is rolled back."""


class TransactionStore(Protocol):
    """Where a handler's effect and its completion become one commit."""

    def transaction(self, budget_s: float) -> AbstractAsyncContextManager[StoreTransaction]:
        """Open a transaction; leaving the block commits if the end of the claim was accepted, else it rolls back.

        Unknown (the commit's reply was lost): give the claim back; the fence refuses that if the commit went through.
        Where writers exclude each other (SQLite) a body that takes longer than the budget is rolled back at once, and
        leaving raises `TransactionTooLong`.
        """


class Store(
    JobStore,
    SearchStore,
    WorkStore,
    UpkeepStore,
    AnnounceStore,
    ScheduleStore,
    SettingStore,
    LeaderStore,
    LeaseStore,
    QueueStore,
    PolicyStore,
    EventStore,
    DeliveryStore,
    AlarmStore,
    NoticeStore,
    RetentionStore,
    FailureStore,
    BulkStore,
    LockStore,
    LimitStore,
    BudgetStore,
    SlaStore,
    TuningStore,
    WhyStore,
    AccessStore,
    WakeStore,
    TransactionStore,
    Protocol,
):
    """All roles together, and the life of the connection."""

    def reserve(self) -> AbstractAsyncContextManager[LeaseStore]:
        """Open a way to the same store that leases have for themselves, so that no load keeps them waiting."""

    async def open(self) -> None:
        """Connect, and check that the schema fits this release."""

    async def close(self) -> None:
        """Let calls in flight end, then disconnect."""
