"""Which key of a limit a job belongs to, on SQLite."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

_LONGEST = 200  # bytes; what is longer is told apart by its digest


def key_of(  # noqa: PLR0917 - the columns of a job that may tell its key
    path: Sequence[str],
    payload: str,
    tags: Mapping[str, str] | None,
    actor: str | None,
    kind: str,
    queue: str,
) -> str:
    """Tell the key of a job: the text that the path leads to, or the empty one for all jobs without it."""
    if not path:
        return ""
    value = _value(path, payload, tags, {"actor": actor, "kind": kind, "queue": queue})
    encoded = value.encode(errors="surrogatepass")
    return value if len(encoded) <= _LONGEST else "#" + hashlib.md5(encoded, usedforsecurity=False).hexdigest()


def _value(path: Sequence[str], payload: str, tags: Mapping[str, str] | None, columns: Mapping[str, str | None]) -> str:
    if path[0] == "tags":
        return (tags or {}).get(".".join(path[1:])) or ""
    if path[0] != "payload":
        return columns.get(path[0]) or ""
    found: Any = msgspec.json.decode(payload)
    for step in path[1:]:
        found = _inner(found, step)
    if found is None or isinstance(found, str):
        return found or ""
    return msgspec.json.encode(found).decode()


def _inner(value: Any, step: str) -> Any:
    if isinstance(value, dict):
        return value.get(step)
    if isinstance(value, list) and step.isdigit() and int(step) < len(value):
        return value[int(step)]
    return None
