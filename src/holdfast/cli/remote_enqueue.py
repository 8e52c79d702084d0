"""`enqueue` asked of a server: it knows the task, and the JSON Schema of its arguments."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.cli import arguments, moments, output, waiting
from holdfast.cli.connect import with_server
from holdfast.cli.exits import Exit
from holdfast.cli.locate import Server
from holdfast.cli.waiting import Watch
from holdfast.client.kinds import Kinds
from holdfast.errors import ArgumentError
from holdfast.resources.enqueue import EnqueueRequest
from holdfast.resources.job import EnqueuedJob

if TYPE_CHECKING:
    from holdfast.remote.client import RemoteClient


@dataclass(frozen=True)
class Request:
    """A job to be, as it was typed; without a watch nobody waits for its end."""

    kind: str
    pairs: Sequence[str]
    args: str | None
    options: Mapping[str, Any]
    watch: Watch | None


def run(named: Server, request: Request, *, as_json: bool) -> int:
    """Store the job, and wait for its end if that is wanted; the answer is the exit code."""
    watch = request.watch
    stored: list[EnqueuedJob] = []

    async def store(client: "RemoteClient") -> None:
        job = await client.jobs.enqueue(await _body(client.kinds, request))
        stored.append(job)
        if not as_json:
            write(job)
        if watch is not None:
            watch.ids.append(job.id)
            await waiting.until_ended(client, watch)

    if watch is None:
        with_server(named, store)
        if as_json:
            output.write_json(stored[0])
        return int(Exit.OK)
    with waiting.interruptible(watch):
        with_server(named, store)
    code = waiting.tell(watch, as_json=as_json, is_named=False)
    for job in stored if as_json else ():
        output.write_json(watch.seen.get(job.id, job).enqueued(created=job.created))
    return code


async def _body(kinds: Kinds, request: Request) -> EnqueueRequest:
    if request.args is None:
        schema = await arguments.schema_of(kinds, request.kind)
        encoded = arguments.read_pairs(None, request.pairs, schema)
    else:
        encoded = arguments.read_args(request.args)
    try:
        args = msgspec.json.decode(encoded, type=dict[str, Any])
    except msgspec.DecodeError as error:
        message = f"--args: expected a JSON object: {error}"
        raise ArgumentError(message) from error
    given: dict[str, Any] = {name: value for name, value in request.options.items() if value not in (None, ())}
    if "run_at" in given:
        given["run_at"] = moments.due(given["run_at"], "--at")
    if "tags" in given:
        given["tags"] = moments.tags(given["tags"])
    if given.get("timeout") == "none":
        given["timeout"] = None
    return EnqueueRequest(kind=request.kind, args=args, **given)


def write(job: EnqueuedJob) -> None:
    """Print the id of a job, and note that it was there already if it was."""
    output.line(job.id)
    if not job.created:
        output.note(f"existing: job {job.id} was there already, nothing was stored")
