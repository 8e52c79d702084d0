"""Compares the waits of queues with their SLA, and raises an alarm when they break it."""

import logging
from collections.abc import Sequence
from datetime import datetime
from typing import ClassVar, Protocol

import msgspec

from holdfast.job import JobState
from holdfast.rollup import lower_percentile
from holdfast.services.service import Round
from holdfast.stores.alarms import Alarm
from holdfast.stores.sla import Look, QueuePolicy, QueueWaits, SlaRow, SlaStore
from holdfast.stores.values import LaneGauge

_logger = logging.getLogger("holdfast")

WITHIN_MS = 300_000
FEWEST_STARTS = 20
_SHARE = 0.95


class WatchedStore(SlaStore, Protocol):
    """What watching waits needs of a store."""

    async def read_gauges(self) -> list[LaneGauge]:
        """Read how long the lanes were when they were last measured."""


class SlaService:
    """Watches the waits of queues that have an SLA, or whose number of workers follows from their waits."""

    name: ClassVar[str] = "sla"

    def __init__(self, store: WatchedStore) -> None:
        self._store = store

    async def run(self, batch: int) -> Round:  # noqa: ARG002 - every queue is looked at
        """Look at every such queue; tell of what has changed and was not told yet."""
        policies = [policy for policy in await self._store.queue_policies() if policy.sla_ms or policy.max_workers]
        if not policies and not await self._store.list_waits():
            return Round()
        queues = [policy.queue for policy in policies]
        waits = {found.queue: found for found in await self._store.read_waits(queues, WITHIN_MS)} if queues else {}
        gauges = await self._store.read_gauges()
        rows = await self._store.look_at_waits([judged(policy, waits[policy.queue], gauges) for policy in policies])
        untold = [row for row in rows if row.breached_at is not None and row.told_at is None]
        for row in untold:
            await self._tell(row)
        return Round(scanned=len(rows), moved=len(untold))

    async def _tell(self, row: SlaRow) -> None:
        is_new = await self._store.tell_breach(row, _alarm(row) if row.ended_at is None else None)
        if not is_new:  # another leader was faster
            return
        if row.ended_at is None:
            _logger.warning("queue %s: %s", row.queue, described(row))
        elif row.sla_ms is None:
            _logger.info("queue %s has no SLA any more", row.queue)
        else:
            _logger.info("queue %s: jobs wait no longer than %g s again", row.queue, row.sla_ms / 1_000)


def judged(policy: QueuePolicy, waits: QueueWaits, gauges: Sequence[LaneGauge]) -> Look:
    """Compare what was found of a queue with its SLA.

    The histogram tells the 95th percentile to half a doubling: its lower end counts, so that nobody is alarmed for
    waits that were within the SLA.
    """
    starts = sum(waits.wait.values())
    p95_ms = lower_percentile(waits.wait, _SHARE) if starts else None
    due = (JobState.QUEUED, JobState.HELD)
    late = [wait for wait in (p95_ms if starts >= FEWEST_STARTS else None, waits.oldest_ms) if wait is not None]
    return Look(
        queue=policy.queue,
        sla_ms=policy.sla_ms,
        p95_ms=None if p95_ms is None else round(p95_ms),
        starts=starts,
        oldest_ms=waits.oldest_ms,
        waiting=sum(gauge.jobs for gauge in gauges if gauge.queue == policy.queue and gauge.state in due),
        is_late=policy.sla_ms is not None and any(wait > policy.sla_ms for wait in late),
    )


def described(row: SlaRow) -> str:
    """Say how an SLA was broken."""
    told = [f"jobs wait for longer than {(row.sla_ms or 0) / 1_000:g} s"]
    if row.p95_ms is not None and row.starts >= FEWEST_STARTS:
        told.append(f"5 of 100 waited {row.p95_ms / 1_000:.1f} s or longer in the last 5 minutes")
    if row.oldest_ms is not None:
        told.append(f"the oldest waits for {row.oldest_ms / 1_000:.1f} s")
    return f"{told[0]} ({'; '.join(told[1:])})" if told[1:] else told[0]


def _alarm(row: SlaRow) -> Alarm:
    since = row.breached_at
    details = {
        "sla_ms": row.sla_ms,
        "p95_ms": row.p95_ms,
        "oldest_ms": row.oldest_ms,
        "waiting": row.waiting,
        "since": since.isoformat() if isinstance(since, datetime) else None,
    }
    title = f"queue {row.queue}: {described(row)}"
    return Alarm(
        source="sla", title=title, queue=row.queue, fingerprint=row.queue, details=msgspec.json.encode(details).decode()
    )
