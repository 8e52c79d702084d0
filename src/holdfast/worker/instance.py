"""The working life of an instance, from its first child to the last: every place filled, deaths, leaving."""

import asyncio
import contextlib
import logging
from collections.abc import Sequence

from holdfast.config import Settings
from holdfast.delivery.choosing import make_delivery
from holdfast.locations import masked
from holdfast.services.exporter import Exporter
from holdfast.services.leader import make_leadership
from holdfast.services.runner import ServiceRunner
from holdfast.services.sweeps import Sweeps
from holdfast.stores.store import LeaseStore, Store
from holdfast.telemetry.meter import Gauge
from holdfast.worker import marks
from holdfast.worker.enrolment import Enrolment
from holdfast.worker.leaving import Until
from holdfast.worker.loops import keep_going
from holdfast.worker.marks import Marks
from holdfast.worker.metering import memory_of
from holdfast.worker.offspring import Offspring
from holdfast.worker.orders import Bounds, Bye, Counted, Drain, Go, Halt, Hello, Start
from holdfast.worker.parent import Parent
from holdfast.worker.slots import share
from holdfast.worker.tuning import Tuner
from holdfast.worker.vanished import HostMarks, folder_of
from holdfast.worker.watch import Watch

_logger = logging.getLogger("holdfast")

_FIRST_BACKOFF_S, _LONGEST_BACKOFF_S = 1.0, 30.0
_AFTER_GRACE_S = 1.2
_HALT_S = 1.2
_FAREWELL_S = 1.0


class Instance:
    """The working life of an instance: from the first renewal to the last child."""

    def __init__(
        self,
        parent: Parent,
        store: Store,
        leases: LeaseStore,
        *,
        settings: Settings,
        hello: Hello,
        start: Start,
        exporter: Exporter | None = None,
    ) -> None:
        self._parent = parent
        self._store = store
        self._settings = settings
        self._hello = hello
        self._instance = start.instance
        self._until = start.until
        self._folder = folder_of(settings)
        self._exporter = exporter
        self._living: set[Offspring] = set()
        self._enrolment = Enrolment(parent, leases, settings, hello, start.instance)
        self._watch = Watch(
            parent,
            store,
            leases,
            self._enrolment,
            self._living,
            settings=settings,
            wire=hello.wire,
            meter=None if exporter is None else exporter.meter,
        )
        self._tuner = Tuner(
            store,
            start.instance,
            queues=hello.queues,
            bounds=hello.wire.bounds,
            total=hello.concurrency,
            apply=self._set_bounds,
        )

    async def run(self, first: Offspring, others: Sequence[Offspring] = ()) -> None:
        """Keep the children until the instance leaves: the first has greeted, others may have been started with it."""
        hello = self._hello
        message = "instance %s works on %s: queues %s; %d slots in %d process(es)"
        where = masked(self._settings.url)
        queues = ", ".join(hello.queues)
        _logger.info(message, self._instance[:8], where, queues, hello.concurrency, hello.processes)
        own_marks = None
        if self._folder is not None:
            marks.sweep(self._folder)
            with contextlib.suppress(OSError):  # without room for it, others may judge our children before we do
                own_marks = Marks.create(marks.file_of(self._folder, self._instance, 0), 0)
        delivery = make_delivery(self._settings, self._store)
        sweeps = Sweeps(
            self._store,
            delivery,
            HostMarks(self._folder, self._instance),
            cancel_grace_s=self._settings.worker.cancel_grace_s,
            may_judge=lambda: self._watch.lease.is_steady,
        )
        served = (self._watch.lease.serve, sweeps.serve, self._watch.serve, self._tuner.serve)
        loops = [asyncio.create_task(keep_going(loop)) for loop in served]
        leaving = self._enrolment.leaving = asyncio.create_task(self._leave())
        started: list[Offspring | None] = [first, *others]
        started += [None] * (self._hello.processes - len(started))
        kept = asyncio.gather(
            *(self._keep(index, child, is_greeted=child is first) for index, child in enumerate(started))
        )
        runner = ServiceRunner(self._store, delivery, self._settings, make_leadership(self._settings, self._store))
        try:
            with self._shown(runner):
                # Once everything has to be over, the leader's farewell must not come on top of those of the children.
                async with runner.open(self._enrolment.in_time):
                    await asyncio.wait((kept, leaving), return_when=asyncio.FIRST_COMPLETED)
                await kept
        finally:
            leaving.cancel()
            kept.cancel()
            for loop in (*loops, *self._watch.background):
                loop.cancel()
            await asyncio.gather(kept, *loops, *self._watch.background, return_exceptions=True)
            await delivery.close()
            if own_marks is not None:
                own_marks.close()

    def _shown(self, runner: ServiceRunner) -> contextlib.AbstractContextManager[None]:
        """Show what the children count, if anybody wants to see it."""
        if self._exporter is None:
            return contextlib.nullcontext()
        return self._exporter.showing(self._gauges, self._store, runner)

    def _gauges(self) -> list[Gauge]:
        return [gauge for child in self._living for gauge in (*child.gauges, *memory_of(child.pid))]

    async def _keep(self, index: int, child: Offspring | None, *, is_greeted: bool) -> None:
        """Keep one place filled, until the instance leaves or its child has nothing more to do."""
        backoff = 0.0
        while True:
            if child is None:
                if self._parent.is_told:
                    return
                child = await self._parent.spawn()
            if not is_greeted:
                hello = await self._parent.greeted(child)
                if not isinstance(hello, Hello):
                    if not self._parent.is_told:
                        _logger.error("%s", hello)
                    child.kill()
                    await child.ended()
            is_final = await self._live(index, child)
            has_worked = child.has_worked  # its marks are gone with it
            await self._bury(child)
            if is_final or self._parent.is_told:
                if self._until is not Until.TOLD and not self._living:
                    self._parent.leave()
                return
            if has_worked or child.has_left:  # it was recycled, or told to leave by a signal of its own
                backoff = 0.0
            else:
                backoff = min(max(2 * backoff, _FIRST_BACKOFF_S), _LONGEST_BACKOFF_S)
                _logger.error(
                    "a worker process ended (%s) without having finished a job; the next one starts in %g s",
                    child.how_it_ended,
                    backoff,
                )
            await self._parent.sleep(backoff)
            child, is_greeted = None, False

    async def _live(self, index: int, child: Offspring) -> bool:
        """Let a child work; True when it left for good."""
        if not child.is_alive:
            return False
        child.index = index
        child.worker = await self._enrolment.enter(child)
        if child.worker is None:
            return True
        child.marks = (
            None if self._folder is None else Marks.open(marks.file_of(self._folder, self._instance, child.pid))
        )
        self._living.add(child)
        if child.marks is not None:
            child.marks.attend()
        slots = share(self._hello.concurrency, self._hello.processes, index)
        child.send(Go(child.worker, self._settings.worker.lease_s, slots, self._bounds_of(child)))
        if self._parent.is_told:
            child.send(Drain())
        while (answer := await child.receive()) is not None:
            if isinstance(answer, Bye):
                child.is_recycling = answer.is_recycling
                child.has_left = True
                if not answer.is_drained and self._parent.is_told:
                    self._parent.interrupted()
            elif isinstance(answer, Counted) and self._exporter is not None:
                self._exporter.meter.add(answer.counts)
                child.gauges = answer.gauges
        try:
            async with asyncio.timeout(_FAREWELL_S):
                await child.ended()
        except TimeoutError:  # its line is closed, so nothing it still does can be told
            child.kill()
            await child.ended()
        return child.has_left and not child.is_recycling and self._until is not Until.TOLD

    def _bounds_of(self, child: Offspring) -> dict[str, int]:
        """Deal the slots of queues that have a bound of their own to one of the children."""
        return {name: share(bound, self._hello.processes, child.index) for name, bound in self._tuner.bounds.items()}

    def _set_bounds(self, _bounds: dict[str, int]) -> None:
        for child in self._living:
            child.send(Bounds(self._bounds_of(child)))

    # ---- death -----------------------------------------------------------------------------------------------------

    async def _bury(self, child: Offspring) -> None:
        """Give back what a dead child held, once nothing that it started is left."""
        self._living.discard(child)
        begun = [] if child.marks is None else list(child.marks.begun())
        if begun and not child.has_left and self._parent.is_told:
            self._parent.interrupted()  # it was at something, which now begins elsewhere
        await child.ended()  # only now this process is the parent of those that it had spawned
        siblings = {other.pid for other in self._living}
        await child.end_all([entry.pid for entry in begun if entry.pid not in siblings])  # guard: orphan-kill
        self._parent.forget(child)
        await self._enrolment.sign_off(child)
        await child.close()

    # ---- leaving ---------------------------------------------------------------------------------------------------

    async def _leave(self) -> None:
        """Let the children drain, halt them when told again, and kill what is left when the grace is over."""
        await self._parent.told()
        for child in self._living:
            if child.marks is not None:
                child.marks.ask()
            child.send(Drain())
        try:
            async with asyncio.timeout(self._settings.worker.shutdown_grace_s + _AFTER_GRACE_S):
                await self._parent.halted()
            for child in self._living:
                child.send(Halt())
            await asyncio.sleep(_HALT_S)
        except TimeoutError:
            pass
        for child in self._living:
            self._parent.interrupted()
            child.is_killed = True  # guard: leaving-acquittal
            child.kill_acquitted()
