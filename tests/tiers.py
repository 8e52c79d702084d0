"""Which tests every commit needs: each fault once; `make chaos` runs all of them, in every variant and on all stores.

Left to it are also what proves a test of chaos (its guard removed, it has to fail), a few long outages, most runs of
the benchmarks, and one of the two kinds of SQLite for each test of the stores' meaning: they differ in connections.
What is built on stores that mean the same is tried on one of them, each test on another.
"""

import re
import zlib
from collections import defaultdict
from collections.abc import Sequence

import pytest

from tests.sizes import CHAOS

_CHAOS = "tests/chaos/"
_FAULTS = ("tests/arq/", "tests/redis/", "tests/moving/test_kills.py", "tests/deploy/test_pods.py")
_ABOVE = (
    *("tests/bench/", "tests/cli/", "tests/crash/", "tests/escalation/"),
    *("tests/server/", "tests/webhooks/", "tests/worker/"),
)
_MEANING = "tests/conformance/"
_STORE = re.compile(r"sqlite-file|sqlite-memory|sqlite|postgres")
_SQLITE = re.compile(r"sqlite-file|sqlite-memory")
_PARAMETERS = re.compile(r"\[.*\]")
_PROOF = re.compile(r"^tests/chaos/.*(_is_noticed|without the fence|the dead may claim)")
_LONG = re.compile(r"_is_locked_by_others|_that_has_no_room|_is_cut_off_alone|_storm_of_resets|_through_a_pooler")
_RUN = re.compile(r"test_a_run_finds_something\[|test_a_contestant_is_measured\[")
_SHARE = 4  # of the runs of benchmarks, one in so many


def split(items: Sequence[pytest.Item]) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """Tell what is run now from what is left to `make chaos`; the choice is the same in every process."""
    left: set[str] = set()
    if not CHAOS:
        alike: dict[str, list[str]] = defaultdict(list)
        for item in items:
            if _is_spare(item.nodeid):
                left.add(item.nodeid)
            else:
                alike[_fault(item.nodeid)].append(item.nodeid)
        for name, variants in alike.items():
            chosen = sorted(variants)[zlib.crc32(name.encode()) % len(variants)]
            left.update(variant for variant in variants if variant != chosen)
    return [item for item in items if item.nodeid not in left], [item for item in items if item.nodeid in left]


def _fault(name: str) -> str:
    """Name what a test shows, whatever it is shown on; a test that shows something of its own is named as it is."""
    if name.startswith(_CHAOS):
        return _PARAMETERS.sub("", name)
    if name.startswith((*_FAULTS, *_ABOVE)):
        return _STORE.sub("*", name)
    return _SQLITE.sub("sqlite", name) if name.startswith(_MEANING) else name


def _is_spare(name: str) -> bool:
    is_spare_run = bool(_RUN.search(name)) and zlib.crc32(name.encode()) % _SHARE != 0
    return is_spare_run or bool(_PROOF.search(name) or _LONG.search(name))
