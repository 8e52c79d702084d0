"""Jobs on their way, a line each, with a bar for those that report how far they are."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from holdfast.cli import output
from holdfast.job import JobState
from holdfast.resources.job import Job

_BAR = 20
_WHOLE = 100


def of_jobs(jobs: Sequence[Job], most: int) -> RenderableType:
    """Draw the first of them; those beyond `most` are counted."""
    table = Table.grid(padding=(0, 2), expand=True)
    for _ in range(5):
        table.add_column(no_wrap=True, overflow="crop")
    table.add_column(no_wrap=True, overflow="crop", ratio=1)
    for job in jobs[:most]:
        table.add_row(*_row(job))
    rest = len(jobs) - most
    return table if rest <= 0 else Group(table, Text(f"and {rest} more", style="bright_black"))


def _row(job: Job) -> tuple[RenderableType, ...]:
    progress = job.progress if job.state is JobState.RUNNING else None
    percent = None if progress is None else progress.percent
    message = "" if progress is None else progress.message or ""
    return (
        Text(job.id, style="bold"),
        Text(output.one_line(job.kind)),
        Text(job.state, style=output.STATE_STYLES[job.state]),
        _bar(job, percent),
        Text("" if percent is None else f"{percent:3.0f} %"),
        Text(output.one_line(message), style="bright_black"),
    )


def _bar(job: Job, percent: float | None) -> RenderableType:
    if job.state is not JobState.RUNNING:
        return Text("")
    return ProgressBar(total=_WHOLE, completed=percent or 0, pulse=percent is None, width=_BAR)
