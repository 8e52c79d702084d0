"""Lists of jobs: a query put together from fixed parts; whatever a caller gives is a parameter."""

from holdfast.job import LIVE, TERMINAL, JobState
from holdfast.stores.columns import COLUMNS, LEFT_OUT
from holdfast.stores.postgres import rows
from holdfast.stores.values import Cursor, JobFilter

# Each half by itself in the order of the list, which its index has: a page reads no more than its rows. The planner
# would sort all of history for one ORDER BY over both.
_PAGE = """
SELECT * FROM (
    {halves}
) AS page
ORDER BY enqueued_at DESC, id DESC
LIMIT {limit}
"""
_HALF = "(SELECT {columns} FROM {table} {where} ORDER BY enqueued_at DESC, id DESC LIMIT {limit})"
_COUNT = "SELECT count(*) FROM ({halves}) AS found"
_COUNTED = "(SELECT FROM {table} {where} LIMIT {limit})"

# What may be large is read with the job itself, and not a thousand times for a page.
_COLUMNS = ", ".join(f"NULL::jsonb AS {name}" if name in LEFT_OUT else name for name in COLUMNS)


def query(which: JobFilter, limit: int, after: Cursor | None) -> tuple[str, list[object]]:
    """Write the query for one page, and its parameters."""
    where, args = _where(which, after)
    last = f"${len(args) + 1}"
    halves = [_HALF.format(columns=_COLUMNS, table=table, where=where, limit=last) for table in _tables(which)]
    return _PAGE.format(halves="\n    UNION ALL\n    ".join(halves), limit=last), [*args, limit]


def count(which: JobFilter, cap: int) -> tuple[str, list[object]]:
    """Write the query that counts the jobs of a filter, no more of each half than the cap, and its parameters."""
    where, args = _where(which, None)
    halves = [_COUNTED.format(table=table, where=where, limit=f"${len(args) + 1}") for table in _tables(which)]
    return _COUNT.format(halves=" UNION ALL ".join(halves)), [*args, cap]


def _tables(which: JobFilter) -> list[str]:
    """Name the halves that can have jobs in the states that are asked for."""
    states = frozenset(which.states) or frozenset(JobState)
    halves = {"holdfast.live_jobs": LIVE, "holdfast.finished_jobs": TERMINAL}
    return [table for table, possible in halves.items() if possible & states]


def _where(which: JobFilter, after: Cursor | None) -> tuple[str, list[object]]:
    conditions: list[str] = []
    args: list[object] = []
    for condition, values in _conditions(which, after):
        numbers = (f"${len(args) + offset}" for offset in range(1, len(values) + 1))
        conditions.append(condition.format(*numbers))
        args += values
    return f"WHERE {' AND '.join(conditions)}" if conditions else "", args


def _conditions(which: JobFilter, after: Cursor | None) -> list[tuple[str, list[object]]]:
    tags = rows.json_text(dict(which.tags))
    possible: list[tuple[bool, str, list[object]]] = [
        (bool(which.ids), "id = ANY ({}::bigint[])", [list(which.ids)]),
        # One state is spelled out and one kind compared: so the planner knows which index holds just these.
        (len(which.states) == 1, f"state = '{_only(which.states)}'", []),
        (len(which.states) > 1, "state = ANY ({}::text[])", [[state.value for state in which.states]]),
        (len(which.kinds) == 1, "kind = {}", list(which.kinds)),
        (len(which.kinds) > 1, "kind = ANY ({}::text[])", [list(which.kinds)]),
        (bool(which.queues), "queue = ANY ({}::text[])", [list(which.queues)]),
        (bool(which.tags), "tags @> {}::jsonb", [tags]),
        (which.actor is not None, "actor = {}", [which.actor]),
        (which.unique is not None, "unique_key = {}", [which.unique]),
        (which.fingerprint is not None, "error_fingerprint = {}", [which.fingerprint]),
        (which.error_class is not None, "error_class = {}", [which.error_class]),
        (which.finished_from is not None, "finished_at >= {}", [which.finished_from]),
        (which.finished_until is not None, "finished_at <= {}", [which.finished_until]),
        (which.enqueued_from is not None, "enqueued_at >= {}", [which.enqueued_from]),
        (which.enqueued_before is not None, "enqueued_at < {}", [which.enqueued_before]),
    ]
    if after is not None:
        possible.append((True, "(enqueued_at, id) < ({}, {})", [after.enqueued_at, after.id]))
    return [(condition, values) for given, condition, values in possible if given]


def _only(states: tuple[JobState, ...]) -> str:
    """Spell the one state that is asked for; whatever is no state of ours cannot get into the text."""
    return JobState(states[0]).value if len(states) == 1 else ""
