"""Lists of jobs: a query put together from fixed parts; whatever a caller gives is a parameter."""

from holdfast.stores.columns import COLUMNS, LEFT_OUT
from holdfast.stores.postgres import rows
from holdfast.stores.values import Cursor, JobFilter

# Each half by itself in the order of the list, which its index has: a page reads no more than its rows. The planner
# would sort all of history for one ORDER BY over both.
_PAGE = """
SELECT * FROM (
    (SELECT {columns} FROM holdfast.live_jobs {where} ORDER BY enqueued_at DESC, id DESC LIMIT {limit})
    UNION ALL
    (SELECT {columns} FROM holdfast.finished_jobs {where} ORDER BY enqueued_at DESC, id DESC LIMIT {limit})
) AS page
ORDER BY enqueued_at DESC, id DESC
LIMIT {limit}
"""

# What may be large is read with the job itself, and not a thousand times for a page.
_COLUMNS = ", ".join(f"NULL::jsonb AS {name}" if name in LEFT_OUT else name for name in COLUMNS)


def query(which: JobFilter, limit: int, after: Cursor | None) -> tuple[str, list[object]]:
    """Write the query for one page, and its parameters."""
    conditions: list[str] = []
    args: list[object] = []
    for condition, values in _conditions(which, after):
        numbers = (f"${len(args) + offset}" for offset in range(1, len(values) + 1))
        conditions.append(condition.format(*numbers))
        args += values
    where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
    return _PAGE.format(columns=_COLUMNS, where=where, limit=f"${len(args) + 1}"), [*args, limit]


def _conditions(which: JobFilter, after: Cursor | None) -> list[tuple[str, list[object]]]:
    tags = rows.json_text(dict(which.tags))
    possible: list[tuple[bool, str, list[object]]] = [
        (bool(which.ids), "id = ANY ({}::bigint[])", [list(which.ids)]),
        (bool(which.states), "state = ANY ({}::text[])", [[state.value for state in which.states]]),
        (bool(which.kinds), "kind = ANY ({}::text[])", [list(which.kinds)]),
        (bool(which.queues), "queue = ANY ({}::text[])", [list(which.queues)]),
        (bool(which.tags), "tags @> {}::jsonb", [tags]),
        (which.actor is not None, "actor = {}", [which.actor]),
        (which.unique is not None, "unique_key = {}", [which.unique]),
        (which.fingerprint is not None, "error_fingerprint = {}", [which.fingerprint]),
        (which.enqueued_from is not None, "enqueued_at >= {}", [which.enqueued_from]),
        (which.enqueued_before is not None, "enqueued_at < {}", [which.enqueued_before]),
    ]
    if after is not None:
        possible.append((True, "(enqueued_at, id) < ({}, {})", [after.enqueued_at, after.id]))
    return [(condition, values) for given, condition, values in possible if given]
