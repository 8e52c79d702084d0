"""What keeps jobs within their budgets, on SQLite."""

import sqlite3
from collections.abc import Sequence
from datetime import datetime

import msgspec

from holdfast import transitions as ends
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
from holdfast.stores.sqlite import rows, settling, statements
from holdfast.stores.sqlite.connection import Connection
from holdfast.stores.sqlite.settling import Period, share_of
from holdfast.stores.sqlite.work import finish_claims


class SqliteBudgets:
    """The verbs of `BudgetStore`."""

    connection: Connection

    async def define_budgets(self, rows: Sequence[BudgetRow]) -> list[str]:
        def operation(connection: sqlite3.Connection, now: int) -> list[str]:
            changed = [
                name
                for row in rows
                for (name,) in statements.fetch(connection, "define_budgets", **_parameters(row), now=now)
            ]
            names = statements.array(row.name for row in rows)
            return changed + [name for (name,) in statements.fetch(connection, "drop_budgets", names=names)]

        return await self.connection.write(operation)

    async def read_budgets(self) -> tuple[datetime, list[BudgetRow]]:
        def operation(connection: sqlite3.Connection, now: int) -> tuple[datetime, list[BudgetRow]]:
            found = statements.fetch(connection, "read_budgets", name=None)
            return rows.moment(now), [settling.budget(row) for row in found]

        return await self.connection.read(operation)

    async def reserve_spend(self, reservation: Reservation) -> Reserved:
        return await self.connection.write(lambda connection, now: _reserve(connection, now, reservation))

    async def record_spend(self, spend: Spend) -> Recorded:
        return await self.connection.write(lambda connection, now: _record(connection, now, spend))

    async def settle_spend(self, job_id: int, claim: int) -> bool:
        def operation(connection: sqlite3.Connection, now: int) -> bool:
            found = [kept for kept in settling.kept_for(connection, [job_id]) if kept.claim == claim]
            for kept in found:
                settling.let_go(connection, kept)
                settling.find_room(connection, now, kept.period, 1)
            return bool(found)

        return await self.connection.write(operation)

    async def release_deferred(self, name: str, limit: int) -> int:
        return await self.connection.write(
            lambda connection, now: statements.change(connection, "release_deferred", name=name, limit=limit, now=now)
        )

    async def list_periods(self, name: str, at: datetime, limit: int) -> list[PeriodRow]:
        asked = {"name": name, "at": rows.milliseconds(at), "limit": limit}
        found = await self.connection.read(lambda connection, _: statements.fetch(connection, "list_periods", **asked))
        return [_period(row) for row in found]

    async def list_lost(self, name: str, limit: int) -> list[LostRow]:
        found = await self.connection.read(
            lambda connection, _: statements.fetch(connection, "list_lost", name=name, limit=limit)
        )
        return [
            LostRow(job_id, claim, budget, key, rows.moment(starts), amount, spent, rows.moment(at))
            for job_id, claim, budget, key, starts, amount, spent, at in found
        ]

    async def mean_spend(self, name: str, kind: str) -> int | None:
        mean: int | None = await self.connection.read(
            lambda connection, now: statements.fetch_value(connection, "mean_spend", name=name, kind=kind, now=now)
        )
        return mean

    async def break_down(self, name: str, by: By, since: datetime, until: datetime, limit: int) -> list[Part]:
        times = {"since": rows.milliseconds(since), "until": rows.milliseconds(until)}
        found = await self.connection.read(
            lambda connection, _: statements.fetch(connection, "break_down", name=name, by=by, limit=limit, **times)
        )
        return [Part(*row) for row in found]

    async def spend_series(
        self, name: str, key: str, since: datetime, until: datetime, step_ms: int
    ) -> list[SpendPoint]:
        given: dict[str, object] = {"name": name, "key": key, "step_ms": step_ms}
        given |= {"since": rows.milliseconds(since), "until": rows.milliseconds(until)}
        found = await self.connection.read(lambda connection, _: statements.fetch(connection, "spend_series", **given))
        return [SpendPoint(rows.moment(at), amount) for at, amount in found]

    async def read_ledger(self, name: str | None, limit: int, before: int | None = None) -> list[LedgerRow]:
        def operation(connection: sqlite3.Connection, _now: int) -> list[statements.Row]:
            if name is None:
                return statements.fetch(connection, "read_whole_ledger", limit=limit, before=before)
            return statements.fetch(connection, "read_ledger", name=name, limit=limit, before=before)

        found = await self.connection.read(operation)
        return [_entry(row) for row in found]

    async def prune_ledger(self, limit: int) -> int:
        return await self.connection.write(
            lambda connection, now: statements.change(connection, "prune_ledger", now=now, limit=limit)
        )


def _period(row: statements.Row) -> PeriodRow:
    budget, key, starts_at, ends_at, spent, reserved, lost, alerts = row
    told = tuple(msgspec.json.decode(alerts, type=list[int]))
    return PeriodRow(budget, key, rows.moment(starts_at), rows.moment(ends_at), spent, reserved, lost, told)


def _entry(row: statements.Row) -> LedgerRow:
    fields = dict(zip(LedgerRow.__struct_fields__, row, strict=True))
    return msgspec.convert(fields | {"at": rows.moment(fields["at"]), "is_late": bool(fields["is_late"])}, LedgerRow)


def _parameters(row: BudgetRow) -> dict[str, object]:
    lists = {name: statements.array(getattr(row, name)) for name in ("kinds", "path", "thresholds")}
    return msgspec.structs.asdict(row) | lists


# ---- before a run --------------------------------------------------------------------------------------------------


def _reserve(connection: sqlite3.Connection, now: int, asked: Reservation) -> Reserved:
    """Set an estimate aside for a claim, or keep its job out; asked again, the answer is the same."""
    starts_at, ends_at = rows.milliseconds(asked.starts_at), rows.milliseconds(asked.ends_at)
    at, mark = rows.moment(now), f"budget:{asked.budget}"
    if not starts_at <= now < ends_at:
        return Reserved(Reserving.STALE, at)
    running = statements.fetch(connection, "fenced_jobs", items=statements.array([(asked.job_id, asked.claim)]))
    if not running:
        held = statements.fetch(connection, "held_for_budget", job_id=asked.job_id, claim=asked.claim, mark=mark)
        woken = rows.moment(held[0][0]) if held else None
        return Reserved(Reserving.HELD if held else Reserving.LOST, at, wakes_at=woken)
    budget = settling.read_budget(connection, asked.budget)
    if budget is None:
        return Reserved(Reserving.FREE, at)
    period = Period(asked.budget, asked.key, starts_at)
    spent, reserved, lost, _ = settling.sums_of(connection, period, ends_at)
    sums = Sums(spent, reserved, lost, budget.ceiling)
    if any(kept.claim == asked.claim for kept in settling.kept_for(connection, [asked.job_id])):
        return Reserved(Reserving.GRANTED, at, sums)
    queue = statements.fetch_value(connection, "queue_of", id=asked.job_id)
    blocked, outcome = _judge(budget, sums, max(asked.estimate, 1))
    if blocked is None:
        settling.change(connection, period, reserved=asked.estimate)
        parameters = msgspec.structs.asdict(asked) | {"starts_at": starts_at, "queue": queue, "now": now}
        statements.change(connection, "reserve_spend", **parameters)
        return Reserved(Reserving.GRANTED, at, msgspec.structs.replace(sums, reserved=reserved + asked.estimate))
    if outcome != _ROOM:
        settling.note_alerts(connection, now, period, queue, blocked)
    if outcome == Reserving.REFUSED:
        return Reserved(Reserving.REFUSED, at, sums)
    wakes_at = now + asked.patience_ms if outcome == _ROOM else ends_at + asked.jitter_ms
    finish_claims(connection, now, [ends.snoozed(asked.job_id, asked.claim, max(wakes_at - now, 1))])
    held_as = f"{mark} room" if outcome == _ROOM else mark
    statements.change(connection, "hold_for_budget", job_id=asked.job_id, mark=held_as)
    return Reserved(Reserving.HELD, at, sums, rows.moment(wakes_at))


_ROOM = "room"


def _judge(budget: BudgetRow, sums: Sums, needed: int) -> tuple[int | None, str]:
    """Find the threshold that keeps a job out, and what becomes of the job.

    What is certain is spent or lost; what is reserved may come back. A job that only reservations keep out waits for
    those to end, one that money keeps out waits for the next period or fails.
    """
    defer, stop = _first(budget, "defer"), _first(budget, "stop")
    certain, ceiling = sums.spent + sums.lost, budget.ceiling
    wanted = certain + sums.reserved + needed
    if stop is not None and certain >= share_of(ceiling, stop):
        return stop, Reserving.REFUSED
    if defer is not None and wanted > share_of(ceiling, defer):
        blocked = defer
    elif stop is not None and wanted > share_of(ceiling, stop):
        blocked = stop
    else:
        return None, Reserving.GRANTED
    if needed > share_of(ceiling, blocked):
        return blocked, Reserving.REFUSED
    if certain + needed <= share_of(ceiling, blocked):
        return blocked, _ROOM
    return blocked, Reserving.HELD if blocked == defer else Reserving.REFUSED


def _first(budget: BudgetRow, wanted: str) -> int | None:
    return min((share for share, action in budget.thresholds if action == wanted), default=None)


# ---- during a run --------------------------------------------------------------------------------------------------


def _record(connection: sqlite3.Connection, now: int, spend: Spend) -> Recorded:
    """Write down what was spent; sent twice, it is written once."""
    is_late = statements.fetch_value(connection, "late_entry", job_id=spend.job_id, claim=spend.claim, n=spend.n)
    period = ends_at = None
    if spend.budget is not None and spend.starts_at is not None and spend.ends_at is not None:
        period = Period(spend.budget, spend.key, rows.milliseconds(spend.starts_at))
        ends_at = rows.milliseconds(spend.ends_at)
        if is_late is None and not period.starts_at <= now < ends_at:
            return Recorded(is_recorded=False, at=rows.moment(now))
    if is_late is None:
        statements.change(connection, "record_spend", **msgspec.structs.asdict(spend) | _no_times, now=now)
        is_late = statements.fetch_value(connection, "late_entry", job_id=spend.job_id, claim=spend.claim, n=spend.n)
        if period is not None and ends_at is not None:
            _count(connection, now, spend, period, ends_at)
    sums = None
    budget = None if spend.budget is None else settling.read_budget(connection, spend.budget)
    if budget is not None and period is not None and ends_at is not None:
        spent, reserved, lost, _ = settling.sums_of(connection, period, ends_at)
        sums = Sums(spent, reserved, lost, budget.ceiling)
    return Recorded(is_recorded=True, at=rows.moment(now), is_late=bool(is_late), sums=sums)


_no_times: dict[str, object] = {"starts_at": None, "ends_at": None}


def _count(connection: sqlite3.Connection, now: int, spend: Spend, period: Period, ends_at: int) -> None:
    settling.sums_of(connection, period, ends_at)  # which makes the period, if it is the first
    used = {"open": 0, "lost": 0}
    for kept in settling.kept_for(connection, [spend.job_id]):
        if kept.claim == spend.claim and kept.period == period:
            used[kept.state] = min(kept.rest, spend.amount)
            statements.change(connection, "spend_reserved", job_id=spend.job_id, claim=spend.claim, amount=spend.amount)
    settling.change(connection, period, spent=spend.amount, reserved=-used["open"], lost=-used["lost"])
    settling.note_alerts(connection, now, period, spend.queue)
