"""Queues: what is known of them, pausing and emptying them, and changing their settings at run time."""

from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

import msgspec

from holdfast import names
from holdfast.client.in_force import policy_path
from holdfast.client.jobs import checked_actor, checked_reason
from holdfast.client.policies import Policies
from holdfast.client.repeat import until_answered
from holdfast.client.stats import added_up
from holdfast.delivery.delivery import Delivery
from holdfast.errors import QueueNotFound
from holdfast.job import JobState
from holdfast.resources.queue import JobCount, QueueInfo, Tuning
from holdfast.stores.policies import PolicyStore
from holdfast.stores.sla import SlaRow, SlaStore, TuningRow, TuningStore
from holdfast.stores.store import JobStore, QueueStore, UpkeepStore
from holdfast.stores.values import QueueRow

List = list  # one of the verbs has that name

_FRESH = timedelta(seconds=30)
_NAMED = 10


class Queues(Protocol):
    """What can be asked of queues, and done to them."""

    async def list(self) -> List[QueueInfo]:
        """Read every queue that has live jobs, a definition or a pause."""

    async def get(self, name: str) -> QueueInfo:
        """Read one queue; QueueNotFound when there is none of that name."""

    async def pause(self, name: str, *, actor: str | None = None, reason: str | None = None) -> QueueInfo:
        """Let no job of a queue start until it is resumed; running jobs go on."""

    async def resume(self, name: str) -> QueueInfo:
        """Let the jobs of a queue start again."""

    async def set(
        self, name: str, setting: str, value: Any, *, actor: str | None = None, reason: str | None = None
    ) -> QueueInfo:
        """Change a setting of a queue for all apps, within five seconds and until it is reset.

        await app.queues.set("mail", "workers", 5, reason="the provider is slow")
        """

    async def reset(self, name: str, setting: str) -> QueueInfo:
        """Let a setting of a queue be again what apps and their configuration say."""


class QueueStores(JobStore, QueueStore, UpkeepStore, SlaStore, TuningStore, PolicyStore, Protocol):
    """What queues need of a store."""


class LocalQueues:
    """The queues of one store."""

    def __init__(self, store: QueueStores, deadline_s: float, delivery: Delivery, policies: Policies) -> None:
        self._store = store
        self._deadline_s = deadline_s
        self._delivery = delivery
        self._policies = policies

    async def list(self) -> List[QueueInfo]:
        """Read every queue that has live jobs, a definition or a pause."""
        store, deadline_s = self._store, self._deadline_s
        rows = await until_answered(lambda _: store.list_queues(), deadline_s, "queues", changes=False)
        published = await until_answered(lambda _: store.list_queue_policies(), deadline_s, "queues", changes=False)
        waits = {row.queue: row for row in await store.list_waits()}
        tunings: defaultdict[str, List[TuningRow]] = defaultdict(List)
        for tuning in await store.list_tunings():
            tunings[tuning.queue].append(tuning)
        counts = await self._counts()
        return [
            queue_info(row, published.get(row.name), waits.get(row.name), counts.get(row.name), tunings[row.name])
            for row in rows
        ]

    async def get(self, name: str) -> QueueInfo:
        """Read one queue; QueueNotFound when there is none of that name."""
        return queue_named(await self.list(), names.name(name, "queue"))

    async def pause(self, name: str, *, actor: str | None = None, reason: str | None = None) -> QueueInfo:
        """Let no job of a queue start until it is resumed; running jobs go on."""
        queue, who, why = names.name(name, "queue"), checked_actor(actor), checked_reason(reason)
        await until_answered(
            lambda _: self._store.pause_queue(queue, actor=who, reason=why), self._deadline_s, f"pause {queue}"
        )
        return await self.get(queue)

    async def resume(self, name: str) -> QueueInfo:
        """Let the jobs of a queue start again."""
        queue = await self.get(name)
        await until_answered(lambda _: self._store.resume_queue(queue.name), self._deadline_s, f"resume {queue.name}")
        self._delivery.hint([queue.name])
        resumed = {found.name: found for found in await self.list()}
        return resumed.get(queue.name, QueueInfo(name=queue.name))  # its pause was all that was known of it

    async def set(
        self, name: str, setting: str, value: Any, *, actor: str | None = None, reason: str | None = None
    ) -> QueueInfo:
        """Change a setting of a queue for all apps, within five seconds and until it is reset."""
        queue = await self.get(name)
        path = policy_path("queues", queue.name, setting)
        await self._policies.set(path, value, actor=actor, reason=reason)
        return await self.get(queue.name)

    async def reset(self, name: str, setting: str) -> QueueInfo:
        """Let a setting of a queue be again what apps and their configuration say."""
        queue = await self.get(name)
        await self._policies.reset(policy_path("queues", queue.name, setting))
        return await self.get(queue.name)

    async def _counts(self) -> dict[str, dict[JobState, JobCount]]:
        """Count live jobs by queue and state: as measured a moment ago, or now where no service measures."""
        gauges = await self._store.read_gauges()
        is_fresh = bool(gauges) and max(gauge.measured_at for gauge in gauges) >= datetime.now(UTC) - _FRESH
        return added_up(gauges if is_fresh else await self._store.count_jobs())


def queue_info(
    row: QueueRow,
    published: str | None,
    waits: SlaRow | None,
    counts: dict[JobState, JobCount] | None,
    tunings: Iterable[TuningRow],
) -> QueueInfo:
    """Put together what is known of one queue."""
    settings = {} if published is None else msgspec.json.decode(published, type=dict[str, Any])
    known = {name: settings.get(name) for name in QueueInfo.__slots__ if name in settings}
    if waits is not None:
        is_late = waits.breached_at is not None and waits.ended_at is None
        known |= {
            "p95_wait_ms": waits.p95_ms,
            "starts": waits.starts,
            "oldest_wait_ms": waits.oldest_ms,
            "waiting": waits.waiting,
            "measured_at": waits.looked_at,
            "late_since": waits.breached_at if is_late else None,
        }
    return QueueInfo(
        name=row.name,
        paused_at=row.paused_at,
        paused_by=row.paused_by,
        paused_reason=row.paused_reason,
        counts=counts or {},
        tunings=[_tuning(tuning) for tuning in tunings],
        **known,
    )


def queue_named(queues: Iterable[QueueInfo], name: str) -> QueueInfo:
    """Choose a queue by its name."""
    known = {queue.name: queue for queue in queues}
    if name not in known:
        message = f"there is no queue {name}; known are {', '.join(list(known)[:_NAMED]) or 'none'}"
        raise QueueNotFound(message)
    return known[name]


def _tuning(row: TuningRow) -> Tuning:
    return Tuning(
        instance=row.instance,
        workers=row.workers,
        lowest=row.lowest,
        highest=row.highest,
        reason=row.reason,
        changed_at=row.changed_at,
    )
