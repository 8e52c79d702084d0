"""Searching jobs, on PostgreSQL: window by window, in one snapshot."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import asyncpg
import msgspec

from holdfast.job import TERMINAL, JobRow, JobState
from holdfast.stores.postgres import lists, rows
from holdfast.stores.postgres.connection import Connection
from holdfast.stores.postgres.lists import Condition, spell
from holdfast.stores.postgres.role import Role
from holdfast.stores.searching import (
    BUDGET_MS,
    COUNT_CAP,
    COUNTING_MS,
    COUNTING_WINDOW,
    LEAST_WINDOW,
    Place,
    Step,
    Stream,
    Walk,
    Way,
    halves,
    is_costly,
    live_way_of,
    way_of,
)
from holdfast.stores.sql import in_schema
from holdfast.stores.values import Counted, Cursor, Found, JobFilter

_LIVE, _FINISHED = "holdfast.jobs", "holdfast.history"
_RARE = 5_000  # jobs with a tag: so many are read and sorted; of more, the newest are soon met on the way back
# One job at a time is compared, and a page wants its answer now: neither pays for what helps long reports.
_CALM = "SET LOCAL jit = off; SET LOCAL max_parallel_workers_per_gather = 0"
# A window is read in the order of its index, whatever the statistics say.
_IN_ORDER = "SET LOCAL enable_sort = {0}; SET LOCAL enable_bitmapscan = {0}"
_ORDER = "ORDER BY enqueued_at DESC, id DESC"
_WINDOW = """
WITH looked AS MATERIALIZED (
    SELECT * FROM ({parts}) AS parts {order} LIMIT {window}
)
SELECT
    ARRAY(SELECT enqueued_at FROM looked WHERE fits {order} LIMIT {wanted}) AS ats,
    ARRAY(SELECT id FROM looked WHERE fits {order} LIMIT {wanted}) AS ids,
    (SELECT count(*) FROM looked) AS looked,
    (SELECT count(*) FROM looked WHERE fits) AS fitting,
    (SELECT enqueued_at FROM looked ORDER BY enqueued_at, id LIMIT 1) AS edge_at,
    (SELECT id FROM looked ORDER BY enqueued_at, id LIMIT 1) AS edge_id
"""
_PART = "(SELECT id, enqueued_at, ({fits}) AS fits FROM {table} WHERE {where} {order} LIMIT {window})"
_WHOLE = "SELECT enqueued_at, id FROM {table} WHERE {where} {order} LIMIT {wanted}"
_COUNT = "SELECT count(*) FROM (SELECT FROM {table} WHERE {where} LIMIT {most}) AS found"
# Compared as rows, so that no index but that of the column has the order: with an equation the planner takes the one of
# all jobs for as good, wherever it believes that every fourth job fits, and walks back through all of history.
_FROM, _BEFORE = "({column}, enqueued_at) >= ({{}}, {{}})", "({column}, enqueued_at, id) < ({{}}, {{}}, {{}})"
_COLUMNS = {
    Way.PARENT: ("parent", "parent"),
    Way.ORIGIN: ("origin", "origin"),
    Way.FINGERPRINT: ("error_fingerprint", "fingerprint"),
    Way.UNIQUE: ("unique_key", "unique"),
    Way.SCHEDULE: ("schedule", "schedule"),
    Way.ACTOR: ("actor", "actor"),
    Way.KIND: ("kind", "kinds"),
    Way.QUEUE: ("queue", "queues"),
    Way.TROUBLE_KIND: ("kind", "kinds"),
    Way.TROUBLE_QUEUE: ("queue", "queues"),
    Way.TROUBLE: ("state", "states"),
}
_TROUBLE = "state <> 'completed'"
_FAILED, _RARE_STATES = "state = 'failed'", "state IN ('cancelled', 'completed_with_errors')"
_EVER, _NEVER = datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC)
_BOUNDS = ("enqueued_from", "enqueued_before")


@dataclass(frozen=True)
class Half:
    """The jobs of one table: the index and the values that they are read along, and what is looked at.

    Without a column it is the index of all jobs.
    """

    table: str
    which: JobFilter
    way: Way
    rest: Sequence[Condition]
    column: str | None = None
    values: Sequence[str | int] = ()


class PostgresSearch(Role):
    """The verbs of `SearchStore`."""

    async def search_jobs(
        self, which: JobFilter, *, limit: int, after: Cursor | None = None, budget_ms: int = BUDGET_MS
    ) -> Found:
        async def work(connection: Connection) -> Found:
            async with connection.transaction(isolation="repeatable_read", readonly=True):
                reader = Reader(connection, self.schema)
                walk = Walk(streams(which), limit + 1, budget_ms, is_costly=is_costly(which))
                start = None if after is None else (after.enqueued_at, after.id)
                while (stream := walk.behind()) is not None:
                    walk.add(stream, await reader.step(stream, stream.edge or start, walk.window, limit + 1))
                places, following, is_whole = walk.page(limit)
                jobs = await reader.jobs([place[1] for place in places])
            cursor = None if following is None else Cursor(*following)
            return Found(jobs, cursor, None if is_whole or cursor is None else cursor.enqueued_at, is_whole)

        return await self.pool.search(work)

    async def count_found(self, which: JobFilter, *, most: int = COUNT_CAP, budget_ms: int = COUNTING_MS) -> Counted:
        async def work(connection: Connection) -> Counted:
            ends_at = time.monotonic() + budget_ms / 1_000
            total, parts = 0, streams(which)
            window = LEAST_WINDOW if is_costly(which) else COUNTING_WINDOW
            async with connection.transaction(isolation="repeatable_read", readonly=True):
                reader = Reader(connection, self.schema)
                while (stream := next((part for part in parts if not part.is_done), None)) is not None:
                    total += await reader.count(stream, most - total, window)
                    if total >= most or time.monotonic() >= ends_at:
                        break
                    window = min(4 * window, COUNTING_WINDOW)
            return Counted(min(total, most), total >= most or not all(part.is_done for part in parts))

        return await self.pool.search(work)


class Reader:
    """Reads windows of streams within one transaction."""

    def __init__(self, connection: Connection, schema: str) -> None:
        self._connection = connection
        self._schema = schema
        self._is_calm = False
        self._is_in_order = False

    async def step(self, stream: Stream, after: Place | None, window: int, wanted: int) -> Step:
        """Read the next window, or as many jobs as are wanted."""
        half: Half = stream.query
        if stream.is_whole:
            sql, args = whole(_WHOLE, half, after, wanted=wanted)
            found = [(row[0], row[1]) for row in await self._fetch(sql, args)]
            return Step(found, found[-1] if found else None, len(found) < wanted)
        row, is_last = await self._look(half, after, window, wanted)
        if row is None:
            stream.query = _untagged(half)
            return Step([], None, is_last=False)
        found = list(zip(row["ats"], row["ids"], strict=True))
        if len(found) == wanted:
            return Step(found, found[-1], is_last=False)
        return Step(found, _edge(row), is_last)

    async def count(self, stream: Stream, most: int, window: int) -> int:
        """Count the jobs that fit in the next window, or all of them up to the most."""
        half: Half = stream.query
        if stream.is_whole:
            sql, args = whole(_COUNT, half, None, most=most)
            stream.is_done = True
            return int((await self._fetch(sql, args))[0][0])
        row, stream.is_done = await self._look(half, stream.edge, window, 0)
        if row is None:
            stream.query = _untagged(half)
            return 0
        stream.edge = _edge(row)
        return int(row["fitting"])

    async def jobs(self, ids: Sequence[int]) -> list[JobRow]:
        """Read the jobs of a page."""
        if not ids:
            return []
        sql, args = lists.query(JobFilter(ids=tuple(ids)), len(ids), None)
        return [rows.job(row[: rows.ALL_COLUMNS]) for row in await self._fetch(sql, args)]

    async def _look(
        self, half: Half, after: Place | None, window: int, wanted: int
    ) -> tuple[asyncpg.Record | None, bool]:
        """Look at one window, and say whether it was the last; None for a tag that too many jobs have."""
        is_tagged = half.way is Way.TAGS
        size = _RARE + 1 if is_tagged else window
        sql, args = looking(half, after, size, wanted)
        (row,) = await self._fetch(sql, args, in_order=not is_tagged)
        return (None, False) if is_tagged and row["looked"] == size else (row, row["looked"] < size)

    async def _fetch(self, sql: str, args: list[object], *, in_order: bool = False) -> list[asyncpg.Record]:
        settings = [] if self._is_calm else [_CALM]
        if in_order != self._is_in_order:
            settings.append(_IN_ORDER.format("off" if in_order else "on"))
        if settings:
            await self._connection.execute("; ".join(settings))
            self._is_calm, self._is_in_order = True, in_order
        return await self._connection.fetch(in_schema(sql, self._schema), *args)


def _edge(row: asyncpg.Record) -> Place | None:
    return None if row["edge_id"] is None else (row["edge_at"], row["edge_id"])


def streams(which: JobFilter) -> list[Stream]:
    """Say how live and finished jobs are read."""
    is_live, is_finished = halves(which)
    way, found = way_of(which), []
    if is_live:
        live = live_way_of(which)
        is_whole = live is Way.IDS or (live is Way.LISTED and not is_costly(which))
        found.append(Stream(_half(_LIVE, which, live), is_whole=is_whole))
    if is_finished:
        found.append(Stream(_half(_FINISHED, which, way), is_whole=way is Way.IDS))
    return found


def _half(table: str, which: JobFilter, way: Way) -> Half:
    """Part the conditions of a filter: those of the way, the bounds in time, and the rest."""
    rest = {field: condition for field, condition in lists.conditions(which).items() if field not in _BOUNDS}
    if table == _FINISHED:
        rest["kept"] = ("delete_at > holdfast.clock()", [])
    if way not in _COLUMNS:
        return Half(table, which, way, list(rest.values()))
    column, field = _COLUMNS[way]
    given = getattr(which, field)
    values = (
        (given,)
        if isinstance(given, str | int)
        else tuple(value for value in given if way is not Way.TROUBLE or value in TERMINAL)
    )
    del rest[field]
    return Half(table, which, way, list(rest.values()), column, values)


def _untagged(half: Half) -> Half:
    """Go another way, for a tag that too many jobs have."""
    others = msgspec.structs.replace(half.which, tags=())
    way = live_way_of(others) if half.table == _LIVE else way_of(others)
    return _half(half.table, half.which, way)


def looking(half: Half, after: Place | None, window: int, wanted: int) -> tuple[str, list[object]]:
    """Write the query of one window, and its parameters."""
    args: list[object] = []
    fits = [*half.rest]
    if half.way is Way.TAGS:
        fits += _beyond(half, after)
    written = " AND ".join(spell(condition, args) for condition in fits) or "true"
    parts = [
        _PART.format(fits=written, table=half.table, where=where, order=order, window=window)
        for where, order in _drives(half, after, args)
    ]
    return _WINDOW.format(parts=" UNION ALL ".join(parts), order=_ORDER, window=window, wanted=wanted), args


def _drives(half: Half, after: Place | None, args: list[object]) -> list[tuple[str, str]]:
    """Write what each index scan reads, and in which order."""
    if half.way is Way.TAGS:
        return [(spell(lists.conditions(half.which)["tags"], args), "")]
    if half.column is None:
        trouble = ["error_class IS NOT NULL"] if half.way is Way.ERRORS else []
        bounds = [spell(condition, args) for condition in _beyond(half, after)]
        return [(" AND ".join([*trouble, *bounds]) or "true", _ORDER)]
    order = f"ORDER BY {half.column} DESC, enqueued_at DESC, id DESC"
    last = min(after or (_NEVER, 0), (_latest(half.which) or _NEVER, 0))
    found = []
    for value in half.values:
        if half.way is Way.TROUBLE and value == JobState.FAILED:  # which have an index of their own
            bounds = [spell(condition, args) for condition in _beyond(half, after)]
            found.append((" AND ".join([_FAILED, *bounds]), _ORDER))
            continue
        where = [
            f"{half.column} IS NOT NULL",  # which the planner does not see in the rest, and its partial indexes ask for
            spell((_FROM.format(column=half.column), [value, half.which.enqueued_from or _EVER]), args),
            spell((_BEFORE.format(column=half.column), [value, *last]), args),
        ]
        if half.way is Way.TROUBLE:
            where.append(_RARE_STATES)
        elif half.way in {Way.TROUBLE_KIND, Way.TROUBLE_QUEUE}:
            where.append(_TROUBLE)
        found.append((" AND ".join(where), order))
    return found


def _latest(which: JobFilter) -> datetime | None:
    """Say before when jobs were enqueued, if the filter tells; none ends before that."""
    bounds = [which.enqueued_before]
    if which.finished_until is not None:
        bounds.append(which.finished_until + timedelta(microseconds=1))
    return min((bound for bound in bounds if bound is not None), default=None)


def _beyond(half: Half, after: Place | None) -> list[Condition]:
    found: list[Condition] = []
    if half.which.enqueued_from is not None:
        found.append(("enqueued_at >= {}", [half.which.enqueued_from]))
    if (latest := _latest(half.which)) is not None:
        found.append(("enqueued_at < {}", [latest]))
    if after is not None:
        found.append(("(enqueued_at, id) < ({}, {})", list(after)))
    return found


def whole(template: str, half: Half, after: Place | None, **numbers: int) -> tuple[str, list[object]]:
    """Write the query of a half in which everything that fits is read, and its parameters."""
    args: list[object] = []
    where = [spell(condition, args) for condition in (*half.rest, *_beyond(half, after))]
    return template.format(table=half.table, where=" AND ".join(where) or "true", order=_ORDER, **numbers), args
