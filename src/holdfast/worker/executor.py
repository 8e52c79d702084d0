"""From a claimed job to a Transition, in named steps over one value; nothing here touches the store.

resolve (which task), decode (its arguments), start (the mark, the time), deadline, run (on the loop, in a thread or in
a process), classify. Whatever a handler does, the slot comes back and the job gets a Transition.
"""

import asyncio
import functools
import logging
import os
import random
import time
from collections.abc import Callable
from typing import Any, Protocol

from holdfast import moments
from holdfast import transitions as ends
from holdfast.context import Context, running_job
from holdfast.errors import ArgumentError, InvalidValue, UnknownKind
from holdfast.job import JobRow
from holdfast.tasks.pipeline import PipelineTask
from holdfast.tasks.task import FunctionTask
from holdfast.telemetry import logs, tracing
from holdfast.transitions import Transition
from holdfast.worker import classify, forks
from holdfast.worker.deadlines import Deadlines
from holdfast.worker.handler import call_handler, keeps_phases, make_context
from holdfast.worker.isolation import Isolation, NoProcess
from holdfast.worker.marks import Marks, Way
from holdfast.worker.parts import Parts
from holdfast.worker.run import Run, Why
from holdfast.worker.stepping import Stepping
from holdfast.worker.threads import Threads
from holdfast.worker.verbs import Spoken, Verbs

_logger = logging.getLogger("holdfast")

_ALARM_S = 600.0
_SHORTEST_TURN_S, _LONGEST_TURN_S = 1.0, 30.0


class Ends(Protocol):
    """Who is told how a run ends."""

    @property
    def is_ending(self) -> bool:
        """Whether the worker leaves, or the program around it ends its event loop."""

    def settled(self, run: Run, transition: Transition) -> None:
        """The end of the claim is decided; the handler may still be running."""

    def freed(self, run: Run) -> None:
        """The handler has ended, and its slot is free."""


class Grants(Spoken, Protocol):
    """Who gives a run what it needs, and does what its context asks for."""

    async def load(self, run: Run) -> JobRow | None:
        """Read what earlier claims of a job have left."""

    async def record(self, run: Run) -> None:
        """Store that a handler begins, before it does."""

    async def admit(self, run: Run) -> Transition | None:
        """Set aside what a job may spend; a Transition if it may not run now."""

    async def ending(self, run: Run, transition: Transition) -> None:
        """Wait for what has to be written before the claim of an ended handler ends."""


class Processes(Protocol):
    """Where handlers run that need a process of their own."""

    async def perform(self, run: Run, spoken: Spoken, *, alone: bool) -> Transition:
        """Run a job in a spawned process; `alone` in one that no other job has used or will use."""


class Executor:
    """Runs the jobs of one process."""

    def __init__(
        self,
        parts: Parts,
        marks: Marks,
        ends: Ends,
        grants: Grants,
        isolation: Isolation,
        *,
        state: Any = None,
        processes: Processes | None = None,
    ) -> None:
        self._isolation = isolation
        self._generation = forks.generation
        self.runs: dict[tuple[int, int], Run] = {}
        self.threads = Threads()
        self._tasks = parts.tasks
        self._settings = parts.settings
        self._is_capturing = parts.settings.worker.logs == "all"
        self._names_lines = logs.names_jobs()
        self._marks = marks
        self._ends = ends
        self._grants = grants
        self._state = state
        self._arounds = tuple(parts.arounds)
        self._processes = processes
        self._last_chance: Run | None = None  # whose next crash fails it
        self._deadlines = Deadlines(self.runs, self._time_out)

    def begin(self, run: Run) -> None:
        """Take a run whose slot is taken through the steps; it ends by `settled` and `freed`."""
        transition = self._resolve(run) or self._decode(run)
        if transition is not None:
            run.is_ended = True
            self._ends.settled(run, transition)
            self._ends.freed(run)
            return
        self._start(run)
        coroutine = Stepping(self._perform(run), self._marks, functools.partial(self._mark, run))
        run.handler = asyncio.get_running_loop().create_task(coroutine, name=f"holdfast job {run.job.kind}")

    def _resolve(self, run: Run) -> Transition | None:
        try:
            run.task = self._tasks.get(run.job.kind)
        except (UnknownKind, InvalidValue) as error:
            message = "job %s was requeued for 30 s: %s (another worker may know it)"
            age_s = 0.0 if run.job.claimed_at is None else (run.job.claimed_at - run.job.enqueued_at).total_seconds()
            _logger.log(_level(age_s), message, run.job.public_id, error)
            return classify.unknown(run)
        return None

    def _decode(self, run: Run) -> Transition | None:
        if run.task is None:
            return None
        try:
            run.arguments = run.task.decode(run.job.payload_json)
        except ArgumentError as error:
            return classify.refused(run, error)
        return None

    def _start(self, run: Run) -> None:
        run.way = self._way(run)
        run.make_context = self._make_context
        run.started_at = time.monotonic()
        run.is_waiting = True
        self.runs[run.key] = run
        if run.timeout_s is not None:
            self._deadlines.set(run, run.timeout_s)

    def _make_context(self, run: Run) -> Context[Any]:
        return make_context(run, Verbs(run, self._grants, self.threads.run), self._settings, self._state)

    def _mark(self, run: Run) -> int:
        """Mark a claim just before its first step: beside a handler that keeps the loop it never takes one."""
        run.is_waiting = False
        run.mark = self._marks.start(*run.key, run.timeout_s, Way.BOOT)  # guard: begin-mark, without: run.mark = -1
        return run.mark

    def _way(self, run: Run) -> Way:
        wants_process = run.task is not None and run.task.policy.executor == "process"
        is_suspect = run.job.crashes > 0 and not run.is_alone
        if (wants_process and self._processes is not None) or (is_suspect and self._isolation.can_isolate(run.job)):
            return Way.PROCESS
        if isinstance(run.task, PipelineTask):
            return Way.LOOP if all(phase.is_async for phase in run.task.phases) else Way.THREAD
        return Way.LOOP if isinstance(run.task, FunctionTask) and run.task.is_async else Way.THREAD

    def _time_out(self, run: Run) -> None:
        """Stop a handler at its deadline; it gets a grace to end in, and is given up after that."""
        if run.is_overdue:
            self._give_up(run)
            return
        run.is_overdue = True
        run.stop(Why.TIMED_OUT)
        self._deadlines.set(run, self._settings.worker.kill_grace_s)

    def _give_up(self, run: Run) -> None:
        """Record the end of a handler that does not stop; its slot stays taken until it has really ended."""
        if run.is_settled:
            return
        if run.way is not Way.PROCESS:  # which is killed in this moment
            message = "job %s (%s) goes on %g s after its timeout: it is recorded as timed out, its slot stays taken"
            _logger.error(message, run.job.public_id, run.job.kind, self._settings.worker.kill_grace_s)
        self._settle(run, classify.timed_out(run, self._settings))

    async def _perform(self, run: Run) -> None:
        try:
            moments.reach("begun", worker=run.job.worker, job=run.job.id, claim=run.key[1])
            transition = await self._traced(run)
            if run.spends or run.allowance is not None:
                await self._grants.ending(run, transition)
            run.ended_at = time.monotonic()
            if forks.generation != self._generation:  # the handler forked, and this is the copy: it leaves all alone
                os._exit(0)
            if run.is_committed or run.is_held:
                run.is_settled = True
            elif not run.is_settled:
                self._settle(run, transition)
        finally:
            self.runs.pop(run.key, None)
            run.is_ended = True
            self._marks.set_way(run.mark, Way.ENDED)
            self._ends.freed(run)
            moments.reach("ended", worker=run.job.worker, job=run.job.id, claim=run.key[1])

    async def _traced(self, run: Run) -> Transition:
        running_job.set(run.job.id)
        if self._names_lines:
            logs.current.set(run.job)
        handler = "" if run.task is None else run.task.source
        with tracing.consuming(run.job, handler, is_wanted=self._settings.telemetry.traces) as span:
            transition = await self._outcome(run)
            if span is not None:
                span.ended(run.job, transition)
            return transition

    async def _outcome(self, run: Run) -> Transition:
        if run.why is not None:  # it was stopped before its first step
            return classify.raised(run, asyncio.CancelledError(), self._settings)
        try:
            # guard: last-chance, without: refusal = await self._grants.admit(run)
            refusal = self._turned_away(run) or await self._grants.admit(run)
            if refusal is not None:
                return refusal
            if run.must_be_recorded:  # guard: recorded-start
                await self._grants.record(run)
            if run.job.claim > 1 and keeps_phases(run.task):
                run.stored = await self._grants.load(run)
            if run.way is Way.PROCESS and self._processes is not None:
                return await self._processes.perform(run, self._grants, alone=run.job.crashes > 0)
            # The store may have kept the claim waiting until here. A thread and a process set their mark themselves.
            self._marks.set_way(run.mark, Way.LOOP)
            value = await call_handler(run, self._arounds, self._in_thread, is_capturing=self._is_capturing)
        except NoProcess as error:
            self._isolation.failed(run.job, str(error))
            return ends.interrupted(*run.key)
        except BaseException as error:  # noqa: BLE001 - a handler may raise anything, and none of it is ours to raise
            if run.why is None and isinstance(error, asyncio.CancelledError) and self._ends.is_ending:
                run.why = Why.LEAVING  # and not a handler that raises it, or cancels its own task
            if run.is_committed:
                _logger.warning(
                    "job %s was completed by its transaction; what its handler raised after that changes nothing: %r",
                    run.job.public_id,
                    error,
                )
                return ends.completed(*run.key)
            return classify.raised(run, error, self._settings)
        return classify.returned(run, value, self._settings)

    def _turned_away(self, run: Run) -> Transition | None:
        """Let two jobs whose next crash fails them not run at once: if all is brought down, one of them is innocent."""
        if not run.is_last_chance:
            return None
        other, now = self._last_chance, time.monotonic()
        if other is None or other.is_ended:
            self._last_chance = run
            return None
        # The longer the other one runs, the longer it goes on, most likely.
        ran_s = now - (other.started_at or now)
        delay_ms = round(min(max(ran_s, _SHORTEST_TURN_S), _LONGEST_TURN_S) * random.uniform(750, 1_250))
        message = "job %s waits for %g s: its next crash fails it, and so would that of job %s, which runs here"
        _logger.info(message, run.job.public_id, delay_ms / 1_000, other.job.public_id)
        return ends.snoozed(*run.key, delay_ms)

    async def _in_thread(self, run: Run, function: Callable[[], Any]) -> Any:
        """Run a function in a thread; the mark of its run says so as soon as it is there."""

        def call() -> Any:
            self._marks.set_way(run.mark, Way.THREAD)
            return function()

        return await self.threads.run(call)

    def settle_now(self, run: Run, transition: Transition) -> None:
        """Decide the end of a claim whose handler is not waited for."""
        if not run.is_settled:
            self._settle(run, transition)

    def _settle(self, run: Run, transition: Transition) -> None:
        run.is_settled = True
        self._ends.settled(run, transition)


def _level(age_s: float) -> int:
    """A deploy takes minutes: after ten of them a job that nobody knows is an error."""
    return logging.ERROR if age_s > _ALARM_S else logging.WARNING
