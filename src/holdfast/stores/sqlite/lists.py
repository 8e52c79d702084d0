"""Lists of jobs: a query put together from fixed parts; whatever a caller gives is a parameter."""

import heapq
import sqlite3
from operator import itemgetter

from holdfast.job import LIVE, TERMINAL, Job, JobState
from holdfast.stores.columns import COLUMNS, LEFT_OUT
from holdfast.stores.sqlite import rows, statements
from holdfast.stores.sqlite.statements import Row
from holdfast.stores.values import Cursor, JobFilter

_BY_TIME = itemgetter(Job.__struct_fields__.index("enqueued_at"), Job.__struct_fields__.index("id"))
# What may be large is read with the job itself, and not a thousand times for a page.
_COLUMNS = ", ".join(f"NULL AS {name}" if name in LEFT_OUT else f"job.{name}" for name in COLUMNS)
_LIVE, _FINISHED = "holdfast_live_jobs", "holdfast_finished_jobs"


def read(connection: sqlite3.Connection, now: int, which: JobFilter, limit: int, after: Cursor | None) -> list[Row]:
    """Read the newest jobs beyond the cursor, live and finished ones in one snapshot."""
    parameters = _parameters(which, now, limit, after)
    found: list[list[Row]] = []
    if not which.states or LIVE.intersection(which.states):
        found.append(connection.execute(_query(_LIVE, which, after), parameters).fetchall())
    if not which.states or TERMINAL.intersection(which.states):
        found.append(connection.execute(_query(_FINISHED, which, after), parameters).fetchall())
    return list(heapq.merge(*found, key=_BY_TIME, reverse=True))[:limit]


def count(connection: sqlite3.Connection, now: int, which: JobFilter, cap: int) -> int:
    """Count the jobs of a filter, no more than the cap."""
    parameters = _parameters(which, now, cap, None)
    found = 0
    for table, possible in ((_LIVE, LIVE), (_FINISHED, TERMINAL)):
        if not which.states or possible.intersection(which.states):
            listed = _query(table, which, None, columns="1")
            query = f"SELECT count(*) FROM ({listed})"  # noqa: S608 - fixed parts only
            found += connection.execute(query, parameters).fetchone()[0]
    return min(found, cap)


def _query(table: str, which: JobFilter, after: Cursor | None, columns: str = _COLUMNS) -> str:
    """Write the query of one table; a filter by tag walks the tags, every other one the jobs, newest first."""
    conditions = _conditions(which, after)
    source, order = f"{table} AS job", "job.enqueued_at DESC, job.id DESC"
    if which.tags:
        source = f"holdfast_tags AS tag CROSS JOIN {table} AS job ON job.id = tag.job_id"
        order = "tag.enqueued_at DESC, tag.job_id DESC"
        conditions += ["tag.name = :tag_0", "tag.value = :tag_value_0"]
        conditions += [_another_tag(number) for number in range(1, len(which.tags))]
        if after is not None:
            conditions.append("tag.enqueued_at <= :after_at")
    if table == _FINISHED:
        conditions.append("job.delete_at > :now")
    where = f"WHERE {' AND '.join(conditions)} " if conditions else ""
    return f"SELECT {columns} FROM {source} {where}ORDER BY {order} LIMIT :limit"  # noqa: S608 - fixed parts only


def _conditions(which: JobFilter, after: Cursor | None) -> list[str]:
    given = {
        "job.id IN (SELECT value FROM json_each(:ids))": bool(which.ids),
        # One state is spelled out and one kind compared: so the planner knows which index holds just these.
        f"job.state = '{_only(which.states)}'": len(which.states) == 1,
        "job.state IN (SELECT value FROM json_each(:states))": len(which.states) > 1,
        "job.kind = :kinds ->> 0": len(which.kinds) == 1,
        "job.kind IN (SELECT value FROM json_each(:kinds))": len(which.kinds) > 1,
        "job.queue IN (SELECT value FROM json_each(:queues))": bool(which.queues),
        "job.actor = :actor": which.actor is not None,
        "job.unique_key = :unique": which.unique is not None,
        "job.error_fingerprint = :fingerprint": which.fingerprint is not None,
        "job.error_class = :error_class": which.error_class is not None,
        "job.finished_at >= :finished_from": which.finished_from is not None,
        "job.finished_at <= :finished_until": which.finished_until is not None,
        "job.enqueued_at >= :enqueued_from": which.enqueued_from is not None,
        "job.enqueued_at < :enqueued_before": which.enqueued_before is not None,
        "(job.enqueued_at, job.id) < (:after_at, :after_id)": after is not None,
    }
    return [condition for condition, is_given in given.items() if is_given]


def _another_tag(number: int) -> str:
    return (
        "EXISTS (SELECT 1 FROM holdfast_tags AS other WHERE other.name = "  # noqa: S608 - a number of our own
        f":tag_{number} AND other.value = :tag_value_{number} AND other.enqueued_at = job.enqueued_at "
        "AND other.job_id = job.id)"
    )


def _parameters(which: JobFilter, now: int, limit: int, after: Cursor | None) -> dict[str, object]:
    parameters: dict[str, object] = {
        "now": now,
        "limit": limit,
        "ids": statements.array(which.ids),
        "states": statements.array(which.states),
        "kinds": statements.array(which.kinds),
        "queues": statements.array(which.queues),
        "actor": which.actor,
        "unique": which.unique,
        "fingerprint": which.fingerprint,
        "error_class": which.error_class,
        "finished_from": None if which.finished_from is None else rows.milliseconds(which.finished_from),
        "finished_until": None if which.finished_until is None else rows.milliseconds(which.finished_until),
        "enqueued_from": None if which.enqueued_from is None else rows.milliseconds(which.enqueued_from),
        "enqueued_before": None if which.enqueued_before is None else rows.milliseconds(which.enqueued_before),
        "after_at": None if after is None else rows.milliseconds(after.enqueued_at),
        "after_id": None if after is None else after.id,
    }
    for number, (name, value) in enumerate(which.tags):
        parameters |= {f"tag_{number}": name, f"tag_value_{number}": value}
    return parameters


def _only(states: tuple[JobState, ...]) -> str:
    """Spell the one state that is asked for; whatever is no state of ours cannot get into the text."""
    return JobState(states[0]).value if len(states) == 1 else ""
