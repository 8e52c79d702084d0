"""What `tasks list --json` prints."""

from typing import Any

import msgspec

from holdfast.stores.policies import KindRow


class TaskShape(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of job, with what holds for its jobs; `arguments` is a JSON Schema."""

    kind: str
    queue: str
    handler: str
    aliases: tuple[str, ...] = ()
    note: str | None = None
    cadence: tuple[str, ...] = ()
    priority: int = 5
    max_attempts: int
    max_crashes: int
    timeout_ms: int | None
    retry: dict[str, Any]
    limits: tuple[str, ...] = ()
    budget: str | None = None
    estimate: str | None = None
    debounce_ms: int | None = None
    debounce_key: str | None = None
    arguments: dict[str, Any]


class TasksShape(msgspec.Struct, frozen=True):
    """`tasks list --json`."""

    tasks: list[TaskShape]


def task(row: KindRow) -> TaskShape:
    """Describe a kind."""
    told = msgspec.json.decode(row.definition)
    return msgspec.convert(told | {"kind": told["name"], "queue": row.queue}, TaskShape)
