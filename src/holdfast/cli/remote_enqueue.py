"""`enqueue` asked of a server: it knows the task, and the JSON Schema of its arguments."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click
import msgspec

from holdfast.cli import arguments, job_shapes, moments, output, waiting
from holdfast.cli.connect import Session, with_store
from holdfast.cli.exits import Exit
from holdfast.cli.waiting import Watch
from holdfast.errors import ArgumentError
from holdfast.job import Job


@dataclass(frozen=True)
class Request:
    """A job to be, as it was typed; without a watch nobody waits for its end."""

    kind: str
    pairs: Sequence[str]
    payload: str | None
    options: Mapping[str, Any]
    watch: Watch | None


def run(ctx: click.Context, request: Request, *, as_json: bool) -> int:
    """Store the job, and wait for its end if that is wanted; the answer is the exit code."""
    watch = request.watch
    stored: list[tuple[Job, bool]] = []

    async def store(session: Session) -> None:
        client: Any = session.client  # a RemoteClient
        job, is_new = await client.enqueue_as(request.kind, await _body(client, request))
        stored.append((job, is_new))
        if not as_json:
            _write(job, is_new=is_new)
        if watch is not None:
            watch.ids.append(job.id)
            await waiting.until_ended(client, watch)

    if watch is None:
        with_store(ctx, store)
        if as_json:
            (job, is_new), *_ = stored
            output.write_json(job_shapes.EnqueuedShape(str(job.id), job.public_id, is_new))
        return int(Exit.OK)
    with waiting.interruptible(watch):
        with_store(ctx, store)
    code = waiting.tell(watch, as_json=as_json, is_named=False)
    for job, is_new in stored if as_json else ():
        output.write_json(job_shapes.waited_anew(job.id, watch.seen.get(job.id), is_new=is_new))
    return code


async def _body(client: Any, request: Request) -> dict[str, Any]:
    if request.payload is None:
        schema = await client.schema_of(request.kind)
        encoded = arguments.read_pairs(None, request.pairs, schema)
    else:
        encoded = arguments.read_payload(request.payload)
    try:
        args = msgspec.json.decode(encoded, type=dict[str, Any])
    except msgspec.DecodeError as error:
        message = f"--payload: expected a JSON object: {error}"
        raise ArgumentError(message) from error
    given = {name: value for name, value in request.options.items() if value not in (None, ())}
    body: dict[str, Any] = {"args": args}
    same = ("priority", "unique", "unique_for", "key", "actor", "max_attempts", "timeout")
    body |= {name: given[name] for name in same if name in given}
    if "run_in" in given:
        body["delay"] = given["run_in"]
    if "run_at" in given:
        body["run_at"] = moments.due(given["run_at"], "--at")
    if "tags" in given:
        body["tags"] = moments.tags(given["tags"])
    if body.get("timeout") == "none":
        body["timeout"] = msgspec.Raw(b"null")
    return body


def _write(job: Job, *, is_new: bool) -> None:
    output.line(job.public_id)
    if not is_new:
        output.note(f"existing: job {job.public_id} was there already, nothing was stored")
