"""The page of queues, and the page of each."""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import msgspec
from fastapi import Form, Path, Query, Request
from starlette.responses import Response

from holdfast.client.in_force import CHANGEABLE
from holdfast.job import TERMINAL, JobState
from holdfast.rollup import Rollup, lower_percentile, percentile
from holdfast.server.pages import drawing, series
from holdfast.server.pages.overview import by_priority, waits_of
from holdfast.server.pages.rendering import page, turned, url
from holdfast.server.pages.said import Said
from holdfast.server.pages.series import RANGES
from holdfast.server.pages.shown import changed_settings
from holdfast.server.roles import Permission
from holdfast.server.routing import Routes, Seen, noted, served
from holdfast.server.scoped.client import ScopedClient
from holdfast.stores.values import JobFilter
from holdfast.stores.why import read_budget, read_limit_key

routes = Routes("pages", in_schema=False)

Name = Annotated[str, Path(alias="queue")]

_MOST_HELD = 200
_MOST_KINDS = 20
_ALWAYS = (JobState.SCHEDULED, JobState.QUEUED, JobState.HELD, JobState.RUNNING)


class KindFigures(msgspec.Struct, frozen=True):
    """How the jobs of a kind did; `again` is how often one of them went back to try again."""

    kind: str
    jobs: int
    failed: int
    again: int
    wait_ms: float | None
    run_ms: float | None


@routes.get("/queues", Permission.LOOK)
async def queues_page(request: Request, client: Seen) -> Response:
    """Show all queues."""
    queues = sorted(await client.queues.list(), key=by_priority)
    chosen = RANGES["1h"]
    waits = await waits_of(client, queues)
    first, points = await series.read_points(client, chosen)
    ended = series.by_queue(points)
    return page(
        request,
        "queues.html",
        at="queues",
        queues=queues,
        state=JobState,
        waits={name: lower_percentile(found.wait, 0.95) for name, found in waits.items()},
        slots=await _slots(client, [queue.name for queue in queues]),
        ended={queue.name: series.draw(ended.get(queue.name, []), first, chosen) for queue in queues},
    )


@routes.get("/queues/{queue}", Permission.LOOK)
async def queue_page(request: Request, name: Name, client: Seen, within: str = Query("1h", max_length=8)) -> Response:
    """Show one queue: what is in it, how long its jobs wait and run, and what holds them back."""
    queue = await client.queues.get(name)
    chosen = RANGES.get(within, RANGES["1h"])
    rollups = await _rollups(client, queue.name, chosen)
    workers = [worker for worker in await client.workers.list() if worker.serves(queue.name)]
    settings = served(request).settings
    wait, run = _merged(row.wait for row in rollups), _merged(row.run for row in rollups)
    kinds = _figures(rollups)
    lately = (await waits_of(client, [queue])).get(queue.name)
    return page(
        request,
        "queue.html",
        at="queues",
        live=f"queue:{queue.name}",
        queue=queue,
        policy=settings.escalations.get(queue.escalation or "") if client.principal.queues is None else None,
        poll_ms=queue.poll_ms or settings.poll_s_of([queue.name]) * 1_000,
        p95_ms=None if lately is None else lower_percentile(lately.wait, 0.95),
        oldest_ms=None if lately is None else lately.oldest_ms,
        states=[(state, queue.count(state)) for state in JobState if state in queue.counts or state in _ALWAYS],
        slots=sum(worker.slots for worker in workers),
        running=queue.count(JobState.RUNNING).jobs,
        workers=workers,
        within=chosen.name,
        spans=list(RANGES),
        done=sum(kind.jobs for kind in kinds),
        failed=sum(kind.failed for kind in kinds),
        wait=drawing.histogram(wait, f"how long jobs waited, {within}", promised_ms=queue.sla_ms) if wait else None,
        run=drawing.histogram(run, f"how long jobs ran, {within}") if run else None,
        waits=_percentiles(wait),
        runs=_percentiles(run),
        kinds=kinds[:_MOST_KINDS],
        more_kinds=max(len(kinds) - _MOST_KINDS, 0),
        held=await _held(client, queue.name),
        most_held=_MOST_HELD,
        overrides=changed_settings(await client.settings.overrides(), "queues", queue.name),
        changeable=CHANGEABLE["queues"],
    )


@routes.post("/queues/{queue}/pause", Permission.PAUSE_QUEUES)
async def pause_queue_here(request: Request, name: Name, client: Seen, reason: str = Form("")) -> Response:
    """Pause a queue."""
    noted(request, queue=name, reason=reason or None)
    queue = await client.queues.pause(name, reason=reason or None)
    said = Said(f"{queue.name} is paused", undo=("queues", queue.name, "resume"))
    return turned(request, url(request, "queues", queue.name), said)


@routes.post("/queues/{queue}/resume", Permission.PAUSE_QUEUES)
async def resume_queue_here(request: Request, name: Name, client: Seen) -> Response:
    """Resume a queue."""
    noted(request, queue=name)
    queue = await client.queues.resume(name)
    said = Said(f"{queue.name} is resumed", undo=("queues", queue.name, "pause"))
    return turned(request, url(request, "queues", queue.name), said)


@routes.post("/queues/{queue}/set", Permission.CHANGE_SETTINGS)
async def set_queue_here(
    request: Request,
    *,
    name: Name,
    client: Seen,
    field: str = Form(max_length=64),
    value: str = Form(max_length=1_000),
    reason: str = Form("", max_length=500),
) -> Response:
    """Change a setting of a queue for all apps."""
    noted(request, queue=name, field=field, value=value, reason=reason or None)
    queue = await client.queues.set(name, field, read_value(value), reason=reason or None)
    return turned(request, url(request, "queues", queue.name), f"{queue.name}: {field} is changed")


@routes.post("/queues/{queue}/reset", Permission.CHANGE_SETTINGS)
async def reset_queue_here(request: Request, name: Name, client: Seen, field: str = Form(max_length=64)) -> Response:
    """Let a setting of a queue be again what apps and their configuration say."""
    noted(request, queue=name, field=field)
    queue = await client.queues.reset(name, field)
    return turned(request, url(request, "queues", queue.name), f"{queue.name}: {field} is again as apps say")


def read_value(text: str) -> Any:
    """Read what somebody typed: JSON where it is, else the text itself."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text


async def _held(client: ScopedClient, queue: str) -> list[tuple[str, str, str, int]]:
    """Tell what the jobs wait for that are held back: its sort, name and key, and how many wait for it."""
    found = await client.jobs.list(JobFilter(states=(JobState.HELD,), queues=(queue,)), limit=_MOST_HELD)
    causes: Counter[tuple[str, str, str]] = Counter()
    for job in found.jobs:
        if (limit := read_limit_key(job.limit_key)) is not None:
            causes[("limit", *limit)] += 1
        elif (budget := read_budget(job.limit_key)) is not None:
            causes[("budget", budget, "")] += 1
    return [(*cause, count) for cause, count in causes.most_common()]


def _figures(rollups: list[Rollup]) -> list[KindFigures]:
    by_kind: dict[str, list[Rollup]] = {}
    for row in rollups:
        by_kind.setdefault(row.kind, []).append(row)
    found = [
        KindFigures(
            kind,
            sum(row.jobs for row in rows if row.state in TERMINAL),
            sum(row.jobs for row in rows if row.state is JobState.FAILED),
            sum(row.jobs for row in rows if row.state not in TERMINAL),
            percentile(_merged(row.wait for row in rows), 0.95),
            percentile(_merged(row.run for row in rows), 0.95),
        )
        for kind, rows in by_kind.items()
    ]
    return sorted(found, key=lambda figure: (-figure.jobs, -figure.again, figure.kind))


async def _rollups(client: ScopedClient, queue: str, chosen: series.Range) -> list[Rollup]:
    """Read how the jobs of a queue did, once for all who look."""

    async def ask() -> list[Rollup]:
        return await client.figures.rollups(queue, datetime.now(UTC) - timedelta(seconds=chosen.seconds))

    return await client.recent(("rollups", queue, chosen.name), chosen.lasts_s, ask)


async def _slots(client: ScopedClient, queues: Sequence[str]) -> dict[str, int]:
    """How many jobs living workers would run at once, of each queue."""
    workers = await client.workers.list()
    return {queue: sum(worker.slots for worker in workers if worker.serves(queue)) for queue in queues}


def _percentiles(histogram: dict[int, int]) -> tuple[float | None, float | None]:
    """How long half of them took at most, and how long 95 of a hundred."""
    return percentile(histogram, 0.5), percentile(histogram, 0.95)


def _merged(histograms: Iterable[dict[int, int]]) -> dict[int, int]:
    merged: Counter[int] = Counter()
    for histogram in histograms:
        merged.update(histogram)
    return dict(merged)
