"""Running the jobs of an app in the program at hand, in its event loop or in a thread beside it."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Self

from holdfast.client.client import LocalClient
from holdfast.errors import ShutdownTimeout
from holdfast.worker.embedded import Embedded
from holdfast.worker.leaving import Left, Until
from holdfast.worker.parts import Parts
from holdfast.worker.threaded import ThreadedWorker

if TYPE_CHECKING:
    from holdfast.client.blocking import BlockingClient


class Working(ABC):
    """Works for whoever can be opened and has the parts of a worker."""

    @property
    @abstractmethod
    def client(self) -> LocalClient:
        """The client."""

    @property
    @abstractmethod
    def parts(self) -> Parts:
        """What a worker needs."""

    @abstractmethod
    async def __aenter__(self) -> Self: ...

    @abstractmethod
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    @abstractmethod
    def blocking(self) -> "AbstractContextManager[BlockingClient]":
        """Open it without an event loop."""

    async def run_worker(
        self,
        *,
        queues: Iterable[str] | None = None,
        concurrency: int | None = None,
        until: Until | str = Until.TOLD,
        stop: asyncio.Event | None = None,
    ) -> None:
        """Run jobs in this event loop until `stop` is set or this is cancelled.

        `stop` lets running jobs finish within the shutdown grace; a cancellation requeues them at once. `until="empty"`
        leaves when nothing is left that may run now, `until="one"` after one job. Many workers may run beside this one,
        in other processes as well; for handlers that block or crash, `holdfast worker` supervises processes.

        What has not finished within the grace is requeued; ShutdownTimeout then says so, after everything is closed.
        """
        grace_s = self.parts.settings.worker.shutdown_grace_s
        async with self:
            worker = Embedded(
                self.parts,
                self.client.store,
                self.client.delivery,
                queues=None if queues is None else list(queues),
                concurrency=concurrency,
                until=Until(until),
            )
            if stop is None:
                await worker.run()
                return
            stopping = asyncio.create_task(_drain_when(stop, worker), name="holdfast stop")
            try:
                left = await worker.run()
            finally:
                stopping.cancel()
        if left is Left.INTERRUPTED:
            message = (
                f"the worker has stopped, but not all of its jobs had finished within its grace of {grace_s:g} s: they"
            )
            message += " were requeued and run again elsewhere"
            raise ShutdownTimeout(message)

    @contextmanager
    def worker_thread(
        self, *, queues: Iterable[str] | None = None, concurrency: int | None = None
    ) -> Iterator[ThreadedWorker]:
        """Run jobs in a thread while a `with` block runs, in a program without an event loop.

        Leaving the block lets running jobs end within the shutdown grace. `app.blocking()` inside or around it shares
        the thread's event loop.
        """
        chosen = None if queues is None else list(queues)
        with self.blocking() as client:
            stop = asyncio.Event()
            running = self.run_worker(queues=chosen, concurrency=concurrency, stop=stop)
            worker = ThreadedWorker(client.loop, running, stop)
            is_left = True
            try:
                yield worker
            except GeneratorExit:  # the program ends without leaving the block; the worker gives its jobs back itself
                is_left = False
                raise
            finally:
                if is_left:
                    worker.stop()
                    worker.join()


async def _drain_when(stop: asyncio.Event, worker: Embedded) -> None:
    await stop.wait()
    worker.drain()
