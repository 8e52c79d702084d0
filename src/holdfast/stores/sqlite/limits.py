"""Limits, on SQLite."""

import sqlite3
from collections.abc import Sequence

import msgspec

from holdfast.stores.limits import LimitRow, LimitUsage, SlotRow, Swept, UsageCounts, UsedKey, usage_of
from holdfast.stores.sqlite import gates, rows, statements
from holdfast.stores.sqlite.connection import Connection
from holdfast.stores.sqlite.rooms import Freed

_ALL = 1_000  # jobs of a limit that is gone, let go on in one go


class SqliteLimits:
    """The verbs of `LimitStore`."""

    connection: Connection

    async def define_limits(self, limits: Sequence[LimitRow], gated: Sequence[str]) -> None:
        def operation(connection: sqlite3.Connection, now: int) -> None:
            statements.change(connection, "forget_limits", names=statements.array(limit.name for limit in limits))
            statements.change_many(connection, "define_limits", [_parameters(limit, now) for limit in limits])
            statements.change(connection, "mark_gated", gated=statements.array(gated))

        await self.connection.write(operation)

    async def list_limits(self) -> list[LimitRow]:
        return await self.connection.read(lambda connection, _: gates.limits(connection))

    async def limit_usage(self, name: str, key: str | None = None) -> LimitUsage | None:
        found = await self.connection.read(lambda connection, now: _usages(connection, now, name, key))
        return next(iter(found), None)

    async def limit_usages(self) -> list[LimitUsage]:
        return await self.connection.read(lambda connection, now: _usages(connection, now, None, None))

    async def sweep_limits(self, after: str, limit: int, *, leaks: bool) -> Swept:
        return await self.connection.write(lambda connection, _: _sweep(connection, after, limit, leaks=leaks))

    async def prune_limits(self, limit: int) -> int:
        def operation(connection: sqlite3.Connection, now: int) -> int:
            keys = statements.change(connection, "prune_limits", now=now, limit=limit)
            return keys + statements.change(connection, "prune_slots", now=now)

        return await self.connection.write(operation)


def promote(connection: sqlite3.Connection, now: int) -> tuple[int, set[str]]:
    """Let jobs go on that are held for a throttle and can have a permit by now; how many, and of which queues."""
    due = statements.fetch(connection, "due_keys", now=now)
    by_name = {limit.name: limit for limit in gates.limits(connection)} if due else {}
    released = 0
    queues: set[str] = set()
    for name, key, until in due:
        limit = by_name.get(name)
        step = limit.throttle_us if limit is not None and limit.throttle_us is not None else 1
        burst = limit.burst if limit is not None else 1
        next_us = max((until or 0) - (burst - 1) * step, now * 1_000)
        most = ((now + gates.AHEAD_MS) * 1_000 - next_us) // step + 1
        most = min(max(most, 1), _ALL)
        gone_on = gates.release(connection, limit, f"{name}/{key}", most)
        count = len(gone_on)
        released += count
        queues.update(gone_on)
        wake_at = max((next_us + count * step) // 1_000 - gates.EARLY_MS, now + gates.SOONEST_MS) if count else None
        statements.change(connection, "set_wake", name=name, key=key, wake_at=wake_at)
    return released, queues


def _sweep(connection: sqlite3.Connection, after: str, limit: int, *, leaks: bool) -> Swept:
    leaked = statements.fetch(connection, "leaked_slots") if leaks else []
    gates.free(connection, [(job_id, claim) for job_id, claim in leaked], Freed())
    names = [row[0] for row in statements.fetch(connection, "sweep_limits", after=after, limit=limit)]
    by_name = {row.name: row for row in gates.limits(connection)} if names else {}
    released = 0
    for name in names:
        found = by_name.get(name.partition("/")[0])
        room = _room(connection, found, name)
        if room > 0:
            released += len(gates.release(connection, found, name, room))
    return Swept(len(leaked), released, names[-1] if names else None)


def _room(connection: sqlite3.Connection, limit: LimitRow | None, name: str) -> int:
    """How many of the jobs that are held for a key could go on."""
    most = gates.slots_of(limit)
    if limit is None:
        return _ALL
    key = name.partition("/")[2]
    if most is not None:
        return most - int(statements.fetch_value(connection, "count_slots", name=limit.name, key=key))
    if limit.rotate:
        return gates.IN_TURN
    if limit.throttle_us is not None:
        return 0 if statements.fetch_value(connection, "has_wake", name=limit.name, key=key) else 1
    return _ALL


def _usages(connection: sqlite3.Connection, now: int, name: str | None, key: str | None) -> list[LimitUsage]:
    found = [_counts(row) for row in statements.fetch(connection, "limit_usage", name=name, key=key, now=now)]
    held = statements.fetch(connection, "slot_holders", name=name, key=key) if found else []
    holders = [_holder(row) for row in held]
    used = statements.fetch(connection, "limit_buckets", name=name, key=key, now=now) if found else []
    keys = [_used(row, now) for row in used]
    return [usage_of(counts, key, holders, keys) for counts in found]


def _counts(row: statements.Row) -> UsageCounts:
    return UsageCounts(*row)._replace(next_at=rows.optional_moment(row[UsageCounts._fields.index("next_at")]))


def _holder(row: statements.Row) -> tuple[str, SlotRow]:
    name, key, job_id, claim, since = row
    return name, SlotRow(key, job_id, claim, rows.optional_moment(since))


def _used(row: statements.Row, now: int) -> UsedKey:
    name, sort, key, most, taken, step_us, spent_us = row
    spent = None if spent_us is None else rows.exact_moment(spent_us)
    return UsedKey(name, sort, key, most, taken, step_us, spent, rows.moment(now))


def _parameters(limit: LimitRow, now: int) -> dict[str, object]:
    arrays = {"kinds": statements.array(limit.kinds), "path": statements.array(limit.path)}
    return msgspec.structs.asdict(limit) | arrays | {"now": now}
