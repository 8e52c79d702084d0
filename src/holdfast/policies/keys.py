"""Key expressions: which part of a job tells its tenant, customer or account, as `payload.tenant`."""

import re

from holdfast.errors import InvalidValue, shown

ROOTS = ("payload", "tags")
WHOLE = ("actor", "kind", "queue")
_STEP = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*|[0-9]+", re.ASCII)
_DEEPEST = 8


def key_path(expression: str | None, what: str = "key") -> tuple[str, ...]:
    """Read an expression as the steps to the value; none at all means that all jobs share one key.

    A job without that value shares the key of all others without it.
    """
    if expression is None:
        return ()
    steps = tuple(expression.split(".")) if isinstance(expression, str) else ()
    is_deep = len(steps) > 1 and steps[0] in ROOTS and all(_STEP.fullmatch(step) for step in steps[1:])
    if not (is_deep or (len(steps) == 1 and steps[0] in WHOLE)) or len(steps) > _DEEPEST:
        message = f"{what}: expected payload.<field>, tags.<name>, actor, kind or queue, got {shown(expression)}"
        raise InvalidValue(message)
    return steps
