"""What `--json` prints of budgets; the rules are those of `shapes`. Amounts are numbers of the unit."""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from holdfast import public_id
from holdfast.client.budgets import BudgetState
from holdfast.policies.money import MICRO
from holdfast.stores.budgets import LedgerRow, LostRow, Part


class BudgetShape(msgspec.Struct, frozen=True, kw_only=True):
    """Each entry of `budgets list --json`, and of `budgets show --json`."""

    name: str
    key: str
    unit: str
    level: str
    share: float
    spent: float
    reserved: float
    lost: float
    ceiling: float
    period: str
    tz: str
    starts_at: datetime
    ends_at: datetime


class BudgetsShape(msgspec.Struct, frozen=True):
    """What `budgets list --json` prints."""

    budgets: list[BudgetShape]


class PartShape(msgspec.Struct, frozen=True):
    """Each entry of `parts` of `budgets show --json`."""

    name: str | None
    amount: float
    entries: int


class LostShape(msgspec.Struct, frozen=True, kw_only=True):
    """Each entry of `lost` of `budgets show --json`."""

    job_id: str
    job_public_id: str
    claim: int
    key: str
    estimate: float
    spent: float
    reserved_at: datetime


class BudgetPage(msgspec.Struct, frozen=True, kw_only=True):
    """What `budgets show --json` prints."""

    budgets: list[BudgetShape]
    by: str
    parts: list[PartShape]
    lost: list[LostShape]


class EntryShape(msgspec.Struct, frozen=True, kw_only=True):
    """Each entry of `budgets ledger --json`; `id` is what `--before` takes."""

    id: str
    at: datetime
    budget: str | None
    key: str
    kind: str
    queue: str
    actor: str | None
    job_id: str
    job_public_id: str
    claim: int
    unit: str
    amount: float
    note: str | None
    late: bool


class LedgerShape(msgspec.Struct, frozen=True):
    """What `budgets ledger --json` prints."""

    entries: list[EntryShape]


def budgets(states: Sequence[BudgetState]) -> list[BudgetShape]:
    """Describe budgets."""
    return [
        BudgetShape(
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
        for state in states
    ]


def page(states: Sequence[BudgetState], by: str, parts: Sequence[Part], lost: Sequence[LostRow]) -> BudgetPage:
    """Describe one budget."""
    return BudgetPage(
        budgets=budgets(states),
        by=by,
        parts=[PartShape(part.name, part.amount / MICRO, part.entries) for part in parts],
        lost=[
            LostShape(
                job_id=str(row.job_id),
                job_public_id=public_id.encode(row.job_id),
                claim=row.claim,
                key=row.key,
                estimate=row.amount / MICRO,
                spent=row.spent / MICRO,
                reserved_at=row.at,
            )
            for row in lost
        ],
    )


def ledger(rows: Sequence[LedgerRow]) -> list[EntryShape]:
    """Describe entries of the ledger."""
    return [
        EntryShape(
            id=str(row.id),
            at=row.at,
            budget=row.budget,
            key=row.key,
            kind=row.kind,
            queue=row.queue,
            actor=row.actor,
            job_id=str(row.job_id),
            job_public_id=public_id.encode(row.job_id),
            claim=row.claim,
            unit=row.unit,
            amount=row.amount / MICRO,
            note=row.note,
            late=row.is_late,
        )
        for row in rows
    ]
