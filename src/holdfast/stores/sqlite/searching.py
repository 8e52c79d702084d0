"""Searching jobs, on SQLite: window by window, in one snapshot."""

import contextlib
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from holdfast.job import TERMINAL, JobState
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
from holdfast.stores.sqlite import errors, lists, rows
from holdfast.stores.sqlite.connection import Connection
from holdfast.stores.sqlite.reader import STEPS_OF_SEARCH
from holdfast.stores.values import Counted, Cursor, Found, JobFilter

_LONGEST_S = 5.0  # of one window, whatever is in it
_LIVE, _FINISHED = "holdfast_jobs", "holdfast_history"
_ORDER = "ORDER BY enqueued_at DESC, id DESC"
_WINDOW = """
WITH looked AS MATERIALIZED (
    SELECT * FROM ({parts}) {order} LIMIT :window
)
SELECT * FROM (SELECT enqueued_at, id, 1 AS fits FROM looked WHERE fits {order} LIMIT :wanted)
UNION ALL
SELECT * FROM (SELECT enqueued_at, id, 0 FROM looked ORDER BY enqueued_at, id LIMIT 1)
UNION ALL
SELECT count(*), count(*) FILTER (WHERE fits), NULL FROM looked
"""
_PART = """
SELECT * FROM (
    SELECT job.id, job.enqueued_at, ({fits}) AS fits FROM {source} WHERE {where}
    ORDER BY job.enqueued_at DESC, job.id DESC
    LIMIT :window
)
"""
# A window of tags, whichever half their jobs are in.
_TAGGED_PART = """
SELECT tag.job_id AS id, tag.enqueued_at, (job.id IS NOT NULL AND {fits}) AS fits
FROM (
    SELECT tag.job_id, tag.enqueued_at
    FROM holdfast_tags AS tag
    WHERE {where}
    ORDER BY tag.enqueued_at DESC, tag.job_id DESC
    LIMIT :window
) AS tag
LEFT JOIN {source} ON job.id = tag.job_id
"""
_WHOLE = "SELECT job.enqueued_at, job.id FROM {source} WHERE {where} {order} LIMIT :wanted"
_COUNT = "SELECT count(*) FROM (SELECT 1 FROM {source} WHERE {where} LIMIT :wanted)"
# Those that failed have an index of their own; that of the two rare states is found by its very words.
_RARE_STATES = "job.state IN ('cancelled', 'completed_with_errors')"
_IN_STATE = {
    JobState.FAILED: "job.state = 'failed'",
    JobState.CANCELLED: f"job.state = 'cancelled' AND {_RARE_STATES}",
    JobState.COMPLETED_WITH_ERRORS: f"job.state = 'completed_with_errors' AND {_RARE_STATES}",
}
_ALONE = frozenset({Way.PARENT, Way.ORIGIN, Way.FINGERPRINT, Way.UNIQUE, Way.SCHEDULE, Way.ACTOR})
_TAG_BEYOND = "(tag.enqueued_at, tag.job_id) < (:after_at, :after_id)"


@dataclass(frozen=True)
class Half:
    """The jobs of one table: the index they are read along, what each scan is for, and what is looked at."""

    source: str
    drives: Sequence[str]
    bounds: Sequence[str]
    rest: Sequence[str]
    given: Mapping[str, object]
    is_tagged: bool = False


class SqliteSearch:
    """The verbs of `SearchStore`."""

    connection: Connection

    async def search_jobs(
        self, which: JobFilter, *, limit: int, after: Cursor | None = None, budget_ms: int = BUDGET_MS
    ) -> Found:
        return await self.connection.search(
            lambda connection, now: search(connection, now, which, limit=limit, after=after, budget_ms=budget_ms)
        )

    async def count_found(self, which: JobFilter, *, most: int = COUNT_CAP, budget_ms: int = COUNTING_MS) -> Counted:
        return await self.connection.search(lambda connection, now: count(connection, now, which, most, budget_ms))


class _TooLong(Exception):
    """A window took longer than it may."""


def search(
    connection: sqlite3.Connection, now: int, which: JobFilter, *, limit: int, after: Cursor | None, budget_ms: int
) -> Found:
    """Find the newest jobs that fit, as far as the budget goes."""
    walk = Walk(_streams(which, now), limit + 1, budget_ms, is_costly=is_costly(which))
    start = None if after is None else (rows.milliseconds(after.enqueued_at), after.id)
    while (stream := walk.behind()) is not None:
        try:
            with _bounded(connection, None if stream.is_whole else walk.patience_s):
                step = _step(connection, stream, stream.edge or start, walk.window, limit + 1)
        except _TooLong:
            walk.give_up()
        else:
            walk.add(stream, step)
    places, following, is_whole = walk.page(limit)
    ids = JobFilter(ids=tuple(place[1] for place in places))
    jobs = [rows.job(row) for row in lists.read(connection, now, ids, limit, None)] if places else []
    cursor = None if following is None else Cursor(rows.moment(following[0]), following[1])
    return Found(jobs, cursor, None if is_whole or cursor is None else cursor.enqueued_at, is_whole)


def count(connection: sqlite3.Connection, now: int, which: JobFilter, most: int, budget_ms: int) -> Counted:
    """Count jobs that fit, as far as the budget goes."""
    ends_at = time.monotonic() + budget_ms / 1_000
    streams = _streams(which, now)
    total, window = 0, LEAST_WINDOW if is_costly(which) else COUNTING_WINDOW
    while (stream := next((one for one in streams if not one.is_done), None)) is not None:
        try:
            with _bounded(connection, None if stream.is_whole else 2 * budget_ms / 1_000):
                total += _count(connection, stream, most - total, window)
        except _TooLong:
            break
        if total >= most or time.monotonic() >= ends_at:
            break
        window = min(4 * window, COUNTING_WINDOW)
    return Counted(min(total, most), total >= most or not all(stream.is_done for stream in streams))


@contextlib.contextmanager
def _bounded(connection: sqlite3.Connection, patience_s: float | None) -> Iterator[None]:
    """Interrupt a window that takes longer than it may; without patience that is an error."""
    ends_at = time.monotonic() + (_LONGEST_S if patience_s is None else patience_s)
    connection.set_progress_handler(lambda: time.monotonic() > ends_at, STEPS_OF_SEARCH)
    try:
        yield
    except sqlite3.OperationalError as error:
        if patience_s is not None and errors.is_interrupted(error):
            raise _TooLong from error
        raise
    finally:
        connection.set_progress_handler(None, 0)


def _streams(which: JobFilter, now: int) -> list[Stream]:
    is_live, is_finished = halves(which)
    way, given = way_of(which), lists.parameters(which, now, 0, None)
    found = []
    if is_live:
        live = live_way_of(which)
        is_whole = live is Way.IDS or (live is Way.LISTED and not is_costly(which))
        found.append(Stream(_half(_LIVE, which, live, given), is_whole=is_whole))
    if is_finished:
        found.append(Stream(_half(_FINISHED, which, way, given), is_whole=way is Way.IDS))
    return found


def _half(table: str, which: JobFilter, way: Way, given: Mapping[str, object]) -> Half:
    """Part the conditions of a filter: those of the way, the bounds in time, and the rest."""
    rest = lists.conditions(which)
    bounds = [rest.pop(field) for field in ("enqueued_from", "enqueued_before") if field in rest]
    if table == _FINISHED:
        rest["kept"] = "job.delete_at > :now"
    source, drives, values = f"{table} AS job", ["1"], dict(given)
    if way not in {Way.IDS, Way.TAGS, Way.TROUBLE}:
        source += f" INDEXED BY {table}_{way.value}"
    if way in _ALONE:
        drives = [rest.pop(way.value)]
    elif way in {Way.KIND, Way.TROUBLE_KIND}:
        drives = [f"job.kind = :kind_{number}" for number in range(len(which.kinds))]
        values |= {f"kind_{number}": kind for number, kind in enumerate(which.kinds)}
        del rest["kinds"]
    elif way in {Way.QUEUE, Way.TROUBLE_QUEUE}:
        drives = [f"job.queue = :queue_{number}" for number in range(len(which.queues))]
        values |= {f"queue_{number}": queue for number, queue in enumerate(which.queues)}
        del rest["queues"]
    elif way is Way.TROUBLE:
        drives = [_IN_STATE[state] for state in which.states if state in TERMINAL]
        del rest["states"]
    elif way is Way.ERRORS:
        drives = ["job.error_class IS NOT NULL"]
    if way in {Way.TROUBLE_KIND, Way.TROUBLE_QUEUE}:
        drives = [f"{drive} AND job.state <> 'completed'" for drive in drives]
    return Half(source, drives, bounds, list(rest.values()), values, is_tagged=way is Way.TAGS)


def _step(connection: sqlite3.Connection, stream: Stream, after: Place | None, window: int, wanted: int) -> Step:
    half: Half = stream.query
    given = {**half.given, "window": window, "wanted": wanted, **_place(after)}
    if stream.is_whole:
        found = connection.execute(whole(_WHOLE, half, after), given).fetchall()
        return Step(found, found[-1] if found else None, len(found) < wanted)
    *places, (looked, _, _) = connection.execute(looking(half, after), given).fetchall()
    found = [(at, job_id) for at, job_id, fits in places if fits]
    if len(found) == wanted:
        return Step(found, found[-1], is_last=False)
    return Step(found, places[-1][:2] if places else None, looked < window)


def _count(connection: sqlite3.Connection, stream: Stream, most: int, window: int) -> int:
    half: Half = stream.query
    given = {**half.given, "window": window, "wanted": most, **_place(stream.edge)}
    if stream.is_whole:
        stream.is_done = True
        return int(connection.execute(whole(_COUNT, half, None), given).fetchone()[0])
    given["wanted"] = 0
    *places, (looked, fitting, _) = connection.execute(looking(half, stream.edge), given).fetchall()
    stream.edge = places[-1][:2] if places else None
    stream.is_done = looked < window
    return int(fitting)


def _place(after: Place | None) -> dict[str, object]:
    return {} if after is None else {"after_at": after[0], "after_id": after[1]}


def looking(half: Half, after: Place | None) -> str:
    """Write the query of one window."""
    fits = " AND ".join(half.rest) or "1"
    if half.is_tagged:
        beyond = [] if after is None else [_TAG_BEYOND]
        bounds = [bound.replace("job.", "tag.") for bound in half.bounds]
        where = " AND ".join([lists.TAGGED, *bounds, *beyond])
        parts = [_TAGGED_PART.format(fits=fits, source=half.source, where=where)]
    else:
        beyond = [] if after is None else [lists.BEYOND]
        parts = [
            _PART.format(fits=fits, source=half.source, where=" AND ".join([drive, *half.bounds, *beyond]))
            for drive in half.drives
        ]
    return _WINDOW.format(parts=" UNION ALL ".join(parts), order=_ORDER)


def whole(template: str, half: Half, after: Place | None) -> str:
    """Write the query of a half in which everything that fits is read."""
    beyond = [] if after is None else [lists.BEYOND]
    where = " AND ".join([*half.drives, *half.rest, *half.bounds, *beyond])
    return template.format(source=half.source, where=where, order="ORDER BY job.enqueued_at DESC, job.id DESC")
