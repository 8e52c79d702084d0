"""`holdfast queues families|show`: what is published of queues, and how they do."""

from collections.abc import Iterator
from datetime import datetime, timedelta

import click

from holdfast import ages, names
from holdfast.cli import completing, listing, options, output, queue_shapes
from holdfast.cli.connect import with_store
from holdfast.cli.exits import Exit, Refusal
from holdfast.cli.grammar import Verb
from holdfast.cli.output import Cell, Column
from holdfast.client.families import QueueFamily
from holdfast.health.checks import paused_by

NONE_KNOWN = "no queue is known yet: none is defined, paused or has jobs"
_LABEL = 12
_COLUMNS = (
    Column("QUEUE", is_flexible=True),
    Column("PRIORITY", is_number=True),
    Column("COLOUR"),
    Column("WORKERS"),
    Column("POLL"),
    Column("SLA"),
    Column("P95 WAIT"),
    Column("OLDEST"),
    Column("BREACH"),
    Column("ESCALATION", is_flexible=True),
)


@click.command("families", cls=Verb, examples=("", "-o csv", "--json"))
@listing.form
@click.pass_context
def families(ctx: click.Context, *, form: listing.Form) -> None:
    """List queues with what is published of them.

    Their priority, colour, workers of an instance, poll cadence and promised wait; how long 5 of 100 jobs waited at
    least in the last five minutes, how long the oldest has by now, and since when the promise is broken.
    """
    found = with_store(ctx, lambda session: session.client.families())
    now = ages.now()
    shape = queue_shapes.FamiliesShape([queue_shapes.family(queue) for queue in found])
    listing.write(form, shape, _COLUMNS, [_row(queue, now) for queue in found], empty=NONE_KNOWN)


@click.command("show", cls=Verb, examples=("high", "high --json"))
@click.argument("name", shell_complete=completing.queues)
@options.as_json
@click.pass_context
def show(ctx: click.Context, *, name: str, as_json: bool) -> None:
    """Show one queue.

    What is published of it, how long its jobs wait, and how many workers it has and why.
    """
    wanted = names.name(name, "queue")
    found = {queue.row.name: queue for queue in with_store(ctx, lambda session: session.client.families())}
    if wanted not in found:
        known = ", ".join(list(found)[:10]) or "none"
        message = f"show {wanted}: there is no such queue; known are {known}"
        raise Refusal(message, Exit.NOT_FOUND, kind="QueueNotFound")
    if as_json:
        output.write_json(queue_shapes.family(found[wanted]))
        return
    output.styled((wanted, "bold"))
    for label, value in _facts(found[wanted], ages.now()):
        output.styled((f"  {label:<{_LABEL}} ", "bright_black"), (value, ""))


def _row(queue: QueueFamily, now: datetime) -> list[Cell]:
    waits = queue.waits
    since = waits.breached_at if waits is not None and queue.is_late else None
    return [
        Cell(queue.row.name),
        Cell("" if queue.priority is None else str(queue.priority)),
        Cell(queue.colour or ""),
        Cell(_workers(queue)),
        Cell(_span(queue.poll_ms)),
        Cell(_span(queue.sla_ms)),
        Cell(_span(None if waits is None else waits.p95_ms)),
        Cell(_span(None if waits is None else waits.oldest_ms)),
        Cell("" if since is None else ages.age(since, now), "" if since is None else ages.iso(since), style="red"),
        Cell(queue.escalation or ""),
    ]


def _facts(queue: QueueFamily, now: datetime) -> Iterator[tuple[str, str]]:
    if queue.description:
        yield "about", queue.description
    if queue.row.paused_at is not None:
        yield "paused", f"{ages.age(queue.row.paused_at, now)}{paused_by(queue.row)}"
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
    yield "sla", "none: best effort" if queue.sla_ms is None else f"95 of 100 jobs start within {_span(queue.sla_ms)}"
    yield from _waits(queue, now)


def _waits(queue: QueueFamily, now: datetime) -> Iterator[tuple[str, str]]:
    waits = queue.waits
    if waits is None:
        return
    if waits.p95_ms is not None:
        yield "p95 wait", f"{_span(waits.p95_ms)} or longer, of {waits.starts} starts in the last 5 minutes"
    if waits.oldest_ms is not None:
        yield "oldest", f"waits for {_span(waits.oldest_ms)}, one of {waits.waiting}"
    if queue.is_late and waits.breached_at is not None:
        yield "breach", f"since {ages.stamp(waits.breached_at)} ({ages.age(waits.breached_at, now)})"


def _workers(queue: QueueFamily) -> str:
    if queue.workers is None:
        return ""
    return str(queue.workers) if queue.max_workers is None else f"{queue.workers} to {queue.max_workers}"


def _span(length_ms: int | None) -> str:
    return "" if length_ms is None else ages.span(timedelta(milliseconds=length_ms))
