"""The first page: every queue family at a glance, what needs a person, and what failed last."""

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from fastapi import Query, Request
from starlette.responses import Response

from holdfast.client.families import QueueFamily
from holdfast.filtering import Term
from holdfast.job import JobState
from holdfast.rollup import SeriesPoint, lower_percentile
from holdfast.server.pages import series
from holdfast.server.pages.attention import Note, latest_failures, notes
from holdfast.server.pages.recent import recent
from holdfast.server.pages.rendering import page
from holdfast.server.pages.series import RANGES, Series
from holdfast.server.roles import Permission
from holdfast.server.routing import Routes, Seen
from holdfast.server.sight import Sight
from holdfast.services.sla import WITHIN_MS
from holdfast.stores.sla import QueueWaits
from holdfast.stores.store import Store

routes = Routes("pages", in_schema=False)

_FRESH = timedelta(seconds=30)
_COUNT_S = 2.0
_LOOK_S = 3.0
_NEARLY = 0.8


@dataclass(frozen=True)
class Figure:
    """How many jobs of a queue are in a state; `capped` says "this many or more"."""

    jobs: int = 0
    capped: bool = False

    def __str__(self) -> str:
        return f"{self.jobs:,}{'+' if self.capped else ''}"


Figures = dict[tuple[str, JobState], Figure]


@dataclass(frozen=True)
class Card:
    """One queue family as the overview shows it."""

    family: QueueFamily
    figures: dict[str, Figure]
    series: Series
    waits: QueueWaits

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
        """How much of the promised wait is used up: 1 is all of it."""
        if not self.family.sla_ms:
            return None
        return max(self.p95_ms or 0, self.waits.oldest_ms or 0) / self.family.sla_ms

    @property
    def failed(self) -> str:
        """The filter for its failed jobs."""
        return f"{Term('queue', (self.family.row.name,)).text()} state:failed"

    @property
    def level(self) -> str:
        """The class of its bar."""
        share = self.share or 0.0
        return "bad" if share > 1 else "warn" if share >= _NEARLY else "good"


@routes.get("/", Permission.LOOK)
async def overview_page(request: Request, sight: Seen, within: str = Query("1h", max_length=10)) -> Response:
    """Show how everything does."""
    chosen = RANGES.get(within, RANGES["1h"])
    families = [family for family in await sight.client.families() if sight.principal.sees(family.row.name)]
    first, all_points = await series.read_points(sight.store, chosen)
    points = [point for point in all_points if sight.principal.sees(point.queue)]
    counted = await figures(sight)
    mine = frozenset(sight.principal.queues or ())
    whose = (sight.principal.queues is None, mine)
    waiting = {queue for (queue, state), figure in counted.items() if state is JobState.QUEUED and figure.jobs}
    found: list[Note] = await recent(sight.store, ("notes", whose), _LOOK_S, lambda: notes(sight, families, waiting))
    return page(
        request,
        "overview.html",
        at="overview",
        within=chosen.name,
        ranges=list(RANGES),
        cards=_cards(families, counted, await waits_of(sight, families), series.by_queue(points), first, chosen),
        total=series.draw(points, first, chosen),
        notes=found,
        failures=await latest_failures(sight),
    )


@routes.get("/counts", Permission.LOOK)
async def counts_part(request: Request, sight: Seen) -> Response:
    """Give the numbers beside the names of the pages, for the script."""
    counted = await figures(sight)
    running = _sum(counted, JobState.RUNNING)
    mine = frozenset(sight.principal.queues or ())
    whose = (sight.principal.queues is None, mine)
    groups = await recent(sight.store, ("groups", whose), _LOOK_S, lambda: latest_failures(sight, 100))
    open_ones = [
        row for row in await sight.client.escalations(is_open=True, limit=100) if sight.principal.sees(row.queue)
    ]
    return page(
        request,
        "counts.html",
        at="counts",
        counts=[
            ("jobs", str(running) if running.jobs else "", False),
            ("workers", await _alive(sight), False),
            ("dead-letters", _most(len(groups)), False),
            ("escalations", _most(len(open_ones)), True),
        ],
    )


async def _alive(sight: Sight) -> str:
    """How many worker processes are alive, for those who may see all queues."""
    if sight.principal.queues is not None:
        return ""
    now = datetime.now(UTC)
    rows = await sight.store.list_workers()
    return _most(sum(row.dead_at is None and row.lease_until >= now for row in rows))


async def figures(sight: Sight) -> Figures:
    """Count live jobs by queue and state: as measured a moment ago, or now where nobody measures."""
    counted = await recent(sight.store, "figures", _COUNT_S, lambda: _counted(sight))
    return {(queue, state): figure for (queue, state), figure in counted.items() if sight.principal.sees(queue)}


async def waits_of(sight: Sight, families: list[QueueFamily]) -> dict[str, QueueWaits]:
    """Read how long jobs have waited, of all these queues, whether something is promised of them or not."""
    names = tuple(sorted(family.row.name for family in families))
    if not names:
        return {}
    found = await recent(sight.store, ("waits", names), _COUNT_S, lambda: sight.store.read_waits(names, WITHIN_MS))
    return {waits.queue: waits for waits in found}


async def _counted(sight: Sight) -> Figures:
    measured = await _measured(sight.store)
    if measured is not None:
        return measured
    return {(count.queue, count.state): Figure(count.jobs, count.capped) for count in await sight.client.counts()}


async def _measured(store: Store) -> Figures | None:
    gauges = await store.read_gauges()
    if not gauges or max(gauge.measured_at for gauge in gauges) < datetime.now(UTC) - _FRESH:
        return None
    totals: Counter[tuple[str, JobState]] = Counter()
    capped = set()
    for gauge in gauges:
        totals[gauge.queue, gauge.state] += gauge.jobs
        if gauge.capped:
            capped.add((gauge.queue, gauge.state))
    return {key: Figure(jobs, key in capped) for key, jobs in totals.items()}


def _cards(  # noqa: PLR0917 - a card is put together from all of these
    families: list[QueueFamily],
    counted: Figures,
    waits: dict[str, QueueWaits],
    points: dict[str, list[SeriesPoint]],
    first: datetime,
    chosen: series.Range,
) -> list[Card]:
    found = []
    for family in families:
        name = family.row.name
        figures_of = {
            "ready": counted.get((name, JobState.QUEUED), Figure()),
            "running": counted.get((name, JobState.RUNNING), Figure()),
            "due later": counted.get((name, JobState.SCHEDULED), Figure()),
            "held": _joined(counted, name, JobState.HELD, JobState.BLOCKED),
        }
        waited = waits.get(name, QueueWaits(name, {}, None))
        found.append(Card(family, figures_of, series.draw(points.get(name, []), first, chosen), waited))
    return sorted(found, key=lambda card: (_order(card.family), card.family.row.name))


def _order(family: QueueFamily) -> int:
    return 99 if family.priority is None else family.priority


def _joined(counted: Figures, queue: str, *states: JobState) -> Figure:
    parts = [counted.get((queue, state), Figure()) for state in states]
    return Figure(sum(part.jobs for part in parts), any(part.capped for part in parts))


def _sum(counted: Figures, state: JobState) -> Figure:
    parts = [figure for (_, found), figure in counted.items() if found is state]
    return Figure(sum(part.jobs for part in parts), any(part.capped for part in parts))


def _most(count: int) -> str:
    return "" if not count else "99+" if count > 99 else str(count)  # noqa: PLR2004 - as many as fit beside a name
