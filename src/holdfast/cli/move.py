"""`holdfast move`."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import click
import msgspec
from rich.text import Text

from holdfast.cli import locate, options, output
from holdfast.cli.connect import require_kept, require_present
from holdfast.cli.grammar import Verb
from holdfast.cli.live import drawn
from holdfast.config import Settings
from holdfast.duration import milliseconds
from holdfast.locations import masked
from holdfast.moving.copying import Tell
from holdfast.moving.move import Wishes
from holdfast.moving.move import abort as abort_move
from holdfast.moving.move import move as move_jobs
from holdfast.moving.sides import Side
from holdfast.stores import make_store

_DEADLINE = "60s"  # of one page, which may hold a thousand jobs with large arguments
_DEFAULT_SCHEMA = "holdfast"


class MoveShape(msgspec.Struct, frozen=True):
    """`move --json`; `rows` counts by table, also those that an earlier run of the command has moved."""

    to: str | None
    moved: bool
    rows: dict[str, int]


@click.command(
    "move",
    cls=Verb,
    examples=(
        "sqlite:///jobs.db postgresql://app@db/app",
        "sqlite:///jobs.db postgresql://app@db/app --history --wait 10m",
        "--abort sqlite:///jobs.db postgresql://app@db/app",
    ),
)
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="[TO]", required=False)
@click.option("--history", is_flag=True, help="Take finished jobs and the counts of the past along.")
@click.option("--wait", metavar="DURATION", default="30s", show_default=True, help="How long running jobs may go on.")
@click.option("--interrupt", is_flag=True, help="Then requeue what still runs; it runs again on the target.")
@click.option("--abort", is_flag=True, help="Give a move up: reopen FROM, and remove from TO what was copied.")
@click.option("--from-schema", metavar="NAME", default=_DEFAULT_SCHEMA, help="The PostgreSQL schema of FROM.")
@click.option("--to-schema", metavar="NAME", default=_DEFAULT_SCHEMA, help="The PostgreSQL schema of TO.")
@options.as_json
@click.pass_context
def move(
    ctx: click.Context,
    *,
    source: str,
    target: str | None,
    history: bool,
    wait: str,
    interrupt: bool,
    abort: bool,
    from_schema: str,
    to_schema: str,
    as_json: bool,
) -> None:
    """Move all jobs from one store to another.

    FROM takes no new jobs from the first moment on and starts none. What was copied is compared before FROM is marked
    as moved; from then on every app that opens it gets the new URL. Stopped at any point, the command goes on
    when it is run again.
    """
    leaving = _settings(ctx, source, from_schema)
    require_present(leaving)
    coming = None if target is None else _settings(ctx, target, to_schema)
    if abort:
        _abort(leaving, coming, as_json=as_json)
        return
    if coming is None:
        message = "expected FROM and TO, got FROM alone; only --abort does without TO"
        raise click.UsageError(message, ctx)
    wishes = Wishes(_shown(coming), history, milliseconds(wait, "--wait") / 1_000, interrupt)
    began = time.monotonic()
    with _view() as tell:
        rows = asyncio.run(_move(leaving, coming, wishes, tell))
    if as_json:
        output.write_json(MoveShape(wishes.to, moved=True, rows=rows))
        return
    for table, count in rows.items():
        output.line(f"{table}: {count}")
    output.line(f"moved to {wishes.to} in {time.monotonic() - began:.1f} s; start workers there")


async def _move(leaving: Settings, coming: Settings, wishes: Wishes, tell: Tell) -> dict[str, int]:
    async with _opened(leaving, is_source=True) as source, _opened(coming, is_source=False) as target:
        return await move_jobs(source, target, wishes, tell)


def _abort(leaving: Settings, coming: Settings | None, *, as_json: bool) -> None:
    async def run() -> int | None:
        async with _opened(leaving, is_source=True) as source:
            if coming is None:
                return await abort_move(source, None)
            async with _opened(coming, is_source=False) as target:
                return await abort_move(source, target)

    dropped = asyncio.run(run())
    if as_json:
        output.write_json(MoveShape(None, moved=False, rows={} if dropped is None else {"dropped": dropped}))
        return
    output.line(f"{_shown(leaving)} is open again")
    if dropped is None:
        output.note("what was copied stays on the target, blocked, until the next move to it or `move --abort FROM TO`")
    else:
        output.line(f"{dropped} copied jobs were removed from the target")


@asynccontextmanager
async def _opened(settings: Settings, *, is_source: bool) -> AsyncIterator[Side]:
    store = make_store(settings)
    await store.open(to_move=is_source)
    try:
        yield store
    finally:
        await store.close()


def _settings(ctx: click.Context, url: str, schema: str) -> Settings:
    settings = locate.bare_app(ctx, url, schema, deadline=_DEADLINE).config
    require_kept(settings)
    return settings


def _shown(settings: Settings) -> str:
    schema = "" if settings.schema == _DEFAULT_SCHEMA else f" (schema {settings.schema})"
    return f"{masked(settings.url)}{schema}"


@contextmanager
def _view() -> Iterator[Tell]:
    """Draw how far it is where a person watches; elsewhere tell nothing."""
    with drawn(sys.stderr) as draw:
        yield lambda step, rows: None if draw is None else draw(Text(f"{step}  {rows:,}" if rows else step))
