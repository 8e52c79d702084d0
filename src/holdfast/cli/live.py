"""Lines on a terminal that are drawn over and over, and cleared at the end."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from rich.console import RenderableType
from rich.live import Live

from holdfast.cli import output

Draw = Callable[[RenderableType], None]


@contextmanager
def drawn(stream: TextIO) -> Iterator[Draw | None]:
    """Give what draws; None where nobody reads along, or the terminal cannot do it."""
    console = output.live_console(stream)
    if console is None:
        yield None
        return
    with Live(console=console, transient=True, auto_refresh=False, redirect_stdout=False) as live:
        yield lambda what: live.update(what, refresh=True)
