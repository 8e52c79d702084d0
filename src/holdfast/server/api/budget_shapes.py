"""Budgets as the API shows and takes them; amounts are numbers of the unit."""

from pydantic import Field

from holdfast import public_id
from holdfast.client.budgets import BudgetState
from holdfast.policies.money import MICRO
from holdfast.server.api.shape import Asked, Moment, Shape
from holdfast.stores.budgets import LedgerRow, LostRow, Part


class BudgetShape(Shape):
    """How far a budget is in its period, for one key.

    `reserved` is set aside for jobs that run, `lost` for jobs whose end nobody saw: it counts as spent until it is
    settled. `level` is the strongest action whose threshold was reached.
    """

    name: str = Field(examples=["ai"])
    key: str = Field(examples=[""])
    unit: str = Field(examples=["usd"])
    level: str = Field(examples=["alert"])
    share: float = Field(description="How much of it is spent or lost: 0.8 is 80 %.", examples=[0.82])
    spent: float = Field(examples=[410.5])
    reserved: float = Field(examples=[2.0])
    lost: float = Field(examples=[0.0])
    ceiling: float = Field(examples=[500.0])
    period: str = Field(examples=["month"])
    tz: str = Field(examples=["UTC"])
    starts_at: Moment = Field(examples=["2026-11-01T00:00:00Z"])
    ends_at: Moment = Field(examples=["2026-12-01T00:00:00Z"])


class BudgetList(Shape):
    """How far budgets are: of one that is divided by a key, each key that has come up in this period."""

    budgets: list[BudgetShape]


class PartShape(Shape):
    """What one kind, key, actor or queue has spent, and in how many entries."""

    name: str | None = Field(examples=["summarise"])
    amount: float = Field(examples=[120.25])
    entries: int = Field(examples=[311])


class Spending(Shape):
    """What was spent in a period, the largest part first."""

    by: str = Field(examples=["kind"])
    parts: list[PartShape]


class LostShape(Shape):
    """What was set aside for a claim of a job whose end nobody saw."""

    job: str = Field(examples=["htcx-2s16-z48b-09"])
    claim: int = Field(examples=[1])
    key: str = Field(examples=[""])
    estimate: float = Field(examples=[0.5])
    spent: float = Field(examples=[0.1])
    reserved_at: Moment = Field(examples=["2026-11-16T09:30:00Z"])


class LostList(Shape):
    """What is in doubt."""

    lost: list[LostShape]


class Settle(Asked):
    """Which claim of which job has not spent the rest after all."""

    job: str = Field(max_length=40, examples=["htcx-2s16-z48b-09"])
    claim: int = Field(ge=0, le=2**31 - 1, examples=[1])


class Settled(Shape):
    """Whether anything was set aside for it."""

    settled: bool = Field(examples=[True])


class EntryShape(Shape):
    """One amount that a handler has reported; `late` when its claim was no longer running."""

    id: str = Field(examples=["1042"])
    at: Moment = Field(examples=["2026-11-16T09:30:00Z"])
    budget: str | None = Field(examples=["ai"])
    key: str = Field(examples=[""])
    kind: str = Field(examples=["summarise"])
    queue: str = Field(examples=["high"])
    actor: str | None = Field(examples=["ann"])
    job: str = Field(examples=["htcx-2s16-z48b-09"])
    claim: int = Field(examples=[1])
    unit: str = Field(examples=["usd"])
    amount: float = Field(examples=[0.02])
    note: str | None = Field(examples=["1,200 tokens"])
    late: bool = Field(examples=[False])


class Ledger(Shape):
    """One page of the ledger, the newest first; `next` is `before` of the next page, null on the last one."""

    entries: list[EntryShape]
    next: str | None = Field(examples=["1042"])


def budget_shape(state: BudgetState) -> BudgetShape:
    """Show how far a budget is."""
    return BudgetShape(
        name=state.name,
        key=state.key,
        unit=state.unit,
        level=state.level,
        share=round(state.share, 6),
        spent=state.spent / MICRO,
        reserved=state.reserved / MICRO,
        lost=state.lost / MICRO,
        ceiling=state.ceiling / MICRO,
        period=state.period,
        tz=state.tz,
        starts_at=state.starts_at,
        ends_at=state.ends_at,
    )


def part_shape(part: Part) -> PartShape:
    """Show a part of what was spent."""
    return PartShape(name=part.name, amount=part.amount / MICRO, entries=part.entries)


def lost_shape(row: LostRow) -> LostShape:
    """Show what is in doubt."""
    return LostShape(
        job=public_id.encode(row.job_id),
        claim=row.claim,
        key=row.key,
        estimate=row.amount / MICRO,
        spent=row.spent / MICRO,
        reserved_at=row.at,
    )


def entry_shape(row: LedgerRow) -> EntryShape:
    """Show an entry of the ledger."""
    return EntryShape(
        id=str(row.id),
        at=row.at,
        budget=row.budget,
        key=row.key,
        kind=row.kind,
        queue=row.queue,
        actor=row.actor,
        job=public_id.encode(row.job_id),
        claim=row.claim,
        unit=row.unit,
        amount=row.amount / MICRO,
        note=row.note,
        late=row.is_late,
    )
