"""Errors in a configuration: all of them are collected, each with where it stands."""

import difflib
import re
import sys
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from holdfast.errors import ConfigError, InvalidConfig, InvalidValue, WrongSetting, shown

Path = tuple[str, ...]

LONGEST, DEEPEST = 1_000_000, 64
"""How many characters and levels of nesting a file may have: one that was made to be costly is not read to its end."""

TOO_DEEP = f"expected at most {DEEPEST} levels of nesting"
_MOST = 1_000
_NEAR = 100  # so many names are compared with a wrong one, and listed
_MARK = re.compile(r":([0-9]+):([0-9]+)$")
_DEFINED = re.compile(r"(?:[a-z ]+ '[^']*'|[A-Z]\w+\(\.\.\.\)|service|business hours|email|leader): ")


class Report:
    """Collects errors; `places` tells where the value of a path was written."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.places: dict[Path, str] = {}
        self.errors: list[WrongSetting] = []

    def add(self, path: Path, message: str) -> None:
        """Take note of one."""
        error = WrongSetting(".".join(path), message, self.place_of(path))
        if len(self.errors) < _MOST and error not in self.errors:
            self.errors.append(error)

    @property
    def is_full(self) -> bool:
        """Whether no more errors are taken."""
        return len(self.errors) >= _MOST

    def place_of(self, path: Path) -> str:
        """Where a path, or else what surrounds it, was written."""
        for length in range(len(path), -1, -1):
            if path[:length] in self.places:
                return self.places[path[:length]]
        return self.source

    @contextmanager
    def at(self, path: Path, fields: Mapping[str, Path] | None = None) -> Iterator[None]:
        """Take note of what a definition refuses, at the path of the field that the message begins with."""
        try:
            yield
        except (ConfigError, InvalidValue) as error:
            message = _DEFINED.sub("", str(error), count=1)
            name, _, rest = message.partition(": ")
            place = (fields or {}).get(name)
            self.add(*((path, message) if place is None else ((*path, *place), rest)))

    def refuse(self) -> None:
        """Raise all errors together, if there are any."""
        if self.errors:
            count = len(self.errors)
            summary = f"{self.source}: {count} error{'s' if count > 1 else ''}"
            raise InvalidConfig(summary, sorted(self.errors, key=_position))


def _position(error: WrongSetting) -> tuple[int, int]:
    """Order by line and column; what has none, such as the environment, comes last."""
    found = _MARK.search(error.place)
    return (sys.maxsize, 0) if found is None else (int(found[1]), int(found[2]))


def among(known: Iterable[str], given: str) -> str:
    """Say which names there are, or which one was probably meant."""
    names = sorted(known)
    first = max(0, bisect_left(names, given) - _NEAR // 2) if len(names) > _NEAR else 0
    lowered = {name.lower(): name for name in names[first : first + _NEAR]}
    if close := difflib.get_close_matches(given.lower(), lowered, n=1):
        return f"did you mean {lowered[close[0]]}?"
    more = f" and {len(names) - _NEAR:,} more" if len(names) > _NEAR else ""
    return f"expected among {', '.join(names[:_NEAR])}{more}" if names else "there are none"


def described(value: Any) -> str:
    """Show a value in a message; of what is large only what it is."""
    if value is None:
        return "nothing"
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    return shown(str(value) if isinstance(value, str) else value)
