"""The threads that read, beside the one that writes: a long list delays no commit, and a search no other read."""

import contextlib
import sqlite3
import time

from holdfast.stores.sqlite import calls, errors, opening
from holdfast.stores.sqlite.calls import Call, Line
from holdfast.stores.sqlite.clock import StoreClock

# Of SQLite's virtual machine between two looks at the clock: about a millisecond, unless one of them looks through all
# arguments of a job, as those of a search do.
STEPS, STEPS_OF_SEARCH = 50_000, 500


class Reader:
    """Serves a line of reads, each in one snapshot and within its deadline."""

    def __init__(self, path: str, clock: StoreClock, deadline: float, steps: int = STEPS) -> None:
        self.line = Line()
        self.database: sqlite3.Connection | None = None
        self._path = path
        self._clock = clock
        self._deadline = deadline
        self._steps = steps
        self._ends_at = 0.0

    def open(self) -> None:
        """Open the database in this thread."""
        self.database = opening.open_for_reading(self._path)

    def serve(self) -> None:
        """Serve the line until it is closed and empty."""
        assert self.database is not None  # noqa: S101 - opened before
        while self.line.wait():
            call = self.line.take()
            if call is not None:
                self._ends_at = time.monotonic() + self._deadline
                self._run(self.database, call)
                calls.answer([call])

    def close(self) -> None:
        """Let go of the file."""
        if self.database is not None:
            self.database.close()

    def _run(self, database: sqlite3.Connection, call: Call) -> None:
        # A read that nobody waits for any more must not keep others waiting; a search has set a bound of its own.
        database.set_progress_handler(lambda: time.monotonic() > self._ends_at, self._steps)
        try:
            database.execute("BEGIN")
            call.result = call.operation(database, self._clock.read(database))
        except BaseException as error:  # noqa: BLE001 - whatever it is, it belongs to the caller
            call.error = errors.translated(error, self._path)
        finally:
            if database.in_transaction:
                with contextlib.suppress(sqlite3.Error):
                    database.execute("ROLLBACK")
