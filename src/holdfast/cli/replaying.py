"""Replaying a finished job with other arguments: `jobs edit`, and `dead-letters replay JOB --set KEY=VALUE`."""

from dataclasses import dataclass
from typing import Any

import click
import msgspec

from holdfast.app import Holdfast
from holdfast.cli import arguments, job_shapes, locate, output
from holdfast.cli.connect import Session, with_store
from holdfast.client.clone import edited
from holdfast.errors import ArgumentError
from holdfast.job import Job
from holdfast.payload import covered
from holdfast.tasks.registry import AnyTask


@dataclass(frozen=True)
class Changes:
    """The arguments that differ, as they were typed: pairs, or one JSON object."""

    pairs: tuple[str, ...]
    payload: str | None = None

    def read(self, old: Job, task: AnyTask | None, schema: dict[str, Any] | None) -> dict[str, Any]:
        """Read them; what is as it is shown of the old job has not changed, so that no cover becomes a secret."""
        if self.payload is None:
            return msgspec.json.decode(arguments.read_pairs(task, self.pairs, schema), type=dict[str, Any])
        try:
            given = msgspec.json.decode(arguments.read_payload(self.payload), type=dict[str, Any])
        except msgspec.DecodeError as error:
            message = f"--payload: expected a JSON object: {error}"
            raise ArgumentError(message) from error
        shown = covered(old.payload) if isinstance(old.payload, dict) else {}
        return {name: value for name, value in given.items() if name not in shown or shown[name] != value}


def replay_edited(ctx: click.Context, job: int, changes: Changes, actor: str | None, *, as_json: bool) -> None:
    """Enqueue a finished job anew with other arguments, and print its id."""
    app = None if locate.server(ctx) else locate.app_or_store(ctx)[0]

    async def change(session: Session) -> Job:
        old = await session.client.get(job)
        if app is not None:
            return await session.client.replay_as(old, await _edited(session, app, old, changes), actor=actor)
        remote: Any = session.client  # a RemoteClient, whose server checks the arguments
        schema = None if changes.payload is not None else await remote.schema_of(old.kind)
        made: Job = await remote.replay_edited(job, changes.read(old, None, schema), actor=actor)
        return made

    made = with_store(ctx, change)
    if as_json:
        output.write_json(job_shapes.job(made))
    else:
        output.line(made.public_id)


async def _edited(session: Session, app: Holdfast, old: Job, changes: Changes) -> str:
    """Write the changed arguments; a task that is known checks them."""
    if old.kind in app.tasks:
        task = app.tasks.get(old.kind)
        return task.arguments.check(edited(old, changes.read(old, task, None), app.settings))
    schemas = {kind.name: kind.args_schema for kind in await session.client.kinds.list()}
    return edited(old, changes.read(old, None, schemas.get(old.kind)), app.settings)
