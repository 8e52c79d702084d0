"""What needs a person: SLAs that are broken, and things that stand still or grow."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from holdfast.client.why import span as length
from holdfast.job import JobState
from holdfast.policies.money import amount_text
from holdfast.resources.dead_letter import DeadLetterGroup
from holdfast.resources.queue import QueueInfo
from holdfast.resources.redaction import redact
from holdfast.resources.worker import WorkerInfo
from holdfast.server.pages.rendering import span
from holdfast.server.scoped.client import ScopedClient

_LATELY = timedelta(hours=1)
_LATE_FIRE = timedelta(seconds=60)
_NEARLY = 0.8
_ALL = 1.0
_MOST_GROUPS = 5
_MOST_OPEN = 20


@dataclass(frozen=True)
class Note:
    """One thing that needs a person, and the page that tells more."""

    title: str
    detail: str
    path: tuple[str, ...]
    is_bad: bool = False


async def notes(client: ScopedClient, queues: Sequence[QueueInfo]) -> list[Note]:
    """Collect what needs a person, the worst first, of the queues that the caller may see."""
    workers = await client.workers.list(dead=True)
    found = [*_late(queues), *_paused(queues), *_stuck(queues, workers)]
    found += [*await _escalations(client), *await _growth(client)]
    if client.principal.queues is None:
        found += [*await _budgets(client), *_workers(workers), *await _schedules(client)]
    return sorted(found, key=lambda note: not note.is_bad)


async def latest_failures(client: ScopedClient, limit: int = _MOST_GROUPS) -> list[DeadLetterGroup]:
    """Read the groups of failed jobs that grew last, of the queues that may be seen."""
    return redact((await client.dead_letters.list(limit=limit)).groups)


def _late(queues: Sequence[QueueInfo]) -> list[Note]:
    found = []
    for queue in queues:
        if queue.late_since is not None:
            waits = f"P95 {span(queue.p95_wait_ms)}, the oldest waits {span(queue.oldest_wait_ms)}"
            said = f"{waits}; the SLA is {span(queue.sla_ms)}"
            found.append(Note(f"{queue.name} is late", said, ("queues", queue.name), is_bad=True))
    return found


def _paused(queues: Sequence[QueueInfo]) -> list[Note]:
    found = []
    for queue in queues:
        if queue.paused_at is not None:
            by = f"by {queue.paused_by}, " if queue.paused_by else ""
            why = f": {queue.paused_reason}" if queue.paused_reason else ""
            said = f"{by}{length(datetime.now(UTC) - queue.paused_at)} ago{why}"
            found.append(Note(f"{queue.name} is paused", said, ("queues", queue.name)))
    return found


def _stuck(queues: Sequence[QueueInfo], workers: Sequence[WorkerInfo]) -> list[Note]:
    """Name queues whose jobs may run while no living worker takes them."""
    found = []
    for queue in queues:
        is_waiting = queue.paused_at is None and queue.count(JobState.QUEUED).jobs
        if is_waiting and not any(worker.serves(queue.name) for worker in workers):
            said = "jobs are queued, and no living worker takes them: start one with holdfast worker"
            title = f"{queue.name} is stuck: no worker takes its jobs"
            found.append(Note(title, said, ("queues", queue.name), is_bad=True))
    return found


async def _escalations(client: ScopedClient) -> list[Note]:
    found = redact(await client.escalations.list(is_open=True, limit=_MOST_OPEN))
    waiting = [escalation for escalation in found.escalations if escalation.acked_at is None]
    if not waiting:
        return []
    count = f"{len(waiting)}{'' if found.next is None else '+'}"
    title = f"{count} {'escalation' if len(waiting) == 1 else 'escalations'} without an answer"
    return [Note(title, f"the latest: {waiting[0].title}", ("escalations",), is_bad=True)]


async def _growth(client: ScopedClient) -> list[Note]:
    since = datetime.now(UTC) - _LATELY
    grown = [group for group in await latest_failures(client) if group.last_at >= since]
    if not grown:
        return []
    kinds = ", ".join(dict.fromkeys(group.kind for group in grown))
    count = f"{len(grown)}{' or more' if len(grown) == _MOST_GROUPS else ''}"
    title = f"Dead letters grew: {count} {'group' if len(grown) == 1 else 'groups'} within the hour"
    return [Note(title, f"of {kinds}", ("dead-letters",))]


async def _budgets(client: ScopedClient) -> list[Note]:
    found = []
    for budget in await client.budgets.list():
        if budget.share >= _NEARLY:
            whose = f"{budget.name} for {budget.key}" if budget.key else budget.name
            spent = amount_text(budget.spent + budget.lost, budget.unit)
            said = f"{spent} of {amount_text(budget.ceiling, budget.unit)} in this {budget.period}"
            found.append(
                Note(f"Budget {whose} is at {budget.share:.0%}", said, ("budgets",), is_bad=budget.share >= _ALL)
            )
    return found


def _workers(workers: Sequence[WorkerInfo]) -> list[Note]:
    since = datetime.now(UTC) - _LATELY
    lost = [worker for worker in workers if not worker.is_alive and (worker.dead_at is None or worker.dead_at >= since)]
    if not lost:
        return []
    title = f"{len(lost)} worker {'process' if len(lost) == 1 else 'processes'} lost within the hour"
    hosts = ", ".join(dict.fromkeys(worker.host for worker in lost))
    return [Note(title, f"on {hosts}; jobs that ran there are rescued", ("workers",))]


async def _schedules(client: ScopedClient) -> list[Note]:
    now = datetime.now(UTC)
    late = [
        schedule.name
        for schedule in await client.schedules.list()
        if schedule.is_active and schedule.due_at is not None and schedule.due_at < now - _LATE_FIRE
    ]
    if not late:
        return []
    title = f"{len(late)} {'schedule' if len(late) == 1 else 'schedules'} overdue"
    return [
        Note(
            title,
            f"{', '.join(late[:5])}: no process that runs the services has fired them",
            ("schedules",),
            is_bad=True,
        )
    ]
