"""The forms that values come in: alone, in groups of known keys, under names, in lists."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from holdfast.configuration.values import WORD, Value


@dataclass(frozen=True, kw_only=True)
class Group:
    """A mapping with known keys; `short` makes it of a single value, which is read like the field that it names.

    `rule` says what is wrong with values that are right each for itself.
    """

    fields: Mapping[str, "Shape"]
    needed: tuple[str, ...] = ()
    short: tuple[str, Callable[[Any], dict[str, Any]]] | None = None
    rule: Callable[[Mapping[str, Any]], str | None] | None = None
    describes: str = ""


@dataclass(frozen=True, kw_only=True)
class Named:
    """A mapping of names to groups; `known` are the only names there are, `words` are keys that mean something else."""

    of: Group
    known: tuple[str, ...] = ()
    words: Mapping[str, Value] = field(default_factory=dict)
    describes: str = ""


@dataclass(frozen=True, kw_only=True)
class Tagged:
    """A mapping of names to groups of several types, which the key `type` tells apart."""

    types: Mapping[str, Group]
    describes: str = ""


@dataclass(frozen=True, kw_only=True)
class Many:
    """A list; a single value is a list of one."""

    of: "Value | Group"
    exactly: int | None = None


@dataclass(frozen=True, kw_only=True)
class Table:
    """A mapping with keys of one's own choice."""

    of: "Shape"
    key: Value = WORD


Shape = Value | Group | Named | Tagged | Many | Table


def fixed(name: str) -> tuple[str, Callable[[Any], dict[str, Any]]]:
    """Let a single value stand for one field of a group."""
    return name, lambda value: {name: value}
