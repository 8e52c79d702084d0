"""Jobs as people name them: by a whole id, or by its first or last digits."""

from collections.abc import Sequence

import click

from holdfast import public_id
from holdfast.cli.connect import Session, with_store
from holdfast.client.jobs import Jobs
from holdfast.errors import InvalidValue, JobNotFound
from holdfast.stores.values import JobFilter

_MOST = 2  # one more than it may be


def one(ctx: click.Context, name: str) -> str:
    """Find the job that is meant by a whole id or a part of one."""
    return several(ctx, [name])[0]


def several(ctx: click.Context, names: Sequence[str]) -> list[str]:
    """Find the jobs that are meant; whole ids are read without asking anybody, and all before anything is changed."""
    parts = [_part(name) for name in names]
    if all(part is None for part in parts):
        return [public_id.encode(public_id.decode(name)) for name in names]

    async def find(session: Session) -> list[str]:
        return [
            public_id.encode(public_id.decode(name)) if part is None else await _only(session.client.jobs, name, part)
            for name, part in zip(names, parts, strict=True)
        ]

    return with_store(ctx, find)


def _part(name: str) -> JobFilter | None:
    """Read a part of an id; None for a whole one, and what is neither is refused as a whole one would be."""
    try:
        public_id.decode(name)
    except InvalidValue:
        ending, beginning = public_id.ends(name), public_id.begins(name) if "-" in name else None
        if ending is None and beginning is None:
            raise
        return JobFilter(id_range=beginning) if ending is None else JobFilter(id_ending=ending)
    return None


async def _only(jobs: Jobs, name: str, part: JobFilter) -> str:
    found = (await jobs.search(part, limit=_MOST)).jobs
    if not found:
        message = f"job {name}: no job has such an id; it was deleted, or its retention has ended"
        raise JobNotFound(message)
    if len(found) > 1:
        message = f"job {name}: expected enough of an id to know which, got what {found[0].id} and"
        message += f" {found[1].id} have too"
        raise InvalidValue(message)
    return found[0].id
