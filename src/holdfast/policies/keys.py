"""Key expressions: which part of a job tells its tenant, customer or account, as `args.tenant`."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Protocol

import msgspec

from holdfast.errors import InvalidValue, shown
from holdfast.formats import text_format

STORED = "payload"  # what stores, and definitions that programs of the last release read too, say for "args"
_ROOTS = ("args", STORED, "tags")
WHOLE = ("actor", "kind", "queue")
_STEP = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*|[0-9]+", re.ASCII)
_DEEPEST = 8
_LONGEST_KEY = 200  # bytes


class Keyed(Protocol):
    """What a key may come from: a job, or the row of one."""

    @property
    def payload(self) -> Any:
        """The arguments, as values."""

    @property
    def tags(self) -> Mapping[str, str] | None:
        """The tags by name."""

    @property
    def actor(self) -> str | None:
        """Who asked for it."""

    @property
    def kind(self) -> str:
        """The kind."""

    @property
    def queue(self) -> str:
        """The queue."""


def key_path(expression: str | None, what: str = "key") -> tuple[str, ...]:
    """Read an expression as the steps to the value; none at all means that all jobs share one key.

    A job without that value shares the key of all others without it.
    """
    if expression is None:
        return ()
    steps = tuple(expression.split(".")) if isinstance(expression, str) else ()
    is_deep = len(steps) > 1 and steps[0] in _ROOTS and all(_STEP.fullmatch(step) for step in steps[1:])
    if not (is_deep or (len(steps) == 1 and steps[0] in WHOLE)) or len(steps) > _DEEPEST:
        message = f"{what}: expected args.<field>, tags.<name>, actor, kind or queue, got {shown(expression)}"
        raise InvalidValue(message)
    return (STORED, *steps[1:]) if steps[0] == "args" else steps


def stored_key(path: Sequence[str]) -> str | None:
    """Write an expression as it is published."""
    return ".".join(path) or None


def shown_key(path: Sequence[str]) -> str | None:
    """Write an expression as people read it."""
    return ".".join(("args", *path[1:]) if path and path[0] == STORED else path) or None


def key_of(path: Sequence[str], job: Keyed) -> str:
    """Tell the key of a job: the text that the path leads to, or the empty one for all jobs without it."""
    if not path:
        return ""
    if path[0] == "tags":
        value = (job.tags or {}).get(".".join(path[1:])) or ""
    elif path[0] == STORED:
        value = _text_at(path[1:], job.payload)
    else:
        value = {"actor": job.actor, "kind": job.kind, "queue": job.queue}.get(path[0]) or ""
    encoded = value.encode(errors="surrogatepass")
    if len(encoded) <= _LONGEST_KEY:
        return value
    return "#" + hashlib.md5(encoded, usedforsecurity=False).hexdigest()  # told apart by its digest


def _text_at(path: Sequence[str], value: Any) -> str:
    for step in path:
        if isinstance(value, Mapping):
            value = value.get(step)
        elif isinstance(value, list) and step.isdigit() and int(step) < len(value):
            value = value[int(step)]
        else:
            return ""
    if value is None or isinstance(value, str):
        return value or ""
    return msgspec.json.encode(value).decode()


KeyText = Annotated[str, text_format(key_path)]
"""The type of a setting that is a key expression."""
