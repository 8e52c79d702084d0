"""What operators ask of queues."""

from typing import Protocol

from holdfast import names
from holdfast.client.families import QueueFamily, family
from holdfast.client.jobs import checked_actor, checked_reason
from holdfast.client.repeat import until_answered
from holdfast.delivery.delivery import Delivery
from holdfast.stores.policies import PolicyStore
from holdfast.stores.sla import SlaStore, TuningStore
from holdfast.stores.store import QueueStore
from holdfast.stores.values import QueueRow


class FamilyStore(QueueStore, SlaStore, TuningStore, PolicyStore, Protocol):
    """What queues need of a store."""


class QueueVerbs:
    """The verbs of queues, on one store."""

    def __init__(self, store: FamilyStore, deadline_s: float, delivery: Delivery) -> None:
        self._queue_store = store
        self._deadline_s = deadline_s
        self.delivery = delivery

    async def pause(self, queue: str, *, actor: str | None = None, reason: str | None = None) -> QueueRow:
        """Let no job of a queue start until it is resumed; running ones go on."""
        name, who, why = names.name(queue, "queue"), checked_actor(actor), checked_reason(reason)
        return await until_answered(
            lambda _: self._queue_store.pause_queue(name, actor=who, reason=why), self._deadline_s, f"pause {name}"
        )

    async def resume(self, queue: str) -> QueueRow:
        """Let the jobs of a queue start again."""
        name = names.name(queue, "queue")
        row = await until_answered(lambda _: self._queue_store.resume_queue(name), self._deadline_s, f"resume {name}")
        self.delivery.hint([name])
        return row

    async def queues(self) -> list[QueueRow]:
        """Read every queue that has live jobs, a definition or a pause."""
        return await until_answered(
            lambda _: self._queue_store.list_queues(), self._deadline_s, "queues", changes=False
        )

    async def families(self) -> list[QueueFamily]:
        """Read every queue with what is published of it, how long its jobs wait, and how many workers it has."""
        rows = await self.queues()
        store = self._queue_store
        published = await until_answered(
            lambda _: store.list_queue_policies(), self._deadline_s, "queues", changes=False
        )
        waits = {found.queue: found for found in await store.list_waits()}
        tunings = await store.list_tunings()
        return [
            family(
                row,
                published.get(row.name),
                waits.get(row.name),
                tuple(tuning for tuning in tunings if tuning.queue == row.name),
            )
            for row in rows
        ]
