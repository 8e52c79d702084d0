"""Who takes part: each contestant's module, the environment it runs in, and what it is not measured at."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

HOLDFAST = "holdfast"
STORES = ("postgres", "sqlite", "redis")
# What has a worker is told by how it waits for jobs; a bare commit says nothing about it.
_NO_COMMIT = frozenset({"commit"})


class Entry(NamedTuple):
    """One contestant on one store."""

    name: str
    store: str
    module: str
    environment: str
    without: frozenset[str] = _NO_COMMIT  # measures that would say nothing about it
    truth: str | None = None  # the store that has the jobs, where the other one only carries their ids

    @property
    def title(self) -> str:
        """How a report names it."""
        return f"{self.name} on {self.store}"

    @property
    def stores(self) -> tuple[str, ...]:
        """Every store that it needs; the one with the jobs first."""
        return (self.store,) if self.truth is None else (self.truth, self.store)


class Group(NamedTuple):
    """What is compared by one command."""

    entries: Sequence[Entry]
    measures: Sequence[str]


def _peer(name: str, store: str) -> Entry:
    return Entry(name, store, name, name)


# The raw loops have no worker to speak of: nothing wakes them, so neither waiting nor idling says anything.
_NO_WORKER = frozenset({"pickup", "lone", "idle"})

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
    Entry(HOLDFAST, "redis", "holdfast_redis", HOLDFAST, truth="postgres"),
    _peer("arq", "redis"),
    _peer("saq", "redis"),
    _peer("taskiq", "redis"),
    _peer("dramatiq", "redis"),
    _peer("celery", "redis"),
)
# PostgreSQL as the truth is what Holdfast pays for on Redis: so Holdfast on it alone, and its bare commits, are beside.
_BESIDE_REDIS = {(HOLDFAST, "postgres"), ("raw", "postgres")}
GROUPS: Mapping[str, Group] = {
    "redis": Group(
        [entry for entry in ROSTER if entry.store == "redis" or (entry.name, entry.store) in _BESIDE_REDIS],
        ("drain1", "lone", "commit"),
    ),
}


def chosen(names: Iterable[str], stores: Iterable[str], among: Iterable[Entry] = ROSTER) -> list[Entry]:
    """Pick entries by name and store; nothing named means all."""
    wanted, places = set(names), set(stores)
    return [entry for entry in among if (not wanted or entry.name in wanted) and (not places or entry.store in places)]
