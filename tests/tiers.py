"""Which tests every commit needs: each fault once, on one of the stores; `make chaos` runs them on all.

What proves a test of chaos (its guard removed, it has to fail) and most runs of the benchmarks are left to it as well.
"""

import re
import zlib
from collections import defaultdict
from collections.abc import Sequence

import pytest

from tests.sizes import CHAOS

_FAULTS = ("tests/chaos/", "tests/arq/", "tests/redis/", "tests/moving/test_kills.py", "tests/deploy/test_pods.py")
_STORE = re.compile(r"sqlite-file|sqlite|postgres")
_PROOF = re.compile(r"^tests/chaos/.*(_is_noticed|without the fence|the dead may claim)")
_SHARE = 4  # of the runs of benchmarks, one in so many


def split(items: Sequence[pytest.Item]) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """Tell what is run now from what is left to `make chaos`; the choice is the same in every process."""
    left: set[str] = set()
    if not CHAOS:
        alike: dict[str, list[str]] = defaultdict(list)
        for item in items:
            if _PROOF.search(item.nodeid) or _is_spare_benchmark(item.nodeid):
                left.add(item.nodeid)
            elif item.nodeid.startswith(_FAULTS):
                alike[_STORE.sub("*", item.nodeid)].append(item.nodeid)
        for name, variants in alike.items():
            chosen = sorted(variants)[zlib.crc32(name.encode()) % len(variants)]
            left.update(variant for variant in variants if variant != chosen)
    return [item for item in items if item.nodeid not in left], [item for item in items if item.nodeid in left]


def _is_spare_benchmark(name: str) -> bool:
    is_run = "test_a_run_finds_something[" in name or "test_a_contestant_is_measured[" in name
    return is_run and zlib.crc32(name.encode()) % _SHARE != 0
