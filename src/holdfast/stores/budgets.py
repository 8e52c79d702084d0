"""What jobs may spend: budgets, what is set aside before a run, and the ledger. Amounts are whole millionths."""

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import Literal, Protocol

import msgspec

SHARE = 1_000_000
"""All of a budget, in the unit of its thresholds."""

By = Literal["kind", "key", "actor", "queue"]


class BudgetRow(msgspec.Struct, frozen=True):
    """A budget as it holds; `thresholds` are pairs of a share in millionths and an action, the smallest first.

    `definition` is JSON: what programs or configuration say, before anything that people have changed at run time.
    """

    name: str
    definition: str
    unit: str
    ceiling: int
    period: str
    tz: str
    queue: str | None
    kinds: tuple[str, ...]
    path: tuple[str, ...]
    thresholds: tuple[tuple[int, str], ...]


class Reservation(msgspec.Struct, frozen=True):
    """A request to set an estimate aside for one claim, in a period of its budget.

    `jitter_ms` is how long after the period a job that is deferred waits; `patience_ms` how long one waits that only
    finds no room beside those that run.
    """

    job_id: int
    claim: int
    budget: str
    key: str
    estimate: int
    starts_at: datetime
    ends_at: datetime
    jitter_ms: int
    patience_ms: int


class Reserving(StrEnum):
    """What became of a reservation."""

    GRANTED = "granted"
    REFUSED = "refused"  # the job is to fail
    HELD = "held"  # the claim has ended, and the job waits
    LOST = "lost"  # the claim is no longer ours
    STALE = "stale"  # the period named is over or has not begun: ask with the right one
    FREE = "free"  # there is no such budget any more


class Sums(msgspec.Struct, frozen=True):
    """How far a period has come: `reserved` may still be spent by jobs that run, `lost` may have been by lost ones."""

    spent: int = 0
    reserved: int = 0
    lost: int = 0
    ceiling: int = 0


class Reserved(msgspec.Struct, frozen=True):
    """The answer to a reservation; `at` is the store's time, `wakes_at` when a held job is looked at again."""

    outcome: Reserving
    at: datetime
    sums: Sums | None = None
    wakes_at: datetime | None = None


class Spend(msgspec.Struct, frozen=True):
    """The n-th amount that a handler reports; without a budget it is only written down."""

    job_id: int
    claim: int
    n: int
    budget: str | None
    key: str
    kind: str
    queue: str
    actor: str | None
    unit: str
    amount: int
    note: str | None
    starts_at: datetime | None
    ends_at: datetime | None


class Recorded(msgspec.Struct, frozen=True):
    """The answer to a spend: whether it was written, or has to be sent again with the right period."""

    is_recorded: bool
    at: datetime
    is_late: bool = False
    sums: Sums | None = None


class PeriodRow(msgspec.Struct, frozen=True):
    """A period of a budget, for one key; `alerts` are the shares that were told of, negative: that kept a job out."""

    budget: str
    key: str
    starts_at: datetime
    ends_at: datetime
    spent: int
    reserved: int
    lost: int
    alerts: tuple[int, ...]


class LostRow(msgspec.Struct, frozen=True):
    """What was set aside for a claim whose end nobody saw: what is left of it counts as spent until it is settled."""

    job_id: int
    claim: int
    budget: str
    key: str
    starts_at: datetime
    amount: int
    spent: int
    at: datetime


class LedgerRow(msgspec.Struct, frozen=True):
    """One amount that a handler has reported; `is_late` when its claim was no longer running."""

    id: int
    at: datetime
    budget: str | None
    key: str
    kind: str
    queue: str
    actor: str | None
    job_id: int
    claim: int
    unit: str
    amount: int
    note: str | None
    is_late: bool


class Part(msgspec.Struct, frozen=True):
    """What one kind, key or actor has spent, and in how many entries."""

    name: str | None
    amount: int
    entries: int


class SpendPoint(msgspec.Struct, frozen=True):
    """What was spent within one step of time."""

    at: datetime
    amount: int


class BudgetStore(Protocol):
    """What keeps jobs within their budgets."""

    async def define_budgets(self, rows: Sequence[BudgetRow]) -> list[str]:
        """Let these budgets hold and no others; unchanged ones cost no write. Unknown: ask again.

        The answer names those that have changed or ended: what is held for them is let go by `release_deferred`.
        """

    async def read_budgets(self) -> tuple[datetime, list[BudgetRow]]:
        """Read the store's time and all budgets by name."""

    async def reserve_spend(self, reservation: Reservation) -> Reserved:
        """Set an estimate aside, or end the claim if the budget says so, in one commit. Unknown: ask again."""

    async def record_spend(self, spend: Spend) -> Recorded:
        """Write down what was spent, whether or not the claim still holds. Unknown: ask again; it is written once."""

    async def settle_spend(self, job_id: int, claim: int) -> bool:
        """Free what was set aside for a claim and not spent; False when nothing was. Unknown: ask again."""

    async def release_deferred(self, name: str, limit: int) -> int:
        """Let jobs that are held for a budget be looked at again now, the oldest first. Unknown: ask again."""

    async def list_periods(self, name: str, at: datetime, limit: int) -> list[PeriodRow]:
        """Read the periods of a budget, one for each key, in which a time lies."""

    async def list_lost(self, name: str, limit: int) -> list[LostRow]:
        """Read what was set aside for claims whose end nobody saw, the oldest jobs first."""

    async def mean_spend(self, name: str, kind: str) -> int | None:
        """Read what a claim of a kind has spent on average in 7 days, from at most 10,000 entries."""

    async def break_down(self, name: str, by: By, since: datetime, until: datetime, limit: int) -> list[Part]:
        """Sum what was spent in a time by kind, key, actor or queue, the largest first."""

    async def spend_series(
        self, name: str, key: str, since: datetime, until: datetime, step_ms: int
    ) -> list[SpendPoint]:
        """Sum what was spent in a time under one key, step by step from its beginning; empty steps are left out."""

    async def read_ledger(self, name: str | None, limit: int, before: int | None = None) -> list[LedgerRow]:
        """Read the entries of a budget, or all, newest first; `before` is the id of the last one that was read."""

    async def prune_ledger(self, limit: int) -> int:
        """Delete entries and periods of more than 25 months ago. Unknown: the next sweep does it."""
