"""The pages of dead letters: groups of failed jobs, the jobs of a group, and what can be done with them."""

import asyncio

from fastapi import Form, Query, Request
from starlette.responses import Response, StreamingResponse

from holdfast.resources.bulk import BulkVerb
from holdfast.resources.redaction import redact
from holdfast.server.api.bulk import require_role_for
from holdfast.server.exporting import export_lines
from holdfast.server.pages.dead_choice import Choice, Chosen
from holdfast.server.pages.edited import changes
from holdfast.server.pages.operations import latest_operations, started
from holdfast.server.pages.rendering import page, turned, url
from holdfast.server.pages.shown import Shown, written
from holdfast.server.problems import Problem, not_found
from holdfast.server.roles import Permission
from holdfast.server.routing import Routes, Seen, noted
from holdfast.server.scoped.client import ScopedClient

routes = Routes("pages", in_schema=False)

_GROUPS = 30
_JOBS = 30


@routes.get("/dead-letters", Permission.LOOK)
async def dead_letters_page(
    request: Request,
    client: Seen,
    choice: Chosen,
    after: str = Query("", max_length=100),
) -> Response:
    """Show groups of failed jobs, the latest first."""
    found = await client.dead_letters.list(**choice.conditions(), limit=_GROUPS, after=after or None)
    return page(
        request,
        "dead_letters.html",
        at="dead-letters",
        groups=redact(found.groups),
        next=found.next,
        choice=choice,
        operations=await latest_operations(client),
    )


@routes.get("/dead-letters/export", Permission.EXPORT_DEAD_LETTERS)
async def export_dead_letters_here(request: Request, client: Seen, choice: Chosen) -> Response:
    """Give failed jobs as one JSON object a line, with secrets covered."""
    which = await choice.jobs(client)
    await client.jobs.list(which, limit=1)  # what cannot be asked for is refused before the answer has begun
    headers = {"content-disposition": 'attachment; filename="dead-letters.jsonl"'}
    return StreamingResponse(export_lines(request, client, which), media_type="application/x-ndjson", headers=headers)


@routes.get("/dead-letters/replay", Permission.RETRY_JOBS)
async def preview_replay_here(request: Request, client: Seen, choice: Chosen) -> Response:
    """Show what a replay would do."""
    return await _preview(request, client, choice, BulkVerb.RETRY)


@routes.get("/dead-letters/purge", Permission.DELETE_JOBS)
async def preview_purge_here(request: Request, client: Seen, choice: Chosen) -> Response:
    """Show what a purge would delete."""
    return await _preview(request, client, choice, BulkVerb.DELETE)


@routes.post("/dead-letters/replay", Permission.RETRY_JOBS)
async def replay_here(request: Request, client: Seen, rate: str = Form("", max_length=20)) -> Response:
    """Give the chosen jobs a new life, at most at the given rate."""
    choice = Choice.of_form(await request.form())
    noted(request, **choice.facts(), rate=rate or None)
    which = await choice.jobs(client)
    reason = choice.reason or None
    operation = await client.bulk.start(BulkVerb.RETRY, which, rate=rate or None, reason=reason)
    noted(request, operation=operation.id, expected=operation.expected.jobs)
    return turned(request, url(request, "dead-letters"), started(operation))


@routes.post("/dead-letters/purge", Permission.DELETE_JOBS)
async def purge_here(request: Request, client: Seen, confirmation: str = Form("", max_length=100)) -> Response:
    """Delete the chosen jobs, once their number was typed."""
    choice = Choice.of_form(await request.form())
    noted(request, **choice.facts())
    which = await choice.jobs(client)
    _require_confirmed(confirmation, choice)
    reason = choice.reason or None
    operation = await client.bulk.start(BulkVerb.DELETE, which, reason=reason)
    noted(request, operation=operation.id, expected=operation.expected.jobs)
    return turned(request, url(request, "dead-letters"), started(operation))


@routes.post("/dead-letters/bulk/{operation}/{verb}", Permission.CHANGE_MANY_JOBS)
async def change_operation_here(request: Request, operation: int, verb: str, client: Seen) -> Response:
    """Pause, resume or cancel a bulk operation."""
    known = await client.bulk.get(operation)
    change = {"pause": client.bulk.pause, "resume": client.bulk.resume, "cancel": client.bulk.cancel}
    if verb not in change:
        raise not_found("action", verb)
    if verb != "cancel":
        require_role_for(client.principal, known.verb)  # guard: dead-run-role
    await change[verb](operation)
    return turned(request, url(request, "dead-letters"), f"bulk operation {operation}: {verb}")


@routes.get("/dead-letters/{group}", Permission.LOOK)
async def dead_letter_page(
    request: Request, group: str, client: Seen, after: str = Query("", max_length=60)
) -> Response:
    """Show one group, and its jobs."""
    found, which = redact(await client.dead_letters.get(group)), await client.dead_letters.filter(group)
    jobs = await client.jobs.list(which, limit=_JOBS, after=after or None)
    return page(
        request,
        "dead_letter.html",
        at="dead-letters",
        group=found,
        jobs=jobs.jobs,
        next=jobs.next,
    )


@routes.get("/dead-letters/{group}/{job}", Permission.RETRY_JOBS)
async def edit_dead_job_page(request: Request, group: str, job: str, client: Seen) -> Response:
    """Show the arguments of a failed job, to be changed."""
    found, failed = await client.dead_letters.get(group), await client.jobs.get(job)
    return page(
        request,
        "dead_edit.html",
        at="dead-letters",
        group=found,
        job=failed,
        error=Shown(failed).error or "",
        arguments=written(failed.args),
    )


@routes.post("/dead-letters/{group}/{job}/replay", Permission.RETRY_JOBS)
async def replay_one_here(request: Request, group: str, job: str, client: Seen) -> Response:
    """Give one failed job a new life."""
    found, failed = await client.dead_letters.get(group), await client.jobs.get(job)
    noted(request, queue=failed.queue)
    await client.jobs.retry(failed.id)
    return turned(request, url(request, "dead-letters", found.id), f"job {failed.id} begins anew")


@routes.post("/dead-letters/{group}/{job}/edit", Permission.RETRY_JOBS)
async def replay_edited_here(
    request: Request, group: str, job: str, client: Seen, arguments: str = Form(max_length=500_000)
) -> Response:
    """Enqueue a failed job anew with other arguments."""
    await client.dead_letters.get(group)
    failed = await client.jobs.get(job)
    changed = await asyncio.to_thread(changes, failed, arguments)
    noted(request, queue=failed.queue, changed=sorted(changed))
    new = await client.jobs.clone(failed.id, changed)
    noted(request, job=new.id)
    return turned(request, url(request, "jobs", new.id), f"job {new.id} stands for {failed.id}")


# ---- parts ---------------------------------------------------------------------------------------------------------


async def _preview(request: Request, client: ScopedClient, choice: Choice, verb: BulkVerb) -> Response:
    which = await choice.jobs(client)
    count = await client.bulk.preview(verb, which)
    return page(
        request,
        "dead_confirm.html",
        at="dead-letters",
        verb=verb,
        choice=choice,
        count=count,
        confirmation=_confirmation(choice),
    )


def _confirmation(choice: Choice) -> str:
    """What has to be typed before anything is deleted: a name of what goes, which nobody types by chance."""
    return choice.group or choice.kind or choice.queue or choice.error or "everything"


def _require_confirmed(given: str, choice: Choice) -> None:
    if given.strip() != _confirmation(choice):
        detail = f"nothing was deleted: expected {_confirmation(choice)!r} as confirmation, got {given[:40]!r}"
        raise Problem(422, detail, "confirmation")
