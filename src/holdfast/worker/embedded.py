"""A worker inside a program of somebody else: one process, one event loop, and no signals touched."""

import asyncio
import logging
import os
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, nullcontext

from holdfast import moments, names
from holdfast.client.repeat import until_answered
from holdfast.delivery.delivery import Delivery
from holdfast.errors import HoldfastError
from holdfast.escalation.sender import require_channels
from holdfast.services.leader import make_leadership
from holdfast.services.runner import ServiceRunner
from holdfast.services.sweeps import Sweeps
from holdfast.services.webhooks import require_http
from holdfast.stores.store import LeaseStore, Store
from holdfast.stores.values import Renewal
from holdfast.telemetry.meter import Gauge
from holdfast.worker import identity, marks
from holdfast.worker.errands import Errands
from holdfast.worker.lease import Lease, trusted_for
from holdfast.worker.leaving import Left, Until
from holdfast.worker.loops import keep_going
from holdfast.worker.marks import Marks
from holdfast.worker.memory import own_bytes
from holdfast.worker.metering import memory_of
from holdfast.worker.parts import Parts, bounds_of, marks_for, queues_of
from holdfast.worker.processes import make_processes
from holdfast.worker.slots import Slots
from holdfast.worker.tuning import Tuner
from holdfast.worker.vanished import HostMarks, folder_of
from holdfast.worker.worker import Worker
from holdfast.worker_settings import MOST_CONCURRENT

_logger = logging.getLogger("holdfast")

_TICK_S = 0.2
_FAREWELL_S = 1.5


class Embedded:
    """The worker of an app in this process, and its lease."""

    def __init__(
        self,
        parts: Parts,
        store: Store,
        delivery: Delivery,
        *,
        queues: Sequence[str] | None,
        concurrency: int | None,
        until: Until,
    ) -> None:
        self._parts = parts
        self._store = store
        self._delivery = delivery
        self._until = until
        self._queues = queues_of(parts, queues)
        chosen = parts.settings.worker.concurrency if concurrency is None else concurrency
        self._concurrency = names.count(chosen, "concurrency", MOST_CONCURRENT)
        self._instance = uuid.uuid4().hex
        self._lease_s = parts.settings.worker.embedded_lease_s
        self._worker: Worker | None = None
        self._id = 0
        self._entered_at = 0  # when that id was got, in monotonic nanoseconds
        self._is_told: str | None = None
        self._folder = folder_of(parts.settings)

    def drain(self) -> None:
        """Let what runs end, then leave."""
        self._is_told = self._is_told or "drain"
        if self._worker is not None:
            self._worker.marks.ask()
            self._worker.drain()

    def stop(self) -> None:
        """Give back what runs, then leave."""
        self._is_told = "stop"
        if self._worker is not None:
            self._worker.marks.ask()
            self._worker.stop()

    async def run(self) -> Left:
        """Work until told to leave."""
        require_http(self._parts.settings)
        require_channels(self._parts.settings)
        own_marks = self._make_marks()
        try:
            async with (
                make_processes(self._parts, own_marks) as processes,
                self._parts.lifespan() as state,
                self._store.reserve() as leases,
            ):
                await self._enter(leases)
                lease = Lease(leases, self._lease_s, self._workers, self._renewed)
                self._worker = Worker(
                    self._parts,
                    self._store,
                    self._delivery,
                    own_marks,
                    worker=self._id,
                    queues=self._queues,
                    slots=Slots(self._concurrency, bounds_of(self._parts.settings, 1, 0)),
                    is_trusted=lambda: lease.is_trusted,
                    until=self._until,
                    state=state,
                    processes=processes,
                    is_embedded=True,
                    meter=None if self._parts.exporter is None else self._parts.exporter.meter,
                )
                return await self._work(self._worker, lease, leases)
        finally:
            own_marks.close()

    def _make_marks(self) -> Marks:
        """Make the marks; without a folder for them this worker goes on, for it renews its lease itself."""
        entries = marks_for(self._concurrency)
        if self._folder is not None:
            try:
                return Marks.create(marks.file_of(self._folder, self._instance, os.getpid()), entries)
            except OSError as error:
                message = "%s. The worker goes on without: after a crash its jobs begin again when its lease has ended"
                _logger.warning(message, marks.why_unusable(self._folder, error))
                self._folder = None
        return Marks.create(None, entries)

    async def _work(self, worker: Worker, lease: Lease, leases: LeaseStore) -> Left:
        settings = self._parts.settings
        sweeps = Sweeps(
            self._store,
            self._delivery,
            HostMarks(self._folder, self._instance),
            cancel_grace_s=settings.worker.cancel_grace_s,
            may_judge=lambda: lease.is_steady,
        )
        if self._is_told is not None:
            worker.drain() if self._is_told == "drain" else worker.stop()
        runner = ServiceRunner(self._store, self._delivery, settings, make_leadership(settings, self._store))
        exporter = self._parts.exporter
        shown = nullcontext() if exporter is None else exporter.showing(self._gauges, self._store, runner)
        tuner = Tuner(
            self._store,
            self._instance,
            queues=self._queues,
            bounds=bounds_of(settings, 1, 0),
            total=self._concurrency,
            apply=worker.set_bounds,
        )
        beside = _beside(lease.serve, sweeps.serve, tuner.serve, lambda: self._watch(worker, lease, leases))
        async with beside, runner.open():
            errands = Errands(self._parts, self._store, self._delivery, lambda: self._id)
            try:
                await errands.published(settings.deadline_s)
                with shown:
                    return await worker.run()
            finally:
                await errands.close(worker.grace_left_s)
                await self._retire(leases)

    async def _enter(self, leases: LeaseStore) -> None:
        self._id = await self._register(leases)
        self._entered_at = time.monotonic_ns()
        moments.reach("registered", worker=self._id)

    async def _register(self, leases: LeaseStore) -> int:
        info = identity.describe(self._instance, os.getpid(), self._queues, self._concurrency)
        lease_ms = round(self._lease_s * 1_000)
        deadline_s = self._parts.settings.deadline_s
        return await until_answered(lambda _: leases.register_worker(info, lease_ms), deadline_s, "register the worker")

    async def _retire(self, leases: LeaseStore) -> None:
        try:
            async with asyncio.timeout(_FAREWELL_S):
                await leases.retire_worker(self._id)
        except (HoldfastError, TimeoutError) as error:
            reason = str(error) or "the store does not answer"
            _logger.warning("the worker could not be signed off, its lease ends by itself: %s", reason)

    def _gauges(self) -> list[Gauge]:
        busy = () if self._worker is None else self._worker.gauges()
        return [*busy, *memory_of(os.getpid())]

    def _workers(self) -> dict[int, int | None]:
        return {self._id: own_bytes()}

    def _renewed(self, renewal: Renewal, asked_at: int) -> None:
        if self._worker is None:
            return
        if renewal.is_draining and not self._worker.is_leaving:
            _logger.info("asked to leave: nothing more is claimed, what runs may end")
            self.drain()
        # One that was asked for before this id was got says nothing about it.
        if self._id not in renewal.alive and self._entered_at < asked_at:
            self._worker.custody.lose()
        self._worker.custody.reconcile(renewal.held, asked_at)

    async def _watch(self, worker: Worker, lease: Lease, leases: LeaseStore) -> None:
        """Stop work before the lease can end, and take a fresh id when it has ended."""
        while True:
            await asyncio.sleep(_TICK_S)
            worker.marks.tick()
            if lease.is_moved:
                worker.drain()
            if trusted_for(lease.renewed_at, lease.lease_s) <= 0:
                worker.custody.fence()
            if worker.custody.is_lost and not worker.is_leaving:
                await self._enter(leases)
                await lease.renew()
                worker.custody.adopt(self._id)


@asynccontextmanager
async def _beside(*loops: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    """Let loops go on while the block runs."""
    tasks = [asyncio.create_task(keep_going(loop), name="holdfast sweeps") for loop in loops]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
