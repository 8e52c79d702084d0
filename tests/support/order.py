"""Which modules the second tier imports, and in which order its tests begin."""

import functools
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path

import pytest


@functools.cache
def names_real_time(path: Path) -> bool:
    """Whether a path may lead to tests of the second tier: a folder, no module of tests, or one that has its marker."""
    is_module = path.suffix == ".py" and path.name.startswith("test_")
    return not is_module or "real_time" in path.read_text(encoding="utf-8")


def without_group(test: str) -> str:
    """Name a test as pytest takes it: xdist adds the group that the test belongs to."""
    return re.sub(r"@\w+$", "", test)


def longest_first(items: list[pytest.Item]) -> None:
    """Begin with the tests that took longest last time, so that no long one is still under way when all have ended.

    `scripts/run_tests.py` names the file with what each test took; without it the order stays.
    """
    known = _known_durations()
    items.sort(key=lambda item: -known.get(without_group(item.nodeid), 0.0))


def _known_durations() -> Mapping[str, float]:
    path = os.environ.get("HOLDFAST_TEST_DURATIONS")
    found: dict[str, float] = json.loads(Path(path).read_text(encoding="utf-8")) if path else {}
    return found
