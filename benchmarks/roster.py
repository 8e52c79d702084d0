"""Who takes part: each contestant's module, the environment it runs in, and what it is not measured at."""

from collections.abc import Iterable
from typing import NamedTuple

HOLDFAST = "holdfast"
STORES = ("postgres", "sqlite", "redis")


class Entry(NamedTuple):
    """One contestant on one store."""

    name: str
    store: str
    module: str
    environment: str
    without: frozenset[str] = frozenset()  # measures that would say nothing about it

    @property
    def title(self) -> str:
        """How a report names it."""
        return f"{self.name} on {self.store}"


def _peer(name: str, store: str) -> Entry:
    return Entry(name, store, name, name)


# The raw loops have no worker to speak of: nothing wakes them, so neither waiting nor idling says anything.
_NO_WORKER = frozenset({"pickup", "idle"})

ROSTER = (
    Entry(HOLDFAST, "postgres", "holdfast_postgres", HOLDFAST),
    Entry("raw", "postgres", "raw_postgres", "harness", _NO_WORKER),
    _peer("pgqueuer", "postgres"),
    _peer("procrastinate", "postgres"),
    _peer("chancy", "postgres"),
    _peer("awa", "postgres"),
    Entry(HOLDFAST, "sqlite", "holdfast_sqlite", HOLDFAST),
    Entry("raw", "sqlite", "raw_sqlite", "harness", _NO_WORKER),
    _peer("huey", "sqlite"),
    _peer("arq", "redis"),
    _peer("saq", "redis"),
    _peer("taskiq", "redis"),
    _peer("dramatiq", "redis"),
)


def chosen(names: Iterable[str], stores: Iterable[str]) -> list[Entry]:
    """Pick entries by name and store; nothing named means all."""
    wanted, places = set(names), set(stores)
    return [entry for entry in ROSTER if (not wanted or entry.name in wanted) and (not places or entry.store in places)]
