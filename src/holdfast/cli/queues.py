"""`holdfast queues list|show|pause|resume|limit|purge`."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import click

from holdfast import ages, names
from holdfast.app import Holdfast
from holdfast.cli import completing, listing, locate, many, options, output
from holdfast.cli.connect import Session, with_store
from holdfast.cli.grammar import Noun
from holdfast.cli.output import Cell
from holdfast.cli.tables import Attribute, ResourceTable
from holdfast.client.protocol import Client
from holdfast.health.checks import paused_by
from holdfast.job import WAITING, JobState
from holdfast.resources.bulk import BulkVerb
from holdfast.resources.queue import QueueInfo, QueueList
from holdfast.stores.values import JobFilter
from holdfast.worker_settings import MOST_CONCURRENT

_NONE = "no queue is known yet: none is defined, paused or has jobs"
_LABEL = 12
_STATES = (JobState.QUEUED, JobState.SCHEDULED, JobState.RUNNING, JobState.HELD, JobState.BLOCKED)


def _count(state: JobState) -> Attribute[QueueInfo]:
    return Attribute(state.value.upper(), lambda queue: str(queue.count(state)), is_number=True)


def _workers(queue: QueueInfo) -> str:
    if queue.workers is None:
        return ""
    return str(queue.workers) if queue.max_workers is None else f"{queue.workers} to {queue.max_workers}"


def _span(length_ms: int | None) -> str:
    return "" if length_ms is None else ages.span(timedelta(milliseconds=length_ms))


def _status(queue: QueueInfo, now: datetime) -> Cell:
    if queue.paused_at is not None:
        since = f"paused {ages.age(queue.paused_at, now)}{paused_by(queue)}"
        return Cell(since, f"paused {ages.iso(queue.paused_at)}{paused_by(queue)}", style="yellow")
    if queue.late_since is not None:
        return Cell(f"late, {ages.age(queue.late_since, now)}", f"late {ages.iso(queue.late_since)}", style="red")
    return Cell("active", style="green")


_FIRST = (Attribute[QueueInfo]("QUEUE", lambda queue: queue.name, is_flexible=True), *map(_count, _STATES))
_LAST = Attribute[QueueInfo]("STATUS", lambda queue: lambda now: _status(queue, now), is_flexible=True)
_QUEUES = ResourceTable[QueueInfo](*_FIRST, _LAST)
_WIDE = ResourceTable[QueueInfo](
    *_FIRST,
    Attribute("PRIORITY", lambda queue: queue.priority, is_number=True),
    Attribute("COLOUR", lambda queue: queue.colour),
    Attribute("WORKERS", _workers),
    Attribute("POLL", lambda queue: _span(queue.poll_ms)),
    Attribute("SLA", lambda queue: _span(queue.sla_ms)),
    Attribute("P95 WAIT", lambda queue: _span(queue.p95_wait_ms)),
    Attribute("OLDEST", lambda queue: _span(queue.oldest_wait_ms)),
    Attribute("ESCALATION", lambda queue: queue.escalation, is_flexible=True),
    _LAST,
)


@click.group("queues", cls=Noun, examples=("list", "pause high --reason 'mail server is down' --actor alice"))
def queues() -> None:
    """Look at queues; pause, limit and empty them."""


# ---- list, show ----------------------------------------------------------------------------------------------------


@queues.command("list", examples=("", "--wide", "-o csv", "--json"))
@click.option("--wide", is_flag=True, help="Also show the settings of each queue, and how long its jobs wait.")
@listing.form
@click.pass_context
def list_queues(ctx: click.Context, *, wide: bool, form: listing.Form) -> None:
    """List queues.

    Shows how many live jobs are in each state, which queues are paused, by whom and why, and where jobs wait for longer
    than the SLA allows. Each number stops at 10,000; 10,000+ means that there are more.
    """
    found = with_store(ctx, lambda session: session.client.queues.list())
    listing.write(form, QueueList(queues=found), *(_WIDE if wide else _QUEUES).of(found), empty=_NONE)


@queues.command("show", examples=("high", "high --json"))
@click.argument("name", shell_complete=completing.queues)
@options.as_json
@click.pass_context
def show(ctx: click.Context, *, name: str, as_json: bool) -> None:
    """Show one queue.

    Shows its settings, how long its jobs wait, and how many workers each instance gives it and why.
    """
    queue = with_store(ctx, lambda session: session.client.queues.get(name))
    if as_json:
        output.write_json(queue)
        return
    output.styled((queue.name, "bold"))
    for label, value in _facts(queue, ages.now()):
        output.styled((f"  {label:<{_LABEL}} ", "bright_black"), (value, ""))


def _facts(queue: QueueInfo, now: datetime) -> Iterator[tuple[str, str]]:
    if queue.description:
        yield "about", queue.description
    if queue.paused_at is not None:
        yield "paused", f"{ages.age(queue.paused_at, now)}{paused_by(queue)}"
    yield "jobs", ", ".join(f"{count} {state}" for state, count in queue.counts.items()) or "none waits or runs"
    yield from _settings(queue, now)
    yield "sla", "none: best effort" if queue.sla_ms is None else f"95 of 100 jobs start within {_span(queue.sla_ms)}"
    yield from _waits(queue, now)


def _settings(queue: QueueInfo, now: datetime) -> Iterator[tuple[str, str]]:
    if queue.priority is not None:
        yield "priority", str(queue.priority)
    if queue.colour is not None:
        yield "colour", queue.colour
    known = _workers(queue)
    yield "workers", f"{known} in an instance" if known else "as many as an instance has slots"
    for tuning in queue.tunings:
        yield "why", f"{tuning.reason} (instance {tuning.instance[:8]}, {ages.age(tuning.changed_at or now, now)})"
    if queue.poll_ms is not None:
        yield "poll", _span(queue.poll_ms)
    if queue.age_after_ms is not None:
        yield "ageing", f"after {_span(queue.age_after_ms)}, one claimed job in {queue.age_share}"
    if queue.escalation is not None:
        yield "escalation", queue.escalation


def _waits(queue: QueueInfo, now: datetime) -> Iterator[tuple[str, str]]:
    if queue.p95_wait_ms is not None:
        yield "p95 wait", f"{_span(queue.p95_wait_ms)} or longer, of {queue.starts} starts in the last 5 minutes"
    if queue.oldest_wait_ms is not None:
        yield "oldest", f"waits for {_span(queue.oldest_wait_ms)}, one of {queue.waiting}"
    if queue.late_since is not None:
        yield "late", f"since {ages.stamp(queue.late_since)} ({ages.age(queue.late_since, now)})"


# ---- pause, resume -------------------------------------------------------------------------------------------------


@queues.command("pause", examples=("high --reason 'mail server is down' --actor alice",))
@click.argument("name", shell_complete=completing.queues)
@options.reason
@options.actor
@options.as_json
@click.pass_context
def pause(ctx: click.Context, *, name: str, reason: str | None, actor: str | None, as_json: bool) -> None:
    """Let no job of a queue start.

    Until it is resumed; jobs that run go on.
    """
    app, knows_tasks = (None, False) if locate.server(ctx) else locate.app_or_store(ctx)
    wanted = names.name(name, "queue")

    async def change(session: Session) -> tuple[bool, QueueInfo]:
        known = {queue.name for queue in await session.client.queues.list()} | _named_by(app)
        return wanted in known, await session.client.queues.pause(wanted, actor=actor, reason=reason)

    is_known, queue = with_store(ctx, change)
    if not is_known:
        unnamed = "no job, task or definition" if knows_tasks else "no job or definition"
        output.note(f"warning: {unnamed} has named a queue {wanted!r} so far; it is paused now, is it spelled right?")
    _write(queue, "paused", as_json=as_json)


@queues.command("resume", examples=("high",))
@click.argument("name", shell_complete=completing.queues)
@options.as_json
@click.pass_context
def resume(ctx: click.Context, *, name: str, as_json: bool) -> None:
    """Let the jobs of a queue start again."""

    async def change(session: Session) -> tuple[bool, QueueInfo]:
        queue = await session.client.queues.get(name)
        was_paused = queue.paused_at is not None
        return was_paused, await session.client.queues.resume(name) if was_paused else queue

    was_paused, queue = with_store(ctx, change)
    _write(queue, "resumed" if was_paused else "was not paused", as_json=as_json)


# ---- limit, purge --------------------------------------------------------------------------------------------------


@queues.command("limit", examples=("high 20 --reason 'the supplier is slow'", "high --reset"))
@click.argument("name", shell_complete=completing.queues)
@click.argument("most", required=False, type=click.IntRange(1, MOST_CONCURRENT), metavar="[N]")
@click.option("--reset", is_flag=True, help="Let it be again what apps and their configuration say.")
@options.reason
@options.actor
@options.as_json
@click.pass_context
def limit(ctx: click.Context, /, *, name: str, most: int | None, reset: bool, as_json: bool, **why: str | None) -> None:
    """Limit how many jobs of a queue run at once in one worker instance.

    For everybody, within five seconds, and until it is reset; it is what `config set queues.NAME.workers N` does.
    """
    if (most is None) != reset:
        message = f"expected either N or --reset, got {'both' if reset else 'neither'}"
        raise click.UsageError(message, ctx)

    async def change(session: Session) -> QueueInfo:
        if most is None:
            return await session.client.queues.reset(name, "workers")
        return await session.client.queues.set(name, "workers", most, **why)

    queue = with_store(ctx, change)
    if as_json:
        output.write_json(queue)
    else:
        limit = "as many jobs as it has slots" if queue.workers is None else f"at most {queue.workers} jobs"
        output.line(f"{queue.name}: each instance runs {limit} at once")


@queues.command("purge", examples=("low --dry-run", "low --reason 'made twice' --yes --wait"))
@click.argument("name", shell_complete=completing.queues)
@many.running
@options.reason
@options.actor
@options.as_json
@click.pass_context
def purge(ctx: click.Context, /, *, name: str, **given: Any) -> None:
    """Cancel all jobs of a queue that wait.

    It says how many there are, asks, and does it in the background; see `bulk`. What runs goes on, and what comes later
    is left alone. The cancelled jobs are kept as others are, and can be retried.
    """
    wanted = names.name(name, "queue")
    deed = many.Deed(BulkVerb.CANCEL, "cancel", "waiting job", typed=wanted)

    async def choose(client: Client) -> JobFilter:
        return JobFilter(queues=((await client.queues.get(wanted)).name,), states=tuple(sorted(WAITING)))

    many.start(ctx, deed, choose, given)


def _named_by(app: Holdfast | None) -> set[str]:
    return set() if app is None else {*app.config.queues, *(task.queue for task in app.tasks)}


def _write(queue: QueueInfo, done: str, *, as_json: bool) -> None:
    output.answer(queue, f"{queue.name} {done}", as_json=as_json)
