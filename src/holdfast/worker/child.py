"""One process under a supervisor: it claims, runs and finishes; the supervisor keeps it alive for the others.

It never outlives its supervisor: the kernel kills it, and where the kernel does not, the end of the pipe does.
"""

import asyncio
import contextlib
import gc
import logging
import os
import resource
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any

from holdfast import failure, moments
from holdfast.client.definitions import read_definitions
from holdfast.delivery.choosing import make_delivery
from holdfast.errors import ConfigError, HoldfastError, OutcomeUnknown, StoreUnavailable
from holdfast.escalation.sender import require_channels
from holdfast.services.secrecy import keep_secrets
from holdfast.services.webhooks import require_http
from holdfast.stores import make_store
from holdfast.stores.store import Store
from holdfast.telemetry import logs
from holdfast.telemetry.meter import Gauge, Meter
from holdfast.worker import marks, orders
from holdfast.worker.errands import Errands
from holdfast.worker.leaks import Leaks
from holdfast.worker.lease import MARGIN, trusted_for
from holdfast.worker.leaving import Left
from holdfast.worker.marks import Marks
from holdfast.worker.memory import own_bytes
from holdfast.worker.orders import (
    Adopt,
    Bounds,
    Bye,
    Counted,
    Drain,
    FromChild,
    Go,
    Halt,
    Renewed,
    Revoked,
    Start,
    ToChild,
)
from holdfast.worker.parts import Parts, marks_for, queues_of
from holdfast.worker.processes import make_processes
from holdfast.worker.slots import Slots
from holdfast.worker.vanished import folder_of
from holdfast.worker.worker import Worker

_logger = logging.getLogger("holdfast")

EXIT_FENCED = 75  # it left because its lease could no longer be trusted
_TICK_S = 0.2
_RETRY_S = 0.5
_CLOSING_S = 1.0
_USUAL_THRESHOLD = gc.get_threshold()
_JOBS_THRESHOLD = 10_000  # new objects: some hundreds of jobs


class Unloadable(ConfigError):
    """The app could not be imported; `detail` says where in the user's code."""

    def __init__(self, message: str, detail: str | None) -> None:
        super().__init__(message)
        self.detail = detail


class Child:
    """The worker of one process, and its line to the supervisor."""

    def __init__(self, end: socket.socket, parts: Parts, start: Start, own_marks: Marks) -> None:
        self._end = end
        self._parts = parts
        self._start = start
        self._marks = own_marks
        self._worker: Worker | None = None
        self._meter = Meter() if start.is_metered else None
        self._gauges: list[Gauge] = []  # as the supervisor knows them
        self._go: asyncio.Future[Go | None] = asyncio.get_running_loop().create_future()
        self._lease_s = parts.settings.worker.lease_s
        self._is_recycling = False
        self._is_halted = False
        self._adopted: int | None = None
        self._bounds: dict[str, int] | None = None
        self._signals = 0

    # ---- the line --------------------------------------------------------------------------------------------------

    def listen(self) -> None:
        """Follow the supervisor in a thread, so that its end is noticed while the event loop is busy."""
        loop = asyncio.get_running_loop()

        def follow() -> None:
            with self._end.makefile("rb") as lines:
                for line in lines:
                    loop.call_soon_threadsafe(self._obey, orders.read_order(line))
            os._exit(1)  # the supervisor is gone, and others may hold our jobs already

        threading.Thread(target=follow, name="holdfast supervisor's line", daemon=True).start()

    def tell(self, answer: FromChild) -> None:
        """Tell the supervisor something."""
        self._end.sendall(orders.write(answer))

    def _tell_counts(self, worker: Worker, *, at_last: bool = False) -> None:
        """Tell what was counted, unless the supervisor stands still: waiting for it would stop the jobs as well."""
        if self._meter is None:
            return
        gauges = list(worker.gauges())
        while (not self._meter.is_empty or gauges != self._gauges) and (at_last or _can_send(self._end)):
            self._gauges = gauges
            self.tell(Counted(self._meter.take(), gauges))

    def _obey(self, order: ToChild) -> None:
        worker = self._worker
        if isinstance(order, Go) and not self._go.done():
            self._go.set_result(order)
        elif isinstance(order, Drain):
            self.drain()
        elif isinstance(order, Halt):
            self.halt()
        elif isinstance(order, Adopt):
            self._adopt(order.worker)
        elif isinstance(order, Bounds):
            self._set_bounds(order.by_queue)
        elif worker is None:
            return
        elif isinstance(order, Renewed):
            worker.custody.reconcile(order.held, order.asked_at)
        elif isinstance(order, Revoked):
            worker.custody.revoke(order.claims)

    def _adopt(self, worker_id: int) -> None:
        self._adopted = worker_id
        if self._worker is not None:  # or it is still on its way to the store
            self._worker.custody.lose()
            self._worker.custody.adopt(worker_id)

    def _set_bounds(self, bounds: dict[str, int]) -> None:
        self._bounds = bounds
        if self._worker is not None:  # or it begins with them
            self._worker.set_bounds(bounds)

    def _signalled(self) -> None:
        """Leave: the first signal lets what runs end, the second gives it back; a word of the supervisor is neither."""
        self._signals += 1
        if self._signals > 1:
            self.halt()
        else:
            self.drain()

    def drain(self) -> None:
        """Let what runs end, then leave."""
        if self._worker is None:
            self.halt()
        else:
            self._worker.drain()

    def halt(self) -> None:
        """Give back what runs, then leave."""
        self._is_halted = True
        if self._worker is not None:
            self._worker.stop()
        elif not self._go.done():
            self._go.set_result(None)

    # ---- life ------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Wait until it may claim, work, and say how it left."""
        self.listen()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._signalled)
        async with contextlib.AsyncExitStack() as stack:
            try:
                require_http(self._parts.settings)
                require_channels(self._parts.settings)
                read_definitions(self._parts.settings, self._parts.tasks, self._parts.schedules)  # refuses wrong names
                state = await stack.enter_async_context(self._parts.lifespan())
            except BaseException as error:
                self.tell(_unable(self._start, error))
                raise
            self.tell(orders.hello_of(self._parts, self._start))
            go = await self._go
            if go is None:
                self.tell(Bye(is_drained=True))
                return
            left = await self._work(go, state)
        self._marks.close()
        self.tell(Bye(is_drained=left is Left.DRAINED, is_recycling=self._is_recycling))

    async def _work(self, go: Go, state: Any) -> Left:
        self._lease_s = go.lease_s
        store = await self._open_store()
        if store is None:
            return Left.DRAINED
        delivery = make_delivery(self._parts.settings, store)
        async with make_processes(self._parts, self._marks) as processes:
            self._worker = worker = Worker(
                self._parts,
                store,
                delivery,
                self._marks,
                worker=go.worker if self._adopted is None else self._adopted,
                queues=queues_of(self._parts, self._start.queues),
                slots=Slots(go.concurrency, go.bounds if self._bounds is None else self._bounds),
                is_trusted=lambda: trusted_for(self._marks.renewed, self._lease_s) > 0,
                until=self._start.until,
                state=state,
                processes=processes,
                meter=self._meter,
            )
            if self._is_halted:
                worker.stop()
            ticking = asyncio.create_task(self._tick(worker), name="holdfast tick")
            errands = Errands(self._parts, store, delivery, lambda: worker.id)
            try:
                await errands.published(self._parts.settings.deadline_s)
                return await worker.run()
            finally:
                await errands.close(worker.grace_left_s)
                ticking.cancel()
                self._tell_counts(worker, at_last=True)
                # A store that is away must not keep the process: the rest of its connections ends with it.
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_CLOSING_S):
                        await delivery.close()
                        await store.close()

    async def _open_store(self) -> Store | None:
        """Connect; a store that is away is waited for, as long as nobody wants this process to leave."""
        level = logging.WARNING
        while not self._is_halted:
            store = make_store(self._parts.settings)
            try:
                await store.open()
            except (StoreUnavailable, OutcomeUnknown) as error:  # the latter when the link breaks half-way
                _logger.log(level, "the store is not available yet: %s", error)
                level = logging.DEBUG  # the first line has said it
                moments.reach("store_missed")
                await asyncio.sleep(_RETRY_S)
            else:
                return store
        return None

    async def _tick(self, worker: Worker) -> None:
        """Show that the loop goes round, and look whether it may go on."""
        leaks = Leaks()
        while True:
            self._marks.tick()
            self._fence(worker)
            self._tell_counts(worker)
            leaks.look(len(worker.executor.runs))
            if not worker.is_leaving and self._is_worn(worker):
                self._is_recycling = True
                worker.drain()
            await asyncio.sleep(_TICK_S)

    def _fence(self, worker: Worker) -> None:
        """Stop work before the lease can end; what does not stop, or has no supervisor any more, leaves for good."""
        left = trusted_for(self._marks.renewed, self._lease_s)
        if left > 0:
            return
        worker.custody.fence()  # guard: lease-fence
        is_unattended = time.monotonic_ns() - self._marks.attended > self._lease_s / 2 * 1e9
        if left < -self._lease_s / MARGIN / 2 and (worker.executor.runs or is_unattended):
            _logger.error("the lease could not be renewed and its end is near: this process leaves")
            self._marks.acquit()
            os._exit(EXIT_FENCED)

    def _is_worn(self, worker: Worker) -> bool:
        jobs, size = self._start.recycle_jobs, self._start.recycle_bytes
        is_used = jobs is not None and worker.counting.ended_jobs >= jobs
        return is_used or (size is not None and _resident_bytes() > size)


def serve(end: socket.socket, load: Callable[[Start], Parts]) -> None:
    """Be a child: learn what to run, load it, and run it; the process ends here."""
    moments.role = "child"
    with end.makefile("rb", buffering=0) as lines:
        start = orders.read_order(lines.readline())
    if not isinstance(start, Start):
        os._exit(1)
    try:
        parts = load(start)
        own_marks = _make_marks(end, parts, start)
    except BaseException as error:  # noqa: BLE001 - importing runs the user's code, SystemExit too
        end.sendall(orders.write(_unable(start, error)))
        os._exit(1)
    logs.set_up(start.log_level, start.log_format)
    keep_secrets(parts.settings)

    async def run() -> None:
        await Child(end, parts, start, own_marks).run()

    _collect_less()
    is_well = run_through(run())
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0 if is_well else 1)  # threads of handlers that do not end must not keep the process


def _can_send(end: socket.socket) -> bool:
    """Whether most of the pipe is free, so that a message of ours does not have to wait."""
    return bool(select.select((), (end,), (), 0)[1])


def _collect_less() -> None:
    """Let the garbage collector look at what jobs leave behind, and not again and again at what was imported."""
    gc.freeze()
    if gc.get_threshold() == _USUAL_THRESHOLD:  # or the app has chosen its own
        gc.set_threshold(_JOBS_THRESHOLD, *_USUAL_THRESHOLD[1:])


def _unable(start: Start, error: BaseException) -> orders.Unable:
    """Say why nothing can be run: errors of this package speak for themselves, others by name and place."""
    if isinstance(error, Unloadable):
        return orders.Unable(str(error), error.detail)
    if isinstance(error, HoldfastError):
        return orders.Unable(str(error))
    found = failure.from_exception(error)
    return orders.Unable(f"{start.app} could not be started: {found.error_class}: {found.message}", found.traceback)


def _make_marks(end: socket.socket, parts: Parts, start: Start) -> Marks:
    worker, folder = parts.settings.worker, folder_of(parts.settings)
    if folder is None:
        message = "the app's store is in memory and ends with its process, so no worker process can share it; give the"
        message += " app a file (sqlite:///jobs.db), or run `await app.run_worker()` in the process that has it"
        raise ConfigError(message)
    concurrency = worker.concurrency if start.concurrency is None else start.concurrency
    file = marks.file_of(folder, start.instance, os.getpid())
    end.sendall(orders.write(orders.Marking(str(file))))
    try:
        made = Marks.create(file, marks_for(concurrency))
    except OSError as error:
        raise ConfigError(marks.why_unusable(folder, error)) from error
    moments.reach("marked")
    return made


def run_through(main: Coroutine[Any, Any, None]) -> bool:
    """Run a coroutine to its end, whatever handlers and what they leave behind do to the event loop."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    task = loop.create_task(main)
    while not task.done():
        try:
            loop.run_until_complete(task)
        except (SystemExit, KeyboardInterrupt) as error:
            _logger.warning("something that a handler left behind raised %r: the worker goes on", error)
        except RuntimeError as error:
            if not task.done():
                _logger.warning("a handler stopped the event loop (%s): the worker goes on", error)
        except BaseException:  # noqa: BLE001 - it is the task's own, and looked at below
            break
    if task.cancelled() or task.exception() is not None:
        _logger.error(
            "the worker met something unexpected", exc_info=task.exception() if not task.cancelled() else None
        )
        return False
    return True


def _resident_bytes() -> int:
    found = own_bytes()
    if found is not None:
        return found
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return largest if sys.platform == "darwin" else largest * 1024
