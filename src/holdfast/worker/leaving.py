"""How a worker leaves: nothing more is claimed, what runs may end within the grace, and the rest is given back."""

import asyncio
import logging
import time
from enum import StrEnum

from holdfast import transitions as ends
from holdfast.worker.exchange import Exchange
from holdfast.worker.executor import Executor
from holdfast.worker.finisher import Finisher
from holdfast.worker.popper import Popper
from holdfast.worker.pump import Pump
from holdfast.worker.run import Why
from holdfast.worker.spending import Spending

_logger = logging.getLogger("holdfast")

_STOPPING_S = 1.0  # for handlers to end after they were cancelled
_FLUSH_S = 0.5


class Left(StrEnum):
    """How a worker left."""

    DRAINED = "drained"  # everything it had begun has ended
    INTERRUPTED = "interrupted"  # some of it was requeued


class Until(StrEnum):
    """When a worker leaves by itself."""

    TOLD = "told"
    EMPTY = "empty"  # nothing is left that may run now
    ONE = "one"  # one job was run, or there was none


class Leaving:
    """Brings the work of one process to its end."""

    def __init__(
        self,
        pump: Pump,
        executor: Executor,
        exchange: Exchange,
        popper: Popper | None,
        *,
        finisher: Finisher,
        spending: Spending,
        grace_s: float,
    ) -> None:
        self.is_interrupted = False  # something that ran was given back on leaving
        self._pump = pump
        self._executor = executor
        self._exchange = exchange
        self._popper = popper
        self._finisher = finisher
        self._spending = spending
        self._grace_s = grace_s
        self._grace_ends = 0.0
        self._draining = asyncio.Event()
        self._stopping = asyncio.Event()
        self._freed = asyncio.Event()
        self._is_stopped = False

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
    def has_begun(self) -> bool:
        """Whether nothing more is claimed."""
        return self._draining.is_set()

    async def begun(self) -> None:
        """Wait until the worker is told to leave."""
        await self._draining.wait()

    @property
    def grace_left_s(self) -> float:
        """How much of the grace is left for what ends after the jobs; one who stops has none."""
        return _FLUSH_S if self._is_stopped else max(self._grace_ends - time.monotonic(), _FLUSH_S)

    def freed(self) -> None:
        """Look again whether anything runs."""
        self._freed.set()

    async def leave(self) -> Left:
        """Wait for what runs as long as it may take, give the rest back, and let the store know all of it."""
        self._exchange.give_back(self._pump.empty())
        if self._popper is not None:
            await self._popper.close()
        self._grace_ends = time.monotonic() + self._grace_s
        if not self._stopping.is_set():
            await self._until_ended(self._grace_s)
        for run in self._executor.runs.values():
            if not run.is_settled:
                run.stop(Why.LEAVING)
        if self._executor.runs:
            self._stopping.clear()
            await self._until_ended(_STOPPING_S)
        for run in list(self._executor.runs.values()):
            if not run.is_committed:
                self._executor.settle_now(run, ends.interrupted(*run.key))
        self._exchange.give_back(self._pump.empty())
        is_known = await self._flushed()
        self._executor.threads.close()
        for run in list(self._executor.runs.values()):
            run.stop(Why.LEAVING)
        if not is_known:
            _logger.warning("the store was not available: what it does not know yet is rescued when the lease ends")
        return Left.INTERRUPTED if self.is_interrupted or not is_known else Left.DRAINED

    async def _until_ended(self, timeout_s: float) -> None:
        """Wait until nothing runs, the time is over, or the worker is told to stop."""
        stopping = asyncio.ensure_future(self._stopping.wait())
        deadline = asyncio.get_running_loop().time() + timeout_s
        try:
            while self._executor.runs and not stopping.done():
                left = deadline - asyncio.get_running_loop().time()
                if left <= 0:
                    return
                self._freed.clear()
                freed = asyncio.ensure_future(self._freed.wait())
                await asyncio.wait({freed, stopping}, timeout=left, return_when=asyncio.FIRST_COMPLETED)
                freed.cancel()
        finally:
            stopping.cancel()

    async def _flushed(self) -> bool:
        """Wait until the store knows every end, every count and what was spent; False when it takes too long."""
        # What ended within the grace may use the rest of it to become known; there is always a moment for it.
        patience = 0.0 if self.is_interrupted else self._grace_ends - time.monotonic()
        # guard: flush-before-leaving, without: is_known = await self._finisher.count(_FLUSH_S)
        is_known = await self._exchange.flush(max(patience, _FLUSH_S)) and await self._finisher.count(_FLUSH_S)
        await self._spending.close(_FLUSH_S)
        return is_known
