"""What holds for the jobs of a task: what its code says, and over it what configuration says of its kind."""

from typing import Any

import msgspec
from msgspec import UNSET

from holdfast.policies.kinds import Kind
from holdfast.tasks.options import Policy


def settled(written: Policy, kind: Kind | None) -> Policy:
    """Lay what is configured for a kind over what its task says."""
    if kind is None:
        return written
    given: dict[str, Any] = {
        "queue": kind.queue,
        "limits": kind.limits,
        "budget": kind.budget,
        "estimate": kind.estimated,
        "retry": kind.retry,
        "max_attempts": kind.max_attempts,
        "note": kind.note,
        "debounce_ms": kind.debounce_ms,
        "debounce_path": kind.debounce_path if kind.debounce_key is not None else None,
    }
    changes = {name: value for name, value in given.items() if value is not None}
    if kind.timeout_ms is not UNSET:
        changes["timeout_ms"] = kind.timeout_ms
    return msgspec.structs.replace(written, **changes)
