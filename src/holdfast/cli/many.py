"""Starts a bulk operation from a command: says how many jobs there are, asks, and perhaps waits for the end."""

import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import click

from holdfast import ages, filtering
from holdfast.cli import bulk, options, output
from holdfast.cli.connect import Session, with_store
from holdfast.cli.exits import Exit
from holdfast.client.protocol import Client
from holdfast.resources.bulk import BulkOperation, BulkState, BulkVerb
from holdfast.resources.queue import JobCount
from holdfast.stores.values import JobFilter


@dataclass(frozen=True)
class Deed:
    """What is done to jobs, in the words of the command; `typed` is what a person has to type to go on."""

    verb: BulkVerb
    word: str
    jobs: str = "job"
    typed: str | None = None
    terms: Mapping[str, Any] = field(default_factory=dict)

    def of(self, count: JobCount) -> str:
        """Say to how many it is done."""
        return f"{self.word} 1 {self.jobs}" if str(count) == "1" else f"{self.word} {count} {self.jobs}s"


def choosing(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command that takes ids the options that choose jobs by a filter instead."""
    for option in (
        options.reason,
        options.actor,
        *_RUNNING,
        click.option("--filter", "query", metavar="FILTER", help="Instead of ids: all that fit, as in `jobs list`."),
    ):
        command = option(command)
    return command


def running(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of a bulk operation."""
    for option in _RUNNING:
        command = option(command)
    return command


_RUNNING = (
    click.option("--wait", is_flag=True, help="Wait until it is done, and show how far it is."),
    click.option("--rate", metavar="N/TIME", help="At most so many: 50/s, 100/min. [default: as fast as it goes]"),
    click.option("--yes", "-y", is_flag=True, help="Do not ask."),
    click.option("--dry-run", is_flag=True, help="Say how many jobs it would be, and change nothing."),
)


def fitting(query: str) -> JobFilter:
    """Read a filter in the language of the dashboard's box."""
    return filtering.parse(query, ages.now()).where


def start(
    ctx: click.Context,
    deed: Deed,
    choose: Callable[[Client], Awaitable[JobFilter]],
    given: Mapping[str, Any],
) -> None:
    """Say how many jobs there are, ask, start the operation, and wait for its end if that is wanted."""
    as_json: bool = given["as_json"]
    terms = {name: given.get(name) for name in ("rate", "actor", "reason")} | dict(deed.terms)
    begun: list[BulkOperation] = []

    async def run(session: Session) -> BulkOperation | None:
        client = session.client
        which = await choose(client)
        count = await client.bulk.preview(deed.verb, which)
        if given["dry_run"] or not count.jobs:
            _write_preview(deed, count, as_json=as_json)
            return None
        if not given["yes"]:
            _ask(ctx, deed, count)
        begun.append(await client.bulk.start(deed.verb, which, **terms))
        return await bulk.follow(client, begun[0], quiet=as_json) if given["wait"] else begun[0]

    try:
        ended = with_store(ctx, run)
    except KeyboardInterrupt:
        if not begun:
            raise
        bulk.leave(ctx, begun[0])
        return
    if ended is None:
        return
    bulk.write(ended, as_json=as_json)
    if given["wait"] and ended.state is BulkState.FAILED:
        ctx.exit(Exit.ERROR)
    if not given["wait"] and not as_json:
        output.note(f"workers or `services run` do it in the background; follow it with `bulk show {ended.id} --wait`")


def _write_preview(deed: Deed, count: JobCount, *, as_json: bool) -> None:
    if as_json:
        output.write_json(count)
    elif count.jobs:
        output.line(f"this would {deed.of(count)}")
    else:
        output.note(f"no {deed.jobs} fits that it could be done to")


def _ask(ctx: click.Context, deed: Deed, count: JobCount) -> None:
    """Ask a person; where nobody can answer, nothing is done."""
    if not sys.stdin.isatty():
        message = f"this would {deed.of(count)}; say --yes to do it where nobody can be asked"
        raise click.UsageError(message, ctx)
    if deed.typed is None:
        click.confirm(f"{deed.of(count)}?", abort=True, err=True)
        return
    question = f"{deed.of(count)}? type {deed.typed} to go on"
    said = click.prompt(question, err=True, default="", show_default=False)
    if said.strip() != deed.typed:
        raise click.Abort
