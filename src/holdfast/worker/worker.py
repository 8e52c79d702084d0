"""One process that runs jobs: the pump, the executor and the finisher joined, from the first claim to the last."""

import asyncio
import contextvars
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any

from holdfast import failpoints
from holdfast import transitions as ends
from holdfast.client.locks import LOCK_HINT, Locks
from holdfast.config import Settings
from holdfast.context import Around, LockBlock, TransactionBlock
from holdfast.delivery.delivery import CANCEL_HINT, Delivery
from holdfast.duration import Duration
from holdfast.errors import OutcomeUnknown, StoreUnavailable
from holdfast.job import Job, JobState
from holdfast.policies.money import Amount
from holdfast.stores.store import Listening, Store
from holdfast.stores.values import Claim, Finish
from holdfast.tasks.registry import Registry
from holdfast.telemetry.logs import facts
from holdfast.telemetry.meter import Gauge, Meter
from holdfast.transitions import Transition, Verb
from holdfast.worker import lines
from holdfast.worker.ageing import Ageing, rules_of
from holdfast.worker.cancels import Cancels
from holdfast.worker.classify import unless_run_once
from holdfast.worker.complaint import log_end, log_failure
from holdfast.worker.custody import Custody
from holdfast.worker.exchange import Exchange
from holdfast.worker.executor import Executor, Processes
from holdfast.worker.finisher import Ending, Finisher, is_ours
from holdfast.worker.locking import block_of
from holdfast.worker.loops import keep_going
from holdfast.worker.marks import UNMARKED, Marks
from holdfast.worker.metering import Metering, gauges_of
from holdfast.worker.popper import Popper
from holdfast.worker.promoter import Promoter
from holdfast.worker.pump import Pump
from holdfast.worker.reporter import Reporter
from holdfast.worker.rules import Rules
from holdfast.worker.run import Run, Why
from holdfast.worker.slots import Slots
from holdfast.worker.spending import Spending
from holdfast.worker.tally import Tally
from holdfast.worker.transaction import Block

_logger = logging.getLogger("holdfast")

_STOPPING_S = 1.0  # for handlers to end after they were cancelled
_FLUSH_S = 0.5
_LONGEST_BUFFERED_S = 1.0  # jobs were claimed ahead because others ended quickly, and then one did not


class Left(StrEnum):
    """How a worker left."""

    DRAINED = "drained"  # everything it had begun has ended
    INTERRUPTED = "interrupted"  # some of it was given back


class Until(StrEnum):
    """When a worker leaves by itself."""

    TOLD = "told"
    EMPTY = "empty"  # nothing is left that may run now
    ONE = "one"  # one job was run, or there was none


class Worker:
    """Claims, runs and finishes jobs until it is told to leave."""

    def __init__(
        self,
        store: Store,
        delivery: Delivery,
        tasks: Registry,
        settings: Settings,
        marks: Marks,
        *,
        worker: int,
        queues: Sequence[str],
        concurrency: int,
        queue_bounds: Mapping[str, int],
        is_trusted: Callable[[], bool],
        until: Until = Until.TOLD,
        state: Any = None,
        arounds: Sequence[Around] = (),
        processes: Processes | None = None,
        isolates: bool = False,
        meter: Meter | None = None,
    ) -> None:
        self.settings = settings
        self._metering = None if meter is None else Metering(meter)
        self._tells_ends = _logger.isEnabledFor(logging.DEBUG)
        self.marks = marks
        self.refused_writes = 0  # because the claim was no longer ours
        self.ended_jobs = 0
        self._store = store
        self._delivery = delivery
        self._is_trusted = is_trusted
        self._until = until
        self._tally = Tally()
        self._slots = Slots(concurrency, queue_bounds)
        source = delivery.source
        self._ageing = Ageing(rules_of(settings.queues))
        self._rules = Rules(store, self._ageing, self._tally, self._follow_polls)
        self._pump = Pump(worker, queues, self._slots, None if source is None else source.settled, self._ageing)
        self._pump.most = 1 if until is Until.ONE else None
        self.executor = Executor(
            tasks,
            settings,
            marks,
            self,
            state=state,
            arounds=arounds,
            processes=processes,
            isolates=isolates,
        )
        self._locks = Locks(store, delivery, listens=False)
        self._reporter = Reporter(store, self.executor.runs.values)
        self._spending = Spending(store, concurrency, None if self._metering is None else self._metering.spent)
        self._finisher = Finisher(store, self._tally, self._known, self._reporter.save, most=self._slots.half)
        self._exchange = Exchange(
            self._pump,
            self._finisher,
            may_claim=self._may_claim,
            claimed=self._claimed,
            start=self._start_ready,
            overlaps=store.is_remote,
            lost=self._lost,
            timed=None if self._metering is None else self._metering.claimed,
        )
        self.custody = Custody(self._pump, self.executor, self._finisher, self._exchange, self.hint)
        self._promoter = Promoter(store, delivery, settings.poll_s_of(queues), self.hint, self._returned_buffer)
        self._cancels = Cancels(store, self._pump, self.custody)
        self._popper = None if source is None else Popper(source, self._pump, self._exchange.wake, self._may_claim)
        self._loops: list[asyncio.Task[None]] = []
        self._task: asyncio.Task[Any] | None = None
        self._draining = asyncio.Event()
        self._stopping = asyncio.Event()
        self._freed = asyncio.Event()
        self._was_hinted = False
        self._is_alone = False  # a job that once brought a process down runs, with nothing beside it
        self._will_start = False
        self._context = contextvars.copy_context()
        self._is_interrupted = False  # something that ran was given back on leaving
        self._grace_ends = 0.0
        self._is_stopped = False

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
                await self._locks.close()
                for loop in self._loops:
                    loop.cancel()
                await asyncio.gather(*self._loops, return_exceptions=True)

    async def _work(self) -> Left:
        try:
            await self._draining.wait()
        except asyncio.CancelledError:
            self.stop()
            self._revive_exchange()
            await self._leave()
            raise
        return await self._leave()

    def drain(self) -> None:
        """Claim nothing more, let what runs end, and leave."""
        self._pump.is_closed = True
        self._draining.set()

    def stop(self) -> None:
        """Give back what runs, and leave."""
        self.drain()
        self._is_stopped = True
        self._stopping.set()

    @property
    def is_leaving(self) -> bool:
        """Whether nothing more is claimed."""
        return self._draining.is_set()

    @property
    def is_ending(self) -> bool:
        """Whether this worker leaves, or everything is cancelled around it."""
        return self.is_leaving or (self._task is not None and self._task.cancelling() > 0)

    @property
    def grace_left_s(self) -> float:
        """How much of the grace is left for what ends after the jobs; one who stops has none."""
        return _FLUSH_S if self._is_stopped else max(self._grace_ends - time.monotonic(), _FLUSH_S)

    def _start_loops(self, listening: Listening) -> None:
        self._promoter.listening = listening
        loops: dict[str, Callable[[], Awaitable[None]]] = {
            "exchange": self._exchange.serve,
            "reporter": self._reporter.serve,
            "cancels": self._cancels.serve,
            "promoter": self._promoter.serve,
            "ageing": lambda: self._ageing.keep_looking(self._store, self._pump.queues),
            "rules": self._rules.serve,
            "budgets": self._spending.serve,
        }
        if self._popper is not None:
            loops["popper"] = self._popper.serve
        if self._until is not Until.TOLD:
            loops["rest"] = self._leave_when_empty
        self._loops = [asyncio.create_task(keep_going(serve), name=f"holdfast {name}") for name, serve in loops.items()]
        self._exchange.wake()

    def _revive_exchange(self) -> None:
        """Let ends be written although every task was cancelled, as `asyncio.run` does when its program returns."""
        if any(loop.done() or loop.cancelling() for loop in self._loops):
            self._loops.append(asyncio.create_task(keep_going(self._exchange.serve), name="holdfast exchange"))
            self._exchange.wake()

    async def _leave(self) -> Left:
        self._exchange.give_back(self._pump.empty())
        if self._popper is not None:
            await self._popper.close()
        self._grace_ends = grace_ends = time.monotonic() + self.settings.worker.shutdown_grace_s
        if not self._stopping.is_set():
            await self._until_ended(self.settings.worker.shutdown_grace_s)
        for run in self.executor.runs.values():
            if not run.is_settled:
                run.stop(Why.LEAVING)
        if self.executor.runs:
            self._stopping.clear()
            await self._until_ended(_STOPPING_S)
        for run in list(self.executor.runs.values()):
            if not run.is_committed:
                self.executor.settle_now(run, ends.interrupted(*run.key))
        self._exchange.give_back(self._pump.empty())
        # What ended within the grace may use the rest of it to become known; there is always a moment for it.
        patience = 0.0 if self._is_interrupted else grace_ends - time.monotonic()
        is_known = await self._exchange.flush(max(patience, _FLUSH_S)) and await self._finisher.count(_FLUSH_S)
        await self._spending.close(_FLUSH_S)
        self.executor.threads.close()
        for run in list(self.executor.runs.values()):
            run.stop(Why.LEAVING)
        if not is_known:
            _logger.warning("the store was not available: what it does not know yet is rescued when the lease ends")
        return Left.INTERRUPTED if self._is_interrupted or not is_known else Left.DRAINED

    async def _until_ended(self, timeout_s: float) -> None:
        """Wait until nothing runs, the time is over, or the worker is told to stop."""
        stopping = asyncio.ensure_future(self._stopping.wait())
        deadline = asyncio.get_running_loop().time() + timeout_s
        try:
            while self.executor.runs and not stopping.done():
                left = deadline - asyncio.get_running_loop().time()
                if left <= 0:
                    return
                self._freed.clear()
                freed = asyncio.ensure_future(self._freed.wait())
                await asyncio.wait({freed, stopping}, timeout=left, return_when=asyncio.FIRST_COMPLETED)
                freed.cancel()
        finally:
            stopping.cancel()

    async def _leave_when_empty(self) -> None:
        while not self.is_leaving:
            await asyncio.sleep(0.01)
            if self.executor.runs or self._pump.buffer or not self._finisher.is_idle:
                continue
            if self._until is Until.ONE and self._pump.most == 0:
                self.drain()
            elif not self._pump.is_dry:
                if self._exchange.in_flight is None:
                    self.hint()
            elif await self._promoter.promote() == 0:
                self.drain()

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
            self._locks.look()
            return
        self._was_hinted = True
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
        return not self.custody.is_lost and not self._is_alone and not self._makes_room() and self._is_trusted()

    def _makes_room(self) -> bool:
        """Whether a job that brought a process down waits here until it can have this one for itself."""
        return any(run.job.crashes and not self.executor.can_isolate(run.job) for run in self._pump.buffer)

    def _lost(self) -> None:
        self.custody.lose()

    def _claimed(self, claim: Claim, jobs: Sequence[Job]) -> None:
        if self._was_hinted and not jobs:
            self._promoter.look()  # the hint was for a job that is due in a moment
        self._was_hinted = False
        failpoints.reach("after_claim")
        self._rules.claimed(jobs)
        self._pump.took(claim, jobs)
        if self.is_leaving:
            self._exchange.give_back(self._pump.empty())

    def _start_soon(self) -> None:
        """Start what may start once for all slots that become free in this round of the loop.

        In the worker's own context: the variables that a handler has set end with its job.
        """
        if not self._will_start:
            self._will_start = True
            asyncio.get_running_loop().call_soon(self._start_ready, context=self._context)

    def _start_ready(self) -> None:
        self._will_start = False
        self._start_all()
        if (at := self._pump.next_start) is not None:
            asyncio.get_running_loop().call_later(at - time.monotonic(), self._start_soon)
        if self.executor.runs:
            self._reporter.started()
        if self._popper is not None:
            self._popper.look()
        self._exchange.wake()

    def _start_all(self) -> None:
        if not self._is_trusted():
            return
        while not self._is_alone and not self.is_leaving:
            run = self._pump.next_run()
            if run is None:
                break
            if run.is_late:
                self._slots.give(run.job.queue)
                self._exchange.give_back([run])
                continue
            if run.job.crashes and not self.executor.can_isolate(run.job):
                if self._slots.taken > 1:  # it waits until it can have this process for itself
                    self._slots.give(run.job.queue)
                    self._pump.buffer.appendleft(run)
                    break
                self._is_alone = True
            self.executor.begin(run)

    def _returned_buffer(self, queues: Iterable[str]) -> bool:
        """Give back what is buffered of paused queues or behind long jobs; whether there is a buffer at all."""
        self._exchange.give_back(self._pump.empty(queues))
        self._exchange.give_back(self._pump.stuck(_LONGEST_BUFFERED_S))
        return bool(self._pump.buffer)

    # ---- ends ------------------------------------------------------------------------------------------------------

    def settled(self, run: Run, transition: Transition) -> None:
        """Let the end of a claim be written, unless the claim is known to be lost."""
        if self.is_leaving and run.started_at is not None and transition.verb is Verb.INTERRUPT:
            self._is_interrupted = True
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
        self._spending.freed(run)
        self._is_alone = False
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
        self._freed.set()
        self._start_soon()

    def reported(self, run: Run) -> None:
        """Let progress be stored."""
        self._reporter.reported(run)

    async def kept(self, run: Run) -> None:
        """Store now what a handler said."""
        await self._reporter.keep(run)

    async def load(self, run: Run) -> Job | None:
        """Read what earlier claims of a job have left; while the store is away this waits, as long as the job may."""
        while True:
            try:
                found = await self._store.get_jobs([run.job.id])
            except (StoreUnavailable, OutcomeUnknown):
                await asyncio.sleep(self.settings.worker.poll_s)
            else:
                return found[0] if found else None

    async def admit(self, run: Run) -> Transition | None:
        """Set aside what a job may spend; a Transition if it may not run now."""
        return await self._spending.admit(run)

    async def ending(self, run: Run, transition: Transition) -> None:
        """Wait until what a handler has spent is written down."""
        await self._spending.settle(run, transition)

    async def spend(self, run: Run, amount: Amount, note: str | None) -> None:
        """Write down what a handler has spent."""
        await self._spending.spend(run, amount, note)

    def transaction(self, run: Run) -> TransactionBlock:
        """Open the transaction in which a job completes."""
        return Block(run, self._own_store, self.settings)

    def lock(self, run: Run, name: str, timeout: Duration | None) -> LockBlock:
        """Hold a lock for a job."""
        return block_of(run, self._own_locks, name, timeout)

    def vanished(self, run: Run) -> None:
        """Let go of the locks of a handler whose process is gone."""
        self._locks.free(*run.key)

    async def _own_store(self) -> Store:
        return self._store

    async def _own_locks(self) -> Locks:
        return self._locks

    def _known(self, ending: Ending, finish: Finish) -> None:
        run = ending.run
        self._look_for(ending, finish)
        if run is None:
            return
        if not is_ours(finish):
            self._refuse(run)
            return
        run.is_known = True
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
        self.refused_writes += 1
        if self._metering is not None:
            self._metering.fenced()
        run.is_known = True
        self._pump.settled(run.job.id)
        self._unmark(run)
        message = "job %s (%s) was taken from this worker, what its claim %d did is dropped"
        _logger.warning(message, run.job.public_id, run.job.kind, run.job.claim, extra=facts("job.lost", run.job))

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
        self.ended_jobs += 1
        self.marks.count_finished(1)
        self._pump.finished(run.job.queue)
        self._tally.count(run, state)
        if self._metering is not None:
            self._metering.ended(run, verb, state)
        if self._tells_ends:
            log_end(run, verb, state)
