"""Which variants of a test a commit runs; `make chaos` runs all of them.

Three markers decide. `chaos`: no commit runs it. `sample`: a commit runs one variant of the test, or one value of the
parameters that the marker names. `one_sqlite`, on a value of a fixture: of the variants that differ only in the kind of
SQLite store, a commit runs one; the two kinds differ in their connections, not in meaning.
"""

import zlib
from collections import defaultdict
from collections.abc import Sequence

import pytest

from tests.support.sizes import CHAOS

SQLITE_MEMORY = pytest.param("sqlite-memory", marks=pytest.mark.one_sqlite)
SQLITE_FILE = pytest.param("sqlite-file", marks=pytest.mark.one_sqlite)
STORES = (SQLITE_MEMORY, SQLITE_FILE, "postgres")


def split(items: Sequence[pytest.Item]) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """Tell what runs now from what is left to `make chaos`; every process makes the same choice."""
    if CHAOS:
        return list(items), []
    variants: dict[tuple[str, ...], list[str]] = defaultdict(list)
    places = _Places()
    for item in items:
        if item.get_closest_marker("chaos") is None:
            variants[_promise(item, places)].append(item.nodeid)
    chosen = {sorted(ids)[zlib.crc32(repr(key).encode()) % len(ids)] for key, ids in variants.items()}
    return [item for item in items if item.nodeid in chosen], [item for item in items if item.nodeid not in chosen]


class _Places:
    """Numbers the values of each parameter; pytest numbers those of one parameter again for each value of another."""

    def __init__(self) -> None:
        self._values: dict[tuple[str, str], list[int]] = defaultdict(list)

    def place(self, test: str, parameter: str, value: object) -> int:
        """Find the number of a value, which is the same object in every variant."""
        values = self._values[test, parameter]
        if id(value) not in values:
            values.append(id(value))
        return values.index(id(value))


def _promise(item: pytest.Item, places: _Places) -> tuple[str, ...]:
    """Name what a test shows; variants with the same name stand for each other."""
    name = f"{item.nodeid.partition('[')[0]}"
    call = getattr(item, "callspec", None)
    if call is None:
        return (name,)
    sample = item.get_closest_marker("sample")
    if sample is not None and not sample.args:
        return (name,)
    left_out = () if sample is None else sample.args
    is_sqlite = item.get_closest_marker("one_sqlite") is not None
    kinds = {SQLITE_MEMORY.values[0], SQLITE_FILE.values[0]} if is_sqlite else set()
    rest = (
        f"{parameter}={'sqlite' if isinstance(value, str) and value in kinds else places.place(name, parameter, value)}"
        for parameter, value in sorted(call.params.items())
        if parameter not in left_out
    )
    return (name, *rest)
