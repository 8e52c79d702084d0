"""What a worker needs of an app, and which queues and slots follow from it."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from holdfast import names
from holdfast.config import Settings
from holdfast.context import Around
from holdfast.errors import ConfigError
from holdfast.schedules import Schedule
from holdfast.services.exporter import Exporter
from holdfast.services.retention_callbacks import Callbacks
from holdfast.tasks.registry import Registry
from holdfast.worker.slots import share

_MARKS_PER_SLOT = 4
_MORE_MARKS = 64
DEFAULT_QUEUE = "default"


@dataclass(frozen=True)
class Parts:
    """The tasks of an app, its settings, and what it puts around each process and each run."""

    tasks: Registry
    settings: Settings
    arounds: Sequence[Around]
    lifespan: Callable[[], AbstractAsyncContextManager[Any]]
    retention_callbacks: Callbacks = field(default_factory=dict)
    schedules: Sequence[Schedule] = ()
    exporter: Exporter | None = None

    @property
    def told_queues(self) -> tuple[str, ...]:
        """The queues of whose finished jobs somebody wants to hear before they are deleted."""
        told = [queue.name for queue in self.settings.queues.values() if queue.tell_retention]
        return tuple(dict.fromkeys([*told, *(queue for queue, _ in self.retention_callbacks)]))


@runtime_checkable
class HasParts(Protocol):
    """An app, as the worker sees it."""

    @property
    def parts(self) -> Parts:
        """What a worker needs."""


def queues_of(parts: Parts, chosen: Sequence[str] | None) -> tuple[str, ...]:
    """Name the queues to work: the chosen ones, or all that the app knows of, in the order of their definition."""
    if chosen is not None:
        found = tuple(dict.fromkeys(names.name(queue, "queues") for queue in chosen))
        if not found:
            message = "queues: expected at least one name; leave it out to work all queues of the app"
            raise ConfigError(message)
        return found
    known = [*parts.settings.queues, *(task.queue for task in parts.tasks), DEFAULT_QUEUE]
    return tuple(dict.fromkeys(known))


def bounds_of(settings: Settings, processes: int, index: int) -> Mapping[str, int]:
    """Deal the slots of queues that have a bound of their own to one of several processes."""
    return {name: share(bound, processes, index) for name, bound in instance_bounds(settings).items()}


def instance_bounds(settings: Settings) -> dict[str, int]:
    """How many jobs of queues one instance runs at once: the workers of the queue, or its limit if that is less."""
    bounds = {queue.name: queue.workers for queue in settings.queues.values() if queue.workers is not None}
    for limit in settings.limits.values():
        if limit.scope == "instance" and limit.queue is not None and limit.concurrency is not None:
            bounds[limit.queue] = min(limit.concurrency, bounds.get(limit.queue, limit.concurrency))
    return bounds


def marks_for(concurrency: int) -> int:
    """How many starts one process may have to mark at once."""
    return _MARKS_PER_SLOT * concurrency + _MORE_MARKS
