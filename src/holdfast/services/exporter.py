"""Writes what one process shows to Prometheus: its own work, and, if it leads, the state of the whole store."""

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from holdfast.errors import HoldfastError
from holdfast.job import JobState
from holdfast.services.runner import ServiceRunner
from holdfast.stores.limits import LimitRow, LimitStore, LimitUsage
from holdfast.stores.store import QueueStore, UpkeepStore
from holdfast.stores.values import LaneGauge, QueueRow
from holdfast.telemetry.exposition import text_of
from holdfast.telemetry.meter import Gauge, Meter, summed
from holdfast.telemetry.metrics import (
    BACKLOG,
    FAILURES,
    IN_HAND,
    JOBS,
    LAG,
    LEADER,
    LIMIT_HELD,
    LIMIT_SLOTS,
    LISTENER,
    METRICS,
    MOVED,
    OLDEST,
    PAUSED,
    ROUNDS,
)

_logger = logging.getLogger("holdfast")

_FRESH_S = 1.0  # many who ask at once are one question to the store
_PATIENCE_S = 3.0
_MOST_LIMITS = 200
_LEAST = frozenset({LISTENER})  # one process that does not hear hints is one too many
_WAITING = (JobState.QUEUED, JobState.HELD)

Gauges = Callable[[], Iterable[Gauge]]


class GaugedStore(UpkeepStore, QueueStore, LimitStore, Protocol):
    """What the gauges of a whole store need of it."""


class Exporter:
    """Everything that one process shows."""

    def __init__(self) -> None:
        self.meter = Meter()
        self._sources: list[Gauges] = []
        self._runners: list[tuple[GaugedStore, ServiceRunner]] = []
        self._read_at = float("-inf")
        self._of_store: list[Gauge] = []

    @contextmanager
    def showing(self, gauges: Gauges, store: GaugedStore, runner: ServiceRunner) -> Iterator[None]:
        """Show what a worker is busy with and what its services do, while the block runs."""
        place = (store, runner)
        self._sources.append(gauges)
        self._runners.append(place)
        try:
            yield
        finally:
            self._sources.remove(gauges)
            self._runners.remove(place)

    async def text(self) -> str:
        """Write all of it in the text form of Prometheus."""
        own = summed((gauge for source in self._sources for gauge in source()), _LEAST)
        shown = Meter()
        shown.counters, shown.timings = dict(self.meter.counters), self.meter.timings
        own += self._of_services(shown)
        return text_of(shown, [*own, *await self._of_the_store()])

    def _of_services(self, shown: Meter) -> list[Gauge]:
        found: dict[tuple[str, ...], float] = {}
        for _, runner in self._runners:
            found[LEADER,] = max(found.get((LEADER,), 0.0), float(runner.leadership.is_leader))
            for report in runner.reports():
                for name, by in ((ROUNDS, report.runs), (MOVED, report.moved), (FAILURES, report.failures)):
                    shown.count((name, report.name), by)
                found[LAG, report.name] = report.lag_ms / 1_000
        return list(found.items())

    async def _of_the_store(self) -> Sequence[Gauge]:
        """Read what holds for everybody; only one process tells it, or sums over all of them would be too high."""
        leading = [store for store, runner in self._runners if runner.leadership.is_leader]
        if not leading:
            return ()
        if time.monotonic() - self._read_at > _FRESH_S:
            try:
                async with asyncio.timeout(_PATIENCE_S):
                    self._of_store = await read_store(leading[0])
            except (HoldfastError, TimeoutError) as error:
                _logger.debug("the store's numbers are left out of the metrics: %s", error)
                return ()
            self._read_at = time.monotonic()
        return self._of_store


async def read_store(store: GaugedStore) -> list[Gauge]:
    """Read the gauges of the whole store, from what the services have measured: nothing is counted for it."""
    found = [*of_lanes(await store.list_queues(), await store.read_gauges())]
    shared = [row for row in await store.list_limits() if row.scope == "cluster" and row.concurrency is not None]
    usages = {usage.name: usage for usage in await store.limit_usages()} if shared else {}
    for row in shared[:_MOST_LIMITS]:
        if row.name in usages:
            found += of_limit(row, usages[row.name])
    return found


def of_limit(row: LimitRow, usage: LimitUsage) -> Iterator[Gauge]:
    """Show how much of a limit is in use, also under the name that it was given for that."""
    yield (LIMIT_SLOTS, row.name, "taken"), float(usage.taken)
    yield (LIMIT_SLOTS, row.name, "total"), float(usage.most or 0)
    yield (LIMIT_HELD, row.name), float(usage.held)
    if row.metric is not None and row.metric not in METRICS:
        yield (row.metric,), float(usage.taken)


def of_lanes(queues: Sequence[QueueRow], lanes: Sequence[LaneGauge]) -> Iterator[Gauge]:
    """Show the lanes as they were measured, by queue."""
    paused = {row.name for row in queues if row.paused_at is not None}
    jobs: dict[tuple[str, JobState], int] = defaultdict(int)
    oldest: dict[str, float] = {}
    for lane in lanes:
        jobs[lane.queue, lane.state] += lane.jobs
        if lane.oldest_at is not None:
            waited = max((lane.measured_at - lane.oldest_at).total_seconds(), 0.0)
            oldest[lane.queue] = max(oldest.get(lane.queue, 0.0), waited)
    for (queue, state), count in jobs.items():
        yield (JOBS, queue, state.value), float(count)
    for queue in sorted({row.name for row in queues} | {lane.queue for lane in lanes}):
        ready = 0 if queue in paused else jobs.get((queue, JobState.QUEUED), 0)
        yield (BACKLOG, queue), float(sum(jobs.get((queue, state), 0) for state in _WAITING))
        yield (IN_HAND, queue), float(ready + jobs.get((queue, JobState.RUNNING), 0))
        yield (OLDEST, queue), oldest.get(queue, 0.0)
        yield (PAUSED, queue), float(queue in paused)
