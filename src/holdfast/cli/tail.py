"""`holdfast jobs tail`."""

import asyncio
from collections.abc import Sequence

import click

from holdfast import ages
from holdfast.cli import completing, job_shapes, options, output, waiting, watching
from holdfast.cli.connect import Session, with_store
from holdfast.cli.exits import Exit
from holdfast.cli.grammar import Verb
from holdfast.client.client import Client
from holdfast.client.subscription import EventsMissed, read_filter
from holdfast.events import TERMINAL_EVENTS, Event, EventKind
from holdfast.job import Job, JobState, LogLine
from holdfast.stores.values import JobFilter

_FOLLOWED = 100  # jobs whose lines are read, at once
_LOOK_S = 1.0
_EXAMPLES = (
    "--queue high",
    "--kind transcode --logs",
    "--event job:failed --event job:retrying --json | jq -r .public_id",
)


@click.command("tail", cls=Verb, examples=_EXAMPLES)
@click.option(
    "--queue",
    "queues",
    multiple=True,
    metavar="NAME",
    shell_complete=completing.queues,
    help="Jobs of this queue, or of any given.",
)
@click.option(
    "--kind",
    "kinds",
    multiple=True,
    metavar="KIND",
    shell_complete=completing.kinds,
    help="Jobs of this kind, or of any given.",
)
@click.option("--event", "events", multiple=True, metavar="EVENT", help="These events only: job:failed, job:progress.")
@click.option("--logs", is_flag=True, help="Also what handlers log, of up to 100 jobs at once.")
@click.option("--timeout", metavar="DURATION", help="Leave after so long: 30s, 5m. [default: when stopped]")
@options.as_json
@click.pass_context
def tail(
    ctx: click.Context,
    *,
    queues: Sequence[str],
    kinds: Sequence[str],
    events: Sequence[str],
    logs: bool,
    timeout: str | None,
    as_json: bool,
) -> None:
    """Follow what happens to jobs, a line for each event.

    From now on, until Ctrl-C. A pipe gets the time, the job, its kind, the event and what it says, separated by tabs;
    --json prints one JSON object a line. Where events were lost, because they came faster than they were read, a note
    on stderr says so.
    """
    read_filter(events)  # refuses what is no event
    following = Tail(queues, kinds, events, has_logs=logs, as_json=as_json)
    limit_s = waiting.read_timeout(timeout, "--timeout")
    try:
        with_store(ctx, lambda session: following.follow(session, limit_s))
    except KeyboardInterrupt:
        ctx.exit(Exit.INTERRUPTED)


class Tail:
    """Follows events, and the lines of jobs that run meanwhile."""

    def __init__(
        self, queues: Sequence[str], kinds: Sequence[str], events: Sequence[str], *, has_logs: bool, as_json: bool
    ) -> None:
        self._queues = queues
        self._kinds = kinds
        self._events = events
        self._has_logs = has_logs
        self._as_json = as_json
        self._running: dict[int, tuple[int, int]] = {}  # by job: the claim and line that was printed last

    async def follow(self, session: Session, limit_s: float | None) -> None:
        """Print what happens until the time is over."""
        client = session.client
        reading = asyncio.create_task(self._read_lines(client)) if self._has_logs else None
        limit = asyncio.timeout(limit_s)
        try:
            async with limit, client.events(queues=self._queues, tasks=self._kinds) as events:
                if self._has_logs:
                    await self._take_running(client)
                while True:
                    try:
                        event = await anext(events, None)
                    except EventsMissed as error:
                        output.note(str(error))
                        continue
                    if event is None:
                        return
                    await self._hear(client, event)
        except TimeoutError:
            if not limit.expired():
                raise
        finally:
            if reading is not None:
                reading.cancel()
                await asyncio.gather(reading, return_exceptions=True)

    async def _hear(self, client: Client, event: Event) -> None:
        if event.kind is EventKind.STARTED and len(self._running) < _FOLLOWED:
            self._running.setdefault(event.job_id, (0, 0))
        if event.job_id in self._running and event.kind in TERMINAL_EVENTS and self._has_logs:
            await self._write_lines(client)
            self._running.pop(event.job_id, None)
        if not self._events or event.kind.value in self._events:
            self._write(event)

    def _write(self, event: Event) -> None:
        if self._as_json:
            click.echo(output.json_line(job_shapes.event(event)))
        elif output.is_terminal():
            output.styled(
                (f"{ages.clock(event.at)}  ", "bright_black"),
                (f"{event.public_id or event.queue}  ", "bold"),
                (f"{event.kind:<{watching.WIDTH}}", watching.STYLES.get(event.kind, "")),
                (f"  {event.task}  {watching.told(event)}".rstrip(), ""),
            )
        else:
            where = event.public_id or event.queue
            output.fields(ages.iso(event.at), where, event.task, event.kind.value, watching.told(event))

    # ---- what handlers log -----------------------------------------------------------------------------------------

    async def _take_running(self, client: Client) -> None:
        which = JobFilter(states=(JobState.RUNNING,), queues=tuple(self._queues), kinds=tuple(self._kinds))
        page = await client.list(which, limit=_FOLLOWED)
        found = await client.get_many([job.id for job in page.jobs])
        for job in found.values():  # what they have logged so far is history
            self._running[job.id] = max(((line.claim, line.line) for line in job.logs), default=(0, 0))

    async def _read_lines(self, client: Client) -> None:
        while True:
            await asyncio.sleep(_LOOK_S)
            await self._write_lines(client)

    async def _write_lines(self, client: Client) -> None:
        if not self._running:
            return
        for job in (await client.get_many(list(self._running))).values():
            last = self._running.get(job.id)
            for line in job.logs if last is not None else ():
                if (line.claim, line.line) > (last or (0, 0)):
                    self._write_line(job, line)
                    self._running[job.id] = (line.claim, line.line)

    def _write_line(self, job: Job, line: LogLine) -> None:
        if self._as_json:
            shape = job_shapes.LineShape(
                event="log",
                at=line.at,
                id=str(job.id),
                public_id=job.public_id,
                kind=job.kind,
                queue=job.queue,
                claim=line.claim,
                level=line.level,
                text=line.text,
            )
            click.echo(output.json_line(shape))
        elif output.is_terminal():
            output.styled(
                (f"{ages.clock(line.at)}  ", "bright_black"),
                (f"{job.public_id}  ", "bold"),
                (f"{line.level:<{watching.WIDTH}}", "bright_black"),
                (f"  {job.kind}  {line.text}", ""),
            )
        else:
            output.fields(ages.iso(line.at), job.public_id, job.kind, line.level, line.text)
