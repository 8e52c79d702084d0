"""How `holdfast top` looks: on a terminal that is drawn anew, as tables, as JSON."""

from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from holdfast import ages
from holdfast.cli import bars, output
from holdfast.cli.output import STATE_STYLES, Cell, Column
from holdfast.job import JobState
from holdfast.resources.dead_letter import DeadLetterGroup
from holdfast.resources.job import Job, JobSummary
from holdfast.resources.queue import JobCount, QueueInfo
from holdfast.resources.redaction import redact
from holdfast.resources.worker import WorkerInfo

_TICKS = "▁▂▃▄▅▆▇█"
_SAMPLES = 30
_STATES = (JobState.QUEUED, JobState.SCHEDULED, JobState.RUNNING, JobState.HELD)
_WAITING = frozenset({JobState.QUEUED, JobState.HELD})
_LEAST_ROWS = 4
_FRAME = 9  # lines that are neither jobs nor failures nor queues
_HELP = "p pause   r look now   f failures   q leave"


@dataclass(frozen=True)
class Seen:
    """Everything at one moment."""

    at: datetime
    queues: Sequence[QueueInfo]
    running: Sequence[Job]
    failures: Sequence[DeadLetterGroup]
    workers: Sequence[WorkerInfo]


class Drawing:
    """What is drawn, and what a person has chosen to see."""

    def __init__(self) -> None:
        self.seen: Seen | None = None
        self.is_paused = False
        self.problem: str | None = None
        self._only_failures = False
        self._waiting: defaultdict[str, deque[int]] = defaultdict(lambda: deque(maxlen=_SAMPLES))

    def take(self, seen: Seen) -> None:
        """Take a look."""
        self.seen, self.problem = seen, None
        for queue in seen.queues:
            self._waiting[queue.name].append(queue.count(*_WAITING).jobs)

    def obey(self, key: str) -> None:
        """Do what a key asks for."""
        if key == "p":
            self.is_paused = not self.is_paused
        elif key == "f":
            self._only_failures = not self._only_failures

    def draw(self, height: int) -> RenderableType:
        """Draw it, as far as the terminal is high enough."""
        seen = self.seen
        if seen is None:
            return Text("")
        room = max(height - _FRAME - (0 if self._only_failures else len(seen.queues)), 2 * _LEAST_ROWS)
        failures = Group(Text("failures", "bold"), _failures(seen, room if self._only_failures else room // 2))
        head = Group(self._head(seen), Text(""))
        foot = Text(f"\n{_HELP}", "bright_black")
        if self._only_failures:
            return Group(head, failures, foot)
        running = Group(Text("running", "bold"), bars.of_jobs(seen.running, room - room // 2))
        return Group(head, self._queues(seen), Text(""), running, Text(""), failures, foot)

    def _head(self, seen: Seen) -> Text:
        slots = sum(worker.slots for worker in seen.workers)
        busy = sum(worker.running for worker in seen.workers)
        text = Text(f"{ages.clock(seen.at)}  {len(seen.workers)} workers, {busy} of {slots} slots in use", "bold")
        if self.is_paused:
            text.append("  paused", "yellow")
        if self.problem is not None:
            text.append(f"  {output.one_line(self.problem)}", "red")
        return text

    def _queues(self, seen: Seen) -> RenderableType:
        table = Table.grid(padding=(0, 2))
        table.add_column(no_wrap=True)
        for _ in _STATES:
            table.add_column(justify="right")
        table.add_column(no_wrap=True)
        table.add_column(no_wrap=True)
        titles = (Text(state.value, STATE_STYLES[state]) for state in _STATES)
        table.add_row(Text("queue", "bold"), *titles, Text("waiting", "bold"), Text(""))
        for queue in seen.queues:
            name = queue.name
            numbers = (Text(_number(queue.count(state))) for state in _STATES)
            text, style = status(queue)
            line = Text(sparkline(self._waiting[name]), "blue")
            table.add_row(Text(output.one_line(name)), *numbers, line, Text(output.one_line(text), style))
        return table


def sparkline(samples: Sequence[int]) -> str:
    """Draw numbers as a line of bars, the largest as high as it gets."""
    most = max(samples, default=0)
    if most == 0:
        return _TICKS[0] * len(samples)
    return "".join(_TICKS[round(sample / most * (len(_TICKS) - 1))] for sample in samples)


def status(queue: QueueInfo) -> tuple[str, str]:
    """Say how a queue does, and in which style."""
    if queue.paused_at is not None:
        return "paused", "yellow"
    if queue.late_since is not None:
        return "late", "red"
    if queue.oldest_wait_ms is not None:
        return f"oldest waits for {ages.span(timedelta(milliseconds=queue.oldest_wait_ms))}", ""
    return "", ""


def _number(count: JobCount) -> str:
    return str(count) if count.jobs else "."


def _failures(seen: Seen, most: int) -> RenderableType:
    if not seen.failures:
        return Text("none", "bright_black")
    table = Table.grid(padding=(0, 2), expand=True)
    for _ in range(3):
        table.add_column(no_wrap=True, overflow="crop")
    table.add_column(no_wrap=True, overflow="crop", ratio=1)
    for group in seen.failures[:most]:
        table.add_row(
            Text(ages.age(group.last_at, seen.at)),
            Text(str(group.left), "red" if group.left.jobs else ""),
            Text(output.one_line(group.kind)),
            Text(output.one_line(_error(group))),
        )
    return table


def _error(group: DeadLetterGroup) -> str:
    return output.without_passwords(f"{group.error_class or 'unknown'}: {group.error or ''}".removesuffix(": "))


# ---- once ----------------------------------------------------------------------------------------------------------


def write(seen: Seen) -> None:
    """Print it as tables."""
    columns = [
        Column("QUEUE", is_flexible=True),
        *(Column(state.value.upper(), is_number=True) for state in _STATES),
        Column("STATUS", is_flexible=True),
    ]
    output.table(columns, [_queue_row(queue) for queue in seen.queues])
    if seen.running:
        output.line("")
        titles = (Column("RUNNING"), Column("KIND", is_flexible=True), Column("DONE"), Column("AT", is_flexible=True))
        output.table(titles, [_running_row(job) for job in seen.running])
    if seen.failures:
        output.line("")
        columns = [Column("FAILED"), Column("JOBS", is_number=True), Column("KIND", is_flexible=True)]
        output.table([*columns, Column("ERROR", is_flexible=True)], [_failure_row(seen, one) for one in seen.failures])


def _queue_row(queue: QueueInfo) -> list[Cell]:
    text, style = status(queue)
    numbers = [_number(queue.count(state)) for state in _STATES]
    return [Cell(queue.name), *(Cell(number, number.replace(".", "0")) for number in numbers), Cell(text, style=style)]


def _running_row(job: Job) -> list[Cell]:
    progress = job.progress
    if progress is None:
        return [Cell(job.id), Cell(job.kind), Cell(""), Cell("")]
    done = "" if progress.percent is None else f"{progress.percent:.0f} %"
    where = " ".join(part for part in (progress.phase, progress.message) if part)
    return [Cell(job.id), Cell(job.kind), Cell(done), Cell(where)]


def _failure_row(seen: Seen, group: DeadLetterGroup) -> list[Cell]:
    when = Cell(ages.age(group.last_at, seen.at), ages.iso(group.last_at))
    return [when, Cell(str(group.left)), Cell(group.kind), Cell(_error(group))]


# ---- JSON ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class TopShape:
    """`top --json`."""

    at: datetime
    workers: int
    slots: int
    queues: list[QueueInfo]
    running: list[JobSummary]
    failures: list[DeadLetterGroup]


def shape(seen: Seen) -> TopShape:
    """Describe everything."""
    return TopShape(
        at=seen.at,
        workers=len(seen.workers),
        slots=sum(worker.slots for worker in seen.workers),
        queues=list(seen.queues),
        running=[redact(job).summary() for job in seen.running],
        failures=redact(list(seen.failures)),
    )
