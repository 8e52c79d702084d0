"""What people ask of budgets: how far they are, who has spent what, and what is in doubt."""

from datetime import datetime
from typing import get_args

import msgspec

from holdfast import names
from holdfast.client.jobs import LARGEST_PAGE, JobId, job_id
from holdfast.client.repeat import until_answered
from holdfast.errors import BudgetNotFound, InvalidValue, shown
from holdfast.policies.allowance import Level, level_of
from holdfast.policies.budgets import period_around
from holdfast.stores.budgets import BudgetRow, BudgetStore, By, LedgerRow, LostRow, Part, PeriodRow

_MOST_PARTS = 1_000


class BudgetState(msgspec.Struct, frozen=True, kw_only=True):
    """How far a budget is in its period, for one key; amounts in whole millionths of the unit.

    `reserved` is set aside for jobs that run, `lost` for jobs whose end nobody saw: it counts as spent until a late
    report or `settle_spend`. `level` is the strongest action whose threshold was reached.
    """

    name: str
    key: str
    unit: str
    level: Level
    spent: int
    reserved: int
    lost: int
    ceiling: int
    period: str
    tz: str
    starts_at: datetime
    ends_at: datetime

    @property
    def share(self) -> float:
        """How much of it is spent or lost: 0.8 is 80 %."""
        return (self.spent + self.lost) / self.ceiling if self.ceiling else 1.0


class BudgetVerbs:
    """The verbs of budgets, on one store."""

    def __init__(self, store: BudgetStore, deadline_s: float) -> None:
        self._spend_store = store
        self._spend_deadline_s = deadline_s

    async def budgets(self) -> list[BudgetState]:
        """Read how far every budget is; of one that is divided by a key, every key that has come up in this period.

        Of those at most 1,000 are read of each budget.
        """
        now, rows = await self._rows()
        return [state for row in rows for state in await self._states(row, now)]

    async def budget(self, name: str, key: str | None = None) -> BudgetState:
        """Read how far a budget is; of one that is divided by a key, for that key."""
        now, row = await self._row(name)
        states = await self._states(row, now)
        return next((state for state in states if state.key == (key or "")), _state(row, now, key or ""))

    async def spend_by(self, name: str, by: By = "kind", *, at: datetime | None = None) -> list[Part]:
        """Break down what was spent in the period of a time (now) by kind, key, actor or queue, the largest first."""
        if by not in get_args(By):
            message = f"by: expected {', '.join(get_args(By))}, got {shown(by)}"
            raise InvalidValue(message)
        now, row = await self._row(name)
        since, until = period_around(at or now, row.period, row.tz)
        return await self._spend_store.break_down(row.name, by, since, until, _MOST_PARTS)

    async def ledger(self, name: str | None = None, *, limit: int = 100, before: int | None = None) -> list[LedgerRow]:
        """Read what handlers have reported, newest first, of one budget or all; `before` is the last id read."""
        names.count(limit, "limit", LARGEST_PAGE)
        budget = None if name is None else names.name(name, "budget")
        return await self._spend_store.read_ledger(budget, limit, before)

    async def lost_spend(self, name: str) -> list[LostRow]:
        """Read what was set aside for jobs whose end nobody saw, and counts as spent; at most 1,000."""
        _, row = await self._row(name)
        return await self._spend_store.list_lost(row.name, _MOST_PARTS)

    async def settle_spend(self, job: JobId, claim: int) -> bool:
        """Free what was set aside for a lost claim and was not spent after all; False when nothing was."""
        wanted = job_id(job)
        return await until_answered(
            lambda again: self._settled(wanted, claim, again=again), self._spend_deadline_s, f"settle {job}"
        )

    async def _settled(self, job: int, claim: int, *, again: bool) -> bool:
        return await self._spend_store.settle_spend(job, claim) or again

    async def _rows(self) -> tuple[datetime, list[BudgetRow]]:
        return await until_answered(
            lambda _: self._spend_store.read_budgets(), self._spend_deadline_s, "budgets", changes=False
        )

    async def _row(self, name: str) -> tuple[datetime, BudgetRow]:
        wanted = names.name(name, "budget")
        now, rows = await self._rows()
        for row in rows:
            if row.name == wanted:
                return now, row
        known = ", ".join(row.name for row in rows) or "none"
        message = f"there is no budget {shown(wanted)}; those that hold: {known}"
        raise BudgetNotFound(message)

    async def _states(self, row: BudgetRow, now: datetime) -> list[BudgetState]:
        starts_at, _ = period_around(now, row.period, row.tz)
        found = await self._spend_store.list_periods(row.name, now, _MOST_PARTS)
        states = [_state(row, now, period.key, period) for period in found if period.starts_at == starts_at]
        return states or ([] if row.path else [_state(row, now, "")])


def _state(row: BudgetRow, now: datetime, key: str, period: PeriodRow | None = None) -> BudgetState:
    starts_at, ends_at = period_around(now, row.period, row.tz)
    spent, reserved, lost = (0, 0, 0) if period is None else (period.spent, period.reserved, period.lost)
    return BudgetState(
        name=row.name,
        key=key,
        unit=row.unit,
        level=level_of(spent + lost, row.ceiling, row.thresholds),
        spent=spent,
        reserved=reserved,
        lost=lost,
        ceiling=row.ceiling,
        period=row.period,
        tz=row.tz,
        starts_at=starts_at,
        ends_at=ends_at,
    )
