"""What operators ask of queues."""

from holdfast import names
from holdfast.client.jobs import checked_actor, checked_reason
from holdfast.client.repeat import until_answered
from holdfast.delivery.delivery import Delivery
from holdfast.stores.store import QueueStore
from holdfast.stores.values import QueueRow


class QueueVerbs:
    """The verbs of queues, on one store."""

    def __init__(self, store: QueueStore, deadline_s: float, delivery: Delivery) -> None:
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
