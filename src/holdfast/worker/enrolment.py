"""The children of an instance in the store: entered before they claim, signed off when nothing of them is left."""

import asyncio
import logging
import time
from collections.abc import Coroutine
from typing import Any, TypeVar

from holdfast import moments
from holdfast.client.repeat import pauses
from holdfast.config import Settings
from holdfast.errors import HoldfastError
from holdfast.services.sweeps import crashes, report_failed
from holdfast.stores.store import LeaseStore
from holdfast.transitions import Transition
from holdfast.worker import identity, marks
from holdfast.worker.child import EXIT_FENCED
from holdfast.worker.marks import Marks
from holdfast.worker.offspring import Offspring
from holdfast.worker.orders import Hello
from holdfast.worker.parent import Parent
from holdfast.worker.slots import share
from holdfast.worker.vanished import folder_of

_logger = logging.getLogger("holdfast")

T = TypeVar("T")

_FAREWELL_S = 1.0
_LAST_WORD_S = 0.25  # for the store, when everything has to be over


class Enrolment:
    """Enters children in the store, and gives back what dead ones held."""

    def __init__(self, parent: Parent, leases: LeaseStore, settings: Settings, hello: Hello, instance: str) -> None:
        # Done once the instance has to be gone.
        self.leaving: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._parent = parent
        self._leases = leases
        self._hello = hello
        self._instance = instance
        self._lease_ms = round(settings.worker.lease_s * 1_000)
        self._folder = folder_of(settings)

    async def enter(self, child: Offspring) -> int | None:
        """Enter a child in the store, however long that takes; None when the instance leaves first."""
        hello = self._hello
        slots = share(hello.concurrency, hello.processes, child.index)
        info = identity.describe(self._instance, child.pid, tuple(hello.queues), slots)
        waits = pauses()
        while not self._parent.is_told:
            sent = time.monotonic_ns()
            try:
                worker = await self.in_time(self._leases.register_worker(info, self._lease_ms))
            except TimeoutError:
                break
            except HoldfastError as error:
                _logger.warning("a worker process could not be entered in the store, trying again: %s", error)
                await anext(waits)
                continue
            self.mark_renewal(child, sent)
            child.entered_at = time.monotonic_ns()
            moments.reach("registered", worker=worker)
            return worker
        child.kill()
        return None

    def mark_renewal(self, child: Offspring, sent: int) -> None:
        """Let a child know until when it may trust its lease: by when the renewal was sent."""
        if child.marks is None and self._folder is not None:
            child.marks = Marks.open(marks.file_of(self._folder, self._instance, child.pid))
        if child.marks is not None:
            child.marks.renew(sent)

    async def sign_off(self, child: Offspring) -> None:
        """Give back what a dead child held; what cannot be given back in time is rescued later."""
        if child.worker is None:
            return
        how, culprits = self._judge(child)
        moments.reach("before_release")
        waits = pauses()
        until = time.monotonic() + _FAREWELL_S
        while not self._parent.is_told or time.monotonic() < until:
            try:
                if child.has_left:
                    await self.in_time(self._leases.retire_worker(child.worker))
                else:
                    released = await self.in_time(self._leases.release_worker(child.worker, culprits))
                    _logger.warning(
                        "worker process %d %s; %d jobs were requeued", child.pid, how, len(released.requeued)
                    )
                    report_failed(released.failed, f"their worker process {child.pid} {how}")
            except TimeoutError:
                _logger.warning("the store does not answer: what process %d held is rescued later", child.pid)
                break
            except HoldfastError as error:
                _logger.warning("what process %d held could not be requeued yet: %s", child.pid, error)
                await anext(waits)
            else:
                break

    def _judge(self, child: Offspring) -> tuple[str, list[Transition]]:
        """Say how a child ended, and which claims have to answer for it."""
        if child.sentence is not None:
            return child.sentence
        how = child.how_it_ended
        if child.marks is None or child.has_left or child.is_killed or child.exit_code == EXIT_FENCED:
            return how, []
        suspects = [(entry.id, entry.claim) for entry in child.marks.suspects(with_supervisor=False)]
        return how, crashes(suspects, f"its worker process {child.pid} {how}")

    async def in_time(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for the store; once the instance has to be gone, only a moment longer."""
        task = asyncio.ensure_future(work)
        await asyncio.wait((task, self.leaving), return_when=asyncio.FIRST_COMPLETED)
        async with asyncio.timeout(_LAST_WORD_S if self.leaving.done() else None):
            return await task
