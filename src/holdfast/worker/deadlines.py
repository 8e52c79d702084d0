"""When handlers have to end: one timer for all of them, because nearly all end long before theirs."""

import asyncio
import math
import time
from collections.abc import Callable, Mapping

from holdfast.worker.run import Run


class Deadlines:
    """The deadlines of the runs of one process."""

    def __init__(self, runs: Mapping[tuple[int, int], Run], passed: Callable[[Run], None]) -> None:
        self._runs = runs
        self._passed = passed
        self._next = math.inf  # when to look again: no deadline of a run lies before
        self._timer: asyncio.TimerHandle | None = None

    def set(self, run: Run, seconds: float) -> None:
        """Let a run end within so many seconds."""
        run.deadline = time.monotonic() + seconds
        if run.deadline < self._next:
            self._look_at(run.deadline)

    def _look_at(self, moment: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._next = moment
        delay = max(moment - time.monotonic(), 0)
        self._timer = asyncio.get_running_loop().call_later(delay, self._look)

    def _look(self) -> None:
        self._timer, self._next = None, math.inf
        now = time.monotonic()
        for run in [run for run in self._runs.values() if run.deadline <= now]:
            run.deadline = math.inf
            self._passed(run)
        soonest = min((run.deadline for run in self._runs.values()), default=math.inf)
        if soonest < self._next:
            self._look_at(soonest)
