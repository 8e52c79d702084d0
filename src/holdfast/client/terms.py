"""What a store is told of an app's queues when it is opened: what holds for their finished jobs."""

from collections.abc import Container, Iterable

import msgspec

from holdfast.config import Settings
from holdfast.queues import Queue
from holdfast.stores.values import QueueTerms


def read_terms(settings: Settings, called: Iterable[str]) -> dict[str, QueueTerms]:
    """Write down what holds for the finished jobs of each queue; `called` are those with callbacks of the app."""
    told = {name: Queue(name) for name in called}
    queues = told | dict(settings.queues)
    return {queue.name: _terms(queue, settings, told) for queue in queues.values()}


def _terms(queue: Queue, settings: Settings, called: Container[str]) -> QueueTerms:
    hook = None
    if queue.webhook is not None:
        target = settings.webhooks.checked(queue.webhook, queue.webhook_keys)
        hook = msgspec.json.encode({"url": target.url, "events": queue.webhook_events}).decode()
    return QueueTerms(
        kept_ms=dict(queue.retention_ms),
        stale_ms=dict(queue.stale_ms),
        tells=queue.tell_retention or queue.name in called,
        webhook=hook,
        escalation=queue.escalation,
    )
