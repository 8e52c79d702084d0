"""How many jobs of each queue an instance runs at once: as published, or between two bounds as its waits ask for.

Every ten seconds a queue gets a quarter more workers while its jobs wait for longer than half of its SLA and
the processors have time; after two minutes without a waiting job it loses a tenth. Each number comes with its reason.
"""

import asyncio
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Protocol

from holdfast.errors import HoldfastError
from holdfast.stores.limits import LimitRow
from holdfast.stores.sla import QueuePolicy, SlaRow, TuningRow
from holdfast.worker.processors import Processors

_logger = logging.getLogger("holdfast")

LOOK_S = 5.0
_STEP = timedelta(seconds=9)  # looks at waits are ten seconds apart, less a little chance
_IDLE = timedelta(minutes=2)
_BUSY = 0.85
_GROWTH, _DECAY = 0.25, 0.10
DEFAULT_SLA_MS = 60_000  # what counts for a queue without an SLA


class TunedStore(Protocol):
    """What tuning needs of a store."""

    async def queue_policies(self) -> list[QueuePolicy]:
        """Read what is published of queues."""

    async def list_limits(self) -> list[LimitRow]:
        """Read the limits in force."""

    async def list_waits(self) -> list[SlaRow]:
        """Read what is known of the waits of queues."""

    async def report_tunings(self, instance: str, tunings: Sequence[TuningRow]) -> None:
        """Say how many workers queues have, and why."""


class Gear:
    """The workers of one queue in one instance."""

    def __init__(self, lowest: int, highest: int) -> None:
        self.workers = lowest
        self.lowest, self.highest = lowest, highest
        self.reason = f"{lowest}, its minimum: nothing has waited for long"
        self._stepped_at: datetime | None = None
        self._idle_since: datetime | None = None
        self._is_stopped = False  # the reason says what keeps it from growing

    def fit(self, lowest: int, highest: int) -> None:
        """Stay between two bounds that somebody has changed."""
        if (lowest, highest) != (self.lowest, self.highest):
            self.lowest, self.highest = lowest, highest
            self.workers = min(max(self.workers, lowest), highest)
            self.reason = f"{self.workers}: the bounds were set to {lowest} and {highest}"
            self._is_stopped = False

    def step(self, found: SlaRow, busy: float) -> None:
        """Take one step, at most one in ten seconds by the store's clock, which the look at the waits has told."""
        if self._stepped_at is not None and found.looked_at - self._stepped_at < _STEP:
            return
        self._stepped_at = found.looked_at
        sla_s = (found.sla_ms or DEFAULT_SLA_MS) / 1_000
        waited = max(found.oldest_ms or 0, found.p95_ms or 0) / 1_000
        if found.oldest_ms is None:
            self._rest(found.looked_at)
            return
        self._idle_since = None
        if waited > sla_s / 2:
            longest = f"half of the SLA of {sla_s:g} s"
            if found.sla_ms is None:
                longest = f"the {sla_s / 2:g} s that count without an SLA"
            self._grow(f"jobs waited for {waited:.1f} s, which is more than {longest}", busy)

    def _grow(self, why: str, busy: float) -> None:
        if self.workers >= self.highest:
            if not self._is_stopped:
                self.reason, self._is_stopped = f"{self.workers}, its maximum: {why}", True
        elif busy >= _BUSY:
            if not self._is_stopped:
                self.reason = f"{self.workers}, and not more: {why}, but the processors are {busy:.0%} busy"
                self._is_stopped = True
        else:
            before = self.workers
            self.workers = min(before + max(math.ceil(before * _GROWTH), 1), self.highest)
            self.reason = f"{self.workers}, up from {before}: {why}, and the processors are {busy:.0%} busy"
            self._is_stopped = False

    def _rest(self, now: datetime) -> None:
        self._idle_since = self._idle_since or now
        if now - self._idle_since >= _IDLE and self.workers > self.lowest:
            before = self.workers
            self.workers = max(before - max(math.ceil(before * _DECAY), 1), self.lowest)
            least = ", its minimum" if self.workers == self.lowest else ""
            minutes = int((now - self._idle_since) / timedelta(minutes=1))
            self.reason = f"{self.workers}{least}, down from {before}: no job has waited for {minutes} minutes"
            self._is_stopped = False


class Tuner:
    """The bounds of the queues of one instance."""

    def __init__(
        self,
        store: TunedStore,
        instance: str,
        *,
        queues: Sequence[str],
        bounds: Mapping[str, int],
        total: int,
        apply: Callable[[dict[str, int]], None],
        processors: Processors | None = None,
    ) -> None:
        self._store = store
        self._instance = instance
        self._queues = queues
        self._written = dict(bounds)  # what the program says, for queues of which nothing is published
        self._total = total
        self._apply = apply
        self._processors = Processors() if processors is None else processors
        self._gears: dict[str, Gear] = {}
        self._told: list[TuningRow] = []
        self.bounds = dict(bounds)

    async def serve(self) -> None:
        """Look at once, for somebody may have changed a number before this instance began, and every five seconds."""
        while True:
            try:
                await self.look()
            except HoldfastError as error:
                _logger.debug("the workers of queues are looked at later: %s", error)
            await asyncio.sleep(LOOK_S)

    async def look(self) -> None:
        """Follow what is published and what the waits ask for."""
        policies = {policy.queue: policy for policy in await self._store.queue_policies() if policy.is_published}
        bounds = self._written | {name: policy.workers for name, policy in policies.items()}
        tuned = {name: policy for name, policy in policies.items() if policy.max_workers and name in self._queues}
        self._gears = {name: self._gear(policy) for name, policy in tuned.items()}
        if tuned:
            waits = {row.queue: row for row in await self._store.list_waits()}
            busy = self._processors.busy()
            for name, gear in self._gears.items():
                if name in waits:
                    gear.step(waits[name], busy)
        bounds |= {name: gear.workers for name, gear in self._gears.items()}
        wanted = {name: workers for name, workers in bounds.items() if workers is not None}
        for limit in await self._store.list_limits():
            if limit.scope == "instance" and limit.queue is not None and limit.concurrency is not None:
                wanted[limit.queue] = min(limit.concurrency, wanted.get(limit.queue, limit.concurrency))
        if wanted != self.bounds:
            self.bounds = wanted
            self._apply(wanted)
        await self._tell()

    def _gear(self, policy: QueuePolicy) -> Gear:
        lowest, highest = policy.workers or 1, min(policy.max_workers or 1, self._total)
        gear = self._gears.get(policy.queue)
        if gear is None:
            return Gear(min(lowest, highest), highest)
        gear.fit(min(lowest, highest), highest)
        return gear

    async def _tell(self) -> None:
        said = [
            TuningRow(
                instance=self._instance,
                queue=name,
                workers=gear.workers,
                lowest=gear.lowest,
                highest=gear.highest,
                reason=gear.reason,
            )
            for name, gear in sorted(self._gears.items())
        ]
        if said != self._told:
            await self._store.report_tunings(self._instance, said)
            self._told = said
