"""The namespaces of a client for programs without an event loop: the same verbs, each waiting for its answer."""

import asyncio
import functools
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, Unpack

from holdfast.client.audit import Audit
from holdfast.client.budgets import Budgets
from holdfast.client.bulk import BulkOperations
from holdfast.client.dead_letters import DeadLetters
from holdfast.client.escalations import Escalations
from holdfast.client.jobs import EVERY_JOB, LARGEST_PAGE, JobId, Jobs, Which
from holdfast.client.kinds import Kinds
from holdfast.client.limits import Limits
from holdfast.client.locks import Locks
from holdfast.client.loop_thread import follow, run_on
from holdfast.client.queues import Queues
from holdfast.client.schedules import Schedules
from holdfast.client.services import Services
from holdfast.client.settings import RuntimeSettings
from holdfast.client.tokens import Tokens
from holdfast.client.webhooks import Webhooks
from holdfast.client.workers import Workers
from holdfast.resources.dead_letter import DeadLetter, FailedJobs
from holdfast.resources.event import Event
from holdfast.resources.job import Job

N = TypeVar("N")
P = ParamSpec("P")
T = TypeVar("T")


class Blocking(Generic[N]):
    """One namespace of a client, and the event loop that its verbs run on."""

    def __init__(self, namespace: N, loop: asyncio.AbstractEventLoop) -> None:
        self._namespace = namespace
        self._loop = loop


def _waits_for(
    verb: Callable[Concatenate[N, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Blocking[N], P], T]:
    """Make the blocking form of a verb: same name, same parameters, same answer."""

    @functools.wraps(verb)
    def blocking(self: Blocking[N], /, *args: P.args, **kwargs: P.kwargs) -> T:
        own: Callable[P, Coroutine[Any, Any, T]] = getattr(self._namespace, verb.__name__)
        return run_on(self._loop, lambda: own(*args, **kwargs))

    return blocking


class BlockingBudgets(Blocking[Budgets]):
    """`queue.budgets`: see `Budgets`."""

    list = _waits_for(Budgets.list)
    get = _waits_for(Budgets.get)
    spend = _waits_for(Budgets.spend)
    ledger = _waits_for(Budgets.ledger)
    lost = _waits_for(Budgets.lost)
    settle = _waits_for(Budgets.settle)
    set = _waits_for(Budgets.set)
    reset = _waits_for(Budgets.reset)


class BlockingLimits(Blocking[Limits]):
    """`queue.limits`: see `Limits`."""

    list = _waits_for(Limits.list)
    get = _waits_for(Limits.get)
    set = _waits_for(Limits.set)
    reset = _waits_for(Limits.reset)


class BlockingLocks(Blocking[Locks]):
    """`queue.locks`: see `Locks`."""

    list = _waits_for(Locks.list)
    release = _waits_for(Locks.release)


class BlockingJobs(Blocking[Jobs]):
    """`queue.jobs`: see `Jobs`."""

    get = _waits_for(Jobs.get)
    get_many = _waits_for(Jobs.get_many)
    list = _waits_for(Jobs.list)
    search = _waits_for(Jobs.search)
    count = _waits_for(Jobs.count)
    counts = _waits_for(Jobs.counts)
    stats = _waits_for(Jobs.stats)
    why = _waits_for(Jobs.why)
    events = _waits_for(Jobs.events)
    logs = _waits_for(Jobs.logs)
    items = _waits_for(Jobs.items)
    wait = _waits_for(Jobs.wait)
    cancel = _waits_for(Jobs.cancel)
    retry = _waits_for(Jobs.retry)
    delete = _waits_for(Jobs.delete)
    reschedule = _waits_for(Jobs.reschedule)
    reprioritise = _waits_for(Jobs.reprioritise)
    clone = _waits_for(Jobs.clone)
    cancel_many = _waits_for(Jobs.cancel_many)
    retry_many = _waits_for(Jobs.retry_many)
    delete_many = _waits_for(Jobs.delete_many)
    reschedule_many = _waits_for(Jobs.reschedule_many)
    reprioritise_many = _waits_for(Jobs.reprioritise_many)

    def iterate(self, which: Which = EVERY_JOB) -> Iterator[Job]:
        """Go through all jobs that fit, newest first, reading page by page."""
        after: str | None = None
        while True:
            page = self.list(which, limit=LARGEST_PAGE, after=after)
            yield from page.jobs
            if page.next is None:
                return
            after = page.next

    def watch(self, job: JobId) -> Iterator[Event]:
        """Follow one job: everything that happens to it from here on, until it finishes."""
        return follow(self._loop, self._namespace.watch(job))


class BlockingQueues(Blocking[Queues]):
    """`queue.queues`: see `Queues`."""

    list = _waits_for(Queues.list)
    get = _waits_for(Queues.get)
    pause = _waits_for(Queues.pause)
    resume = _waits_for(Queues.resume)
    set = _waits_for(Queues.set)
    reset = _waits_for(Queues.reset)


class BlockingWebhooks(Blocking[Webhooks]):
    """`queue.webhooks`: see `Webhooks`."""

    list = _waits_for(Webhooks.list)
    enable = _waits_for(Webhooks.enable)


class BlockingAudit(Blocking[Audit]):
    """`queue.audit`: see `Audit`."""

    list = _waits_for(Audit.list)


class BlockingKinds(Blocking[Kinds]):
    """`queue.kinds`: see `Kinds`."""

    list = _waits_for(Kinds.list)
    get = _waits_for(Kinds.get)


class BlockingServices(Blocking[Services]):
    """`queue.services`: see `Services`."""

    list = _waits_for(Services.list)
    leaders = _waits_for(Services.leaders)
    set = _waits_for(Services.set)
    reset = _waits_for(Services.reset)


class BlockingSettings(Blocking[RuntimeSettings]):
    """`queue.settings`: see `RuntimeSettings`."""

    list = _waits_for(RuntimeSettings.list)
    overrides = _waits_for(RuntimeSettings.overrides)
    set = _waits_for(RuntimeSettings.set)
    reset = _waits_for(RuntimeSettings.reset)


class BlockingTokens(Blocking[Tokens]):
    """`queue.tokens`: see `Tokens`."""

    list = _waits_for(Tokens.list)
    create = _waits_for(Tokens.create)
    revoke = _waits_for(Tokens.revoke)


class BlockingWorkers(Blocking[Workers]):
    """`queue.workers`: see `Workers`."""

    list = _waits_for(Workers.list)
    get = _waits_for(Workers.get)
    drain = _waits_for(Workers.drain)


class BlockingEscalations(Blocking[Escalations]):
    """`queue.escalations`: see `Escalations`."""

    list = _waits_for(Escalations.list)
    get = _waits_for(Escalations.get)
    ack = _waits_for(Escalations.ack)
    snooze = _waits_for(Escalations.snooze)
    test = _waits_for(Escalations.test)


class BlockingBulkOperations(Blocking[BulkOperations]):
    """`queue.bulk`: see `BulkOperations`."""

    preview = _waits_for(BulkOperations.preview)
    start = _waits_for(BulkOperations.start)
    list = _waits_for(BulkOperations.list)
    get = _waits_for(BulkOperations.get)
    pause = _waits_for(BulkOperations.pause)
    resume = _waits_for(BulkOperations.resume)
    cancel = _waits_for(BulkOperations.cancel)


class BlockingSchedules(Blocking[Schedules]):
    """`queue.schedules`: see `Schedules`."""

    list = _waits_for(Schedules.list)
    get = _waits_for(Schedules.get)
    next = _waits_for(Schedules.next)
    fires = _waits_for(Schedules.fires)
    create = _waits_for(Schedules.create)
    edit = _waits_for(Schedules.edit)
    enable = _waits_for(Schedules.enable)
    disable = _waits_for(Schedules.disable)
    reset = _waits_for(Schedules.reset)
    run = _waits_for(Schedules.run)
    delete = _waits_for(Schedules.delete)
    maintenance = _waits_for(Schedules.maintenance)
    start_maintenance = _waits_for(Schedules.start_maintenance)
    end_maintenance = _waits_for(Schedules.end_maintenance)


class BlockingDeadLetters(Blocking[DeadLetters]):
    """`queue.dead_letters`: see `DeadLetters`."""

    list = _waits_for(DeadLetters.list)
    get = _waits_for(DeadLetters.get)
    filter = _waits_for(DeadLetters.filter)
    preview = _waits_for(DeadLetters.preview)
    replay = _waits_for(DeadLetters.replay)
    purge = _waits_for(DeadLetters.purge)

    def export(self, group: str | None = None, **which: Unpack[FailedJobs]) -> Iterator[DeadLetter]:
        """Go through failed jobs, newest first, with their secrets covered."""
        return follow(self._loop, self._namespace.export(group, **which))
