"""The working life of an instance, from its first child to the last: leases, watching, deaths, leaving."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Coroutine, Sequence
from typing import Any, Protocol, TypeVar

from holdfast import failpoints, failure, public_id
from holdfast import transitions as ends
from holdfast.client.repeat import pauses
from holdfast.config import Settings
from holdfast.delivery.choosing import make_delivery
from holdfast.errors import HoldfastError, TimedOut
from holdfast.job import Job
from holdfast.locations import masked
from holdfast.services.exporting import Exporter
from holdfast.services.leading import make_leadership
from holdfast.services.office import Office
from holdfast.services.upkeep import Upkeep, crashes
from holdfast.stores.store import LeaseStore, Store
from holdfast.stores.values import Held, Renewal
from holdfast.telemetry.meter import Gauge
from holdfast.transitions import Transition
from holdfast.worker import identity, marks
from holdfast.worker.child import EXIT_FENCED
from holdfast.worker.lease import Lease
from holdfast.worker.loops import keep_going
from holdfast.worker.marks import Marks
from holdfast.worker.metering import count_end
from holdfast.worker.offspring import Offspring
from holdfast.worker.orders import Adopt, Bounds, Bye, Counted, Drain, Go, Halt, Hello, Renewed, Revoked, Start
from holdfast.worker.slots import share
from holdfast.worker.tuning import Tuner
from holdfast.worker.vanished import HostMarks, folder_of
from holdfast.worker.worker import Until

_logger = logging.getLogger("holdfast")

T = TypeVar("T")

_ATTEND_S = 0.25
_UNRESPONSIVE_S = 2.0
_FIRST_BACKOFF_S, _LONGEST_BACKOFF_S = 1.0, 30.0
_AFTER_GRACE_S = 1.2
_HALT_S = 1.2
_FAREWELL_S = 1.0
_LAST_WORD_S = 0.25  # for the store, when everything has to be over


class Parent(Protocol):
    """What an instance needs of the process that it lives in."""

    @property
    def is_told(self) -> bool:
        """Whether the instance leaves."""

    async def told(self) -> None:
        """Wait until the instance is told to leave."""

    async def halted(self) -> None:
        """Wait until it is told again."""

    async def sleep(self, seconds: float) -> None:
        """Wait a while, or until the instance is told to leave."""

    def leave(self) -> None:
        """Leave without a signal: there is nothing more to do."""

    def interrupted(self) -> None:
        """Remember that something could not end in time."""

    async def spawn(self) -> Offspring:
        """Start a child."""

    async def greeted(self, child: Offspring) -> Hello | str:
        """Wait until a child has imported the app, or until it is known why there will be no greeting."""

    def forget(self, child: Offspring) -> None:
        """Take note that a child is gone, with everything it had started."""


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
        self._leases = leases
        self._settings = settings
        self._hello = hello
        self._instance = start.instance
        self._until = start.until
        self._lease_s = settings.worker.lease_s
        self._lease = Lease(leases, self._lease_s, self._workers, self._renewed)
        self._folder = folder_of(settings)
        self._exporter = exporter
        self._tuner = Tuner(
            store,
            start.instance,
            queues=hello.queues,
            bounds=hello.wire.bounds,
            total=hello.concurrency,
            apply=self._set_bounds,
        )
        self._living: set[Offspring] = set()
        self._background: set[asyncio.Task[None]] = set()
        self._leaving: asyncio.Future[None] = asyncio.get_running_loop().create_future()

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
        upkeep = Upkeep(
            self._store,
            delivery,
            HostMarks(self._folder, self._instance),
            cancel_grace_s=self._settings.worker.cancel_grace_s,
            may_judge=lambda: self._lease.is_steady,
        )
        served = (self._lease.serve, upkeep.serve, self._attend, self._tuner.serve)
        loops = [asyncio.create_task(keep_going(loop)) for loop in served]
        self._leaving = asyncio.create_task(self._leave())
        started: list[Offspring | None] = [first, *others]
        started += [None] * (self._hello.processes - len(started))
        keepers = [
            asyncio.create_task(self._keep(index, child, is_greeted=child is first))
            for index, child in enumerate(started)
        ]
        office = Office(self._store, delivery, self._settings, make_leadership(self._settings, self._store))
        try:
            with self._shown(office):
                async with office.open():
                    await asyncio.gather(*keepers)
        finally:
            self._leaving.cancel()
            for loop in (*loops, *self._background):
                loop.cancel()
            await asyncio.gather(*loops, *self._background, return_exceptions=True)
            await delivery.close()
            if own_marks is not None:
                own_marks.close()

    def _shown(self, office: Office) -> contextlib.AbstractContextManager[None]:
        """Show what the children count, if anybody wants to see it."""
        if self._exporter is None:
            return contextlib.nullcontext()
        return self._exporter.showing(self._gauges, self._store, office)

    def _gauges(self) -> list[Gauge]:
        return [gauge for child in self._living for gauge in child.gauges]

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
        child.worker = await self._register(child)
        if child.worker is None:
            return True
        child.marks = (
            None if self._folder is None else Marks.open(marks.file_of(self._folder, self._instance, child.pid))
        )
        self._living.add(child)
        if child.marks is not None:
            child.marks.attend()
        slots = share(self._hello.concurrency, self._hello.processes, index)
        child.send(Go(child.worker, self._lease_s, slots, self._bounds_of(child)))
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

    async def _register(self, child: Offspring) -> int | None:
        """Enter a child in the store, however long that takes; None when the instance leaves first."""
        hello, lease_ms = self._hello, round(self._lease_s * 1_000)
        slots = share(hello.concurrency, hello.processes, child.index)
        info = identity.describe(self._instance, child.pid, tuple(hello.queues), slots)
        waits = pauses()
        while not self._parent.is_told:
            sent = time.monotonic_ns()
            try:
                worker = await self._in_time(self._leases.register_worker(info, lease_ms))
            except TimeoutError:
                break
            except HoldfastError as error:
                _logger.warning("a worker process could not be entered in the store, trying again: %s", error)
                await anext(waits)
                continue
            self._mark_renewal(child, sent)
            child.entered_at = time.monotonic_ns()
            return worker
        child.kill()
        return None

    def _mark_renewal(self, child: Offspring, sent: int) -> None:
        if child.marks is None and self._folder is not None:
            child.marks = Marks.open(marks.file_of(self._folder, self._instance, child.pid))
        if child.marks is not None:
            child.marks.renew(sent)

    # ---- death -----------------------------------------------------------------------------------------------------

    async def _bury(self, child: Offspring) -> None:
        """Give back what a dead child held, once nothing that it started is left."""
        self._living.discard(child)
        begun = [] if child.marks is None else list(child.marks.begun())
        child.kill_all([entry.pid for entry in begun if entry.pid])
        await child.ended()
        self._parent.forget(child)
        if child.worker is None:
            child.close()
            return
        how, culprits = self._judge(child)
        failpoints.reach("before_release")
        waits = pauses()
        until = time.monotonic() + _FAREWELL_S
        while not self._parent.is_told or time.monotonic() < until:
            try:
                if child.has_left:
                    await self._in_time(self._leases.retire_worker(child.worker))
                else:
                    released = await self._in_time(self._leases.release_worker(child.worker, culprits))
                    _logger.warning(
                        "worker process %d %s; %d jobs were given back", child.pid, how, len(released.requeued)
                    )
            except TimeoutError:
                _logger.warning("the store does not answer: what process %d held is rescued later", child.pid)
                break
            except HoldfastError as error:
                _logger.warning("what process %d held could not be given back yet: %s", child.pid, error)
                await anext(waits)
            else:
                break
        child.close()

    def _judge(self, child: Offspring) -> tuple[str, list[Transition]]:
        """Say how a child ended, and which claims have to answer for it."""
        if child.sentence is not None:
            return child.sentence
        how = child.how_it_ended
        if child.marks is None or child.has_left or child.is_killed or child.exit_code == EXIT_FENCED:
            return how, []
        suspects = [(entry.id, entry.claim) for entry in child.marks.suspects()]
        return how, crashes(suspects, f"its worker process {child.pid} {how}")

    # ---- watching --------------------------------------------------------------------------------------------------

    def _workers(self) -> list[int]:
        return [child.worker for child in self._living if child.worker is not None]

    def _renewed(self, renewal: Renewal, asked_at: int) -> None:
        for child in list(self._living):
            if child.worker not in renewal.alive:
                if child.entered_at < asked_at:  # or it was entered while the store was being asked
                    self._run(self._readopt(child))
                continue
            self._mark_renewal(child, asked_at)
            held = [claim for claim in renewal.held if claim.worker == child.worker]
            if child.is_unresponsive:
                self._run(self._return_unstarted(child, held))
            else:
                child.send(Renewed(held, asked_at))

    async def _readopt(self, child: Offspring) -> None:
        """Enter a child anew that others declared dead; what it held belongs to them."""
        if child.is_readopted or self._parent.is_told:
            return
        child.is_readopted = True
        try:
            worker = await self._register(child)
            if worker is not None:
                child.worker = worker
                child.send(Adopt(worker))
        finally:
            child.is_readopted = False

    async def _return_unstarted(self, child: Offspring, held: Sequence[Held]) -> None:
        """Give back what a child that stands still has claimed and not begun."""
        begun = set() if child.marks is None else {(entry.id, entry.claim) for entry in child.marks.begun()}
        claims = [(claim.id, claim.claim) for claim in held if (claim.id, claim.claim) not in begun]
        if claims:
            await self._store.finish_jobs([ends.interrupted(*claim) for claim in claims])
            child.send(Revoked(claims))
            _logger.warning("%d jobs that process %d had not begun were given back", len(claims), child.pid)

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        async def logged() -> None:
            try:
                await work
            except HoldfastError as error:
                _logger.warning("%s", error)

        task = asyncio.create_task(logged())
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def _attend(self) -> None:
        while True:
            now = time.monotonic_ns()
            for child in list(self._living):
                if child.marks is not None:
                    child.marks.attend()
                    self._look_at(child, child.marks, now)
            if self._lease.is_moved and not self._parent.is_told:
                self._parent.leave()
            await asyncio.sleep(_ATTEND_S)

    def _look_at(self, child: Offspring, found: Marks, now: int) -> None:
        is_still = found.ticked > 0 and now - found.ticked > _UNRESPONSIVE_S * 1e9
        if is_still and not child.is_unresponsive:
            _logger.warning("worker:unresponsive: the event loop of process %d stands still", child.pid)
            self._lease.renew_soon()
        child.is_unresponsive = is_still
        late = now - (self._settings.worker.kill_grace_s + 2 * _ATTEND_S) * 1e9
        running = (entry for entry in found.begun() if entry.way != marks.Way.ENDED)
        overdue = [entry for entry in running if entry.deadline and entry.deadline < late]
        if overdue and not child.is_accused:
            self._run(self._kill_overdue(child, overdue))

    async def _kill_overdue(self, child: Offspring, overdue: Sequence[marks.Begun]) -> None:
        """Kill a child for a handler that ignores its timeout; only that one has to answer for it."""
        child.is_accused = True
        try:
            jobs = await self._store.get_jobs([entry.id for entry in overdue])
        except HoldfastError:
            await asyncio.sleep(_UNRESPONSIVE_S)
            child.is_accused = False  # it is looked at again
            raise
        claims = {(entry.id, entry.claim): entry for entry in overdue}
        judged = [job for job in jobs if (job.id, job.claim) in claims and not job.is_finished]
        named = ", ".join(public_id.encode(entry.id) for entry in overdue)
        _logger.error("process %d is killed for ignored timeouts: %s", child.pid, named)
        ended = [self._timed_out(job) for job in judged]
        child.sentence = ("was killed for a handler that ignored its timeout", ended)
        if self._exporter is not None:
            for job, transition in zip(judged, ended, strict=True):
                ran_s = (time.monotonic_ns() - claims[job.id, job.claim].started) / 1e9
                count_end(self._exporter.meter, job, transition.verb, transition.state, ran_s)
        _kill_acquitted(child)

    def _timed_out(self, job: Job) -> Transition:
        wire, key = self._hello.wire, (job.id, job.claim)
        error = TimedOut(f"ran longer than its timeout of {(job.timeout_ms or 0) / 1_000:g} s, and was killed")
        why = failure.from_exception(error)
        if job.attempt >= job.max_attempts or job.kind in wire.fatal_timeouts:
            return ends.failed(*key, why)
        return ends.retried(*key, why, wire.retries.get(job.kind, wire.retry).delay_ms(job.attempt))

    async def _in_time(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for the store; once the instance has to be gone, only a moment longer."""
        task = asyncio.ensure_future(work)
        await asyncio.wait((task, self._leaving), return_when=asyncio.FIRST_COMPLETED)
        async with asyncio.timeout(_LAST_WORD_S if self._leaving.done() else None):
            return await task

    # ---- leaving ---------------------------------------------------------------------------------------------------

    async def _leave(self) -> None:
        """Let the children drain, halt them when told again, and kill what is left when the grace is over."""
        await self._parent.told()
        for child in self._living:
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
            child.is_killed = True
            _kill_acquitted(child)


def _kill_acquitted(child: Offspring) -> None:
    """Kill a child through no fault of its jobs; another instance of this host may find it before we give them back."""
    if child.marks is not None:
        child.marks.acquit()
    child.kill()
