"""What keeps jobs within their budgets, on PostgreSQL."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from holdfast.stores.budgets import (
    BudgetRow,
    By,
    LedgerRow,
    LostRow,
    Part,
    PeriodRow,
    Recorded,
    Reservation,
    Reserved,
    Reserving,
    Spend,
    SpendPoint,
    Sums,
)
from holdfast.stores.postgres.connection import Connection
from holdfast.stores.postgres.role import Role


class PostgresBudgets(Role):
    """The verbs of `BudgetStore`."""

    async def define_budgets(self, rows: Sequence[BudgetRow]) -> list[str]:
        async def work(connection: Connection) -> list[str]:
            async with connection.transaction():
                changed = [
                    found[0]["name"]
                    for row in sorted(rows, key=lambda row: row.name)
                    if (found := await connection.fetch(self.queries["define_budgets"], *_columns(row)))
                ]
                gone = await connection.fetch(self.queries["drop_budgets"], [row.name for row in rows])
                return changed + [row["name"] for row in gone]

        return await self.pool.call(work)

    async def read_budgets(self) -> tuple[datetime, list[BudgetRow]]:
        found = await self.fetch("read_budgets")
        return found[0]["now"], [_budget(tuple(row)[1:]) for row in found if row["name"] is not None]

    async def reserve_spend(self, reservation: Reservation) -> Reserved:
        (row,) = await self.fetch("reserve_spend", *msgspec.structs.astuple(reservation))
        return Reserved(Reserving(row["outcome"]), row["at"], _sums(row), row["wakes_at"])

    async def record_spend(self, spend: Spend) -> Recorded:
        (row,) = await self.fetch("record_spend", *msgspec.structs.astuple(spend))
        return Recorded(row["outcome"] == "recorded", row["at"], bool(row["is_late"]), _sums(row))

    async def settle_spend(self, job_id: int, claim: int) -> bool:
        return bool(await self.fetch_value("settle_spend", job_id, claim))

    async def release_deferred(self, name: str, limit: int) -> int:
        return int(await self.fetch_value("release_deferred", name, limit))

    async def list_periods(self, name: str, at: datetime, limit: int) -> list[PeriodRow]:
        found = await self.fetch("list_periods", name, at, limit)
        return [_period(row) for row in found]

    async def list_lost(self, name: str, limit: int) -> list[LostRow]:
        return [LostRow(*row) for row in await self.fetch("list_lost", name, limit)]

    async def mean_spend(self, name: str, kind: str) -> int | None:
        mean: int | None = await self.fetch_value("mean_spend", name, kind)
        return mean

    async def break_down(self, name: str, by: By, since: datetime, until: datetime, limit: int) -> list[Part]:
        return [Part(*row) for row in await self.fetch("break_down", name, by, since, until, limit)]

    async def spend_series(
        self, name: str, key: str, since: datetime, until: datetime, step_ms: int
    ) -> list[SpendPoint]:
        return [SpendPoint(*row) for row in await self.fetch("spend_series", name, key, since, until, step_ms)]

    async def read_ledger(self, name: str | None, limit: int, before: int | None = None) -> list[LedgerRow]:
        if name is None:
            found = await self.fetch("read_whole_ledger", limit, before)
        else:
            found = await self.fetch("read_ledger", name, limit, before)
        return [LedgerRow(*row) for row in found]

    async def prune_ledger(self, limit: int) -> int:
        return int(await self.fetch_value("prune_ledger", limit))


def _columns(row: BudgetRow) -> tuple[object, ...]:
    *plain, kinds, path, thresholds = msgspec.structs.astuple(row)
    return (*plain, list(kinds), list(path), msgspec.json.encode(thresholds).decode())


def _budget(row: Sequence[Any]) -> BudgetRow:
    fields = dict(zip(BudgetRow.__struct_fields__, row, strict=True))
    return msgspec.convert(fields | {"thresholds": msgspec.json.decode(fields["thresholds"])}, BudgetRow)


def _period(row: Any) -> PeriodRow:
    return msgspec.convert(dict(row) | {"alerts": msgspec.json.decode(row["alerts"])}, PeriodRow)


def _sums(row: Any) -> Sums | None:
    if row["ceiling"] is None:
        return None
    return Sums(row["spent"], row["reserved"], row["lost"], row["ceiling"])
