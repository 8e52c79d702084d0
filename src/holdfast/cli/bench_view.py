"""How far a bench is, drawn on stderr for a person who watches; where that is no terminal, nothing is drawn."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from holdfast.bench.plan import Plan
from holdfast.bench.report import Progress
from holdfast.cli.live import Draw, drawn

_BAR = 20


class View:
    """Where the bench shows how far it is: drawn when a step begins, and never while something is timed."""

    def __init__(self, plan: Plan, draw: Draw | None) -> None:
        self._plan = plan
        self._draw = draw
        self._began = time.monotonic()

    def show(self, progress: Progress) -> None:
        """Draw the step that begins."""
        if self._draw is None:
            return
        line = Table.grid(padding=(0, 2))
        line.add_row(
            ProgressBar(total=progress.of, completed=progress.done, width=_BAR),
            Text(f"{time.monotonic() - self._began:3.0f} s"),
            Text(f"round {progress.round} of {self._plan.rounds}: {progress.step}", overflow="crop", no_wrap=True),
        )
        self._draw(line)


@contextmanager
def opened(plan: Plan) -> Iterator[View]:
    """Open the view that fits where stderr goes."""
    with drawn(sys.stderr) as draw:
        yield View(plan, draw)
