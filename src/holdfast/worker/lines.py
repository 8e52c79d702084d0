"""What handlers log, kept with their jobs: lines of `ctx.log`, or of any logger while a handler runs."""

import contextlib
import logging
import time
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar

from holdfast import failure
from holdfast.journal import Entry, Line

KeepLine = Callable[[int, str], None]

MOST_LINES = 200  # of one claim
LINE_BYTES = 1_000

current: ContextVar[KeepLine | None] = ContextVar("holdfast_keep_line", default=None)


class Lines:
    """The lines of one run, as many as are kept."""

    def __init__(self, note: Callable[[Entry], None], secrets: Callable[[], Iterable[str]]) -> None:
        self._note = note
        self._secrets = secrets
        self._count = 0

    def keep(self, level: int, text: str) -> None:
        """Keep a line; beyond the last one that is kept there is only a word about it."""
        self._count += 1
        if self._count > MOST_LINES:
            return
        shown = failure.clean(failure.hidden(text, self._secrets()), LINE_BYTES)
        if self._count == MOST_LINES:
            shown = f"the first {MOST_LINES - 1} lines are kept, this and all others are only in the worker's log"
        self._note(Entry(line=Line(self._count, time.monotonic(), logging.getLevelName(level), shown)))


class _Capture(logging.Handler):
    """Keeps what any logger says while a handler runs."""

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one record, unless it is our own."""
        keep = current.get()
        if keep is None or record.name.partition(".")[0] == "holdfast":
            return
        try:
            text = record.getMessage()
        except Exception:  # noqa: BLE001 - arguments that do not fit their text must not hurt the handler
            text = str(record.msg)
        keep(record.levelno, f"{record.name}: {text}")


@contextlib.contextmanager
def captured(*, is_wanted: bool) -> Iterator[None]:
    """Listen to every logger while a worker runs."""
    if not is_wanted:
        yield
        return
    handler = _Capture(logging.INFO)
    root = logging.getLogger()
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)
