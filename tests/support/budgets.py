"""Budgets as tests speak of them: amounts in whole millionths, periods of a day in UTC unless named."""

from datetime import datetime
from typing import Any

from holdfast.job import JobRow
from holdfast.policies.budgets import Budget, period_around
from holdfast.stores.budgets import SHARE, BudgetRow, PeriodRow, Recorded, Reservation, Reserved, Spend
from holdfast.stores.postgres.store import PostgresStore
from holdfast.stores.sqlite.store import SqliteStore
from holdfast.stores.store import Store
from holdfast.transitions import completed
from tests.support.builders import running, settle

ALERTS = ((800_000, "alert"), (1_000_000, "alert"))
STOP = (*ALERTS, (1_000_000, "stop"))
DEFER = (*ALERTS, (1_000_000, "defer"))
DAY = ("day", "UTC")


def budget(ceiling: int = 1_000, **changes: Any) -> BudgetRow:
    """A budget that stops, unless changed."""
    fields: dict[str, Any] = {
        "name": "ai",
        "definition": "{}",
        "unit": "usd",
        "ceiling": ceiling,
        "period": "day",
        "tz": "UTC",
        "queue": None,
        "kinds": ("work",),
        "path": (),
        "thresholds": STOP,
    }
    return BudgetRow(**(fields | changes))


def row_of(defined: Budget) -> BudgetRow:
    """Write a budget as a store keeps it."""
    return budget(
        defined.ceiling.micro,
        name=defined.name,
        unit=defined.ceiling.unit,
        period=defined.period,
        tz=defined.tz,
        queue=defined.queue,
        kinds=tuple(defined.kinds),
        path=defined.path,
        thresholds=tuple((round(at * SHARE), action) for at, action in defined.thresholds),
    )


async def period_now(store: Store, period: tuple[str, str] = DAY) -> tuple[datetime, datetime]:
    """The period of the store's time."""
    now, _ = await store.read_budgets()
    return period_around(now, *period)


async def reserve(
    store: Store, job: JobRow, estimate: int, *, key: str = "", period: tuple[str, str] = DAY
) -> Reserved:
    """Set an estimate aside."""
    starts, ends = await period_now(store, period)
    return await store.reserve_spend(Reservation(job.id, job.claim, "ai", key, estimate, starts, ends, 1_234, 5_000))


async def spend(
    store: Store, job: JobRow, amount: int, n: int = 1, *, key: str = "", period: tuple[str, str] = DAY, **changes: Any
) -> Recorded:
    """Report an amount."""
    starts, ends = await period_now(store, period)
    fields: dict[str, Any] = {
        "job_id": job.id,
        "claim": job.claim,
        "n": n,
        "budget": "ai",
        "key": key,
        "kind": job.kind,
        "queue": job.queue,
        "actor": job.actor,
        "unit": "usd",
        "amount": amount,
        "note": None,
        "starts_at": starts,
        "ends_at": ends,
    }
    return await store.record_spend(Spend(**(fields | changes)))


async def spent_by_a_job(store: Store, amount: int, **changes: Any) -> JobRow:
    """Let a job spend an amount that was set aside for it, and end well."""
    job = await running(store, **changes)
    assert (await reserve(store, job, amount)).outcome == "granted"
    await spend(store, job, amount)
    await settle(store, completed(job.id, job.claim))
    return job


async def sums(store: Store, key: str = "", at: datetime | None = None) -> tuple[int, int, int]:
    """Read what was spent, is reserved, and may have been spent, in the period of a time."""
    return next((row.spent, row.reserved, row.lost) for row in await periods(store, at) if row.key == key)


async def periods(store: Store, at: datetime | None = None) -> list[PeriodRow]:
    """Read the periods in which a time lies."""
    now, _ = await store.read_budgets()
    return await store.list_periods("ai", at or now, 100)


async def ledger_sum(store: Store) -> int:
    """Add up the whole ledger."""
    return sum(row.amount for row in await store.read_ledger(None, 100_000))


async def alarms(store: Store) -> list[tuple[str, str, str]]:
    """Read what was told: the source, the queue and the title of each."""
    sql = "SELECT source, queue, title FROM holdfast.alarms ORDER BY id"
    if isinstance(store, PostgresStore):
        return [tuple(row) for row in await store.fetch_sql(sql)]
    assert isinstance(store, SqliteStore)
    statement = sql.replace("holdfast.", "holdfast_")
    return await store.connection.read(lambda database, _: database.execute(statement).fetchall())


async def titles(store: Store) -> list[str]:
    """Read what was told."""
    return [title for _, _, title in await alarms(store)]
