"""What may stand at a place of the file, read from the types of the settings."""

import functools
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta, UnsetType

from holdfast import queues
from holdfast.about import About
from holdfast.formats import OR_NONE, Format
from holdfast.policies.budgets import Action, Budget, Share
from holdfast.policies.escalation import BusinessHours
from holdfast.queues import Queue
from holdfast.retry import Backoff, backoff

SPELLING: Mapping[type, Mapping[str, tuple[str, ...]]] = {
    Queue: queues.SPELLING,
    BusinessHours: {"from_": ("from",)},
}
"""Fields that a file spells otherwise than code."""

SHORT: Mapping[str, tuple[str, ...]] = {
    "store": ("url",),
    "delivery": ("redis",),
    "leader": ("url",),
    "retry": ("base",),
    "webhook": ("url",),
    "workers": ("min", "max"),
}
"""Groups that a single value may stand for: it is that of the first key, and the others are none."""

_OTHER_TYPES: Mapping[type, Mapping[str, Any]] = {Budget: {"thresholds": Mapping[Share, Iterable[Action]]}}
_MADE_BY: Mapping[Any, Callable[..., Any]] = {Backoff: backoff}
_LISTS = (Iterable, Sequence, list, tuple)
_ENTRY = "entry"  # beside the type of a table's values: the key is the name


@dataclass(frozen=True, slots=True, eq=False)
class Words:
    """Keys of a table that are no names: `Annotated[Mapping[Name, Queue], Words({"preset": ...})]`."""

    types: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Form:
    """A value, a group of `keys`, a list or a table `of` something, or a choice among groups by their `type`."""

    sort: Literal["value", "group", "list", "table", "choice"]
    type: Any = None
    format: Format | None = None
    is_optional: bool = False
    keys: Mapping[str, Any] = field(default_factory=dict)
    needed: tuple[str, ...] = ()
    of: Any = None
    key: Any = str
    length: int | None = None
    single: Any = None
    is_entry: bool = False
    about: str = ""

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of a value."""
        if self.format is not None:
            return dict(self.format.schema)
        if get_origin(self.type) is Literal:
            return {"enum": list(get_args(self.type))}
        return msgspec.json.schema(self.type)

    @property
    def names(self) -> tuple[str, ...]:
        """The only keys that a table may have; empty if it may have any."""
        return tuple(form_of(self.key).schema.get("enum", ()))


def form_of(hint: Any) -> Form:
    """Read a type; a dict of keys to types is a group."""
    return Form(sort="group", keys=hint) if isinstance(hint, dict) else _form_of(hint)


def path_of(kind: type, name: str) -> tuple[str, ...]:
    """Where a file has a field of a definition."""
    return SPELLING.get(kind, {}).get(name, (name,))


def _form_of(hint: Any) -> Form:
    kind, notes = _taken_apart(hint)
    about = next((note.description for note in notes if isinstance(note, About)), "")
    written = next((note for note in notes if isinstance(note, Format)), None)
    members = get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)
    if written is None and all(map(is_dataclass, members)) and len(members) > 1:
        return Form(sort="choice", keys={member.type: member for member in members}, about=about)
    if written is None and (is_dataclass(kind) or kind in _MADE_BY or hasattr(kind, "__total__")):
        return _group(kind, is_entry=_ENTRY in notes, about=about)
    tables = [member for member in members if get_origin(member) is Mapping]
    lists = [member for member in members if get_origin(member) in _LISTS]
    if written is None and tables:
        return _table(tables[0], [member for member in members if member is not tables[0]], notes, about)
    if written is None and lists:
        items = get_args(lists[0])
        length = len(items) if get_origin(lists[0]) is tuple and ... not in items else None
        return Form(sort="list", of=items[0], length=length, about=about)
    bounds = [note for note in notes if isinstance(note, Meta)]
    value = Annotated[(kind, *bounds)] if bounds else kind
    return Form(sort="value", type=value, format=written, is_optional=OR_NONE in notes, about=about)


def _taken_apart(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    """Split a type into what remains without None, and the notes beside it."""
    notes: tuple[Any, ...] = ()
    while True:
        if get_origin(hint) is Annotated:
            hint, *more = get_args(hint)
            notes = (*notes, *more)
            continue
        members = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else ()
        left = [member for member in members if member not in (type(None), UnsetType)]
        if len(left) == len(members):
            return hint, notes
        hint = Union[tuple(left)]  # noqa: UP007 - made while the program runs


def _group(kind: Any, *, is_entry: bool, about: str) -> Form:
    keys = _keys(kind, is_entry=is_entry)
    required = [one.name for one in fields(kind) if is_required(one)] if is_dataclass(kind) else []
    needed = tuple(name for name in required if name in keys)
    about = about or (kind.__doc__ or "").partition("\n")[0]
    return Form(sort="group", type=kind, keys=keys, needed=needed, is_entry=is_entry, about=about)


def is_required(one: Field[Any]) -> bool:
    """Whether a definition needs this field."""
    return one.init and one.default is MISSING and one.default_factory is MISSING


@functools.cache
def _keys(kind: Any, *, is_entry: bool) -> dict[str, Any]:
    """List the types of a definition's fields by the keys that a file has for them."""
    hints = get_type_hints(_MADE_BY.get(kind, kind), include_extras=True)
    names = [one.name for one in fields(kind) if one.init] if is_dataclass(kind) else [*hints]
    keys: dict[str, Any] = {}
    for name in names:
        hint, other = hints[name], _OTHER_TYPES.get(kind, {}).get(name)
        if other is not None:
            hint = Annotated[(other, *_taken_apart(hint)[1])]
        if (is_entry and name == "name") or name == "return" or get_origin(_taken_apart(hint)[0]) is Callable:
            continue
        *front, last = path_of(kind, name)
        group = keys
        for step in front:
            group = group.setdefault(step, {})
        group[last] = hint
    return keys


def _table(table: Any, others: Sequence[Any], notes: Iterable[Any], about: str) -> Form:
    key, of = get_args(table)
    words = next((note.types for note in notes if isinstance(note, Words)), {})
    single = Union[tuple(others)] if others else None  # noqa: UP007 - made while the program runs
    return Form(sort="table", key=key, of=Annotated[of, _ENTRY], keys=words, single=single, about=about)
