"""What many processes share besides jobs: schedules, settings, leaders, locks, and what a delivery knows of jobs."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol

import msgspec

from holdfast.job import NewJob
from holdfast.stores.values import Ready


class ScheduleRow(msgspec.Struct, frozen=True):
    """A schedule: what apps define, what people have changed of it, and how far it has come."""

    name: str
    origin: str
    definition: str
    override: str
    withdrawn_at: datetime | None
    version: int
    defined_at: datetime
    changed_at: datetime
    changed_by: str | None
    last_fire: datetime | None
    next_fire: datetime | None


class Fire(msgspec.Struct, frozen=True):
    """One nominal time that was decided on: the job to make, if any, and a word on why; a missed one is escalated."""

    nominal: datetime
    outcome: str
    job: NewJob | None
    note: str | None = None
    is_missed: bool = False


class FireRow(msgspec.Struct, frozen=True):
    """What came of one nominal time."""

    schedule: str
    nominal: datetime
    outcome: str
    job_id: int | None
    note: str | None
    at: datetime


class Override(msgspec.Struct, frozen=True):
    """A setting that somebody has changed at run time; `value` is JSON."""

    path: str
    value: str
    actor: str | None
    reason: str | None
    changed_at: datetime


class ServiceReport(msgspec.Struct, frozen=True):
    """What a service has done since its leader began."""

    name: str
    holder: str
    at: datetime | None
    runs: int
    scanned: int
    moved: int
    failures: int
    lag_ms: int
    error: str | None = None


class LeaderRow(msgspec.Struct, frozen=True):
    """Who holds the lease, since when, and until when unless it is renewed."""

    name: str
    holder: str
    term: int
    since: datetime
    until: datetime


class LockRequest(msgspec.Struct, frozen=True):
    """Who wants a lock: `owner` is drawn for this very block, `context` for the task or thread that runs it.

    `place` says "host/pid" to people. `worker`, `job_id` and `claim` are set inside a job.
    """

    name: str
    owner: str
    context: str
    place: str
    worker: int | None = None
    job_id: int | None = None
    claim: int | None = None


class LockAnswer(msgspec.Struct, frozen=True):
    """The token of a lock that was taken; otherwise the ticket, and whether waiting on would last for ever."""

    token: int | None
    since: datetime | None
    ticket: int | None
    is_cycle: bool = False


class LockRow(msgspec.Struct, frozen=True):
    """A lock that is held: by which process ("host/pid"), for which job, since when, and how many wait for it."""

    name: str
    token: int
    owner: str
    worker: int | None
    job_id: int | None
    claim: int | None
    since: datetime
    until: datetime
    waiters: int


class AnnounceStore(Protocol):
    """What a delivery that carries ids asks; the truth about a job is never there."""

    async def mark_announced(self, ids: Sequence[int]) -> None:
        """Note that these jobs were handed to the delivery, as far as they still wait. Unknown: leave it."""

    async def ready_lanes(self) -> list[tuple[str, int, int]]:
        """Count the jobs that may run now by queue and priority, reading at most 10,001 entries for each number."""

    async def unannounced_jobs(self, queue: str, priority: int, age_ms: int, limit: int) -> list[Ready]:
        """Read jobs of a lane, first come first, whose id was not handed to the delivery for so long."""


class ScheduleStore(Protocol):
    """What is enqueued when."""

    async def define_schedules(self, plans: Mapping[str, str], kinds: Sequence[str]) -> None:
        """Publish what a program schedules; unchanged ones cost no write. Unknown: ask again.

        What it does not schedule any more, though it knows the kind, is withdrawn.
        """

    async def store_schedule(self, name: str, plan: str, *, actor: str | None) -> bool:
        """Keep a schedule that no app defines; False when one of that name is there. Unknown: look at it."""

    async def change_schedule(self, name: str, override: str, *, moves: bool, actor: str | None) -> bool:
        """Change parts of a schedule, null puts one back to its definition; False when there is no such schedule.

        `moves` says that what has been due until now is settled: the times have changed, or it was disabled.
        Unknown: ask again.
        """

    async def drop_schedule(self, name: str) -> bool:
        """Forget a schedule that no app defines; False when there is none. Unknown: ask again."""

    async def read_schedules(self) -> tuple[datetime, list[ScheduleRow]]:
        """Read the store's time and all schedules by name."""

    async def fire_schedule(
        self, name: str, version: int, fires: Sequence[Fire], *, overlap: str, next_fire: datetime | None
    ) -> list[FireRow]:
        """Record nominal times and store their jobs, in one commit; the answer is what this very call has recorded.

        Nothing happens if the schedule has changed since the named version. Unknown: ask again; what was recorded
        before is not recorded twice.
        """

    async def list_fires(self, name: str, limit: int) -> list[FireRow]:
        """Read what came of the last nominal times of a schedule, newest first."""

    async def prune_fires(self, limit: int) -> int:
        """Forget nominal times of more than 30 days ago."""


class SettingStore(Protocol):
    """What people change at run time, and what services tell of themselves."""

    async def set_override(self, path: str, value: str, *, actor: str | None, reason: str | None) -> None:
        """Set one setting for everybody; `value` is JSON. Unknown: ask again."""

    async def reset_override(self, path: str) -> bool:
        """Put a setting back to what apps say; False when nobody had changed it. Unknown: ask again."""

    async def list_overrides(self, prefix: str) -> list[Override]:
        """Read the settings that somebody has changed, whose path begins so."""

    async def report_services(self, reports: Sequence[ServiceReport]) -> None:
        """Tell what services have done. Unknown: leave it; the next report says more."""

    async def list_services(self) -> list[ServiceReport]:
        """Read what services have told last."""


class LeaderStore(Protocol):
    """Who does what one process is enough for; nothing but promptness rests on it."""

    async def lead(self, name: str, holder: str, term: int | None, lease_ms: int) -> int | None:
        """Take a lease that no process holds, or keep it under the term it was taken with; the answer is the term.

        Unknown: you do not lead until the next answer says so.
        """

    async def resign(self, name: str, holder: str, term: int) -> None:
        """Give up a lease. Unknown: leave it; it ends by itself."""

    async def list_leaders(self) -> list[LeaderRow]:
        """Read who leads."""


class LockStore(Protocol):
    """Who holds which lock, and who waits for it."""

    async def take_lock(self, request: LockRequest, *, lasts_ms: int, waits_ms: int) -> LockAnswer:
        """Take a lock if it is free and it is the asker's turn, or enter a ticket, or keep it for another while.

        A lock is free when nobody holds it, when its time has passed, or when its worker is dead and its claim has
        ended. Unknown: ask again as the same owner; who holds it already gets the same token.
        """

    async def renew_locks(self, owners: Sequence[str], lasts_ms: int) -> frozenset[str]:
        """Extend locks; the answer names those that still belong to their owners. Unknown: ask again."""

    async def renew_tickets(self, owners: Sequence[str], waits_ms: int) -> frozenset[str]:
        """Let those who wait keep their turn; the answer names those who have one. Unknown: ask again."""

    async def release_lock(self, name: str, owner: str) -> bool:
        """Let go of a lock or of a ticket; whether others wait for it. Unknown: ask again."""

    async def break_lock(self, name: str, token: int) -> bool:
        """Take a lock from whoever got it with this token; False when nobody holds it so. Unknown: ask again."""

    async def free_locks(self, job_id: int, claim: int) -> int:
        """Let go of all that a handler held or waited for whose process is gone. Unknown: ask again."""

    async def list_locks(self, limit: int) -> list[LockRow]:
        """Read the locks that are held, the oldest first."""

    async def prune_locks(self, limit: int) -> int:
        """Delete locks whose time has passed, and tickets of those who are gone. Unknown: the next sweep does it."""
