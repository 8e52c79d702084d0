"""What a store shows of one job to whoever asks why it does not run."""

from datetime import datetime
from typing import Protocol

import msgspec

from holdfast.job import JobRow

MOST_AHEAD = 10_001
MOST_HOLDERS = 3


class QueueSeen(msgspec.Struct, frozen=True):
    """What was done to a queue at run time."""

    paused_at: datetime | None = None
    paused_by: str | None = None
    paused_reason: str | None = None
    closed_until: datetime | None = None
    definition: str | None = None


class WorkerSeen(msgspec.Struct, frozen=True):
    """A worker that lives and takes jobs of the queue; `knows` says whether it has a task for the kind, if it told."""

    id: int
    instance: str
    slots: int
    running: int
    running_here: int
    knows: bool | None


class OwnerSeen(msgspec.Struct, frozen=True):
    """The worker that has the job."""

    id: int
    host: str
    pid: int
    is_alive: bool


class HolderSeen(msgspec.Struct, frozen=True):
    """A job that holds a slot; `is_stopping` when it ended by force and its handler may still be at work."""

    id: int
    kind: str | None
    is_stopping: bool


class LimitSeen(msgspec.Struct, frozen=True):
    """The limit that holds a job back, for the job's key; `head` is the first job of a key that runs one by one."""

    name: str
    key: str
    concurrency: int | None
    throttle_us: int | None
    burst: int
    fifo: bool
    rotate: bool
    throttled_until: datetime | None
    taken: int
    ahead: int
    holders: tuple[HolderSeen, ...]
    head: int | None


class BudgetSeen(msgspec.Struct, frozen=True):
    """The budget that a job waits for, and how far its period has come; amounts in millionths."""

    name: str
    key: str
    unit: str
    ceiling: int
    spent: int
    reserved: int
    lost: int


class LockSeen(msgspec.Struct, frozen=True):
    """A lock that the handler of a job waits for, and the job that holds it, if it is one."""

    name: str
    holder: int | None


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """All that explains where a job stands, in one snapshot; parts that cannot matter are left out.

    `ahead` counts the jobs that stand before it in its lane, at most 10,001. `stopping` names the slots and locks that
    a job still keeps which ended by force.
    """

    now: datetime
    job: JobRow
    queue: QueueSeen = QueueSeen()
    ahead: int | None = None
    workers: tuple[WorkerSeen, ...] = ()
    owner: OwnerSeen | None = None
    limit: LimitSeen | None = None
    budget: BudgetSeen | None = None
    lock: LockSeen | None = None
    stopping: tuple[str, ...] = ()


class WhyStore(Protocol):
    """What explains where jobs stand."""

    async def explain_job(self, job_id: int) -> Evidence | None:
        """Read all that explains where a job stands, in one snapshot; None when there is no such job."""


def read_limit_key(limit_key: str | None) -> tuple[str, str] | None:
    """Tell the limit and the key that a job is held for; None when it is held for something else."""
    if limit_key is None or "/" not in limit_key or limit_key.startswith(_BUDGET):
        return None
    name, _, key = limit_key.partition("/")
    return name, key


def read_budget(limit_key: str | None) -> str | None:
    """Tell the budget that a job is held for."""
    if limit_key is None or not limit_key.startswith(_BUDGET):
        return None
    return limit_key.removeprefix(_BUDGET).removesuffix(ROOM)


_BUDGET = "budget:"
ROOM = " room"
"""Marks a job that waits for what is set aside for others, and not for a new period."""
