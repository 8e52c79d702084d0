"""Following one job: `jobs watch`, a line for each thing that happens to it."""

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from typing import Any

import click

from holdfast import ages
from holdfast.cli import output
from holdfast.cli.exits import Exit, show_error
from holdfast.client.protocol import Client
from holdfast.events import TERMINAL_EVENTS, EventType
from holdfast.resources.event import Event
from holdfast.resources.job import Job
from holdfast.resources.redaction import redact

_ITEMS = 3
WIDTH = max(len(name.value) for name in EventType)
STYLES = {
    EventType.STARTED: "yellow",
    EventType.PHASE_COMPLETED: "green",
    EventType.RETRYING: "cyan",
    EventType.COMPLETED: "green",
    EventType.FAILED: "red",
    EventType.CANCELLED: "bright_black",
    EventType.RESCUED: "magenta",
    EventType.INTERRUPTED: "magenta",
}


class Following:
    """One job that is followed, and what came of it."""

    def __init__(self, job_id: str, timeout_s: float | None, *, as_json: bool) -> None:
        self.code: Exit | None = None  # known when it has ended
        self.seen: Job | None = None
        self._job_id = job_id
        self._timeout_s = timeout_s
        self._as_json = as_json

    async def follow(self, client: Client) -> None:
        """Print everything that happens, until the end of the job or of the time."""
        self.seen = await client.jobs.get(self._job_id)
        if output.is_terminal() and not self._as_json and not self.seen.is_finished:
            output.note(f"{self.seen.id} ({self.seen.kind}) is {self.seen.state}; Ctrl-C stops the watching")
        limit = asyncio.timeout(self._timeout_s)
        try:
            async with limit:
                await self._follow(client)
        except TimeoutError:
            if not limit.expired():
                raise

    async def _follow(self, client: Client) -> None:
        async with aclosing(client.jobs.watch(self._job_id)) as events:
            async for event in events:
                self._tell(event)
                if event.type in TERMINAL_EVENTS:
                    self.code = Exit.OK if event.type is EventType.COMPLETED else Exit.JOB_FAILED

    def _tell(self, event: Event) -> None:
        if self._as_json:
            click.echo(output.json_line(event))
        elif output.is_terminal():
            style = STYLES.get(event.type, "")
            output.styled(
                (f"{ages.clock(event.at)}  ", "bright_black"),
                (f"{event.type:<{WIDTH}}", style),
                (f"  {told(event)}".rstrip(), ""),
            )
        else:
            output.fields(ages.iso(event.at), event.type.value, told(event))

    def leave(self, *, is_interrupted: bool) -> int:
        """Say why the watching ended before the job did; the answer is the exit code."""
        if self.code is not None:
            return int(self.code)
        name = "" if self.seen is None else f" {self.seen.id}"
        if is_interrupted:
            output.note(f"stopped watching: job{name} goes on")
            return int(Exit.INTERRUPTED)
        message = f"job{name} had not finished after {self._timeout_s or 0:g} s; it goes on: watch it again, or see"
        show_error(f"{message} `jobs show{name}`", Exit.TIMEOUT, kind="ResultTimeout", as_json=self._as_json)
        return int(Exit.TIMEOUT)


def told(event: Event) -> str:
    """Say in a few words what an event is about."""
    data = redact(event).data
    match event.type:
        case EventType.ENQUEUED:
            return f"{event.kind} in {event.queue}, run {event.run}{_due(data)}"
        case EventType.STARTED:
            return f"attempt {event.attempt}"
        case EventType.PROGRESS:
            return _progress(data)
        case EventType.PHASE_COMPLETED:
            return " ".join(part for part in (_percent(data.get("percent")), str(data.get("phase", ""))) if part)
        case EventType.WEBHOOK_DELIVERED | EventType.WEBHOOK_FAILED:
            return f"{data.get('url', '')}, tries: {data.get('tries', '')}"
        case EventType.COMPLETED:
            return f"{event.state}, attempt {event.attempt}"
        case _:
            return f"attempt {event.attempt}{_error(data)}{_due(data)}"


def _progress(data: dict[str, Any]) -> str:
    phase, message = data.get("phase"), data.get("message")
    parts = [_percent(data.get("percent"))]
    if phase is not None:
        parts.append(f"{phase} {_percent(data.get('phase_percent'))}".rstrip())
    if message is not None:
        parts.append(str(message))
    if items := data.get("items"):
        parts.append(_items(items))
    if extra := data.get("data"):
        parts.append(output.json_line(extra))
    return "  ".join(part for part in parts if part)


def _items(items: Sequence[Sequence[Any]]) -> str:
    """Name the items that have ended, the first few of them."""
    named = [f"{key} {state}" + (f" ({note})" if note else "") for _, key, state, note in items[:_ITEMS]]
    return ", ".join(named) + (f" and {len(items) - _ITEMS} more" if len(items) > _ITEMS else "")


def _percent(percent: float | None) -> str:
    return "" if percent is None else f"{percent:3.0f} %"


def _error(data: dict[str, Any]) -> str:
    if not data.get("error_class"):
        return ""
    return f": {data['error_class']}: {data['error']}" if data.get("error") else f": {data['error_class']}"


def _due(data: dict[str, Any]) -> str:
    return f", due {data['run_at']}" if data.get("run_at") else ""
