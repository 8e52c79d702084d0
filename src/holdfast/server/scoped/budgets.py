"""Budgets, as far as one caller may see them: jobs of all queues spend from a budget."""

from datetime import datetime
from typing import Any

from holdfast.client.budgets import Budgets, List
from holdfast.client.jobs import JobId
from holdfast.errors import BudgetNotFound, shown
from holdfast.resources.budget import BudgetInfo, LedgerPage, LostSpend, SpendPart
from holdfast.server.principal import Principal
from holdfast.server.scoped.scope import Scope
from holdfast.stores.budgets import By


class ScopedBudgets(Scope):
    """The budgets of one caller: none for a caller for some queues."""

    def __init__(self, budgets: Budgets, principal: Principal) -> None:
        super().__init__(principal)
        self._budgets = budgets

    async def list(self) -> List[BudgetInfo]:
        """Read every budget."""
        if not self.sees_all:  # guard: scope-budgets
            return []
        return await self._budgets.list()

    async def get(self, name: str, key: str | None = None) -> BudgetInfo:
        """Read one budget; of one that is divided by a key, that of the key."""
        return await self._budgets.get(self._shared(name), key)

    async def spend(self, name: str, by: By = "kind", *, at: datetime | None = None) -> List[SpendPart]:
        """Sum what was spent in a period by kind, key, actor or queue."""
        return await self._budgets.spend(self._shared(name), by, at=at)

    async def ledger(self, name: str | None = None, *, limit: int = 100, before: str | None = None) -> LedgerPage:
        """Read what handlers have reported."""
        if not self.sees_all:
            return LedgerPage(entries=[])
        return await self._budgets.ledger(name, limit=limit, before=before)

    async def lost(self, name: str) -> List[LostSpend]:
        """Read what was set aside for jobs of lost workers."""
        return await self._budgets.lost(self._shared(name))

    async def settle(self, job: JobId, claim: int) -> bool:
        """Free what was set aside for a claim of a lost worker."""
        return self.sees_all and await self._budgets.settle(job, claim)

    async def set(
        self, name: str, setting: str, value: Any, *, actor: str | None = None, reason: str | None = None
    ) -> BudgetInfo:
        """Change a setting of a budget for all apps."""
        return await self._budgets.set(self._shared(name), setting, value, actor=self.acting(actor), reason=reason)

    async def reset(self, name: str, setting: str) -> BudgetInfo:
        """Let a setting of a budget be again what apps and their configuration say."""
        return await self._budgets.reset(self._shared(name), setting)

    def _shared(self, name: str) -> str:
        if not self.sees_all:
            message = f"there is no budget {shown(name)}"
            raise BudgetNotFound(message)
        return name
