"""`holdfast queues list|families|show|pause|resume|limit|purge`."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import click

from holdfast import ages, names
from holdfast.app import Holdfast
from holdfast.cli import completing, listing, locate, many, options, output, queue_shapes, shapes
from holdfast.cli.connect import Session, with_store
from holdfast.cli.exits import Exit, Refusal
from holdfast.cli.grammar import Noun
from holdfast.cli.output import Cell, Column
from holdfast.cli.queue_families import NONE_KNOWN, families, show
from holdfast.client.client import Client
from holdfast.client.families import QueueFamily
from holdfast.health.checks import paused_by
from holdfast.job import WAITING, JobState
from holdfast.stores.bulk import BulkVerb
from holdfast.stores.values import Count, JobFilter, QueueRow
from holdfast.worker_settings import MOST_CONCURRENT

_CAP = 10_000
_STATES = (JobState.QUEUED, JobState.SCHEDULED, JobState.RUNNING, JobState.HELD, JobState.BLOCKED)
_COLUMNS = (
    Column("QUEUE", is_flexible=True),
    *(Column(state.value.upper(), is_number=True) for state in _STATES),
    Column("STATUS", is_flexible=True),
)


@click.group("queues", cls=Noun, examples=("list", "pause high --reason 'mail server is down' --actor alice"))
def queues() -> None:
    """Look at queues; pause, bound and empty them."""


# ---- list ----------------------------------------------------------------------------------------------------------


@queues.command("list", examples=("", "-o csv", "--json"))
@listing.form
@click.pass_context
def list_queues(ctx: click.Context, *, form: listing.Form) -> None:
    """List queues.

    How many live jobs are in each state, which are paused, by whom and why, and where jobs wait for longer than is
    promised. At most 10,000 jobs are counted for each number; 10,000+ means that there are more.
    """

    async def read(session: Session) -> tuple[list[QueueFamily], list[Count]]:
        return await session.client.families(), await session.client.counts()

    found, counts = with_store(ctx, read)
    rows = [queue.row for queue in found]
    by_queue = {row.name: [count for count in counts if count.queue == row.name] for row in rows}
    now = ages.now()
    shape = shapes.QueuesShape([shapes.queue(row, by_queue[row.name]) for row in rows])
    shown = [_row(queue, by_queue[queue.row.name], now) for queue in found]
    listing.write(form, shape, _COLUMNS, shown, empty=NONE_KNOWN)


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

    async def change(session: Session) -> tuple[bool, QueueRow]:
        known = {row.name for row in await session.client.queues()} | _named_by(app)
        return names.name(name, "queue") in known, await session.client.pause(name, actor=actor, reason=reason)

    is_known, row = with_store(ctx, change)
    if not is_known:
        nobody = "no job, task or definition" if knows_tasks else "no job or definition"
        output.note(f"warning: {nobody} has named a queue {row.name!r} so far; it is paused now, is it spelled right?")
    _write(row, "paused", as_json=as_json)


@queues.command("resume", examples=("high",))
@click.argument("name", shell_complete=completing.queues)
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


# ---- limit, purge --------------------------------------------------------------------------------------------------


@queues.command("limit", examples=("high 20 --reason 'the supplier is slow'", "high --reset"))
@click.argument("name", shell_complete=completing.queues)
@click.argument("most", required=False, type=click.IntRange(1, MOST_CONCURRENT), metavar="[N]")
@click.option("--reset", is_flag=True, help="Let it be again what programs and their configuration say.")
@options.reason
@options.actor
@options.as_json
@click.pass_context
def limit(ctx: click.Context, /, *, name: str, most: int | None, reset: bool, as_json: bool, **why: str | None) -> None:
    """Bound how many jobs of a queue run at once in one worker instance.

    For everybody, within five seconds, and until it is reset; it is what `config set queues.NAME.workers N` does.
    """
    if (most is None) != reset:
        message = f"expected either N or --reset, got {'both' if reset else 'neither'}"
        raise click.UsageError(message, ctx)
    wanted = names.name(name, "queue")
    path = f"queues.{wanted}.workers"

    async def change(session: Session) -> QueueFamily:
        if reset:
            await session.client.reset_policy(path)
        else:
            await session.client.set_policy(path, most, **why)
        return next(queue for queue in await session.client.families() if queue.row.name == wanted)

    queue = with_store(ctx, change)
    if as_json:
        output.write_json(queue_shapes.family(queue))
    else:
        bound = "no bound but its slots" if queue.workers is None else f"at most {queue.workers} jobs at once"
        output.line(f"{wanted}: {bound} in an instance")


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
        known = [row.name for row in await client.queues()]
        if wanted not in known:
            message = f"purge {wanted}: there is no such queue; known are {', '.join(known[:10]) or 'none'}"
            raise Refusal(message, Exit.NOT_FOUND, kind="QueueNotFound")
        return JobFilter(queues=(wanted,), states=tuple(sorted(WAITING)))

    many.start(ctx, deed, choose, given)


def _named_by(app: Holdfast | None) -> set[str]:
    return set() if app is None else {*app.settings.queues, *(task.queue for task in app.tasks)}


def _write(row: QueueRow, done: str, *, as_json: bool) -> None:
    if as_json:
        output.write_json(shapes.queue(row, []))
    else:
        output.line(f"{row.name} {done}")
