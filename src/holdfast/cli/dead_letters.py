"""`holdfast dead-letters list|show|replay|purge|export`, also as `holdfast dlq`."""

import functools
import inspect
import re
from collections.abc import Callable, Sequence
from typing import Any

import click

from holdfast import ages, public_id
from holdfast.cli import (
    clone,
    completing,
    job_page,
    listing,
    many,
    moments,
    options,
    output,
    shapes,
)
from holdfast.cli.connect import Session, with_store
from holdfast.cli.grammar import Noun, Verb
from holdfast.cli.output import Cell
from holdfast.cli.tables import Attribute, ResourceTable, counted
from holdfast.client.protocol import Client
from holdfast.resources.bulk import BulkVerb
from holdfast.resources.dead_letter import DeadLetterGroup, FailedJobs
from holdfast.resources.job import Job
from holdfast.resources.job_parts import JobAnswer, JobAnswers
from holdfast.stores.values import JobFilter

_GROUP = re.compile(r"[0-9a-f]{12}")
_SHOWN = 10


def _error(failed: DeadLetterGroup | Job) -> str:
    return output.without_passwords(f"{failed.error_class or 'unknown'}: {failed.error or ''}".removesuffix(": "))


_GROUPS = ResourceTable[DeadLetterGroup](
    Attribute("GROUP", lambda group: group.id),
    Attribute("KIND", lambda group: group.kind, is_flexible=True),
    Attribute("QUEUE", lambda group: group.queue, is_flexible=True),
    Attribute("LEFT", lambda group: Cell(str(group.left), style="red" if group.left.jobs else ""), is_number=True),
    Attribute("SEEN", lambda group: counted(group.seen), is_number=True),
    Attribute("FIRST", lambda group: group.first_at),
    Attribute("LAST", lambda group: group.last_at),
    Attribute("ERROR", _error, is_flexible=True),
)
_JOBS = ResourceTable[Job](
    Attribute("ID", lambda job: job.id),
    Attribute("TRY", lambda job: f"{job.attempt}/{job.max_attempts}"),
    Attribute("FAILED", lambda job: job.finished_at or job.enqueued_at),
    Attribute("ERROR", _error, is_flexible=True),
)


def _choosing(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options that choose failed jobs; it gets them as its `conditions`."""

    @functools.wraps(command)
    def chosen(
        *args: Any, kind: str | None, queue: str | None, error: str | None, since: str | None, **given: Any
    ) -> Any:
        conditions = FailedJobs(kind=kind, queue=queue, error=error, since=moments.past(since, "--since"))
        return command(*args, conditions=conditions, **given)

    for option in (
        click.option("--since", metavar="WHEN", help="Failed at most so long ago (1h) or since a time (UTC)."),
        click.option("--error", metavar="CLASS", help="With an error of this class, as `dead-letters list` shows it."),
        click.option("--queue", metavar="NAME", shell_complete=completing.queues, help="Of this queue."),
        click.option("--kind", metavar="KIND", shell_complete=completing.kinds, help="Of this kind."),
    ):
        chosen = option(chosen)
    return chosen


_EXAMPLES = ("list --since 1d", "show 3f9a0c71be42", "replay 3f9a0c71be42 --rate 50/s")


@click.group("dead-letters", cls=Noun, examples=_EXAMPLES)
def dead_letters() -> None:
    """Replay, purge and export jobs that have failed.

    They are in groups of one kind and cause. `dlq` is short for `dead-letters`.
    """


# ---- list, show ----------------------------------------------------------------------------------------------------


@dead_letters.command("list", examples=("", "--queue high --since 1d", "--all --json"))
@_choosing
@click.option("--all", "empty", is_flag=True, help="Also groups of which no job is left.")
@options.number("--limit", 50, "Groups of a page.")
@click.option("--after", metavar="CURSOR", help="Go on after a page: its `next`.")
@listing.form
@click.pass_context
def list_groups(
    ctx: click.Context, *, conditions: FailedJobs, empty: bool, limit: int, after: str | None, form: listing.Form
) -> None:
    """List groups of failed jobs, the latest first.

    How many jobs of each are left to be replayed, how many there ever were, when the first and the last failed, and
    with which error. At most 10,000 are counted of those that are left; 10,000+ means that there are more.
    """
    page = with_store(
        ctx, lambda session: session.client.dead_letters.list(**conditions, empty=empty, limit=limit, after=after)
    )
    listing.write(form, page, *_GROUPS.of(page.groups), empty="no failed job fits")
    if form is not listing.Form.JSON and page.next is not None:
        output.note(f"more: --after {page.next}")


failures = Verb(
    "failures",
    callback=list_groups.callback,
    params=list_groups.params,
    help=f"{inspect.cleandoc(list_groups.help or '')}\n\nIt is `dead-letters list`; see the other commands there.",
    examples=("--since 1h", "--kind send_email --since 1d -o csv"),
)


@dead_letters.command("show", examples=("3f9a0c71be42", "htcx-2s16-z48b-09", "3f9a0c71be42 --json"))
@click.argument("which", metavar="GROUP|JOB")
@options.number("--limit", _SHOWN, "Jobs to list.")
@options.as_json
@click.pass_context
def show(ctx: click.Context, *, which: str, limit: int, as_json: bool) -> None:
    """Show a group and its newest jobs, or one failed job.

    JSON has the group alone; `dead-letters export - --group GROUP` writes its jobs.
    """
    if not _GROUP.fullmatch(which):
        wanted = public_id.decode(which)
        job = with_store(ctx, lambda session: session.client.jobs.get(wanted))
        if as_json:
            output.write_json(job)
        else:
            job_page.write(job_page.Look(job), ages.now())
        return

    async def look(session: Session) -> tuple[DeadLetterGroup, list[Job]]:
        group = await session.client.dead_letters.get(which)
        if as_json:
            return group, []
        page = await session.client.jobs.list(await session.client.dead_letters.filter(which), limit=limit)
        return group, page.jobs

    group, jobs = with_store(ctx, look)
    if as_json:
        output.write_json(group)
    else:
        _write_group(group, jobs)


def _write_group(group: DeadLetterGroup, jobs: Sequence[Job]) -> None:
    for title, text in (
        ("group", group.id),
        ("kind", group.kind),
        ("queue", group.queue),
        ("error", _error(group)),
        ("place", output.without_passwords(group.fingerprint)),
        ("jobs", f"{group.left} left, {group.seen:,} in all"),
        ("first", ages.iso(group.first_at)),
        ("last", f"{ages.iso(group.last_at)}, job {group.last_job}"),
    ):
        output.styled((f"{title:<6} ", "bold"), (text, ""))
    if jobs:
        output.table(*_JOBS.of(jobs))


# ---- replay, purge -------------------------------------------------------------------------------------------------

_REPLAY_EXAMPLES = (
    "3f9a0c71be42 --rate 50/s",
    "--kind send_email --error TimeoutError --since 1d --yes --wait",
    "htcx-2s16-z48b-09",
    "htcx-2s16-z48b-09 --set to=b@example.org",
)


def _running(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of a bulk operation."""
    for option in (
        options.as_json,
        options.reason,
        options.actor,
        many.running,
        click.option("--all", "every", is_flag=True, help="All failed jobs, when no condition is given."),
    ):
        command = option(command)
    return command


@dead_letters.command("replay", examples=_REPLAY_EXAMPLES)
@click.argument("which", nargs=-1, metavar="[GROUP|JOB]...")
@_choosing
@click.option("--set", "pairs", multiple=True, metavar="KEY=VALUE", help="Replay one JOB as a new one, so changed.")
@_running
@click.pass_context
def replay(ctx: click.Context, /, *, which: Sequence[str], pairs: Sequence[str], **given: Any) -> None:
    """Start failed jobs over.

    Of a group, or all that fit the conditions: it says how many, asks, and starts a bulk operation that workers
    do in the background; see `bulk`. Jobs that are named are replayed at once. With --set a
    new job is enqueued with other arguments (KEY=VALUE, or KEY:=JSON) and names the old one, which stays.
    """
    jobs = [name for name in which if not _GROUP.fullmatch(name)]
    if pairs:
        if len(which) != 1 or not jobs or given["dry_run"]:
            got = "--dry-run" if given["dry_run"] else " ".join(which) or "none"
            message = f"--set changes one job: expected its id alone, got {got}"
            raise click.UsageError(message, ctx)
        changes = clone.Changes(tuple(pairs))
        clone.write_clone(
            ctx, public_id.encode(public_id.decode(jobs[0])), changes, given["actor"], as_json=given["as_json"]
        )
    elif jobs and not given["dry_run"]:
        _at_once(ctx, "retry", which, jobs, as_json=given["as_json"])
    else:
        _start(ctx, many.Deed(BulkVerb.RETRY, "replay", "failed job"), which, given)


@dead_letters.command("purge", examples=("3f9a0c71be42", "--kind send_email --since 30d --yes", "htcx-2s16-z48b-09"))
@click.argument("which", nargs=-1, metavar="[GROUP|JOB]...")
@_choosing
@_running
@click.pass_context
def purge(ctx: click.Context, /, *, which: Sequence[str], **given: Any) -> None:
    """Delete failed jobs.

    Of a group, or all that fit the conditions: it says how many, asks, and starts a bulk operation that workers
    do in the background; see `bulk`. Jobs that are named are deleted at once.
    """
    jobs = [name for name in which if not _GROUP.fullmatch(name)]
    if jobs and not given["dry_run"]:
        _at_once(ctx, "delete", which, jobs, as_json=given["as_json"])
    else:
        _start(ctx, many.Deed(BulkVerb.DELETE, "delete", "failed job", typed="delete"), which, given)


def _start(ctx: click.Context, deed: many.Deed, which: Sequence[str], given: dict[str, Any]) -> None:
    """Say how many jobs there are, ask, and start the operation."""
    conditions: FailedJobs = given["conditions"]
    ids = tuple(public_id.decode(name) for name in which if not _GROUP.fullmatch(name))
    if len(ids) < len(which) and len(which) > 1:
        message = f"expected one group, got {len(which)}; name each by itself"
        raise click.UsageError(message, ctx)
    if not which and all(value is None for value in conditions.values()) and not given["every"]:
        message = (
            "expected GROUP or JOB..., or conditions (--kind, --queue, --error, --since); --all takes every failed job"
        )
        raise click.UsageError(message, ctx)

    async def choose(client: Client) -> JobFilter:
        if ids:
            return JobFilter(ids=ids)
        return await client.dead_letters.filter(which[0] if which else None, **conditions)

    many.start(ctx, deed, choose, given)


def _at_once(ctx: click.Context, verb: str, which: Sequence[str], jobs: Sequence[str], *, as_json: bool) -> None:
    """Change the jobs that are named, and stop at the first that cannot be."""
    if len(jobs) < len(which):
        message = "expected either one group or ids of jobs, got both"
        raise click.UsageError(message, ctx)
    ids = [public_id.decode(job) for job in jobs]

    async def change(session: Session) -> list[JobAnswer]:
        jobs = session.client.jobs
        return await (jobs.retry_many(ids) if verb == "retry" else jobs.delete_many(ids))

    answers = with_store(ctx, change)
    for answer in answers:
        answer.require_done()
        if not as_json:
            output.line(f"{answer.id} {'deleted' if verb == 'delete' else answer.state}")
    if as_json:
        output.write_json(JobAnswers(jobs=answers))


# ---- export --------------------------------------------------------------------------------------------------------


@dead_letters.command(
    "export", examples=("dead.jsonl", "- --kind send_email | jq .error", "dead.jsonl --group 3f9a0c71be42")
)
@click.argument("file", type=click.Path(readable=False, allow_dash=True), metavar="FILE|-")
@click.option("--group", metavar="GROUP", help="Of this group.")
@_choosing
@options.as_json
@click.pass_context
def export(ctx: click.Context, *, file: str, group: str | None, conditions: FailedJobs, as_json: bool) -> None:
    """Write failed jobs to a file, one JSON object a line.

    Newest first, with arguments, error and traceback. Secret arguments (SecretStr) and passwords of URLs are covered.
    How many there were is written to stderr.
    """

    async def write(session: Session) -> int:
        count = 0
        if group is not None:
            await session.client.dead_letters.get(group)  # before the file is opened
        with output.writing(file) as stream:
            async for letter in session.client.dead_letters.export(group, **conditions):
                stream.write(f"{output.masked_line(letter)}\n")
                count += 1
        return count

    count = with_store(ctx, write)
    output.note(output.json_line(shapes.ExportedShape(count)) if as_json else f"{count:,} jobs written")


dlq = Noun("dlq", dead_letters.commands, help=dead_letters.help, examples=_EXAMPLES, hidden=True)
