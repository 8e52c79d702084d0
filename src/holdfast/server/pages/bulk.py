"""Changes many jobs: first a page says how many they are, then the jobs are changed."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Annotated

from fastapi import Form, Query, Request
from starlette.responses import Response

from holdfast import filtering
from holdfast.errors import Conflict, InvalidValue
from holdfast.job import Answer, JobState
from holdfast.resources.bulk import BulkVerb
from holdfast.resources.job_parts import JobAnswer
from holdfast.server.api.bulk import require_role_for
from holdfast.server.pages.jobs import PAGE, read_query
from holdfast.server.pages.rendering import page, turned, url
from holdfast.server.pages.said import Said
from holdfast.server.principal import Principal
from holdfast.server.problems import Problem
from holdfast.server.roles import Permission
from holdfast.server.routing import Routes, Seen, Who, noted
from holdfast.server.scoped.client import ScopedClient
from holdfast.server.scoped.jobs import ScopedJobs
from holdfast.stores.bulk import TAKES

routes = Routes("pages", in_schema=False)

VERBS = {
    "retry": "Retry",
    "cancel": "Cancel",
    "reschedule": "Reschedule",
    "reprioritise": "Reprioritise",
    "delete": "Delete",
}
_DEEDS = {
    "retry": "retried",
    "cancel": "cancelled",
    "reschedule": "rescheduled",
    "reprioritise": "moved to another priority",
    "delete": "deleted",
}
_REFUSALS = {
    Answer.NOT_FOUND: "not there any more",
    Answer.WRONG_STATE: "in a state that does not allow it",
    Answer.UNIQUE_CLASH: "whose unique key another live job holds",
    Answer.EXPIRING: "within a day of deletion",
}

Verb = Annotated[str, Query(max_length=20)]
Text = Annotated[str, Form(max_length=filtering.LONGEST)]


@dataclass(frozen=True)
class Wanted:
    """What is to be done: to the jobs that were chosen, or to all that fit the filter."""

    verb: str
    query: str
    jobs: list[str] = field(default_factory=list)
    is_all: bool = False
    priority: str = ""
    delay: str = ""
    rate: str = ""
    reason: str = ""


@routes.get("/jobs/bulk", Permission.CHANGE_MANY_JOBS)
async def bulk_page(
    request: Request,
    client: Seen,
    *,
    verb: Verb,
    q: str = Query("", max_length=filtering.LONGEST),
    job: list[str] = Query([], max_length=PAGE * 4),  # noqa: B008 - a description, and not a default that is shared
    everything: str = Query("", alias="all", max_length=10),
) -> Response:
    """Say how many jobs would be changed, and ask for the rest."""
    wanted = Wanted(_verb(verb, client.principal), q, [] if everything else job, bool(everything))
    return await _asked(request, client, wanted)


@routes.post("/jobs/bulk", Permission.CHANGE_MANY_JOBS)
async def bulk_here(
    request: Request,
    client: Seen,
    who: Who,
    *,
    verb: Annotated[str, Form(max_length=20)],
    q: Text = "",
    job: Annotated[list[str], Form()] = [],  # noqa: B006 - read by FastAPI, and never changed
    priority: Text = "",
    delay: Text = "",
    rate: Text = "",
    reason: Text = "",
    confirm: Text = "",
    everything: Annotated[str, Form(alias="all", max_length=10)] = "",
) -> Response:
    """Change many jobs: those that were chosen at once, all that fit as a bulk operation."""
    wanted = Wanted(_verb(verb, who), q, [] if everything else job, bool(everything), priority, delay, rate, reason)
    noted(request, verb=verb, filter=q or None, jobs=job or None, reason=reason or None)
    if verb == "delete" and confirm.strip() != "delete":
        return await _asked(request, client, wanted, mistake='type the word "delete" to go on', status=422)
    try:
        said = await (_start(client, wanted) if wanted.is_all else _each(client, wanted))
    except (InvalidValue, Conflict) as error:
        return await _asked(request, client, wanted, mistake=str(error), status=422)
    return turned(request, url(request, "jobs", q=q), said)


@routes.post("/jobs/bulk/{operation}/{verb}", Permission.CHANGE_MANY_JOBS, whole=True)
async def change_operation_here(request: Request, operation: int, verb: str, client: Seen, q: Text = "") -> Response:
    """Pause, resume or cancel a bulk operation."""
    change = {"pause": client.bulk.pause, "resume": client.bulk.resume, "cancel": client.bulk.cancel}
    if verb not in change:
        raise Problem(404, f"there is nothing at {request.url.path}", "not-found")
    if verb != "cancel":
        require_role_for(client.principal, (await client.bulk.get(operation)).verb)  # guard: bulk-run-role
    try:
        await change[verb](operation)
    except (InvalidValue, Conflict) as error:
        return turned(request, url(request, "jobs", q=q), Said(f"Not done: {error}", is_bad=True))
    return turned(request, url(request, "jobs", q=q), f"Bulk operation {operation}: {verb}.")


def _verb(verb: str, who: Principal) -> str:
    if verb not in VERBS:
        raise Problem(422, f"verb: expected one of {', '.join(VERBS)}, got {verb[:40]!r}", "invalid-value")
    require_role_for(who, BulkVerb(verb))  # guard: bulk-page-role
    return verb


async def _asked(
    request: Request, client: ScopedClient, wanted: Wanted, *, mistake: str | None = None, status: int = 200
) -> Response:
    count = ""
    try:
        count = await _preview(client, wanted)
    except InvalidValue as error:
        mistake, status = mistake or str(error), 422
    return page(
        request,
        "bulk.html",
        at="jobs",
        status=status,
        wanted=wanted,
        title=VERBS[wanted.verb],
        count=count,
        takes=_takes(wanted.verb),
        mistake=mistake,
        query=wanted.query,
    )


async def _preview(client: ScopedClient, wanted: Wanted) -> str:
    if not wanted.is_all:
        if not wanted.jobs:
            message = "jobs: choose some on the page before, or take all that match"
            raise InvalidValue(message)
        if len(wanted.jobs) > PAGE * 4:
            message = f"jobs: expected at most {PAGE * 4} that were chosen, got {len(wanted.jobs)}; use a filter"
            raise InvalidValue(message)
        return str(len(dict.fromkeys(wanted.jobs)))
    which = read_query(wanted.query).where
    found = await client.bulk.preview(wanted.verb, which)
    return str(found)


def _takes(verb: str) -> str:
    states = TAKES[BulkVerb(verb)]
    return ", ".join(sorted(state.value.replace("_", " ") for state in states))


async def _start(client: ScopedClient, wanted: Wanted) -> Said:
    operation = await client.bulk.start(
        wanted.verb,
        read_query(wanted.query).where,
        rate=wanted.rate or None,
        priority=_priority(wanted) if wanted.verb == "reprioritise" else None,
        delay=(wanted.delay or "0s") if wanted.verb == "reschedule" else None,
        reason=wanted.reason or None,
    )
    begun = f"Bulk operation {operation.id} has begun: {operation.expected} jobs are to be {_DEEDS[wanted.verb]}."
    return Said(begun)


async def _each(client: ScopedClient, wanted: Wanted) -> Said:
    await _preview(client, wanted)
    seen = await client.jobs.get_many(wanted.jobs)
    answers = await _deed(client.jobs, wanted, list(seen)) if seen else []
    done = [answer.id for answer in answers if answer.answer in {Answer.DONE, Answer.REQUESTED}]
    gone = len(dict.fromkeys(wanted.jobs)) - len(answers)
    # Only who was in line goes back there: what was due later would run at once, and what ran is told to stop.
    back = wanted.verb == "cancel" and all(seen[name].state is JobState.QUEUED for name in done)
    text = f"{len(done)} {'job' if len(done) == 1 else 'jobs'} {_DEEDS[wanted.verb]}.{_left(answers, gone)}"
    return Said(text, undo=("jobs", "bulk") if back and done else (), jobs=tuple(done) if back else ())


def _left(answers: list[JobAnswer], gone: int) -> str:
    """Say how many were left as they were, and why."""
    reasons = Counter({"not there any more": gone})
    reasons.update(_REFUSALS[answer.answer] for answer in answers if answer.answer in _REFUSALS)
    told = [f"{count} {reason}" for reason, count in reasons.items() if count]
    return f" Left as they were: {', '.join(told)}." if told else ""


async def _deed(jobs: ScopedJobs, wanted: Wanted, ids: list[str]) -> list[JobAnswer]:
    match wanted.verb:
        case "retry":
            return await jobs.retry_many(ids)
        case "cancel":
            return await jobs.cancel_many(ids, reason=wanted.reason or None)
        case "reschedule":
            return await jobs.reschedule_many(ids, delay=wanted.delay or "0s")
        case "reprioritise":
            return await jobs.reprioritise_many(ids, _priority(wanted))
        case _:
            return await jobs.delete_many(ids)


def _priority(wanted: Wanted) -> int:
    try:
        return int(wanted.priority)
    except ValueError:
        message = f"priority: expected a number from 0 to 10, got {wanted.priority!r}"
        raise InvalidValue(message) from None
