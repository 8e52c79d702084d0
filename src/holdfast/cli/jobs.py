"""`holdfast jobs list|show|why|logs|wait|watch|cancel|retry|delete`."""

from collections.abc import Sequence
from datetime import datetime

import click

from holdfast import public_id
from holdfast.cli import ages, job_page, job_parts, job_shapes, moments, options, output, waiting
from holdfast.cli.connect import Session, with_store
from holdfast.cli.exits import Exit, code_of, show_error
from holdfast.cli.grammar import Noun
from holdfast.cli.output import Cell, Column
from holdfast.cli.watching import Following
from holdfast.client.refusals import require_done
from holdfast.errors import HoldfastError, InvalidValue
from holdfast.job import Job, JobState
from holdfast.stores.values import Answer, Answered, Cursor, JobFilter, Page

_PAGE = 50
_LARGEST_PAGE = 1_000
_COLUMNS = (
    Column("ID"),
    Column("STATE"),
    Column("KIND", is_flexible=True),
    Column("QUEUE", is_flexible=True),
    Column("TRY"),
    Column("ENQUEUED"),
    Column("DETAIL", is_flexible=True),
)


@click.group("jobs", cls=Noun, examples=("list --state failed --since 1h", "show htcx-2s16-z48b-09"))
def jobs() -> None:
    """List, show, watch, cancel, retry and delete jobs."""


# ---- list ----------------------------------------------------------------------------------------------------------

_STATES = [state.value for state in JobState]
_STATE_HELP = f"Jobs in this state, or in any given: {', '.join(_STATES)}."
_LIST_EXAMPLES = (
    "--state failed --since 1h",
    "--kind send_email --tag customer=17 --json",
    "--queue high --state queued --state scheduled --limit 200",
    "--state failed --quiet | xargs {program} jobs retry",
)


@jobs.command("list", examples=_LIST_EXAMPLES)
@click.option("--state", "states", multiple=True, metavar="STATE", type=click.Choice(_STATES), help=_STATE_HELP)
@click.option("--kind", "kinds", multiple=True, metavar="KIND", help="Jobs of this kind, or of any given.")
@click.option("--queue", "queues", multiple=True, metavar="NAME", help="Jobs of this queue, or of any given.")
@click.option("--tag", "tags", multiple=True, metavar="NAME=VALUE", help="Jobs that have this tag, or all given.")
@click.option("--actor", metavar="WHO", help="Jobs that this one enqueued.")
@click.option("--since", metavar="WHEN", help="Enqueued at most so long ago (1h) or since a time (UTC).")
@click.option("--until", metavar="WHEN", help="Enqueued at least so long ago (1h) or before a time (UTC).")
@click.option("--limit", type=click.IntRange(1, _LARGEST_PAGE), default=_PAGE, show_default=True)
@click.option("--after", metavar="CURSOR", help="Go on after a page; it tells the cursor.")
@click.option("--quiet", "-q", is_flag=True, help="Print ids only, one per line.")
@options.as_json
@click.pass_context
def list_jobs(
    ctx: click.Context,
    *,
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
    as_json: bool,
) -> None:
    """List jobs, live and finished, newest first.

    Every condition given must hold. In a terminal the table is cut to fit; a pipe gets whole lines separated by tabs.
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
    start = None if after is None else read_cursor(after)
    page = with_store(ctx, lambda session: session.client.list(which, limit=limit, after=start))
    following = None if page.next is None else cursor(page.next)
    if as_json:
        output.write_json(job_shapes.JobsShape([job_shapes.job(job) for job in page.jobs], following))
    elif quiet:
        for job in page.jobs:
            output.line(job.public_id)
    else:
        _write_page(page, following)


def _write_page(page: Page, following: str | None) -> None:
    now = ages.now()
    if not page.jobs:
        output.note("no job fits")
        return
    output.table(_COLUMNS, [_row(job, now) for job in page.jobs])
    if following is not None:
        output.note(f"more: --after {following}")


def _row(job: Job, now: datetime) -> list[Cell]:
    return [
        Cell(job.public_id),
        Cell(job.state, style=output.STATE_STYLES[job.state]),
        Cell(job.kind),
        Cell(job.queue),
        Cell(f"{job.attempt}/{job.max_attempts}"),
        Cell(ages.age(job.enqueued_at, now), ages.iso(job.enqueued_at)),
        Cell(job_page.detail(job, now), job_page.detail(job, None)),
    ]


def cursor(after: Cursor) -> str:
    """Write where a page ends."""
    return f"{ages.iso(after.enqueued_at)}/{public_id.encode(after.id)}"


def read_cursor(text: str) -> Cursor:
    """Read where a page ended."""
    moment, _, job_id = text.partition("/")
    try:
        return Cursor(moments.due(moment, "--after"), public_id.decode(job_id))
    except InvalidValue:
        message = f"--after: expected the cursor that a page printed, got {text!r}"
        raise InvalidValue(message) from None


# ---- show ----------------------------------------------------------------------------------------------------------


@jobs.command("show", examples=("htcx-2s16-z48b-09", "htcx-2s16-z48b-09 --json"))
@click.argument("job_id", metavar="ID")
@options.as_json
@click.pass_context
def show(ctx: click.Context, *, job_id: str, as_json: bool) -> None:
    """Show everything about one job.

    Where it stands and why, its times, arguments and result, its phases, items, last log lines and webhooks, its
    attempts with their errors.
    """
    wanted = public_id.decode(job_id)

    async def look(session: Session) -> job_page.Look:
        job = await session.client.get(wanted)
        if as_json or job.is_finished:
            return job_page.Look(job)
        return job_page.Look(job, (await session.client.why(wanted)).sentence)

    seen = with_store(ctx, look)
    if as_json:
        output.write_json(job_shapes.job(seen.job))
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
    wanted = public_id.decode(job_id)
    found = with_store(ctx, lambda session: session.client.why(wanted))
    if as_json:
        output.write_json(
            job_shapes.WhyShape(str(wanted), public_id.encode(wanted), found.reason, found.sentence, found.details)
        )
    else:
        output.line(found.sentence)


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
    wanted = public_id.decode(job_id)
    job = with_store(ctx, lambda session: session.client.get(wanted))
    if as_json:
        output.write_json(job_shapes.logs(job))
    elif not job.logs:
        output.note("no line is kept with this job")
    elif output.is_terminal():
        job_parts.write_lines(job.logs)
    else:
        for line in job.logs:
            output.fields(ages.iso(line.at), str(line.claim), line.level, line.text)


# ---- wait ----------------------------------------------------------------------------------------------------------


@jobs.command("wait", examples=("htcx-2s16-z48b-09", "htcx-2s16-z48b-09 --timeout 30s --json"))
@options.job_ids
@click.option("--timeout", metavar="DURATION", help="Wait so long at most: 30s, 5m. [default: until they end]")
@options.as_json
@click.pass_context
def wait(ctx: click.Context, *, ids: Sequence[int], timeout: str | None, as_json: bool) -> None:
    """Wait until jobs have ended.

    Prints how each ended, and its result or error. Exit code 5: one failed or was cancelled; 124: one had not ended
    within the timeout, and goes on. With several ids the exit code is the highest of them. Ctrl-C stops the waiting
    and no job.
    """
    watch = waiting.Watch(ids, waiting.read_timeout(timeout, "--timeout"))
    with waiting.interruptible(watch):
        with_store(ctx, lambda session: waiting.until_ended(session.client, watch))
    code = waiting.tell(watch, as_json=as_json)
    if as_json:
        output.write_json(
            job_shapes.WaitedJobsShape([job_shapes.waited(job, watch.seen.get(job)) for job in watch.ids])
        )
    ctx.exit(code)


# ---- watch ---------------------------------------------------------------------------------------------------------


@jobs.command("watch", examples=("htcx-2s16-z48b-09", "htcx-2s16-z48b-09 --timeout 5m", "htcx-2s16-z48b-09 --json"))
@click.argument("job_id", metavar="ID")
@click.option("--timeout", metavar="DURATION", help="Watch so long at most: 30s, 5m. [default: until it ends]")
@options.as_json
@click.pass_context
def watch(ctx: click.Context, *, job_id: str, timeout: str | None, as_json: bool) -> None:
    """Follow a job to its end, a line for each event.

    It starts, says how far it is, completes a phase, is retried, ends. Of a job that has ended already there is only
    its end. A pipe gets the time, the event and what it says, separated by tabs; --json prints one JSON object a line.
    Exit code 5: it failed or was cancelled; 124: it had not ended within the timeout, and goes on. Ctrl-C stops the
    watching and no job.
    """
    following = Following(public_id.decode(job_id), waiting.read_timeout(timeout, "--timeout"), as_json=as_json)
    is_interrupted = False
    try:
        with_store(ctx, lambda session: following.follow(session.client))
    except KeyboardInterrupt:
        is_interrupted = True
    ctx.exit(following.leave(is_interrupted=is_interrupted))


# ---- cancel, retry, delete -----------------------------------------------------------------------------------------


@jobs.command("cancel", examples=("htcx-2s16-z48b-09 --reason 'wrong customer' --actor alice",))
@options.job_ids
@options.actor
@options.reason
@options.as_json
@click.pass_context
def cancel(ctx: click.Context, *, ids: Sequence[int], actor: str | None, reason: str | None, as_json: bool) -> None:
    """Cancel jobs.

    Waiting ones end at once, running ones are told to stop. With several ids the exit code is the highest of them.
    """
    answers = with_store(ctx, lambda session: session.client.cancel_many(ids, actor=actor, reason=reason))
    _report(ctx, "cancel", answers, as_json=as_json)


@jobs.command("retry", examples=("htcx-2s16-z48b-09", "htcx-2s16-z48b-09 --from-phase encode"))
@options.job_ids
@click.option("--from-phase", metavar="NAME", help="Run this phase and all later ones anew.")
@options.as_json
@click.pass_context
def retry(ctx: click.Context, *, ids: Sequence[int], from_phase: str | None, as_json: bool) -> None:
    """Give finished jobs a new life.

    For failed, cancelled and partly completed jobs. Completed phases keep their results, and items that ended well are
    left out. With several ids the exit code is the highest of them.
    """
    answers = with_store(ctx, lambda session: session.client.retry_many(ids, from_phase=from_phase))
    _report(ctx, "retry", answers, as_json=as_json)


@jobs.command("delete", examples=("htcx-2s16-z48b-09",))
@options.job_ids
@options.as_json
@click.pass_context
def delete(ctx: click.Context, *, ids: Sequence[int], as_json: bool) -> None:
    """Delete finished jobs.

    A live one has to be cancelled first. With several ids the exit code is the highest of them.
    """
    _report(ctx, "delete", with_store(ctx, lambda session: session.client.delete_many(ids)), as_json=as_json)


def _report(ctx: click.Context, verb: str, answers: Sequence[Answered], *, as_json: bool) -> None:
    """Print what became of each job and leave with the highest exit code among them."""
    worst = int(Exit.OK)
    shown: list[job_shapes.AnswerShape] = []
    for answered in answers:
        refused: str | None = None
        try:
            require_done(verb, answered)
        except HoldfastError as error:
            refused, code = str(error), code_of(error)
            worst = max(worst, code)
            show_error(refused, code, kind=type(error).__name__, as_json=as_json)
        shown.append(job_shapes.answer(answered, refused))
        if refused is None and not as_json:
            output.line(f"{public_id.encode(answered.id)} {_outcome(verb, answered)}")
    if as_json:
        output.write_json(job_shapes.AnswersShape(shown))
    ctx.exit(worst)


def _outcome(verb: str, answered: Answered) -> str:
    if verb == "delete":
        return "deleted"
    if answered.answer is Answer.REQUESTED:
        return "running, told to stop"
    return f"{answered.state}"
