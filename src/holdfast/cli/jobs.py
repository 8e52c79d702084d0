"""`holdfast jobs list|show|why|logs|wait|watch`; the other verbs have files of their own."""

from collections.abc import Sequence

import click

from holdfast import ages, filtering
from holdfast.cli import (
    job_page,
    job_parts,
    listing,
    many,
    moments,
    naming,
    options,
    output,
    waiting,
)
from holdfast.cli.changing import cancel, delete, priority, reschedule, retry
from holdfast.cli.clone import clone
from holdfast.cli.connect import Session, with_store
from holdfast.cli.exporting import export
from holdfast.cli.grammar import Noun
from holdfast.cli.listing import Form
from holdfast.cli.output import Cell
from holdfast.cli.tables import Attribute, ResourceTable
from holdfast.cli.tail import of_kinds, of_queues, tail
from holdfast.cli.watching import Following
from holdfast.client.cursors import read_cursor
from holdfast.client.relatives import MOST, relatives
from holdfast.job import JobState
from holdfast.public_id import decode
from holdfast.resources.job import Job, JobList, JobPage
from holdfast.resources.job_parts import ItemPage, JobItem, LogPage
from holdfast.stores.values import JobFilter

_JOBS = ResourceTable[Job](
    Attribute("ID", lambda job: job.id),
    Attribute("STATE", lambda job: Cell(job.state, style=output.STATE_STYLES[job.state])),
    Attribute("KIND", lambda job: job.kind, is_flexible=True),
    Attribute("QUEUE", lambda job: job.queue, is_flexible=True),
    Attribute("TRY", lambda job: f"{job.attempt}/{job.max_attempts}"),
    Attribute("ENQUEUED", lambda job: job.enqueued_at),
    Attribute(
        "DETAIL", lambda job: lambda now: Cell(job_page.detail(job, now), job_page.detail(job)), is_flexible=True
    ),
)
_ITEMS = ResourceTable[JobItem](
    Attribute("SET", lambda item: item.set),
    Attribute("ITEM", lambda item: item.key, is_flexible=True),
    Attribute("STATE", lambda item: item.state),
    Attribute("NOTE", lambda item: item.note, is_flexible=True),
)
_JOBS_EXAMPLES = (
    "list 'state:failed since:1h'",
    "show htcx-2s16-z48b-09",
    "retry --filter 'kind:send_email state:failed' --dry-run",
)


@click.group("jobs", cls=Noun, examples=_JOBS_EXAMPLES)
def jobs() -> None:
    """Look at jobs and change them: one, several, or many."""


# ---- list ----------------------------------------------------------------------------------------------------------

_STATES = [state.value for state in JobState]
_STATE_HELP = f"Jobs in this state, or in any given: {', '.join(_STATES)}."
_LIST_EXAMPLES = (
    "'kind:send_email state:failed since:1h'",
    "--state failed --since 1h",
    "--kind send_email --tag customer=17 --json",
    "--queue high --state queued --state scheduled --limit 200",
    "--state failed --quiet | xargs {program} jobs retry",
)


@jobs.command("list", examples=_LIST_EXAMPLES)
@click.argument("query", metavar="[FILTER]", default="")
@click.option("--state", "states", multiple=True, metavar="STATE", type=click.Choice(_STATES), help=_STATE_HELP)
@of_kinds
@of_queues
@click.option("--tag", "tags", multiple=True, metavar="NAME=VALUE", help="Jobs that have this tag, or all given.")
@click.option("--actor", metavar="WHO", help="Jobs that this one enqueued.")
@click.option("--since", metavar="WHEN", help="Enqueued at most so long ago (1h) or since a time (UTC).")
@click.option("--until", metavar="WHEN", help="Enqueued at least so long ago (1h) or before a time (UTC).")
@options.number("--limit", 50, "Jobs of a page.")
@click.option("--after", metavar="CURSOR", help="Go on after a page; it tells the cursor.")
@click.option("--quiet", "-q", is_flag=True, help="Print ids only, one per line, as -o id does.")
@listing.form
@click.pass_context
def list_jobs(
    ctx: click.Context,
    *,
    query: str,
    states: Sequence[str],
    kinds: Sequence[str],
    queues: Sequence[str],
    tags: Sequence[str],
    actor: str | None,
    since: str | None,
    until: str | None,
    limit: int,
    after: str | None,
    quiet: bool,
    form: Form,
) -> None:
    """List jobs, live and finished, newest first.

    FILTER is what the search box of the dashboard takes: kind: queue: state: tag: args.name= error: since: and words
    to look for. Every condition given, in it or as an option, must hold. In a terminal the table is cut to fit; a pipe
    gets whole lines separated by tabs.
    """
    which = JobFilter(
        states=tuple(JobState(state) for state in states),
        kinds=tuple(kinds),
        queues=tuple(queues),
        tags=tuple(moments.tags(tags).items()),
        actor=actor,
        enqueued_from=moments.past(since, "--since"),
        enqueued_before=moments.past(until, "--until"),
    )
    which = filtering.both(many.fitting(query), which)
    if after is not None:
        read_cursor(after, "--after")  # refuses what no page gave
    page = with_store(ctx, lambda session: session.client.jobs.search(which, limit=limit, after=after))
    _write_page(page, Form.ID if quiet else form)


def _write_page(page: JobPage, form: Form) -> None:
    if page.jobs or page.searched_to is None or form is not Form.TABLE:
        listing.write(form, page, *_JOBS.of(page.jobs), empty="no job fits")
    if form in (Form.JSON, Form.ID):
        return
    if page.searched_to is not None:
        output.note(f"searched back to {ages.stamp(page.searched_to)}")
    if page.next is not None:
        output.note(f"more: --after {page.next}")


# ---- show ----------------------------------------------------------------------------------------------------------


@jobs.command("show", examples=("htcx-2s16-z48b-09", "htcx-2s16-z48b-09 --json"))
@click.argument("job_id", metavar="ID")
@options.as_json
@click.pass_context
def show(ctx: click.Context, *, job_id: str, as_json: bool) -> None:
    """Show everything about one job.

    Where it stands and why, its times, arguments and result, its phases, items, last log lines and webhooks, its
    attempts with their errors, and the jobs that came of it.
    """
    wanted = naming.one(ctx, job_id)

    async def look(session: Session) -> job_page.Look:
        jobs = session.client.jobs
        job = await jobs.get(wanted)
        if as_json:
            return job_page.Look(job)
        return job_page.Look(
            job,
            None if job.is_finished else (await jobs.why(wanted)).sentence,
            await jobs.items(wanted) if job.items else (),
            await jobs.logs(wanted),
            relatives(await jobs.search(JobFilter(parent=decode(wanted)), limit=MOST)),
            relatives(await jobs.search(JobFilter(origin=decode(wanted)), limit=MOST)),
        )

    seen = with_store(ctx, look)
    if as_json:
        output.write_json(seen.job)
    else:
        job_page.write(seen, ages.now())


# ---- why -----------------------------------------------------------------------------------------------------------


@jobs.command("why", examples=("htcx-2s16-z48b-09", "htcx-2s16-z48b-09 --json"))
@click.argument("job_id", metavar="ID")
@options.as_json
@click.pass_context
def why(ctx: click.Context, *, job_id: str, as_json: bool) -> None:
    """Say why a job is not running.

    One sentence: what it waits for, and who keeps it waiting. The same question is answered in the same way until
    something has changed.
    """
    wanted = naming.one(ctx, job_id)
    found = with_store(ctx, lambda session: session.client.jobs.why(wanted))
    output.answer(found, found.sentence, as_json=as_json)


# ---- logs ----------------------------------------------------------------------------------------------------------


@jobs.command("logs", examples=("htcx-2s16-z48b-09", "htcx-2s16-z48b-09 --json"))
@click.argument("job_id", metavar="ID")
@options.as_json
@click.pass_context
def logs(ctx: click.Context, *, job_id: str, as_json: bool) -> None:
    """Print what the handler of a job has logged.

    The lines that are kept with the job, oldest first: at most 200 of each claim, and those of the last five claims. A
    pipe gets the time, the claim, the level and the text, separated by tabs.
    """
    wanted = naming.one(ctx, job_id)
    lines = with_store(ctx, lambda session: session.client.jobs.logs(wanted))
    if as_json:
        output.write_json(LogPage(logs=lines))
    elif not lines:
        output.note("no line is kept with this job")
    elif output.is_terminal():
        job_parts.write_lines(lines)
    else:
        for line in lines:
            output.fields(ages.iso(line.at), str(line.claim), line.level, line.text)


# ---- items ---------------------------------------------------------------------------------------------------------


@jobs.command("items", examples=("htcx-2s16-z48b-09", "htcx-2s16-z48b-09 --json"))
@click.argument("job_id", metavar="ID")
@options.as_json
@click.pass_context
def items(ctx: click.Context, *, job_id: str, as_json: bool) -> None:
    """List the items that a job works through.

    Those that failed first, then the skipped, the open and the completed ones.
    """
    wanted = naming.one(ctx, job_id)
    found = with_store(ctx, lambda session: session.client.jobs.items(wanted))
    if as_json:
        output.write_json(ItemPage(items=found))
    elif not found:
        output.note("this job has no items")
    else:
        output.table(*_ITEMS.of(found))


# ---- wait ----------------------------------------------------------------------------------------------------------


@jobs.command("wait", examples=("htcx-2s16-z48b-09", "htcx-2s16-z48b-09 --timeout 30s --json"))
@options.job_ids
@click.option("--timeout", metavar="DURATION", help="Wait so long at most: 30s, 5m. [default: until they end]")
@options.as_json
@click.pass_context
def wait(ctx: click.Context, *, ids: Sequence[str], timeout: str | None, as_json: bool) -> None:
    """Wait until jobs have finished.

    Prints how each finished, and its result or error. Exit code 5: one failed or was cancelled; 124: one had not
    finished within the timeout, and goes on. With several ids the exit code is the highest of them. Ctrl-C stops the
    waiting and no job.
    """
    watch = waiting.Watch(naming.several(ctx, ids), waiting.read_timeout(timeout, "--timeout"))
    with waiting.interruptible(watch):
        with_store(ctx, lambda session: waiting.until_ended(session.client, watch))
    code = waiting.tell(watch, as_json=as_json)
    if as_json:
        output.write_json(JobList(jobs=[watch.seen[job] for job in watch.ids if job in watch.seen]))
    ctx.exit(code)


# ---- watch ---------------------------------------------------------------------------------------------------------


@jobs.command("watch", examples=("htcx-2s16-z48b-09", "htcx-2s16-z48b-09 --timeout 5m", "htcx-2s16-z48b-09 --json"))
@click.argument("job_id", metavar="ID")
@click.option("--timeout", metavar="DURATION", help="Watch so long at most: 30s, 5m. [default: until it ends]")
@options.as_json
@click.pass_context
def watch(ctx: click.Context, *, job_id: str, timeout: str | None, as_json: bool) -> None:
    """Follow a job to its end, a line for each event.

    It starts, says how far it is, completes a phase, is retried, finishes. Of a job that has finished already there is
    only its end. A pipe gets the time, the event and what it says, separated by tabs; --json prints one JSON object a
    line. Exit code 5: it failed or was cancelled; 124: it had not finished within the timeout, and goes on. Ctrl-C
    stops the watching and no job.
    """
    following = Following(naming.one(ctx, job_id), waiting.read_timeout(timeout, "--timeout"), as_json=as_json)
    is_interrupted = False
    try:
        with_store(ctx, lambda session: following.follow(session.client))
    except KeyboardInterrupt:
        is_interrupted = True
    ctx.exit(following.leave(is_interrupted=is_interrupted))


for verb in (tail, cancel, retry, reschedule, priority, clone, delete, export):
    jobs.add_command(verb)
