"""The first page: every queue at a glance, what needs a person, and what failed last."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from fastapi import Query, Request
from starlette.responses import Response

from holdfast.filtering import Term
from holdfast.job import JobState
from holdfast.resources.queue import JobCount, QueueInfo
from holdfast.rollup import SeriesPoint, lower_percentile
from holdfast.server.pages import series
from holdfast.server.pages.attention import Note, latest_failures, notes
from holdfast.server.pages.rendering import page
from holdfast.server.pages.series import RANGES, Series
from holdfast.server.roles import Permission
from holdfast.server.routing import Routes, Seen
from holdfast.server.scoped.client import ScopedClient
from holdfast.services.sla import WITHIN_MS
from holdfast.stores.sla import QueueWaits

routes = Routes("pages", in_schema=False)

_COUNT_S = 2.0
_LOOK_S = 3.0
_NEARLY = 0.8
_LAST = 99  # the place of a queue without a priority
_SHOWN = {
    "ready": (JobState.QUEUED,),
    "running": (JobState.RUNNING,),
    "due later": (JobState.SCHEDULED,),
    "held": (JobState.HELD, JobState.BLOCKED),
}


@dataclass(frozen=True)
class Card:
    """One queue as the overview shows it."""

    queue: QueueInfo
    series: Series
    waits: QueueWaits

    @property
    def counts(self) -> dict[str, JobCount]:
        """How many of its jobs are where."""
        return {name: self.queue.count(*states) for name, states in _SHOWN.items()}

    @property
    def p50_ms(self) -> float | None:
        """How long every second job has waited, of the last five minutes."""
        return lower_percentile(self.waits.wait, 0.5)

    @property
    def p95_ms(self) -> float | None:
        """The wait that 5 of 100 have reached or passed, of the last five minutes."""
        return lower_percentile(self.waits.wait, 0.95)

    @property
    def share(self) -> float | None:
        """How much of the SLA is used up: 1 is all of it."""
        if not self.queue.sla_ms:
            return None
        return max(self.p95_ms or 0, self.waits.oldest_ms or 0) / self.queue.sla_ms

    @property
    def failed(self) -> str:
        """The filter for its failed jobs."""
        return f"{Term('queue', (self.queue.name,)).text()} state:failed"

    @property
    def level(self) -> str:
        """The class of its bar."""
        share = self.share or 0.0
        return "bad" if share > 1 else "warn" if share >= _NEARLY else "good"


@routes.get("/", Permission.LOOK)
async def overview_page(request: Request, client: Seen, within: str = Query("1h", max_length=10)) -> Response:
    """Show how everything does."""
    chosen = RANGES.get(within, RANGES["1h"])
    queues = await client.queues.list()
    first, points = await series.read_points(client, chosen)
    found: list[Note] = await client.recent("notes", _LOOK_S, lambda: notes(client, queues))
    return page(
        request,
        "overview.html",
        at="overview",
        within=chosen.name,
        ranges=list(RANGES),
        cards=_cards(queues, await waits_of(client, queues), series.by_queue(points), first, chosen),
        total=series.draw(points, first, chosen),
        notes=found,
        failures=await latest_failures(client),
    )


@routes.get("/counts", Permission.LOOK)
async def counts_part(request: Request, client: Seen) -> Response:
    """Give the numbers beside the names of the pages, for the script."""
    queues = await client.recent("queues", _LOOK_S, client.queues.list)
    counts = [queue.count(JobState.RUNNING) for queue in queues]
    running = JobCount(jobs=sum(count.jobs for count in counts), capped=any(count.capped for count in counts))
    groups = await client.recent("groups", _LOOK_S, lambda: latest_failures(client, 100))
    open_ones = (await client.escalations.list(is_open=True)).escalations
    return page(
        request,
        "counts.html",
        at="counts",
        counts=[
            ("jobs", str(running) if running.jobs else "", False),
            ("workers", await _alive(client), False),
            ("dead-letters", _most(len(groups)), False),
            ("escalations", _most(len(open_ones)), True),
        ],
    )


async def _alive(client: ScopedClient) -> str:
    """How many worker processes are alive, for those who may see all queues."""
    if client.principal.queues is not None:
        return ""
    return _most(sum(worker.is_alive for worker in await client.workers.list()))


async def waits_of(client: ScopedClient, queues: Sequence[QueueInfo]) -> dict[str, QueueWaits]:
    """Read how long jobs have waited, of all these queues, with an SLA or without."""
    names = tuple(sorted(queue.name for queue in queues))
    if not names:
        return {}
    found = await client.recent(("waits", names), _COUNT_S, lambda: client.figures.waits(names, WITHIN_MS))
    return {waits.queue: waits for waits in found}


def _cards(
    queues: Sequence[QueueInfo],
    waits: dict[str, QueueWaits],
    points: dict[str, list[SeriesPoint]],
    first: datetime,
    chosen: series.Range,
) -> list[Card]:
    found = []
    for queue in queues:
        waited = waits.get(queue.name, QueueWaits(queue.name, {}, None))
        found.append(Card(queue, series.draw(points.get(queue.name, []), first, chosen), waited))
    return sorted(found, key=lambda card: by_priority(card.queue))


def by_priority(queue: QueueInfo) -> tuple[int, str]:
    """Sort queues by their priority and name; those without a priority come last."""
    return (_LAST if queue.priority is None else queue.priority, queue.name)


def _most(count: int) -> str:
    return "" if not count else "99+" if count > 99 else str(count)  # noqa: PLR2004 - as many as fit beside a name
