"""Kinds of jobs: what apps have published of their tasks."""

import difflib
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import msgspec

from holdfast import names
from holdfast.client.repeat import until_answered
from holdfast.errors import UnknownKind, shown
from holdfast.policies.keys import key_path, shown_key
from holdfast.resources.kind import KindInfo
from holdfast.stores.policies import KindRow, PolicyStore

List = list  # one of the verbs has that name

_NAMED = 10
_SAME = (
    *("handler", "note", "priority", "max_attempts", "max_crashes", "timeout_ms", "budget", "estimate"),
    *("debounce_ms", "aliases", "cadence", "limits", "retry", "queue_override"),
)


class Kinds(Protocol):
    """What can be asked of kinds."""

    async def list(self) -> List[KindInfo]:
        """Read the kinds that apps have published, by name."""

    async def get(self, name: str) -> KindInfo:
        """Read one kind by its name or an alias; UnknownKind when there is none."""


class LocalKinds:
    """The kinds of one store."""

    def __init__(self, store: PolicyStore, deadline_s: float) -> None:
        self._store = store
        self._deadline_s = deadline_s

    async def list(self) -> List[KindInfo]:
        """Read the kinds that apps have published, by name."""
        rows = await until_answered(lambda _: self._store.list_kinds(), self._deadline_s, "kinds", changes=False)
        return sorted(map(kind_info, rows), key=lambda kind: kind.name)

    async def get(self, name: str) -> KindInfo:
        """Read one kind by its name or an alias; UnknownKind when there is none."""
        return kind_named(await self.list(), names.name(name, "kind"))


def kind_info(row: KindRow) -> KindInfo:
    """Put together what is known of one kind."""
    definition: dict[str, Any] = msgspec.json.decode(row.definition)
    return KindInfo(
        name=row.name,
        queue=row.queue,
        phases=[name for name, _ in definition.get("phases", ())],
        args_schema=definition.get("arguments", {}),
        debounce_key=shown_key(key_path(definition.get("debounce_key"))),
        **{name: definition[name] for name in _SAME if name in definition},
    )


def kind_named(kinds: Sequence[KindInfo], name: str) -> KindInfo:
    """Choose a kind by its name or an alias."""
    by_name = {alias: kind for kind in kinds for alias in kind.aliases} | {kind.name: kind for kind in kinds}
    if name not in by_name:
        raise unknown_kind(name, [kind.name for kind in kinds])
    return by_name[name]


def unknown_kind(name: str, known: Iterable[str]) -> UnknownKind:
    """Make the error for a kind that no program has published."""
    names_known = List(known)
    message = f"no task is known under the kind {shown(name)}"
    if close := difflib.get_close_matches(name, names_known, n=3):
        message += f"; did you mean {' or '.join(close)}?"
    elif names_known:
        message += f"; known are {', '.join(names_known[:_NAMED])}"
    else:
        message += ", nor under any other: has a worker been started?"
    return UnknownKind(message)
