"""`holdfast queues list|families|show|pause|resume`."""

from collections.abc import Sequence
from datetime import datetime

import click

from holdfast import names
from holdfast.app import Holdfast
from holdfast.cli import ages, locate, options, output, shapes
from holdfast.cli.connect import Session, with_store
from holdfast.cli.exits import Exit, Refusal
from holdfast.cli.grammar import Noun
from holdfast.cli.job_page import paused_by
from holdfast.cli.output import Cell, Column
from holdfast.cli.queue_families import families, show
from holdfast.client.families import QueueFamily
from holdfast.job import JobState
from holdfast.stores.values import Count, QueueRow

_CAP = 10_000
_STATES = (JobState.QUEUED, JobState.SCHEDULED, JobState.RUNNING, JobState.HELD, JobState.BLOCKED)


@click.group("queues", cls=Noun, examples=("list", "pause high --reason 'mail server is down' --actor alice"))
def queues() -> None:
    """List and show queues, pause and resume them."""


# ---- list ----------------------------------------------------------------------------------------------------------


@queues.command("list", examples=("", "--json"))
@options.as_json
@click.pass_context
def list_queues(ctx: click.Context, *, as_json: bool) -> None:
    """List queues.

    How many live jobs are in each state, which are paused, by whom and why, and where jobs wait for longer than is
    promised. At most 10,000 jobs are counted for each number; 10,000+ means that there are more.
    """

    async def read(session: Session) -> tuple[list[QueueFamily], list[Count]]:
        return await session.client.families(), await session.client.counts()

    found, counts = with_store(ctx, read)
    rows = [queue.row for queue in found]
    by_queue = {row.name: [count for count in counts if count.queue == row.name] for row in rows}
    if as_json:
        output.write_json(shapes.QueuesShape([shapes.queue(row, by_queue[row.name]) for row in rows]))
    elif rows:
        now = ages.now()
        columns = [
            Column("QUEUE", is_flexible=True),
            *(Column(state.value.upper(), is_number=True) for state in _STATES),
            Column("STATUS", is_flexible=True),
        ]
        output.table(columns, [_row(queue, by_queue[queue.row.name], now) for queue in found])
    else:
        output.note("no queue is known yet: none is defined, paused or has jobs")


def _row(queue: QueueFamily, counts: Sequence[Count], now: datetime) -> list[Cell]:
    numbers = {count.state: _number(count) for count in counts}
    return [Cell(queue.row.name), *(Cell(numbers.get(state, "0")) for state in _STATES), _status(queue, now)]


def _number(count: Count) -> str:
    return f"{min(count.jobs, _CAP):,}+" if count.capped else f"{count.jobs:,}"


def _status(queue: QueueFamily, now: datetime) -> Cell:
    row = queue.row
    if row.paused_at is None and queue.is_late and queue.waits is not None and queue.waits.breached_at is not None:
        late_at = queue.waits.breached_at
        return Cell(f"late, {ages.age(late_at, now)}", f"late {ages.iso(late_at)}", style="red")
    if row.paused_at is None:
        return Cell("active", style="green")
    since = f"paused {ages.age(row.paused_at, now)}{paused_by(row)}"
    return Cell(since, f"paused {ages.iso(row.paused_at)}{paused_by(row)}", style="yellow")


queues.add_command(families)
queues.add_command(show)


# ---- pause, resume -------------------------------------------------------------------------------------------------


@queues.command("pause", examples=("high --reason 'mail server is down' --actor alice",))
@click.argument("name")
@options.reason
@options.actor
@options.as_json
@click.pass_context
def pause(ctx: click.Context, *, name: str, reason: str | None, actor: str | None, as_json: bool) -> None:
    """Let no job of a queue start.

    Until it is resumed; jobs that run go on.
    """
    app, knows_tasks = locate.app_or_store(ctx)

    async def change(session: Session) -> tuple[bool, QueueRow]:
        known = {row.name for row in await session.client.queues()} | _named_by(app)
        return names.name(name, "queue") in known, await session.client.pause(name, actor=actor, reason=reason)

    is_known, row = with_store(ctx, change)
    if not is_known:
        nobody = "no job, task or definition" if knows_tasks else "no job or definition"
        output.note(f"warning: {nobody} has named a queue {row.name!r} so far; it is paused now, is it spelled right?")
    _write(row, "paused", as_json=as_json)


@queues.command("resume", examples=("high",))
@click.argument("name")
@options.as_json
@click.pass_context
def resume(ctx: click.Context, *, name: str, as_json: bool) -> None:
    """Let the jobs of a queue start again."""
    wanted = names.name(name, "queue")

    async def change(session: Session) -> tuple[bool, QueueRow]:
        rows = {row.name: row for row in await session.client.queues()}
        if wanted not in rows:
            known = ", ".join(list(rows)[:10]) or "none"
            message = f"resume {wanted}: there is no such queue, so it is not paused either; known are {known}"
            raise Refusal(message, Exit.NOT_FOUND, kind="QueueNotFound")
        was_paused = rows[wanted].paused_at is not None
        return was_paused, await session.client.resume(wanted) if was_paused else rows[wanted]

    was_paused, row = with_store(ctx, change)
    _write(row, "resumed" if was_paused else "was not paused", as_json=as_json)


def _named_by(app: Holdfast) -> set[str]:
    return {*app.settings.queues, *(task.queue for task in app.tasks)}


def _write(row: QueueRow, done: str, *, as_json: bool) -> None:
    if as_json:
        output.write_json(shapes.queue(row, []))
    else:
        output.line(f"{row.name} {done}")
