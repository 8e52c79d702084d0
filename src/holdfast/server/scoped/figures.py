"""Figures that pages draw and no resource has, as far as one caller may see them."""

from collections.abc import Sequence
from datetime import datetime

from holdfast.resources.budget import BudgetInfo
from holdfast.rollup import Rollup, SeriesPoint
from holdfast.server.principal import Principal
from holdfast.server.scoped.scope import Scope
from holdfast.stores.alarms import EscalationRow
from holdfast.stores.budgets import SpendPoint
from holdfast.stores.diagnosis import Diagnosis, TableSize
from holdfast.stores.sla import QueueWaits
from holdfast.stores.store import Store
from holdfast.stores.values import Counted, JobFilter


class ScopedFigures(Scope):
    """The figures of one caller's queues; what concerns all queues is refused to a caller for some of them."""

    def __init__(self, store: Store, principal: Principal) -> None:
        super().__init__(principal)
        self._store = store

    async def ended(self, since: datetime, step_s: int) -> list[SeriesPoint]:
        """Read how many jobs ended since a time, step by step, in the caller's queues."""
        return [point for point in await self._store.read_series(since, step_s) if self.sees(point.queue)]

    async def rollups(self, queue: str, since: datetime) -> list[Rollup]:
        """Read how the jobs of a queue did since a time."""
        return await self._store.read_rollups(since, self.require(queue))

    async def waits(self, queues: Sequence[str], within_ms: int) -> list[QueueWaits]:
        """Read how long jobs of these queues have waited for their start."""
        return await self._store.read_waits([self.require(queue) for queue in queues], within_ms)

    async def count(self, which: JobFilter, budget_ms: int) -> Counted:
        """Count the jobs that fit, for no longer than the budget."""
        return await self._store.count_found(self.narrowed(which), budget_ms=budget_ms)

    async def spend(self, budget: BudgetInfo, step_ms: int) -> list[SpendPoint]:
        """Read how a budget was spent in its period, step by step."""
        self.require_all()
        return await self._store.spend_series(budget.name, budget.key or "", budget.starts_at, budget.ends_at, step_ms)

    async def undigested(self, policy: str, limit: int) -> list[EscalationRow]:
        """Read the escalations that the next digest of a policy will tell of."""
        self.require_all()
        return await self._store.undigested(policy, limit)

    async def database(self) -> Diagnosis:
        """Read what the database is, and how it does."""
        self.require_all()
        return await self._store.diagnose()

    async def tables(self) -> list[TableSize]:
        """Measure the tables."""
        self.require_all()
        return await self._store.measure_tables()
