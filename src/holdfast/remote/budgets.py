"""Budgets, over HTTP."""

from datetime import datetime

from holdfast import public_id
from holdfast.client.budgets import List
from holdfast.client.jobs import JobId
from holdfast.errors import InvalidValue
from holdfast.remote.namespace import RemoteSettable
from holdfast.resources.budget import (
    BudgetInfo,
    BudgetList,
    LedgerPage,
    LostList,
    LostSpend,
    Settlement,
    SettleRequest,
    Spending,
    SpendPart,
)
from holdfast.stores.budgets import By


class RemoteBudgets(RemoteSettable[BudgetInfo]):
    """The budgets of a server."""

    path = "budgets"
    _info = BudgetInfo

    async def list(self) -> List[BudgetInfo]:
        """Read every budget."""
        return (await self._get(BudgetList)).budgets

    async def get(self, name: str, key: str | None = None) -> BudgetInfo:
        """Read one budget; of one that is divided by a key, that of the key."""
        return await self._get(BudgetInfo, name, key=key)

    async def spend(self, name: str, by: By = "kind", *, at: datetime | None = None) -> List[SpendPart]:
        """Sum what was spent in a period by kind, key, actor or queue."""
        return (await self._get(Spending, name, "spend", by=by, at=at)).parts

    async def ledger(self, name: str | None = None, *, limit: int = 100, before: str | None = None) -> LedgerPage:
        """Read what handlers have reported to one budget."""
        if name is None:
            message = "ledger: expected the name of a budget, because a server was named; `budgets list` has the names"
            raise InvalidValue(message)
        return await self._get(LedgerPage, name, "ledger", limit=limit, before=before)

    async def lost(self, name: str) -> List[LostSpend]:
        """Read what was set aside for jobs of lost workers."""
        return (await self._get(LostList, name, "lost")).lost

    async def settle(self, job: JobId, claim: int) -> bool:
        """Free what was set aside for a claim of a lost worker, of the budget that has it."""
        wanted = public_id.encode(job) if isinstance(job, int) else public_id.encode(public_id.decode(job))
        for name in dict.fromkeys(budget.name for budget in await self.list()):
            if any((lost.job, lost.claim) == (wanted, claim) for lost in await self.lost(name)):
                body = SettleRequest(job=wanted, claim=claim)
                return (await self._change("POST", Settlement, name, "settle", body=body)).settled
        return False
