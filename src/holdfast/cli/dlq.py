"""`holdfast dlq list|show|replay|purge|export`."""

import re
import sys
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import IO, Any, NamedTuple

import click
import msgspec

from holdfast import public_id
from holdfast.app import Holdfast
from holdfast.cli import ages, arguments, bulk, dead_shapes, job_page, job_shapes, locate, moments, options, output
from holdfast.cli.connect import Session, with_store
from holdfast.cli.grammar import Noun
from holdfast.cli.output import Cell, Column
from holdfast.client.dead_letters import edited
from holdfast.client.refusals import require_done
from holdfast.errors import InvalidValue
from holdfast.job import Job
from holdfast.stores.bulk import BulkRun, BulkVerb
from holdfast.stores.failures import LEFT_CAP, DeadCursor, DeadLetter, DeadPage
from holdfast.stores.values import JobFilter

_GROUP = re.compile(r"[0-9a-f]{12}")
_SHOWN = 10
_COLUMNS = (
    Column("GROUP"),
    Column("KIND", is_flexible=True),
    Column("QUEUE", is_flexible=True),
    Column("LEFT", is_number=True),
    Column("SEEN", is_number=True),
    Column("FIRST"),
    Column("LAST"),
    Column("ERROR", is_flexible=True),
)


class Choice(NamedTuple):
    """Which failed jobs a command is about."""

    kind: str | None
    queue: str | None
    error: str | None
    since: str | None

    @property
    def is_given(self) -> bool:
        """Whether any condition is there."""
        return any(part is not None for part in self)

    def conditions(self) -> dict[str, Any]:
        """The conditions, as the client takes them."""
        return self._asdict() | {"since": moments.past(self.since, "--since")}


def _choosing(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options that choose failed jobs."""
    for option in (
        click.option("--since", metavar="WHEN", help="Failed at most so long ago (1h) or since a time (UTC)."),
        click.option("--error", metavar="CLASS", help="With an error of this class, as `dlq list` shows it."),
        click.option("--queue", metavar="NAME", help="Of this queue."),
        click.option("--kind", metavar="KIND", help="Of this kind."),
    ):
        command = option(command)
    return command


@click.group("dlq", cls=Noun, examples=("list --since 1d", "show 3f9a0c71be42", "replay 3f9a0c71be42 --rate 50/s"))
def dlq() -> None:
    """Look at jobs that have failed, in groups of one kind and error; replay, purge and export them."""


# ---- list, show ----------------------------------------------------------------------------------------------------


@dlq.command("list", examples=("", "--queue high --since 1d", "--all --json"))
@_choosing
@click.option("--all", "empty", is_flag=True, help="Also groups of which no job is left.")
@click.option("--limit", type=click.IntRange(1, 1_000), default=50, show_default=True, metavar="N")
@click.option("--after", metavar="CURSOR", help="Go on after a page; it tells the cursor.")
@options.as_json
@click.pass_context
def list_groups(
    ctx: click.Context,
    *,
    kind: str | None,
    queue: str | None,
    error: str | None,
    since: str | None,
    empty: bool,
    limit: int,
    after: str | None,
    as_json: bool,
) -> None:
    """List groups of failed jobs, the latest first.

    How many jobs of each are left to be replayed, how many there ever were, when the first and the last failed, and
    with which error. At most 10,000 are counted of those that are left; 10,000+ means that there are more.
    """
    conditions = Choice(kind, queue, error, since).conditions()
    start = None if after is None else _read_cursor(after)
    page = with_store(
        ctx, lambda session: session.client.dead_letters(**conditions, empty=empty, limit=limit, after=start)
    )
    following = None if page.next is None else f"{ages.iso(page.next.last_at)}/{page.next.id}"
    if as_json:
        groups = [dead_shapes.dead_letter(group) for group in page.groups]
        output.write_json(dead_shapes.DeadLettersShape(groups, following))
    else:
        _write_groups(page, following)


def _write_groups(page: DeadPage, following: str | None) -> None:
    if not page.groups:
        output.note("no failed job fits")
        return
    now = ages.now()
    output.table(_COLUMNS, [_row(group, now) for group in page.groups])
    if following is not None:
        output.note(f"more: --after {following}")


def _row(group: DeadLetter, now: datetime) -> list[Cell]:
    return [
        Cell(group.id),
        Cell(group.kind),
        Cell(group.queue),
        Cell(_left(group), style="red" if group.left else ""),
        Cell(f"{group.seen:,}", str(group.seen)),
        Cell(ages.age(group.first_at, now), ages.iso(group.first_at)),
        Cell(ages.age(group.last_at, now), ages.iso(group.last_at)),
        Cell(_error(group.error_class, group.error)),
    ]


def _left(group: DeadLetter) -> str:
    return f"{dead_shapes.CAP:,}+" if group.left >= LEFT_CAP else f"{group.left:,}"


def _error(error_class: str | None, message: str | None) -> str:
    return output.without_passwords(f"{error_class or 'unknown'}: {message or ''}".removesuffix(": "))


def _read_cursor(text: str) -> DeadCursor:
    moment, _, group = text.partition("/")
    if not _GROUP.fullmatch(group):
        message = f"--after: expected the cursor that a page printed, got {text!r}"
        raise InvalidValue(message)
    return DeadCursor(moments.due(moment, "--after"), group)


@dlq.command("show", examples=("3f9a0c71be42", "htcx-2s16-z48b-09", "3f9a0c71be42 --json"))
@click.argument("which", metavar="GROUP|JOB")
@click.option("--limit", type=click.IntRange(1, 1_000), default=_SHOWN, show_default=True, help="Jobs to list.")
@options.as_json
@click.pass_context
def show(ctx: click.Context, *, which: str, limit: int, as_json: bool) -> None:
    """Show a group and its newest jobs, or one failed job."""
    if not _GROUP.fullmatch(which):
        wanted = public_id.decode(which)
        job = with_store(ctx, lambda session: session.client.get(wanted))
        if as_json:
            output.write_json(job_shapes.job(job))
        else:
            job_page.write(job_page.Look(job), ages.now())
        return

    async def look(session: Session) -> tuple[DeadLetter, list[Job]]:
        group = await session.client.dead_letter(which)
        page = await session.client.list(await session.client.dead_jobs(which), limit=limit)
        return group, page.jobs

    group, jobs = with_store(ctx, look)
    if as_json:
        described = msgspec.to_builtins(dead_shapes.dead_letter(group))
        output.write_json(described | {"jobs": [job_shapes.job(job) for job in jobs]})
    else:
        _write_group(group, jobs)


def _write_group(group: DeadLetter, jobs: Sequence[Job]) -> None:
    now = ages.now()
    for title, text in (
        ("group", group.id),
        ("kind", group.kind),
        ("queue", group.queue),
        ("error", _error(group.error_class, group.error)),
        ("place", output.without_passwords(group.fingerprint)),
        ("jobs", f"{_left(group)} left, {group.seen:,} in all"),
        ("first", ages.iso(group.first_at)),
        ("last", f"{ages.iso(group.last_at)}, job {public_id.encode(group.last_job)}"),
    ):
        output.styled((f"{title:<6} ", "bold"), (text, ""))
    if jobs:
        columns = (Column("ID"), Column("TRY"), Column("FAILED"), Column("ERROR", is_flexible=True))
        output.table(columns, [_job_row(job, now) for job in jobs])


def _job_row(job: Job, now: datetime) -> list[Cell]:
    at = job.finished_at or job.enqueued_at
    return [
        Cell(job.public_id),
        Cell(f"{job.attempt}/{job.max_attempts}"),
        Cell(ages.age(at, now), ages.iso(at)),
        Cell(_error(job.error_class, job.error)),
    ]


# ---- replay, purge -------------------------------------------------------------------------------------------------

_REPLAY_EXAMPLES = (
    "3f9a0c71be42 --rate 50/s",
    "--kind send_email --error TimeoutError --since 1d --yes --wait",
    "htcx-2s16-z48b-09",
    "htcx-2s16-z48b-09 --set to=b@example.org",
)


def _running(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of a bulk run."""
    for option in (
        options.as_json,
        options.reason,
        options.actor,
        click.option("--wait", is_flag=True, help="Wait until it is done, and tell how far it is."),
        click.option("--yes", "-y", is_flag=True, help="Do not ask."),
        click.option("--rate", metavar="N/TIME", help="At most so many: 50/s, 100/min. [default: as fast as it goes]"),
        click.option("--all", "every", is_flag=True, help="All failed jobs, when no condition is given."),
    ):
        command = option(command)
    return command


@dlq.command("replay", examples=_REPLAY_EXAMPLES)
@click.argument("which", nargs=-1, metavar="[GROUP|JOB]...")
@_choosing
@click.option("--set", "pairs", multiple=True, metavar="KEY=VALUE", help="Replay one JOB as a new one, so changed.")
@_running
@click.pass_context
def replay(ctx: click.Context, /, *, which: Sequence[str], pairs: Sequence[str], **given: Any) -> None:
    """Give failed jobs a new life.

    Of a group, or all that fit the conditions: it says how many, asks, and starts a run that workers or `upkeep` do in
    the background; see `bulk`. Jobs that are named are replayed at once. With --set a job is enqueued anew with other
    arguments (KEY=VALUE, or KEY:=JSON) and names the old one, which stays.
    """
    jobs = [name for name in which if not _GROUP.fullmatch(name)]
    if pairs:
        if len(which) != 1 or not jobs:
            message = f"--set changes one job: expected its id, got {' '.join(which) or 'none'}"
            raise click.UsageError(message, ctx)
        _replay_edited(ctx, public_id.decode(jobs[0]), pairs, given["actor"], as_json=given["as_json"])
    elif jobs:
        _at_once(ctx, "retry", which, jobs, as_json=given["as_json"])
    else:
        _start(ctx, BulkVerb.RETRY, which, given)


@dlq.command("purge", examples=("3f9a0c71be42", "--kind send_email --since 30d --yes", "htcx-2s16-z48b-09"))
@click.argument("which", nargs=-1, metavar="[GROUP|JOB]...")
@_choosing
@_running
@click.pass_context
def purge(ctx: click.Context, /, *, which: Sequence[str], **given: Any) -> None:
    """Delete failed jobs.

    Of a group, or all that fit the conditions: it says how many, asks, and starts a run that workers or `upkeep` do in
    the background; see `bulk`. Jobs that are named are deleted at once.
    """
    jobs = [name for name in which if not _GROUP.fullmatch(name)]
    if jobs:
        _at_once(ctx, "delete", which, jobs, as_json=given["as_json"])
    else:
        _start(ctx, BulkVerb.DELETE, which, given)


def _start(ctx: click.Context, verb: BulkVerb, which: Sequence[str], given: dict[str, Any]) -> None:
    """Say how many jobs there are, ask, and start the run."""
    choice = Choice(given["kind"], given["queue"], given["error"], given["since"])
    if len(which) > 1:
        message = f"expected one group, got {len(which)}; start a run for each"
        raise click.UsageError(message, ctx)
    if not which and not choice.is_given and not given["every"]:
        message = (
            "expected GROUP or JOB..., or conditions (--kind, --queue, --error, --since); --all takes every failed job"
        )
        raise click.UsageError(message, ctx)
    as_json: bool = given["as_json"]
    terms = {name: given[name] for name in ("rate", "actor", "reason")}

    async def run(session: Session) -> BulkRun | None:
        client = session.client
        found: JobFilter = await client.dead_jobs(which[0] if which else None, **choice.conditions())
        count = await client.preview_bulk(verb, found)
        if not count:
            output.note("no failed job fits")
            return None
        if not given["yes"]:
            _ask(ctx, verb, count)
        started = await client.start_bulk(verb, found, **terms)
        return await bulk.follow(client, started, quiet=as_json) if given["wait"] else started

    if (started := with_store(ctx, run)) is not None:
        bulk.write(started, as_json=as_json)


def _ask(ctx: click.Context, verb: BulkVerb, count: int) -> None:
    """Ask a person; where nobody can answer, nothing is done."""
    words = {BulkVerb.RETRY: "replay", BulkVerb.DELETE: "delete"}[verb]
    jobs = "1 failed job" if count == 1 else f"{bulk.number(count)} failed jobs"
    if not sys.stdin.isatty():
        message = f"this would {words} {jobs}; say --yes to do it where nobody can be asked"
        raise click.UsageError(message, ctx)
    click.confirm(f"{words} {jobs}?", abort=True, err=True)


def _at_once(ctx: click.Context, verb: str, which: Sequence[str], jobs: Sequence[str], *, as_json: bool) -> None:
    """Change the jobs that are named, and stop at the first that cannot be."""
    if len(jobs) < len(which):
        message = "expected either one group or ids of jobs, got both"
        raise click.UsageError(message, ctx)
    ids = [public_id.decode(job) for job in jobs]

    async def change(session: Session) -> list[Any]:
        client = session.client
        return await (client.retry_many(ids) if verb == "retry" else client.delete_many(ids))

    answers = with_store(ctx, change)
    for answered in answers:
        require_done(verb, answered)
        if not as_json:
            output.line(f"{public_id.encode(answered.id)} {'deleted' if verb == 'delete' else answered.state}")
    if as_json:
        output.write_json(job_shapes.AnswersShape([job_shapes.answer(answered, None) for answered in answers]))


def _replay_edited(ctx: click.Context, job: int, pairs: Sequence[str], actor: str | None, *, as_json: bool) -> None:
    app, _ = locate.app_or_store(ctx)

    async def change(session: Session) -> Job:
        old = await session.client.get(job)
        return await session.client.replay_as(old, _edited(app, old, pairs), actor=actor)

    made = with_store(ctx, change)
    if as_json:
        output.write_json(job_shapes.job(made))
    else:
        output.line(made.public_id)


def _edited(app: Holdfast, old: Job, pairs: Sequence[str]) -> str:
    """Write the changed arguments; a task that is known checks them."""
    task = app.tasks.get(old.kind) if old.kind in app.tasks else None
    changes = msgspec.json.decode(arguments.read_pairs(task, pairs), type=dict[str, Any])
    written = edited(old, changes, app.settings)
    return written if task is None else task.arguments.check(written)


# ---- export --------------------------------------------------------------------------------------------------------


@dlq.command("export", examples=("dead.jsonl", "- --kind send_email | jq .error", "dead.jsonl --group 3f9a0c71be42"))
@click.argument("file", type=click.File("w", encoding="utf-8", lazy=True), metavar="FILE|-")
@click.option("--group", metavar="GROUP", help="Of this group.")
@_choosing
@options.as_json
@click.pass_context
def export(
    ctx: click.Context,
    *,
    file: IO[str],
    group: str | None,
    kind: str | None,
    queue: str | None,
    error: str | None,
    since: str | None,
    as_json: bool,
) -> None:
    """Write failed jobs to a file, one JSON object a line.

    Newest first, with arguments, error and traceback. Secret arguments (SecretStr) and passwords of URLs are covered.
    How many there were is told on stderr.
    """
    conditions = Choice(kind, queue, error, since).conditions()

    async def write(session: Session) -> int:
        which = await session.client.dead_jobs(group, **conditions)
        count = 0
        async for job in session.client.export_dead_letters(which):
            file.write(f"{output.without_passwords(output.json_line(job))}\n")
            count += 1
        file.flush()
        return count

    count = with_store(ctx, write)
    output.note(output.json_line(dead_shapes.ExportedShape(count)) if as_json else f"{count:,} jobs written")
