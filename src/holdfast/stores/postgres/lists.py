"""Lists of jobs: a query put together from fixed parts; whatever a caller gives is a parameter."""

from holdfast.job import LIVE, TERMINAL, JobState
from holdfast.payload import SECRET
from holdfast.stores.columns import COLUMNS, LEFT_OUT
from holdfast.stores.postgres import rows
from holdfast.stores.searching import SEARCHED, spellings
from holdfast.stores.values import Cursor, JobFilter

Condition = tuple[str, list[object]]
"""A condition with a place for each of its values."""

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

# The name of an error alone finds it in whatever module it was defined.
_ERROR_NAME = "(error_class = {0} OR right(error_class, length({0}) + 1) = '.' || {0})"
_ARGUMENT = "payload #> {}::text[] = ANY ({}::jsonb[])"
# A payload with a secret in it is not searched: whoever may not see it could find it out letter by letter.
_WORD = (
    "(kind ILIKE {0} OR error_class ILIKE {0} OR error ILIKE {0}"
    f" OR (strpos(lower(left(payload::text, {SEARCHED})), lower({{1}})) > 0"
    f" AND strpos(payload::text, '\"{SECRET}\"') = 0))"
)

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
    given = [*conditions(which).values()]
    if after is not None:
        given.append(("(enqueued_at, id) < ({}, {})", [after.enqueued_at, after.id]))
    args: list[object] = []
    spelled = [spell(condition, args) for condition in given]
    return f"WHERE {' AND '.join(spelled)}" if spelled else "", args


def spell(condition: Condition, args: list[object]) -> str:
    """Number the parameters of a condition after those that are there already, and add its values to them."""
    text, values = condition
    numbers = [f"${len(args) + offset}" for offset in range(1, len(values) + 1)]
    args += values
    return text.format(*numbers)


def conditions(which: JobFilter) -> dict[str, Condition]:
    """Write what a filter asks for, by the names of its fields; those of the arguments and words are numbered."""
    possible: dict[str, tuple[bool, str, list[object]]] = {
        "ids": (bool(which.ids), "id = ANY ({}::bigint[])", [list(which.ids)]),
        "id_range": (which.id_range is not None, "id BETWEEN {}::bigint AND {}::bigint", list(which.id_range or ())),
        "id_ending": (which.id_ending is not None, "mod(id, {}::bigint) = {}::bigint", list(which.id_ending or ())),
        "states": _states(which.states),
        # One kind is compared: so the planner knows which index holds just these.
        "kinds": _named("kind", which.kinds),
        "queues": (bool(which.queues), "queue = ANY ({}::text[])", [list(which.queues)]),
        "tags": (bool(which.tags), "tags @> {}::jsonb", [rows.json_text(dict(which.tags))]),
        "actor": (which.actor is not None, "actor = {}", [which.actor]),
        "unique": (which.unique is not None, "unique_key = {}", [which.unique]),
        "schedule": (which.schedule is not None, "schedule = {}", [which.schedule]),
        "parent": (which.parent is not None, "parent = {}", [which.parent]),
        "origin": (which.origin is not None, "origin = {}", [which.origin]),
        "priorities": (bool(which.priorities), "priority = ANY ({}::smallint[])", [list(which.priorities)]),
        "fingerprint": (which.fingerprint is not None, "error_fingerprint = {}", [which.fingerprint]),
        "error_class": (which.error_class is not None, "error_class = {}", [which.error_class]),
        "error_name": (which.error_name is not None, _ERROR_NAME, [which.error_name]),
        "has_error": (which.has_error is not None, "error_class IS NOT NULL", []),
        "finished_from": (which.finished_from is not None, "finished_at >= {}", [which.finished_from]),
        "finished_until": (which.finished_until is not None, "finished_at <= {}", [which.finished_until]),
        "enqueued_from": (which.enqueued_from is not None, "enqueued_at >= {}", [which.enqueued_from]),
        "enqueued_before": (which.enqueued_before is not None, "enqueued_at < {}", [which.enqueued_before]),
    }
    for number, (path, value) in enumerate(which.args):
        possible[f"args {number}"] = (True, _ARGUMENT, [list(path), [rows.json_text(one) for one in spellings(value)]])
    for number, word in enumerate(which.words):
        escaped = rows.json_text(word)[1:-1]
        possible[f"words {number}"] = (True, _WORD, [_pattern(word), escaped])
    return {field: (condition, values) for field, (given, condition, values) in possible.items() if given}


def _states(states: tuple[JobState, ...]) -> tuple[bool, str, list[object]]:
    """Write the states; one alone is spelled out, so that the planner knows which index holds just these."""
    if len(states) == 1:
        return True, f"state = '{_only(states)}'", []
    return bool(states), "state = ANY ({}::text[])", [[state.value for state in states]]


def _named(column: str, names: tuple[str, ...]) -> tuple[bool, str, list[object]]:
    if len(names) == 1:
        return True, f"{column} = {{}}", list(names)
    return bool(names), f"{column} = ANY ({{}}::text[])", [list(names)]


def _pattern(text: str) -> str:
    """Write text so that LIKE finds it anywhere, and its own signs mean themselves."""
    escaped = text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%"


def _only(states: tuple[JobState, ...]) -> str:
    """Spell the one state that is asked for; whatever is no state of ours cannot get into the text."""
    return JobState(states[0]).value if len(states) == 1 else ""
