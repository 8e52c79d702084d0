"""Lists of jobs: a query put together from fixed parts; whatever a caller gives is a parameter."""

import heapq
import sqlite3
from operator import itemgetter

import msgspec

from holdfast.job import LIVE, TERMINAL, JobRow, JobState
from holdfast.payload import SECRET
from holdfast.stores.columns import COLUMNS, LEFT_OUT
from holdfast.stores.searching import SEARCHED, spellings
from holdfast.stores.sqlite import rows, statements
from holdfast.stores.sqlite.statements import Row
from holdfast.stores.values import Cursor, JobFilter

_BY_TIME = itemgetter(JobRow.__struct_fields__.index("enqueued_at"), JobRow.__struct_fields__.index("id"))
# What may be large is read with the job itself, and not a thousand times for a page.
_COLUMNS = ", ".join(f"NULL AS {name}" if name in LEFT_OUT else f"job.{name}" for name in COLUMNS)
# The name of an error alone finds it in whatever module it was defined.
_ERROR_NAME = (
    "(job.error_class = :error_name OR substr(job.error_class, -length(:error_name) - 1) = '.' || :error_name)"
)
BEYOND = "(job.enqueued_at, job.id) < (:after_at, :after_id)"
TAGGED = "tag.name = :tag_0 AND tag.value = :tag_value_0"
_LIVE, _FINISHED = "holdfast_live_jobs", "holdfast_finished_jobs"


def read(connection: sqlite3.Connection, now: int, which: JobFilter, limit: int, after: Cursor | None) -> list[Row]:
    """Read the newest jobs beyond the cursor, live and finished ones in one snapshot."""
    given = parameters(which, now, limit, after)
    found: list[list[Row]] = []
    if not which.states or LIVE.intersection(which.states):
        found.append(connection.execute(_query(_LIVE, which, after), given).fetchall())
    if not which.states or TERMINAL.intersection(which.states):
        found.append(connection.execute(_query(_FINISHED, which, after), given).fetchall())
    return list(heapq.merge(*found, key=_BY_TIME, reverse=True))[:limit]


def count(connection: sqlite3.Connection, now: int, which: JobFilter, cap: int) -> int:
    """Count the jobs of a filter, no more than the cap."""
    given = parameters(which, now, cap, None)
    found = 0
    for table, possible in ((_LIVE, LIVE), (_FINISHED, TERMINAL)):
        if not which.states or possible.intersection(which.states):
            listed = _query(table, which, None, columns="1")
            query = f"SELECT count(*) FROM ({listed})"  # noqa: S608 - fixed parts only
            found += connection.execute(query, given).fetchone()[0]
    return min(found, cap)


def _query(table: str, which: JobFilter, after: Cursor | None, columns: str = _COLUMNS) -> str:
    """Write the query of one table; a filter by tag walks the tags, every other one the jobs, newest first."""
    given = [*conditions(which).values()]
    if after is not None:
        given.append(BEYOND)
    source, order = f"{table} AS job", "job.enqueued_at DESC, job.id DESC"
    if which.tags:
        source = f"holdfast_tags AS tag CROSS JOIN {table} AS job ON job.id = tag.job_id"
        order = "tag.enqueued_at DESC, tag.job_id DESC"
        given += [TAGGED]
        if after is not None:
            given.append("tag.enqueued_at <= :after_at")
    if table == _FINISHED:
        given.append("job.delete_at > :now")
    where = f"WHERE {' AND '.join(given)} " if given else ""
    return f"SELECT {columns} FROM {source} {where}ORDER BY {order} LIMIT :limit"  # noqa: S608 - fixed parts only


def conditions(which: JobFilter) -> dict[str, str]:
    """Write what a filter asks for, by the names of its fields, but for its first tag, which is a way to the jobs."""
    given = {
        "ids": ("job.id IN (SELECT value FROM json_each(:ids))", bool(which.ids)),
        "id_range": ("job.id BETWEEN :id_from AND :id_until", which.id_range is not None),
        "id_ending": ("job.id % :id_divisor = :id_rest", which.id_ending is not None),
        "states": (_states(which.states), bool(which.states)),
        "kinds": (_named("kind", which.kinds), bool(which.kinds)),
        "queues": (_named("queue", which.queues), bool(which.queues)),
        "actor": ("job.actor = :actor", which.actor is not None),
        "unique": ("job.unique_key = :unique", which.unique is not None),
        "schedule": ("job.schedule = :schedule", which.schedule is not None),
        "parent": ("job.parent = :parent", which.parent is not None),
        "origin": ("job.origin = :origin", which.origin is not None),
        "priorities": ("job.priority IN (SELECT value FROM json_each(:priorities))", bool(which.priorities)),
        "fingerprint": ("job.error_fingerprint = :fingerprint", which.fingerprint is not None),
        "error_class": ("job.error_class = :error_class", which.error_class is not None),
        "error_name": (_ERROR_NAME, which.error_name is not None),
        "has_error": ("job.error_class IS NOT NULL", which.has_error is not None),
        "finished_from": ("job.finished_at >= :finished_from", which.finished_from is not None),
        "finished_until": ("job.finished_at <= :finished_until", which.finished_until is not None),
        "enqueued_from": ("job.enqueued_at >= :enqueued_from", which.enqueued_from is not None),
        "enqueued_before": ("job.enqueued_at < :enqueued_before", which.enqueued_before is not None),
    }
    written = {field: condition for field, (condition, is_given) in given.items() if is_given}
    written |= {f"tags {number}": _another_tag(number) for number in range(1, len(which.tags))}
    written |= {f"args {number}": _argument(number, *argument) for number, argument in enumerate(which.args)}
    return written | {f"words {number}": _word(number) for number in range(len(which.words))}


def _states(states: tuple[JobState, ...]) -> str:
    """Write the states; one alone is spelled out, so that the planner knows which index holds just these."""
    return (
        f"job.state = '{_only(states)}'" if len(states) == 1 else "job.state IN (SELECT value FROM json_each(:states))"
    )


def _named(column: str, names: tuple[str, ...]) -> str:
    """Write the names of kinds or queues; one alone is compared, so that its index gives the order of the list."""
    if len(names) == 1:
        return f"job.{column} = :{column}s ->> 0"
    return f"job.{column} IN (SELECT value FROM json_each(:{column}s))"  # noqa: S608 - fixed parts only


def _argument(number: int, path: tuple[str, ...], value: str) -> str:
    """Write that a value lies at a path of the payload; a step of it is the name of a key, or the number of a place."""
    sources, steps = ["json_each(job.payload) AS step_0"], []
    for depth in range(len(path)):
        if depth:
            inner = f"CASE WHEN step_{depth - 1}.type IN ('object', 'array') THEN step_{depth - 1}.value ELSE '[]' END"
            sources.append(f"json_each({inner}) AS step_{depth}")
        steps.append(f"CAST(step_{depth}.key AS TEXT) = :arg_{number}_{depth}")
    last = f"step_{len(path) - 1}"
    meant = [f"({last}.type = 'text' AND {last}.value = :arg_{number})"]
    for spelling in spellings(value)[1:]:
        if isinstance(spelling, bool) or spelling is None:
            meant.append(f"{last}.type = :arg_{number}")
        else:
            meant.append(f"({last}.type IN ('integer', 'real') AND {last}.value = :arg_{number}_number)")
    found = " AND ".join([*steps, f"({' OR '.join(meant)})"])
    return f"EXISTS (SELECT 1 FROM {', '.join(sources)} WHERE {found})"  # noqa: S608 - numbers and words of our own


def _word(number: int) -> str:
    like = f"LIKE :word_{number} ESCAPE '\\'"
    # A payload with a secret in it is not searched: whoever may not see it could find it out letter by letter.
    # Nothing interrupts a function: it is given so much that it soon ends, also where everything nearly fits.
    found = f"instr(lower(substr(job.payload, 1, {SEARCHED})), lower(:word_{number}_json)) > 0"
    inside = f"({found} AND instr(job.payload, '\"{SECRET}\"') = 0)"
    return f"(job.kind {like} OR job.error_class {like} OR job.error {like} OR {inside})"


def _pattern(text: str) -> str:
    """Write text so that LIKE finds it anywhere, and its own signs mean themselves."""
    escaped = text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%"


def _another_tag(number: int) -> str:
    return (
        "EXISTS (SELECT 1 FROM holdfast_tags AS other WHERE other.name = "  # noqa: S608 - a number of our own
        f":tag_{number} AND other.value = :tag_value_{number} AND other.enqueued_at = job.enqueued_at "
        "AND other.job_id = job.id)"
    )


def parameters(which: JobFilter, now: int, limit: int, after: Cursor | None) -> dict[str, object]:
    """Give the values of all conditions of a filter."""
    written: dict[str, object] = {
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
        "error_name": which.error_name,
        "schedule": which.schedule,
        "parent": which.parent,
        "origin": which.origin,
        "priorities": statements.array(which.priorities),
        "id_from": None if which.id_range is None else which.id_range[0],
        "id_until": None if which.id_range is None else which.id_range[1],
        "id_divisor": None if which.id_ending is None else which.id_ending[0],
        "id_rest": None if which.id_ending is None else which.id_ending[1],
        "finished_from": None if which.finished_from is None else rows.milliseconds(which.finished_from),
        "finished_until": None if which.finished_until is None else rows.milliseconds(which.finished_until),
        "enqueued_from": None if which.enqueued_from is None else rows.milliseconds(which.enqueued_from),
        "enqueued_before": None if which.enqueued_before is None else rows.milliseconds(which.enqueued_before),
        "after_at": None if after is None else rows.milliseconds(after.enqueued_at),
        "after_id": None if after is None else after.id,
    }
    for number, (name, value) in enumerate(which.tags):
        written |= {f"tag_{number}": name, f"tag_value_{number}": value}
    for number, (path, value) in enumerate(which.args):
        written |= {f"arg_{number}_{depth}": step for depth, step in enumerate(path)}
        written |= {f"arg_{number}": value, f"arg_{number}_number": spellings(value)[-1]}
    for number, word in enumerate(which.words):
        json = msgspec.json.encode(word).decode()[1:-1]
        written |= {f"word_{number}": _pattern(word), f"word_{number}_json": json}
    return written


def _only(states: tuple[JobState, ...]) -> str:
    """Spell the one state that is asked for; whatever is no state of ours cannot get into the text."""
    return JobState(states[0]).value if len(states) == 1 else ""
