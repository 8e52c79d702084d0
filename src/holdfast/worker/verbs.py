"""What the context of a running handler can do, in the process that runs the worker."""

import asyncio
import threading
from collections.abc import Callable, Mapping
from typing import Any

from holdfast import failure, payload
from holdfast.context import TransactionBlock
from holdfast.stores.values import ProgressReport
from holdfast.worker.run import Run

_DATA_BYTES = 16_000


class Verbs:
    """The verbs of one run; they may be called from its own thread."""

    def __init__(
        self, run: Run, reported: Callable[[Run], None], transaction: Callable[[Run], TransactionBlock]
    ) -> None:
        self._run = run
        self._reported = reported
        self._transaction = transaction
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()

    @property
    def cancelled(self) -> bool:
        """Whether the handler should stop."""
        return self._run.why is not None

    def report(self, percent: float | None, message: str | None, data: Mapping[str, Any]) -> None:
        """Keep the report until it is stored; a later one takes its place."""
        self._run.report = progress_report(self._run, percent, message, data)
        if threading.get_ident() == self._thread:
            self._reported(self._run)
        else:
            self._loop.call_soon_threadsafe(self._reported, self._run)

    def transaction(self) -> TransactionBlock:
        """Open the transaction in which the job completes."""
        return self._transaction(self._run)


def progress_report(run: Run, percent: float | None, message: str | None, data: Mapping[str, Any]) -> ProgressReport:
    """Make a report that every store can keep."""
    return ProgressReport(
        *run.key,
        None if percent is None else float(percent),
        None if message is None else failure.clean(str(message), failure.MESSAGE_BYTES),
        payload.encode(dict(data), "progress data", most_bytes=_DATA_BYTES) if data else None,
    )
