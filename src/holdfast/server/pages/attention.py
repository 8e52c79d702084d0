"""What needs a person: promises that are broken, and things that stand still or grow."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from holdfast.client.families import QueueFamily
from holdfast.client.why import span as length
from holdfast.health.checks import works
from holdfast.policies.money import shown_amount
from holdfast.server.pages.rendering import span
from holdfast.server.sight import Sight
from holdfast.stores.failures import DeadFilter, DeadLetter
from holdfast.stores.values import WorkerRow

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


async def notes(sight: Sight, families: Sequence[QueueFamily], waiting: Collection[str]) -> list[Note]:
    """Collect what needs a person, the worst first; who sees some queues only is told of those only.

    `waiting` names the queues in which jobs may run.
    """
    workers = await sight.store.list_workers()
    found = [*_late(families), *_paused(families), *_stuck(families, waiting, workers)]
    found += [*await _escalations(sight), *await _growth(sight)]
    if sight.principal.queues is None:
        found += [*await _budgets(sight), *_workers(workers), *await _schedules(sight)]
    return sorted(found, key=lambda note: not note.is_bad)


async def latest_failures(sight: Sight, limit: int = _MOST_GROUPS) -> list[DeadLetter]:
    """Read the groups of failed jobs that grew last, of the queues that may be seen."""
    return (await sight.store.list_dead_letters(DeadFilter(queues=sight.among()), limit=limit)).groups


def _late(families: Sequence[QueueFamily]) -> list[Note]:
    found = []
    for family in families:
        if family.is_late and family.waits is not None:
            waits = family.waits
            said = (
                f"P95 {span(waits.p95_ms)}, the oldest waits {span(waits.oldest_ms)}; promised is {span(family.sla_ms)}"
            )
            found.append(Note(f"{family.row.name} is late", said, ("queues", family.row.name), is_bad=True))
    return found


def _paused(families: Sequence[QueueFamily]) -> list[Note]:
    found = []
    for family in families:
        row = family.row
        if row.paused_at is not None:
            by = f"by {row.paused_by}" if row.paused_by else "by somebody"
            said = f"{by}, {length(datetime.now(UTC) - row.paused_at)} ago" + (
                f": {row.paused_reason}" if row.paused_reason else ""
            )
            found.append(Note(f"{row.name} is paused", said, ("queues", row.name)))
    return found


def _stuck(families: Sequence[QueueFamily], waiting: Collection[str], workers: Sequence[WorkerRow]) -> list[Note]:
    """Name queues whose jobs may run, and nobody is there to run them."""
    now = datetime.now(UTC)
    found = []
    for family in families:
        name = family.row.name
        if name in waiting and family.row.paused_at is None and not any(works(row, name, now) for row in workers):
            said = "jobs stand in line, and no living worker takes them: start one with holdfast worker"
            found.append(Note(f"{name} is stuck: nobody works on it", said, ("queues", name), is_bad=True))
    return found


async def _escalations(sight: Sight) -> list[Note]:
    rows = await sight.client.escalations(is_open=True, limit=_MOST_OPEN)
    waiting = [row for row in rows if row.acked_at is None and sight.principal.sees(row.queue)]
    if not waiting:
        return []
    count = f"{len(waiting)}{'+' if len(rows) == _MOST_OPEN else ''}"
    title = f"{count} {'escalation' if len(waiting) == 1 else 'escalations'} nobody has taken over"
    return [Note(title, f"the latest: {waiting[0].title}", ("escalations",), is_bad=True)]


async def _growth(sight: Sight) -> list[Note]:
    since = datetime.now(UTC) - _LATELY
    grown = [group for group in await latest_failures(sight) if group.last_at >= since]
    if not grown:
        return []
    kinds = ", ".join(dict.fromkeys(group.kind for group in grown))
    count = f"{len(grown)}{' or more' if len(grown) == _MOST_GROUPS else ''}"
    title = f"Dead letters grew: {count} {'group' if len(grown) == 1 else 'groups'} within the hour"
    return [Note(title, f"of {kinds}", ("dead-letters",))]


async def _budgets(sight: Sight) -> list[Note]:
    found = []
    for state in await sight.client.budgets():
        if state.share >= _NEARLY:
            whose = f"{state.name} for {state.key}" if state.key else state.name
            spent = shown_amount(state.spent + state.lost, state.unit)
            said = f"{spent} of {shown_amount(state.ceiling, state.unit)} in this {state.period}"
            found.append(
                Note(f"Budget {whose} is at {state.share:.0%}", said, ("budgets",), is_bad=state.share >= _ALL)
            )
    return found


def _workers(workers: Sequence[WorkerRow]) -> list[Note]:
    now = datetime.now(UTC)
    dead = [
        row
        for row in workers
        if (row.dead_at is not None and row.dead_at >= now - _LATELY) or (row.dead_at is None and row.lease_until < now)
    ]
    if not dead:
        return []
    title = f"{len(dead)} worker {'process' if len(dead) == 1 else 'processes'} lost within the hour"
    hosts = ", ".join(dict.fromkeys(row.info.host for row in dead))
    return [Note(title, f"on {hosts}; jobs that ran there are rescued", ("workers",))]


async def _schedules(sight: Sight) -> list[Note]:
    now = datetime.now(UTC)
    late = [
        schedule.name
        for schedule in await sight.client.stored_schedules()
        if schedule.is_enabled and schedule.next_fire is not None and schedule.next_fire < now - _LATE_FIRE
    ]
    if not late:
        return []
    title = f"{len(late)} {'schedule' if len(late) == 1 else 'schedules'} overdue"
    return [
        Note(title, f"{', '.join(late[:5])}: no worker or upkeep process has fired them", ("schedules",), is_bad=True)
    ]
