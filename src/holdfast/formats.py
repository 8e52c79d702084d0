"""How values are written that are more than their type: durations, rates, names, addresses.

A `Format` stands beside the type of a setting, `rate: Annotated[str, Format(read_rate, {...})]`. The configuration file
is checked with it, and editors learn its schema. Numbers need none: their bounds are `msgspec.Meta(ge=1, le=10)`.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

OR_NONE = "none"
"""Beside the type of a setting: a file may reset it, by this word or by null."""

_NUMBER = re.compile(r"[-+]?[0-9]+(\.[0-9]+)?|[-+]?\.[0-9]+", re.ASCII)


@dataclass(frozen=True, slots=True, eq=False)
class Format:
    """`read` gives the value of what is written, or raises InvalidValue; `schema` is its JSON Schema.

    `from_text` makes of an environment variable what a file would have said.
    """

    read: Callable[[Any, str], Any] = field(repr=False)
    schema: Mapping[str, Any] = field(repr=False)
    from_text: Callable[[str], Any] = field(default=str, repr=False)


def text_format(read: Callable[[Any, str], object], pattern: str | None = None, **schema: Any) -> Format:
    """Make the format of a text that is kept as it was written once `read` has taken it."""

    def keep(value: Any, what: str) -> Any:
        read(value, what)
        return value

    return Format(keep, {"type": "string", **({} if pattern is None else {"pattern": pattern}), **schema})


def number_of(text: str) -> Any:
    """Read a number, if a text is one."""
    return float(text) if _NUMBER.fullmatch(text.strip()) else text
