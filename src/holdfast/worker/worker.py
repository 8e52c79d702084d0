"""One process that runs jobs: the pump, the executor and the finisher joined, from the first claim to the last."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from holdfast import moments
from holdfast import transitions as ends
from holdfast.client.lock_keeper import LOCK_HINT
from holdfast.delivery.delivery import CANCEL_HINT, Delivery
from holdfast.job import JobRow, JobState
from holdfast.stores.store import Listening, Store
from holdfast.stores.values import Claim, Finish
from holdfast.telemetry.meter import Gauge, Meter
from holdfast.transitions import Transition, Verb
from holdfast.worker import lines
from holdfast.worker.ageing import Ageing, rules_of
from holdfast.worker.cancels import Cancels
from holdfast.worker.classify import unless_run_once
from holdfast.worker.complaint import log_failure
from holdfast.worker.counting import Counting
from holdfast.worker.custody import Custody
from holdfast.worker.exchange import Exchange
from holdfast.worker.executor import Executor, Processes
from holdfast.worker.finisher import Ending, Finisher, is_ours
from holdfast.worker.granting import Granting
from holdfast.worker.isolation import Isolation
from holdfast.worker.leaving import Leaving, Left, Until
from holdfast.worker.loops import keep_going
from holdfast.worker.marks import UNMARKED, Marks
from holdfast.worker.metering import gauges_of
from holdfast.worker.parts import Parts
from holdfast.worker.popper import Popper
from holdfast.worker.promoter import Promoter
from holdfast.worker.pump import Pump
from holdfast.worker.rules import Rules
from holdfast.worker.run import Run, Why
from holdfast.worker.slots import Slots
from holdfast.worker.starting import Starting

_LONGEST_BUFFERED_S = 1.0  # jobs were claimed ahead because others ended quickly, and then one did not


class Worker:
    """Claims, runs and finishes jobs until it is told to leave."""

    def __init__(
        self,
        parts: Parts,
        store: Store,
        delivery: Delivery,
        marks: Marks,
        *,
        worker: int,
        queues: Sequence[str],
        slots: Slots,
        is_trusted: Callable[[], bool],
        until: Until,
        state: Any,
        processes: Processes | None,
        is_embedded: bool = False,
        meter: Meter | None = None,
    ) -> None:
        self.settings = parts.settings
        self.marks = marks
        self.counting = Counting(marks, meter)
        self._store = store
        self._delivery = delivery
        self._slots = slots
        self._is_trusted = is_trusted
        self._until = until
        self._ageing = Ageing(rules_of(self.settings.queues))
        self._rules = Rules(store, self._ageing, self.counting.tally, self._follow_polls)
        source = delivery.source
        self._pump = Pump(worker, queues, slots, None if source is None else source.settled, self._ageing)
        self._granting = granting = self._make_granting()
        isolation = Isolation(parts, has_processes=processes is not None, is_embedded=is_embedded)
        self.executor = Executor(parts, marks, self, granting, isolation, state=state, processes=processes)
        self._finisher = Finisher(store, self.counting.tally, self._known, granting.reporter.save, most=slots.half)
        self._exchange = self._make_exchange()
        self._popper = None if source is None else Popper(source, self._pump, self._exchange.wake, self._may_claim)
        joined = (self._pump, self.executor, self._exchange, self._popper)
        self._starting = Starting(
            *joined, slots=slots, reporter=granting.reporter, is_trusted=is_trusted, isolation=isolation
        )
        grace_s = self.settings.worker.shutdown_grace_s
        self._leaving = Leaving(*joined, finisher=self._finisher, spending=granting.spending, grace_s=grace_s)
        self.custody = Custody(self._pump, self.executor, self._finisher, self._exchange, self.hint)
        self._promoter = Promoter(store, delivery, self.settings.poll_s_of(queues), self.hint, self._returned_buffer)
        self._cancels = Cancels(store, self._pump, self.custody)
        self._loops: list[asyncio.Task[None]] = []
        self._task: asyncio.Task[Any] | None = None
        self._was_hinted = False

    def _make_granting(self) -> Granting:
        metering = self.counting.metering
        return Granting(
            self._store,
            self._delivery,
            self.settings,
            self._running,
            slots=self._slots.total,
            heard=None if metering is None else metering.spent,
        )

    def _running(self) -> Collection[Run]:
        return self.executor.runs.values()

    def _make_exchange(self) -> Exchange:
        metering = self.counting.metering
        return Exchange(
            self._pump,
            self._finisher,
            may_claim=self._may_claim,
            claimed=self._claimed,
            start=self._start,
            overlaps=self._store.is_remote,
            lost=self._lost,
            timed=None if metering is None else metering.claimed,
        )

    @property
    def id(self) -> int:
        """The id that the store knows this worker by at present."""
        return self._pump.worker

    # ---- life ------------------------------------------------------------------------------------------------------

    async def run(self) -> Left:
        """Work until told to leave, then leave."""
        wanted, is_capturing = [*self._pump.queues, CANCEL_HINT, LOCK_HINT], self.settings.worker.logs == "all"
        async with self._delivery.wakeups(wanted, self._hinted) as listening:
            self._task = asyncio.current_task()
            self._start_loops(listening)
            try:
                with lines.captured(is_wanted=is_capturing):
                    return await self._work()
            finally:
                await self._granting.locks.close()
                for loop in self._loops:
                    loop.cancel()
                await asyncio.gather(*self._loops, return_exceptions=True)

    async def _work(self) -> Left:
        try:
            await self._leaving.begun()
        except asyncio.CancelledError:
            self.stop()
            self._revive_exchange()
            await self._leaving.leave()
            raise
        return await self._leaving.leave()

    def drain(self) -> None:
        """Claim nothing more, let what runs end, and leave."""
        self._leaving.drain()
        moments.reach("drain_begun", worker=self.id)

    def stop(self) -> None:
        """Give back what runs, and leave."""
        self._leaving.stop()

    @property
    def is_leaving(self) -> bool:
        """Whether nothing more is claimed."""
        return self._leaving.has_begun

    @property
    def is_ending(self) -> bool:
        """Whether this worker leaves, or everything is cancelled around it."""
        return self.is_leaving or (self._task is not None and self._task.cancelling() > 0)

    @property
    def grace_left_s(self) -> float:
        """How much of the grace is left for what ends after the jobs; one who stops has none."""
        return self._leaving.grace_left_s

    def _start_loops(self, listening: Listening) -> None:
        self._promoter.listening = listening
        loops: dict[str, Callable[[], Awaitable[None]]] = {
            "exchange": self._exchange.serve,
            "reporter": self._granting.reporter.serve,
            "cancels": self._cancels.serve,
            "promoter": self._promoter.serve,
            "ageing": lambda: self._ageing.keep_looking(self._store, self._pump.queues),
            "rules": self._rules.serve,
            "budgets": self._granting.spending.serve,
        }
        if self._popper is not None:
            loops["popper"] = self._popper.serve
        if self._until is Until.ONE:
            self._pump.most = 1
        if self._until is not Until.TOLD:
            loops["rest"] = self._leave_when_empty
        self._loops = [asyncio.create_task(keep_going(serve), name=f"holdfast {name}") for name, serve in loops.items()]
        self._exchange.wake()
        moments.reach("started", worker=self.id)

    def _revive_exchange(self) -> None:
        """Let ends be written although every task was cancelled, as `asyncio.run` does when its program returns."""
        if any(loop.done() or loop.cancelling() for loop in self._loops):
            self._loops.append(asyncio.create_task(keep_going(self._exchange.serve), name="holdfast exchange"))
            self._exchange.wake()

    async def _leave_when_empty(self) -> None:
        is_last_look = False  # nothing was due any more when the lanes were last read
        while not self.is_leaving:
            await asyncio.sleep(0.01)
            if self.executor.runs or self._pump.holds_any or not self._finisher.is_idle:
                is_last_look = False
            elif self._until is Until.ONE and self._pump.most == 0:
                self.drain()
            elif not self._pump.is_dry:
                if self._exchange.in_flight is None:
                    self.hint()
            elif is_last_look:
                self.drain()
            else:
                # Another process may have made jobs ready since the lanes were read: they are read once more.
                await self._promoter.promote()
                is_last_look = self._promoter.has_nothing_due
                self.hint()  # guard: look-after-promotion

    # ---- work comes in ---------------------------------------------------------------------------------------------

    def hint(self, queue: str | None = None) -> None:
        """Look for work, in one queue or in all."""
        self._pump.hint(queue)
        self._exchange.wake()

    def _hinted(self, queue: str) -> None:
        if queue == CANCEL_HINT:
            self._cancels.look()
            return
        if queue == LOCK_HINT:
            self._granting.locks.look()
            return
        self._was_hinted = True
        moments.reach("hinted", worker=self.id, queue=queue)
        self.hint(queue)

    def set_bounds(self, bounds: Mapping[str, int]) -> None:
        """Let so many jobs of queues run at once from now on; what runs already goes on."""
        self._slots.set_bounds(bounds)
        self._pump.bound()
        self._exchange.wake()

    def _follow_polls(self, polls: Mapping[str, int]) -> None:
        """Look as often as the most impatient of its queues wants by now."""
        wanted = [
            polls[queue] / 1_000 if queue in polls else self.settings.poll_s_of([queue]) for queue in self._pump.queues
        ]
        self._promoter.poll_s = min(wanted, default=self.settings.worker.poll_s)

    def _may_claim(self) -> bool:
        return not self.custody.is_lost and not self._starting.is_reserved and self._is_trusted()

    def _lost(self) -> None:
        self.custody.lose()

    def _claimed(self, claim: Claim, jobs: Sequence[JobRow]) -> None:
        if self._was_hinted and not jobs:
            self._promoter.look()  # the hint was for a job that is due in a moment
        self._was_hinted = False
        moments.reach("claimed", worker=claim.worker, jobs=[job.id for job in jobs])
        self._rules.claimed(jobs)
        self._pump.took(claim, jobs)
        self._starting.claimed(jobs)
        if self.is_leaving:
            self._exchange.give_back(self._pump.empty())

    def _start(self) -> None:
        self._starting.start()

    def _returned_buffer(self, queues: Iterable[str]) -> bool:
        """Give back what is buffered of paused queues or behind long jobs; whether there is a buffer at all."""
        self._exchange.give_back(self._pump.empty(queues))
        self._exchange.give_back(self._pump.stuck(_LONGEST_BUFFERED_S))
        return self._pump.holds_any

    # ---- ends ------------------------------------------------------------------------------------------------------

    def settled(self, run: Run, transition: Transition) -> None:
        """Let the end of a claim be written, unless the claim is known to be lost."""
        if self.is_leaving and run.started_at is not None and transition.verb is Verb.INTERRUPT:
            self._leaving.is_interrupted = True
        transition = unless_run_once(run, transition)
        if run.why is Why.LOST:
            self._refuse(run)
        else:
            if transition.failure is not None:
                log_failure(run, transition)
            self._exchange.add(Ending(transition, run))

    def freed(self, run: Run) -> None:
        """Use the slot for the next job."""
        self._slots.give(run.job.queue)
        self._granting.spending.freed(run)
        if run.why is Why.LOST:  # nothing of it counts, but that it holds no slot of a limit any more
            self._exchange.add(Ending(ends.interrupted(*run.key)))
        if run.is_held:
            run.is_known = True
            self._pump.settled(run.job.id)
        if run.is_committed:
            run.is_known = True
            self._pump.settled(run.job.id)
            self._count(run, Verb.COMPLETE, JobState.COMPLETED)
        self._unmark(run)
        self._leaving.freed()
        self._starting.freed()

    def _known(self, ending: Ending, finish: Finish) -> None:
        run = ending.run
        self._look_for(ending, finish)
        if run is None:
            return
        if not is_ours(finish):
            self._refuse(run)
            return
        run.is_known = True
        moments.reach("finished", worker=run.job.worker, job=run.job.id, claim=run.key[1], state=finish.state)
        self._pump.settled(run.job.id)
        self._unmark(run)
        if finish.state is not None and run.started_at is not None:
            self._count(run, ending.transition.verb, finish.state)

    def _look_for(self, ending: Ending, finish: Finish) -> None:
        """Look again for what waits again: from the lane's beginning, where given back jobs are, or when it is due."""
        if finish.state is JobState.QUEUED:
            self.hint(None if ending.run is None else ending.run.job.queue)
        elif finish.state is JobState.SCHEDULED and ending.transition.delay_ms < self.settings.worker.poll_s * 1_000:
            self._promoter.look()

    def _refuse(self, run: Run) -> None:
        moments.reach("refused", worker=run.job.worker, job=run.job.id, claim=run.key[1])
        self.counting.refused(run)
        run.is_known = True
        self._pump.settled(run.job.id)
        self._unmark(run)

    def _unmark(self, run: Run) -> None:
        """Take the mark away once the store knows the end and the handler has ended: one that goes on stays visible."""
        if run.is_known and (run.is_ended or run.started_at is None):
            self.marks.end(run.mark)
            run.mark = UNMARKED

    def gauges(self) -> Iterable[Gauge]:
        """What this worker is busy with at the moment."""
        listening, source = self._promoter.listening, self._delivery.source
        hears = listening is not None and listening.is_live if source is None else source.is_live
        return gauges_of(self._slots, self.settings, hears=hears)

    def _count(self, run: Run, verb: Verb, state: JobState) -> None:
        self._pump.finished(run.job.queue)
        self.counting.ended(run, verb, state)
