"""Budgets: how much of each is spent, by whom, what is in doubt, and changing their settings at run time."""

from datetime import datetime
from typing import Any, Protocol, get_args

from holdfast import names, public_id
from holdfast.client.in_force import policy_path
from holdfast.client.jobs import LARGEST_PAGE, JobId, job_id
from holdfast.client.policies import Policies
from holdfast.client.repeat import until_answered
from holdfast.errors import BudgetNotFound, InvalidValue, shown
from holdfast.policies.allowance import level_of
from holdfast.policies.budgets import period_around
from holdfast.policies.keys import shown_key
from holdfast.policies.money import MICRO
from holdfast.resources.budget import (
    BudgetInfo,
    BudgetThreshold,
    LedgerEntry,
    LedgerPage,
    LostSpend,
    SpendPart,
)
from holdfast.stores.budgets import SHARE, BudgetRow, BudgetStore, By, LedgerRow, LostRow, PeriodRow

List = list  # one of the verbs has that name

_MOST = 1_000
_DIGITS = 15  # below 2^53


class Budgets(Protocol):
    """What can be asked of budgets, and done to them."""

    async def list(self) -> List[BudgetInfo]:
        """Read every budget; one that is divided by a key once for each key that has come up in this period.

        Of those at most 1,000 are read of each budget.
        """

    async def get(self, name: str, key: str | None = None) -> BudgetInfo:
        """Read one budget; of one that is divided by a key, that of the key. BudgetNotFound when there is none."""

    async def spend(self, name: str, by: By = "kind", *, at: datetime | None = None) -> List[SpendPart]:
        """Sum what was spent in the period of a time (now) by kind, key, actor or queue, the largest first."""

    async def ledger(self, name: str | None = None, *, limit: int = 100, before: str | None = None) -> LedgerPage:
        """Read what handlers have reported, newest first, of one budget or all; `before` is `next` of a page."""

    async def lost(self, name: str) -> List[LostSpend]:
        """Read what was set aside for jobs of lost workers and counts as spent; at most 1,000."""

    async def settle(self, job: JobId, claim: int) -> bool:
        """Free what was set aside for a claim of a lost worker and was not spent; False when nothing was."""

    async def set(
        self, name: str, setting: str, value: Any, *, actor: str | None = None, reason: str | None = None
    ) -> BudgetInfo:
        """Change a setting of a budget for all apps, until it is reset; jobs that wait for the budget go on.

        await app.budgets.set("ai", "amount", "$800", reason="the campaign")
        """

    async def reset(self, name: str, setting: str) -> BudgetInfo:
        """Let a setting of a budget be again what apps and their configuration say."""


class LocalBudgets:
    """The budgets of one store."""

    def __init__(self, store: BudgetStore, deadline_s: float, policies: Policies) -> None:
        self._store = store
        self._deadline_s = deadline_s
        self._policies = policies

    async def list(self) -> List[BudgetInfo]:
        """Read every budget; one that is divided by a key once for each key that has come up in this period."""
        now, rows = await self._rows()
        return [budget for row in rows for budget in await self._keys(row, now)]

    async def get(self, name: str, key: str | None = None) -> BudgetInfo:
        """Read one budget; of one that is divided by a key, that of the key. BudgetNotFound when there is none."""
        now, row = await self._row(name)
        keys = await self._keys(row, now)
        return next((budget for budget in keys if budget.key == (key or "")), budget_info(row, now, key or ""))

    async def spend(self, name: str, by: By = "kind", *, at: datetime | None = None) -> List[SpendPart]:
        """Sum what was spent in the period of a time (now) by kind, key, actor or queue, the largest first."""
        if by not in get_args(By):
            message = f"by: expected {', '.join(get_args(By))}, got {shown(by)}"
            raise InvalidValue(message)
        now, row = await self._row(name)
        since, until = period_around(at or now, row.period, row.tz)
        parts = await self._store.break_down(row.name, by, since, until, _MOST)
        return [SpendPart(name=part.name, amount=part.amount / MICRO, entries=part.entries) for part in parts]

    async def ledger(self, name: str | None = None, *, limit: int = 100, before: str | None = None) -> LedgerPage:
        """Read what handlers have reported, newest first, of one budget or all; `before` is `next` of a page."""
        names.count(limit, "limit", LARGEST_PAGE)
        budget = None if name is None else (await self._row(name))[1].name
        rows = await self._store.read_ledger(budget, limit, None if before is None else _number(before))
        entries = [ledger_entry(row) for row in rows]
        return LedgerPage(entries=entries, next=entries[-1].id if len(entries) == limit else None)

    async def lost(self, name: str) -> List[LostSpend]:
        """Read what was set aside for jobs of lost workers and counts as spent; at most 1,000."""
        _, row = await self._row(name)
        return [lost_spend(lost) for lost in await self._store.list_lost(row.name, _MOST)]

    async def settle(self, job: JobId, claim: int) -> bool:
        """Free what was set aside for a claim of a lost worker and was not spent; False when nothing was."""
        wanted = job_id(job)

        async def settled(again: bool) -> bool:  # noqa: FBT001 - as `until_answered` calls it
            return await self._store.settle_spend(wanted, claim) or again

        return await until_answered(settled, self._deadline_s, f"settle {job}")

    async def set(
        self, name: str, setting: str, value: Any, *, actor: str | None = None, reason: str | None = None
    ) -> BudgetInfo:
        """Change a setting of a budget for all apps, until it is reset; jobs that wait for the budget go on."""
        _, row = await self._row(name)
        await self._policies.set(policy_path("budgets", row.name, setting), value, actor=actor, reason=reason)
        return await self.get(row.name)

    async def reset(self, name: str, setting: str) -> BudgetInfo:
        """Let a setting of a budget be again what apps and their configuration say."""
        _, row = await self._row(name)
        await self._policies.reset(policy_path("budgets", row.name, setting))
        return await self.get(row.name)

    async def _rows(self) -> tuple[datetime, List[BudgetRow]]:
        return await until_answered(lambda _: self._store.read_budgets(), self._deadline_s, "budgets", changes=False)

    async def _row(self, name: str) -> tuple[datetime, BudgetRow]:
        wanted = names.name(name, "budget")
        now, rows = await self._rows()
        for row in rows:
            if row.name == wanted:
                return now, row
        known = ", ".join(row.name for row in rows) or "none"
        message = f"there is no budget {shown(wanted)}; those that hold: {known}"
        raise BudgetNotFound(message)

    async def _keys(self, row: BudgetRow, now: datetime) -> List[BudgetInfo]:
        starts_at, _ = period_around(now, row.period, row.tz)
        periods = await self._store.list_periods(row.name, now, _MOST)
        keys = [budget_info(row, now, period.key, period) for period in periods if period.starts_at == starts_at]
        return keys or [budget_info(row, now, None if row.path else "")]


def budget_info(row: BudgetRow, now: datetime, key: str | None, period: PeriodRow | None = None) -> BudgetInfo:
    """Put together what is known of one budget, under one key."""
    starts_at, ends_at = period_around(now, row.period, row.tz)
    spent, reserved, lost = (0, 0, 0) if period is None else (period.spent, period.reserved, period.lost)
    return BudgetInfo(
        name=row.name,
        queue=row.queue,
        kinds=List(row.kinds),
        key_path=shown_key(row.path),
        ceiling=row.ceiling / MICRO,
        unit=row.unit,
        period=row.period,
        tz=row.tz,
        thresholds=[BudgetThreshold(at=share / SHARE, action=action) for share, action in row.thresholds],
        key=key,
        level=level_of(spent + lost, row.ceiling, row.thresholds),
        share=round((spent + lost) / row.ceiling, 6) if row.ceiling else 1.0,
        spent=spent / MICRO,
        reserved=reserved / MICRO,
        lost=lost / MICRO,
        starts_at=starts_at,
        ends_at=ends_at,
    )


def lost_spend(row: LostRow) -> LostSpend:
    """Put together what is in doubt of one claim."""
    return LostSpend(
        job=public_id.encode(row.job_id),
        claim=row.claim,
        key=row.key,
        estimate=row.amount / MICRO,
        spent=row.spent / MICRO,
        reserved_at=row.at,
    )


def ledger_entry(row: LedgerRow) -> LedgerEntry:
    """Put together what is known of one entry."""
    return LedgerEntry(
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


def _number(before: str) -> int:
    if not before.isdecimal() or len(before) > _DIGITS:
        message = f"before: expected the id of an entry, got {shown(before)}"
        raise InvalidValue(message)
    return int(before)
