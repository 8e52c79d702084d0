"""How the demo is seen: drawn anew all the time on a terminal, a line per second elsewhere."""

import sys
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from holdfast import ages
from holdfast.cli import bars, output
from holdfast.cli.output import STATE_STYLES
from holdfast.demo import app as shop
from holdfast.job import LIVE, JobState
from holdfast.resources.job import Job

_RUNNING_SHOWN, _ENDED_SHOWN = 8, 3
_RATE_S = 3.0
_LINE_S = 1.0
_COLUMNS = (
    JobState.QUEUED,
    JobState.SCHEDULED,
    JobState.RUNNING,
    JobState.COMPLETED,
    JobState.FAILED,
    JobState.CANCELLED,
)


@dataclass(frozen=True)
class Snapshot:
    """All jobs of the demo at one moment, in seconds since its start."""

    at: float
    jobs: Sequence[Job]

    @property
    def ended(self) -> list[Job]:
        """Those that have ended, the last one first."""
        ended = [(job.finished_at, job) for job in self.jobs if job.finished_at is not None and job.is_finished]
        return [job for _, job in sorted(ended, key=lambda pair: pair[0], reverse=True)]


class View(Protocol):
    """Where the demo shows itself."""

    def say(self, at: float, text: str, style: str = "") -> None:
        """Tell something that happened."""

    def show(self, snapshot: Snapshot) -> None:
        """Show how it stands."""


@contextmanager
def opened() -> Iterator[View]:
    """Open the view that fits where the output goes."""
    console = output.live_console(sys.stdout)
    if console is None:
        yield _Lines()
        return
    with Live(console=console, transient=True, auto_refresh=False) as live:
        yield _Drawn(console, live)


class _Rate:
    """How many jobs end per second, lately."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def after(self, at: float, ended: int) -> float:
        """Take note of a moment; the answer is the rate."""
        self._seen.append((at, ended))
        while at - self._seen[0][0] > _RATE_S:
            self._seen.popleft()
        first_at, first = self._seen[0]
        return (ended - first) / (at - first_at) if at > first_at else 0.0


def _stamped(at: float, text: str) -> str:
    return f"{at:5.1f} s  {text}"


# ---- lines ---------------------------------------------------------------------------------------------------------


class _Lines:
    """Plain lines, for a pipe or a log."""

    def __init__(self) -> None:
        self._rate = _Rate()
        self._next = 0.0

    def say(self, at: float, text: str, style: str = "") -> None:  # noqa: ARG002 - a pipe has no styles
        """Tell something that happened."""
        output.line(_stamped(at, text))
        sys.stdout.flush()

    def show(self, snapshot: Snapshot) -> None:
        """Show how it stands, about once a second."""
        ended = len(snapshot.ended)
        rate = self._rate.after(snapshot.at, ended)
        if snapshot.at < self._next:
            return
        self._next = snapshot.at + _LINE_S
        states = Counter(job.state for job in snapshot.jobs)
        live = ", ".join(f"{states[state]} {state}" for state in _COLUMNS if state in LIVE)
        self.say(snapshot.at, f"{live}, {ended} of {len(snapshot.jobs)} finished, {rate:.0f} per second")


# ---- a terminal ----------------------------------------------------------------------------------------------------


class _Drawn:
    """What happens scrolls by; how it stands is drawn below it."""

    def __init__(self, console: Console, live: Live) -> None:
        self._console = console
        self._live = live
        self._rate = _Rate()

    def say(self, at: float, text: str, style: str = "") -> None:
        """Tell something that happened."""
        self._console.print(Text(output.one_line(_stamped(at, text)), style), no_wrap=True, overflow="crop")

    def show(self, snapshot: Snapshot) -> None:
        """Draw how it stands."""
        ended = snapshot.ended
        rate = self._rate.after(snapshot.at, len(ended))
        head = Text(
            f"{snapshot.at:5.1f} s  {len(ended)} of {len(snapshot.jobs)} finished  {rate:.0f} per second", "bold"
        )
        running = [job for job in snapshot.jobs if job.state is JobState.RUNNING]
        running.sort(key=lambda job: (job.progress is None, job.priority, job.id))
        self._live.update(
            Group(
                Text(""),
                head,
                _queues(snapshot.jobs),
                Text("running", "bold"),
                bars.of_jobs(running, _RUNNING_SHOWN),
                Text("last finished", "bold"),
                *(_ended(job) for job in ended[:_ENDED_SHOWN]),
            ),
            refresh=True,
        )


def _queues(jobs: Sequence[Job]) -> RenderableType:
    counts = Counter((job.queue, job.state) for job in jobs)
    table = Table.grid(padding=(0, 2))
    table.add_column()
    for _ in _COLUMNS:
        table.add_column(justify="right")
    table.add_row(Text("queue", "bold"), *(Text(state, STATE_STYLES[state]) for state in _COLUMNS))
    for queue in shop.app.config.queues.values():
        numbers = (counts[queue.name, state] for state in _COLUMNS)
        table.add_row(Text(f"{queue.name} (priority {queue.priority})"), *(Text(f"{n}" if n else ".") for n in numbers))
    return table


def _ended(job: Job) -> Text:
    begun = job.started_at or job.claimed_at
    took = "" if begun is None or job.finished_at is None else f" after {ages.span(job.finished_at - begun)}"
    parts = ((f"{job.id}  ", ""), (f"{job.state}", STATE_STYLES[job.state]), (f"  {job.kind}{took}", ""))
    return Text.assemble(*parts, no_wrap=True, overflow="crop")
