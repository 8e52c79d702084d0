"""Enqueuing jobs over HTTP: one, or many in one request."""

import asyncio
from dataclasses import fields
from typing import Annotated, Any

from fastapi import Body, Header, Request, Response

from holdfast import names
from holdfast.errors import HoldfastError, InvalidValue, StoreError
from holdfast.handle import JobHandle
from holdfast.resources.enqueue import BatchAnswer, BatchAnswers, BatchError, BatchRequest, EnqueueRequest
from holdfast.resources.job import EnqueuedJob
from holdfast.resources.request import DEFAULT
from holdfast.server.pages.rendering import url
from holdfast.server.problems import Problem, problem_of
from holdfast.server.roles import Permission
from holdfast.server.routing import Routes, Seen, noted
from holdfast.server.scoped.client import ScopedClient
from holdfast.tasks.call import Call
from holdfast.tasks.options import UsingOptions

routes = Routes("jobs", "/jobs")

_OPTIONS = [field.name for field in fields(EnqueueRequest) if field.name not in {"kind", "args", "timeout"}]

IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=names.KEY_BYTES,
        examples=["order-17"],
        description="The job's idempotency key: the same request sent again finds its job for 24 hours.",
    ),
]
_EXAMPLES: Any = {
    "plain": {"summary": "Run it soon", "value": {"kind": "send_email", "args": {"to": "ada@example.org"}}},
    "later": {
        "summary": "Run it in an hour, once however often this is sent",
        "value": {"kind": "send_email", "args": {"to": "ada@example.org"}, "delay": "1h", "key": "order-17"},
    },
}


@routes.post(
    "",
    Permission.ENQUEUE_JOBS,
    summary="Enqueue a job",
    status_code=201,
    responses={
        200: {"model": EnqueuedJob, "description": "The job was there already: its key or unique key found it."}
    },
)
async def enqueue_job(
    request: Request,
    response: Response,
    client: Seen,
    asked: Annotated[EnqueueRequest, Body(openapi_examples=_EXAMPLES)],
    key: IdempotencyKey = None,
) -> EnqueuedJob:
    """Store one job: when this answers, it is on disk.

    The arguments are checked by the task, or by what a worker has published of it. The answer is 201 with the new job,
    or 200 with the job that `key`, `unique` or the header `Idempotency-Key` found. 409 says that the key was used for
    another request, 429 that a rate limit of the kind lets no more in.
    """
    noted(request, kind=asked.kind)
    call = await _call(client, asked, key)
    noted(request, queue=call.queue)
    handle = await client.enqueue(call)
    noted(request, job=handle.id, created=handle.created)
    if not handle.created:
        response.status_code = 200
    response.headers["location"] = url(request, "api", "v1", "jobs", handle.id)
    return (await client.jobs.get(handle.id)).enqueued(created=handle.created)


@routes.post("/batch", Permission.ENQUEUE_JOBS, summary="Enqueue many jobs")
async def enqueue_jobs(request: Request, client: Seen, asked: BatchRequest) -> BatchAnswers:
    """Store up to 1,000 jobs in one request, each by itself: one that is refused keeps no other from being stored.

    There is one answer for each, in order. With a `key` for each of them, the whole request may be sent again.
    """
    answers = await asyncio.gather(*(_enqueued(client, one) for one in asked.jobs))
    found = [_answer(one) for one in answers]
    created = sum(1 for one in found if one.error is None)
    noted(request, jobs=len(found), refused=len(found) - created)
    away = [one for one in answers if isinstance(one, StoreError)]
    if len(away) == len(answers):
        raise away[0]
    return BatchAnswers(
        jobs=found,
        created=sum(1 for one in answers if isinstance(one, JobHandle) and one.created),
        refused=len(found) - created,
    )


async def _enqueued(client: ScopedClient, asked: EnqueueRequest) -> JobHandle[Any] | HoldfastError | Problem:
    try:
        return await client.enqueue(await _call(client, asked, None))
    except (HoldfastError, Problem) as error:
        return error


async def _call(client: ScopedClient, asked: EnqueueRequest, key: str | None) -> Call[Any]:
    options = _options(asked)
    if key is not None:
        if asked.key not in (None, key):
            message = "key: expected the same as the header Idempotency-Key, or none, got another"
            raise InvalidValue(message)
        options["key"] = key
    options.setdefault("actor", client.principal.name)
    return await client.kinds.call(asked.kind, asked.args, options)


def _answer(became: JobHandle[Any] | HoldfastError | Problem) -> BatchAnswer:
    if isinstance(became, JobHandle):
        return BatchAnswer(status=201 if became.created else 200, id=became.id)
    problem = became if isinstance(became, Problem) else problem_of(became)
    refused = BatchError(type=f"urn:holdfast:{problem.code}", detail=problem.detail)
    return BatchAnswer(status=problem.status, error=refused)


def _options(asked: EnqueueRequest) -> UsingOptions:
    """What `using(...)` takes of a request."""
    chosen: UsingOptions = {}
    given = {name: getattr(asked, name) for name in _OPTIONS}
    chosen.update({name: value for name, value in given.items() if value is not None})  # type: ignore[typeddict-item] # the names are those of UsingOptions
    if asked.timeout != DEFAULT:
        chosen["timeout"] = asked.timeout
    return chosen
