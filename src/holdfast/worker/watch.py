"""Watching over the children of an instance: their lease, what the store shows for them, and what their marks say."""

import asyncio
import logging
import time
from collections.abc import Collection, Coroutine, Sequence
from typing import Any

from holdfast import failure, public_id
from holdfast import transitions as ends
from holdfast.config import Settings
from holdfast.errors import HoldfastError, TimedOut
from holdfast.job import JobRow
from holdfast.stores.store import LeaseStore, Store
from holdfast.stores.values import Held, Renewal
from holdfast.telemetry.meter import Meter
from holdfast.transitions import Transition
from holdfast.worker import marks
from holdfast.worker.enrolment import Enrolment
from holdfast.worker.lease import Lease
from holdfast.worker.marks import Marks
from holdfast.worker.memory import resident_bytes
from holdfast.worker.metering import count_end
from holdfast.worker.offspring import Offspring
from holdfast.worker.orders import Adopt, Renewed, Revoked, Wire
from holdfast.worker.parent import Parent

_logger = logging.getLogger("holdfast")

_ATTEND_S = 0.25
_UNRESPONSIVE_S = 2.0


class Watch:
    """Keeps the lease of the living children, and acts on what they do not do themselves."""

    def __init__(
        self,
        parent: Parent,
        store: Store,
        leases: LeaseStore,
        enrolment: Enrolment,
        living: Collection[Offspring],
        *,
        settings: Settings,
        wire: Wire,
        meter: Meter | None,
    ) -> None:
        self.lease = Lease(leases, settings.worker.lease_s, self._workers, self._renewed)
        self.background: set[asyncio.Task[None]] = set()
        self._parent = parent
        self._store = store
        self._enrolment = enrolment
        self._living = living
        self._kill_grace_s = settings.worker.kill_grace_s
        self._wire = wire
        self._meter = meter

    def _workers(self) -> dict[int, int | None]:
        return {child.worker: resident_bytes(child.pid) for child in self._living if child.worker is not None}

    def _renewed(self, renewal: Renewal, asked_at: int) -> None:
        if renewal.is_draining and not self._parent.is_told:
            _logger.info("asked to leave: nothing more is claimed, what runs may end")
            self._parent.leave()
        for child in list(self._living):
            if child.worker not in renewal.alive:
                if child.entered_at < asked_at:  # or it was entered while the store was being asked
                    self._run(self._readopt(child))
                continue
            self._enrolment.mark_renewal(child, asked_at)
            held = [claim for claim in renewal.held if claim.worker == child.worker]
            if child.is_unresponsive:
                self._run(self._return_unstarted(child, held))  # guard: unstarted-return
            else:
                child.send(Renewed(held, asked_at))

    async def _readopt(self, child: Offspring) -> None:
        """Enter a child anew that others declared dead; what it held belongs to them."""
        if child.is_readopted or self._parent.is_told:
            return
        child.is_readopted = True
        try:
            worker = await self._enrolment.enter(child)
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
            _logger.warning("%d jobs that process %d had not begun were requeued", len(claims), child.pid)

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        async def logged() -> None:
            try:
                await work
            except HoldfastError as error:
                _logger.warning("%s", error)

        task = asyncio.create_task(logged())
        self.background.add(task)
        task.add_done_callback(self.background.discard)

    async def serve(self) -> None:
        """Look at the marks of the children, four times a second."""
        while True:
            now = time.monotonic_ns()
            for child in list(self._living):
                if child.marks is not None:
                    child.marks.attend()
                    self._look_at(child, child.marks, now)
            if self.lease.is_moved and not self._parent.is_told:
                self._parent.leave()
            await asyncio.sleep(_ATTEND_S)

    def _look_at(self, child: Offspring, found: Marks, now: int) -> None:
        is_still = found.ticked > 0 and now - found.ticked > _UNRESPONSIVE_S * 1e9
        if is_still and not child.is_unresponsive:
            _logger.warning("worker:unresponsive: the event loop of process %d stands still", child.pid)
            self.lease.renew_soon()
        child.is_unresponsive = is_still
        late = now - (self._kill_grace_s + 2 * _ATTEND_S) * 1e9
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
        if self._meter is not None:
            for job, transition in zip(judged, ended, strict=True):
                ran_s = (time.monotonic_ns() - claims[job.id, job.claim].started) / 1e9
                count_end(self._meter, job, transition.verb, transition.state, ran_s)
        child.kill_acquitted()

    def _timed_out(self, job: JobRow) -> Transition:
        wire, key = self._wire, (job.id, job.claim)
        error = TimedOut(f"ran longer than its timeout of {(job.timeout_ms or 0) / 1_000:g} s, and was killed")
        why = failure.from_exception(error)
        if job.attempt >= job.max_attempts or job.kind in wire.fatal_timeouts:
            return ends.failed(*key, why)
        return ends.retried(*key, why, wire.retries.get(job.kind, wire.retry).delay_ms(job.attempt))
