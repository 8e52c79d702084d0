"""`holdfast jobs tail`."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

import click

from holdfast import ages
from holdfast.about import About
from holdfast.cli import completing, options, output, waiting, watching
from holdfast.cli.connect import Session, with_store
from holdfast.cli.exits import Exit
from holdfast.cli.grammar import Verb
from holdfast.client.jobs import Jobs
from holdfast.client.subscription import EventsMissed, read_filter
from holdfast.errors import JobNotFound
from holdfast.events import TERMINAL_EVENTS, EventType
from holdfast.job import JobState
from holdfast.resources.event import Event
from holdfast.resources.job import Job
from holdfast.resources.job_parts import LogLine
from holdfast.stores.values import JobFilter

of_queues = click.option(
    "--queue",
    "queues",
    multiple=True,
    metavar="NAME",
    shell_complete=completing.queues,
    help="Jobs of this queue, or of any given.",
)
of_kinds = click.option(
    "--kind",
    "kinds",
    multiple=True,
    metavar="KIND",
    shell_complete=completing.kinds,
    help="Jobs of this kind, or of any given.",
)

_FOLLOWED = 100  # jobs whose lines are read, at once
_LOOK_S = 1.0
_EXAMPLES = (
    "--queue high",
    "--kind transcode --logs",
    "--type job:failed --type job:retrying --json | jq -r .id",
)


@click.command("tail", cls=Verb, examples=_EXAMPLES)
@of_queues
@of_kinds
@click.option("--type", "types", multiple=True, metavar="TYPE", help="These events only: job:failed, job:progress.")
@click.option("--logs", is_flag=True, help="Also what handlers log, of up to 100 jobs at once.")
@click.option("--timeout", metavar="DURATION", help="Leave after so long: 30s, 5m. [default: when stopped]")
@options.as_json
@click.pass_context
def tail(
    ctx: click.Context,
    *,
    queues: Sequence[str],
    kinds: Sequence[str],
    types: Sequence[str],
    logs: bool,
    timeout: str | None,
    as_json: bool,
) -> None:
    """Follow what happens to jobs, a line for each event.

    From now on, until Ctrl-C. A pipe gets the time, the job, its kind, the event and what it says, separated by tabs;
    --json prints one JSON object a line. Where events were lost, because they came faster than they were read, a note
    on stderr says so.
    """
    read_filter(types)  # refuses what is no event
    following = Tail(queues, kinds, types, has_logs=logs, as_json=as_json)
    limit_s = waiting.read_timeout(timeout, "--timeout")
    try:
        with_store(ctx, lambda session: following.follow(session, limit_s))
    except KeyboardInterrupt:
        ctx.exit(Exit.INTERRUPTED)


@dataclass(frozen=True, slots=True, kw_only=True)
class TailLine:
    """A line that a handler logged, among the events of `jobs tail --logs --json`."""

    type: str = "log"
    id: str
    at: datetime
    kind: str
    queue: str
    claim: int
    level: str
    text: Annotated[str, About("What it says.", quotes=True)]


class Tail:
    """Follows events, and the lines of jobs that run meanwhile."""

    def __init__(
        self, queues: Sequence[str], kinds: Sequence[str], types: Sequence[str], *, has_logs: bool, as_json: bool
    ) -> None:
        self._queues = queues
        self._kinds = kinds
        self._types = types
        self._has_logs = has_logs
        self._as_json = as_json
        self._running: dict[str, tuple[int, int]] = {}  # by job: the claim and line that was printed last

    async def follow(self, session: Session, limit_s: float | None) -> None:
        """Print what happens until the time is over."""
        client, jobs = session.client, session.client.jobs
        reading = asyncio.create_task(self._read_lines(jobs)) if self._has_logs else None
        limit = asyncio.timeout(limit_s)
        try:
            async with limit, client.events(queues=self._queues, kinds=self._kinds) as events:
                if self._has_logs:
                    await self._take_running(jobs)
                while True:
                    try:
                        event = await anext(events, None)
                    except EventsMissed as error:
                        output.note(str(error))
                        continue
                    if event is None:
                        return
                    await self._hear(jobs, event)
        except TimeoutError:
            if not limit.expired():
                raise
        finally:
            if reading is not None:
                reading.cancel()
                await asyncio.gather(reading, return_exceptions=True)

    async def _hear(self, jobs: Jobs, event: Event) -> None:
        if event.type is EventType.STARTED and event.id is not None and len(self._running) < _FOLLOWED:
            self._running.setdefault(event.id, (0, 0))
        if event.id in self._running and event.type in TERMINAL_EVENTS and self._has_logs:
            await self._write_lines(jobs)
            self._running.pop(event.id, None)
        if not self._types or event.type.value in self._types:
            self._write(event)

    def _write(self, event: Event) -> None:
        if self._as_json:
            click.echo(output.json_line(event))
        elif output.is_terminal():
            output.styled(
                (f"{ages.clock(event.at)}  ", "bright_black"),
                (f"{event.id or event.queue}  ", "bold"),
                (f"{event.type:<{watching.WIDTH}}", watching.STYLES.get(event.type, "")),
                (f"  {event.kind}  {watching.told(event)}".rstrip(), ""),
            )
        else:
            where = event.id or event.queue
            output.fields(ages.iso(event.at), where, event.kind, event.type.value, watching.told(event))

    # ---- what handlers log -----------------------------------------------------------------------------------------

    async def _take_running(self, jobs: Jobs) -> None:
        which = JobFilter(states=(JobState.RUNNING,), queues=tuple(self._queues), kinds=tuple(self._kinds))
        for job in (await jobs.list(which, limit=_FOLLOWED)).jobs:
            lines = await _lines(jobs, job.id)  # what they have logged so far is history
            self._running[job.id] = max(((line.claim, line.line) for line in lines), default=(0, 0))

    async def _read_lines(self, jobs: Jobs) -> None:
        while True:
            await asyncio.sleep(_LOOK_S)
            await self._write_lines(jobs)

    async def _write_lines(self, jobs: Jobs) -> None:
        for job in (await jobs.get_many(list(self._running))).values() if self._running else ():
            for line in await _lines(jobs, job.id):
                if (line.claim, line.line) > self._running.get(job.id, (line.claim, line.line)):
                    self._write_line(job, line)
                    self._running[job.id] = (line.claim, line.line)

    def _write_line(self, job: Job, line: LogLine) -> None:
        if self._as_json:
            described = TailLine(
                id=job.id,
                at=line.at,
                kind=job.kind,
                queue=job.queue,
                claim=line.claim,
                level=line.level,
                text=line.text,
            )
            click.echo(output.json_line(described))
        elif output.is_terminal():
            output.styled(
                (f"{ages.clock(line.at)}  ", "bright_black"),
                (f"{job.id}  ", "bold"),
                (f"{line.level:<{watching.WIDTH}}", "bright_black"),
                (f"  {job.kind}  {line.text}", ""),
            )
        else:
            output.fields(ages.iso(line.at), job.id, job.kind, line.level, line.text)


async def _lines(jobs: Jobs, job: str) -> list[LogLine]:
    """Read what a job logged; nothing of one that was deleted a moment ago."""
    try:
        return await jobs.logs(job)
    except JobNotFound:
        return []
