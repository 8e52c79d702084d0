"""`holdfast jobs cancel|retry|reschedule|priority|delete`: of jobs by their ids, or of all that fit a filter."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Any

import click

from holdfast import names
from holdfast.cli import many, moments, naming, options, output
from holdfast.cli.connect import with_store
from holdfast.cli.exits import Exit, code_of, show_error
from holdfast.cli.grammar import Verb
from holdfast.client.jobs import Jobs
from holdfast.client.protocol import Client
from holdfast.duration import milliseconds
from holdfast.errors import HoldfastError
from holdfast.job import Answer
from holdfast.public_id import decode
from holdfast.resources.bulk import BulkVerb
from holdfast.resources.job_parts import JobAnswer, JobAnswers
from holdfast.stores.values import JobFilter

_Change = Callable[[Jobs, list[str]], Awaitable[list[JobAnswer]]]
_FAILED_MAIL = "--filter 'kind:send_email state:failed since:1h'"


@click.command("cancel", cls=Verb, examples=("htcx-2s16-z48b-09 --reason 'wrong customer'", "--filter 'queue:low' -y"))
@options.some_ids
@many.choosing
@options.as_json
@click.pass_context
def cancel(ctx: click.Context, /, *, ids: Sequence[str], **given: Any) -> None:
    """Cancel jobs.

    Waiting ones end at once, running ones are asked to stop. With several ids the exit code is the highest of them.
    With --filter it says how many jobs fit, asks, and does it in the background; see `bulk`.
    """
    deed = many.Deed(BulkVerb.CANCEL, "cancel")
    terms = {name: given[name] for name in ("actor", "reason")}
    _change(ctx, deed, ids, given, lambda jobs, ids: jobs.cancel_many(ids, **terms))


@click.command(
    "retry",
    cls=Verb,
    examples=("htcx-2s16-z48b-09", "htcx-2s16-z48b-09 --from-phase encode", f"{_FAILED_MAIL} --rate 50/s --wait"),
)
@options.some_ids
@click.option("--from-phase", metavar="NAME", help="Run this phase and all later ones again; with ids only.")
@many.choosing
@options.as_json
@click.pass_context
def retry(ctx: click.Context, /, *, ids: Sequence[str], from_phase: str | None, **given: Any) -> None:
    """Start finished jobs over.

    For failed, cancelled and partly completed jobs. Completed phases keep their results, and items that succeeded are
    left out. With several ids the exit code is the highest of them. With --filter it says how many jobs fit, asks, and
    does it in the background; see `bulk`.
    """
    if from_phase is not None and given["query"] is not None:
        message = "--from-phase goes with ids, not with --filter"
        raise click.UsageError(message, ctx)
    deed = many.Deed(BulkVerb.RETRY, "retry")
    _change(ctx, deed, ids, given, lambda jobs, ids: jobs.retry_many(ids, from_phase=from_phase))


@click.command(
    "reschedule",
    cls=Verb,
    examples=("htcx-2s16-z48b-09 --delay 5m", "htcx-2s16-z48b-09 --now", "--filter 'queue:low' --at 2030-01-15T22:00Z"),
)
@options.some_ids
@click.option("--delay", metavar="DURATION", help="So much later than now: 30s, 5m, 1h 30m.")
@click.option("--at", "run_at", metavar="TIME", help="At a time with an offset: 2030-01-15T09:00:00Z.")
@click.option("--now", "is_now", is_flag=True, help="At once.")
@many.choosing
@options.as_json
@click.pass_context
def reschedule(
    ctx: click.Context,
    /,
    *,
    ids: Sequence[str],
    delay: str | None,
    run_at: str | None,
    is_now: bool,
    **given: Any,
) -> None:
    """Set when waiting jobs may run.

    With several ids the exit code is the highest of them. With --filter it says how many jobs fit, asks, and does it in
    the background; see `bulk`.
    """
    if [delay is not None, run_at is not None, is_now].count(True) != 1:
        message = "expected one of --delay, --at and --now"
        raise click.UsageError(message, ctx)
    at = None if run_at is None else moments.due(run_at, "--at")
    later = None if at is not None else timedelta(milliseconds=milliseconds(delay or "0s", "--delay"))
    deed = many.Deed(BulkVerb.RESCHEDULE, "reschedule", terms={"run_at": at, "delay": later})
    _change(ctx, deed, ids, given, lambda jobs, ids: jobs.reschedule_many(ids, run_at=at, delay=later))


@click.command(
    "priority", cls=Verb, examples=("htcx-2s16-z48b-09 1", "--filter 'kind:send_email tag:customer=17' 1 --yes")
)
@options.some_ids
@click.argument("priority", type=click.IntRange(names.HIGHEST_PRIORITY, names.LOWEST_PRIORITY), metavar="PRIORITY")
@many.choosing
@options.as_json
@click.pass_context
def priority(ctx: click.Context, /, *, ids: Sequence[str], priority: int, **given: Any) -> None:
    """Move waiting jobs to another priority.

    PRIORITY is a number: 0 goes first, 10 last; they go behind those that wait there. With several ids the exit code is
    the highest of them. With --filter it says how many jobs fit, asks, and does it in the background; see `bulk`.
    """
    deed = many.Deed(BulkVerb.REPRIORITISE, "reprioritise", terms={"priority": priority})
    _change(ctx, deed, ids, given, lambda jobs, ids: jobs.reprioritise_many(ids, priority))


@click.command("delete", cls=Verb, examples=("htcx-2s16-z48b-09", "--filter 'state:cancelled until:30d' --dry-run"))
@options.some_ids
@many.choosing
@options.as_json
@click.pass_context
def delete(ctx: click.Context, /, *, ids: Sequence[str], **given: Any) -> None:
    """Delete finished jobs.

    A live one has to be cancelled first. With several ids the exit code is the highest of them. With --filter it says
    how many jobs fit, asks, and does it in the background; see `bulk`.
    """
    deed = many.Deed(BulkVerb.DELETE, "delete", typed="delete")
    _change(ctx, deed, ids, given, lambda jobs, ids: jobs.delete_many(ids))


def _change(ctx: click.Context, deed: many.Deed, ids: Sequence[str], given: dict[str, Any], change: _Change) -> None:
    """Change the jobs that are named at once, or start a bulk operation for all that fit."""
    query: str | None = given["query"]
    if bool(ids) == (query is not None):
        got = "both" if ids else "neither"
        message = f"expected either ids of jobs or --filter, got {got}; --filter '' means all that it can be done to"
        raise click.UsageError(message, ctx)
    jobs = naming.several(ctx, ids)
    if not jobs or given["dry_run"]:

        async def choose(_client: Client) -> JobFilter:
            return JobFilter(ids=tuple(map(decode, jobs))) if query is None else many.fitting(query)

        many.start(ctx, deed, choose, given)
        return
    kept = (
        () if deed.verb is BulkVerb.CANCEL else ("actor", "reason")
    )  # with a job that is cancelled, or with an operation
    if idle := [name for name in ("rate", "wait", *kept) if given[name]]:
        message = f"--{idle[0]} goes with --filter; jobs that are named are changed at once"
        raise click.UsageError(message, ctx)
    _report(ctx, deed, with_store(ctx, lambda session: change(session.client.jobs, jobs)), as_json=given["as_json"])


def _report(ctx: click.Context, deed: many.Deed, answers: Sequence[JobAnswer], *, as_json: bool) -> None:
    """Print what became of each job and leave with the highest exit code among them."""
    worst = int(Exit.OK)
    for answer in answers:
        try:
            answer.require_done()
        except HoldfastError as error:
            code = code_of(error)
            worst = max(worst, code)
            show_error(str(error), code, kind=type(error).__name__, as_json=as_json)
        else:
            if not as_json:
                output.line(f"{answer.id} {_outcome(deed, answer)}")
    if as_json:
        output.write_json(JobAnswers(jobs=list(answers)))
    ctx.exit(worst)


def _outcome(deed: many.Deed, answer: JobAnswer) -> str:
    if deed.verb is BulkVerb.DELETE:
        return "deleted"
    if deed.verb is BulkVerb.REPRIORITISE:
        return f"priority {deed.terms['priority']}"
    if answer.answer is Answer.REQUESTED:
        return "running, asked to stop"
    return f"{answer.state}"
