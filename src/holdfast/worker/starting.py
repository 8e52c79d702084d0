"""From the buffer to a running handler: what may start is started, once for all slots that become free together.

A job that once brought a process down, and cannot have one of its own, waits until nothing runs here and nothing else
is there to run. While it waits others start. After 30 s nothing else does, until it has run alone.
"""

import asyncio
import contextvars
import time
from collections.abc import Callable, Sequence

from holdfast import moments
from holdfast.job import JobRow
from holdfast.worker.exchange import Exchange
from holdfast.worker.executor import Executor
from holdfast.worker.isolation import Isolation
from holdfast.worker.popper import Popper
from holdfast.worker.pump import Pump
from holdfast.worker.reporter import Reporter
from holdfast.worker.run import Run
from holdfast.worker.slots import Slots

PATIENCE_S = 30.0  # how long a job that must run alone lets others start before it


class Starting:
    """Starts the claimed jobs of one process."""

    def __init__(
        self,
        pump: Pump,
        executor: Executor,
        exchange: Exchange,
        popper: Popper | None,
        *,
        slots: Slots,
        reporter: Reporter,
        is_trusted: Callable[[], bool],
        isolation: Isolation,
    ) -> None:
        self.is_alone = False  # a job that once brought a process down runs, with nothing beside it
        self._pump = pump
        self._executor = executor
        self._exchange = exchange
        self._popper = popper
        self._slots = slots
        self._reporter = reporter
        self._is_trusted = is_trusted
        self._isolation = isolation
        self._is_soon = False
        self._has_looked = False  # the last claim found nothing, and nothing has begun since
        self._late: dict[int, float] = {}  # since when jobs wait that were given back because their time was over
        self._context = contextvars.copy_context()

    @property
    def is_reserved(self) -> bool:
        """Whether a job that brought a process down has this one for itself, or has waited for that long enough."""
        # guard: patience-end, without: return self.is_alone
        return self.is_alone or self._is_overdue()

    def claimed(self, jobs: Sequence[JobRow]) -> None:
        """Set aside what must run alone; a claim that found nothing says that nothing else waits."""
        self._has_looked = not jobs
        if not any(job.crashes for job in jobs):
            return
        for run in self._pump.set_aside(self._isolation.must_be_alone):
            moments.reach("set_aside", worker=run.job.worker, job=run.job.id)
            asyncio.get_running_loop().call_later(max(self._patience_of(run), 0), self._start_overdue)

    def freed(self) -> None:
        """Use a free slot for the next job."""
        self.is_alone = False
        self._start_soon()

    def _start_soon(self) -> None:
        """Start what may start once for all slots that become free in this round of the loop.

        In the worker's own context: the variables that a handler has set end with its job.
        """
        if not self._is_soon:
            self._is_soon = True
            asyncio.get_running_loop().call_soon(self.start, context=self._context)

    def _start_overdue(self) -> None:
        if self._pump.aside:
            self._start_soon()

    def start(self) -> None:
        """Start what may start now, and let the next claim be considered."""
        self._is_soon = False
        self._start_all()
        if (at := self._pump.next_start) is not None:
            asyncio.get_running_loop().call_later(at - time.monotonic(), self._start_soon)
        if self._executor.runs:
            self._reporter.started()
        if self._popper is not None:
            self._popper.look()
        self._exchange.wake()

    def _start_all(self) -> None:
        if not self._is_trusted():
            return
        # guard: patience-end, without: while not self.is_alone and not self._pump.is_closed:
        while not self.is_alone and not self._pump.is_closed and not self._is_overdue():
            run = self._pump.next_run()
            if run is None:
                break
            if run.is_late:
                self._slots.give(run.job.queue)
                self._exchange.give_back([run])
                continue
            self._has_looked = False
            self._executor.begin(run)
        if self._pump.aside and self._may_be_alone():
            self._start_alone()

    # ---- alone -----------------------------------------------------------------------------------------------------

    def _patience_of(self, run: Run) -> float:
        """How much longer a job lets others start; where no worker survives another there is nothing to wait for."""
        since = self._late.get(run.job.id, run.claimed_at)
        return since + (PATIENCE_S if self._isolation.is_shared else 0.0) - time.monotonic()

    def _is_overdue(self) -> bool:
        return bool(self._pump.aside) and any(self._patience_of(run) <= 0 for run in self._pump.aside)

    def _may_be_alone(self) -> bool:
        """Whether nothing runs and nothing else is there to run, as far as the last claim tells."""
        if self._slots.taken or self.is_alone or self._pump.is_closed:  # guard: solitude
            return False
        if self._is_overdue():
            return True
        if self._pump.buffer:
            return False
        if not self._has_looked and self._pump.wanted > 0:
            self._pump.hint()
            return False
        return True

    def _start_alone(self) -> None:
        for run in tuple(self._pump.aside):
            if run.not_before > time.monotonic():
                continue
            self._pump.drop([run.key])
            if run.is_late or not self._slots.take(run.job.queue):
                self._late[run.job.id] = self._late.get(run.job.id, run.claimed_at)
                self._exchange.give_back([run])
                continue
            self._late.pop(run.job.id, None)
            self._isolation.begun(run.job)
            self._has_looked = False
            self.is_alone = run.is_alone = True
            self._executor.begin(run)
            return
