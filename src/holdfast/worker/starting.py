"""From the buffer to a running handler: what may start is started, once for all slots that become free together."""

import asyncio
import contextvars
import time
from collections.abc import Callable

from holdfast.worker.exchange import Exchange
from holdfast.worker.executor import Executor
from holdfast.worker.popper import Popper
from holdfast.worker.pump import Pump
from holdfast.worker.reporter import Reporter
from holdfast.worker.run import Run
from holdfast.worker.slots import Slots


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
    ) -> None:
        self.is_alone = False  # a job that once brought a process down runs, with nothing beside it
        self._pump = pump
        self._executor = executor
        self._exchange = exchange
        self._popper = popper
        self._slots = slots
        self._reporter = reporter
        self._is_trusted = is_trusted
        self._is_soon = False
        self._context = contextvars.copy_context()

    @property
    def is_reserved(self) -> bool:
        """Whether a job that brought a process down has this one for itself, or waits here until it can have it."""
        return self.is_alone or any(self._must_be_alone(run) for run in self._pump.buffer)

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
        while not self.is_alone and not self._pump.is_closed:
            run = self._pump.next_run()
            if run is None:
                break
            if run.is_late:
                self._slots.give(run.job.queue)
                self._exchange.give_back([run])
                continue
            if self._must_be_alone(run):
                if self._slots.taken > 1:  # it waits until it can have this process for itself
                    self._slots.give(run.job.queue)
                    self._pump.buffer.appendleft(run)
                    break
                self.is_alone = True
            self._executor.begin(run)

    def _must_be_alone(self, run: Run) -> bool:
        return run.job.crashes > 0 and not self._executor.can_isolate(run.job)
