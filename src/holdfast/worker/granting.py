"""What a running handler is granted: its words are stored, its money is set aside, its locks and transaction opened."""

import asyncio
from collections.abc import Callable, Collection

from holdfast.client.lock_keeper import LockKeeper
from holdfast.config import Settings
from holdfast.context import LockBlock, TransactionBlock
from holdfast.delivery.delivery import Delivery
from holdfast.duration import Duration
from holdfast.errors import OutcomeUnknown, StoreUnavailable
from holdfast.job import JobRow
from holdfast.policies.money import Amount
from holdfast.stores.store import Store
from holdfast.transitions import Transition
from holdfast.worker.locking import block_of
from holdfast.worker.reporter import Reporter
from holdfast.worker.run import Run
from holdfast.worker.spending import Heard, Spending
from holdfast.worker.transaction import Block


class Granting:
    """Does what the runs of one process ask for; `heard` is told of the money that they spend."""

    def __init__(
        self,
        store: Store,
        delivery: Delivery,
        settings: Settings,
        runs: Callable[[], Collection[Run]],
        *,
        slots: int,
        heard: Heard | None,
    ) -> None:
        self.reporter = Reporter(store, runs)
        self.spending = Spending(store, slots, heard)
        self.locks = LockKeeper(store, delivery, listens=False)
        self._store = store
        self._settings = settings

    async def admit(self, run: Run) -> Transition | None:
        """Set aside what a job may spend; a Transition if it may not run now."""
        return await self.spending.admit(run)

    async def record(self, run: Run) -> None:
        """Store that a handler begins, before it does."""
        await self.reporter.record(run)

    async def load(self, run: Run) -> JobRow | None:
        """Read what earlier claims of a job have left; while the store is away this waits, as long as the job may."""
        while True:
            try:
                found = await self._store.get_jobs([run.job.id])
            except (StoreUnavailable, OutcomeUnknown):
                await asyncio.sleep(self._settings.worker.poll_s)
            else:
                return found[0] if found else None

    def reported(self, run: Run) -> None:
        """Let progress be stored."""
        self.reporter.reported(run)

    async def kept(self, run: Run) -> None:
        """Store now what a handler said."""
        await self.reporter.keep(run)

    async def spend(self, run: Run, amount: Amount, note: str | None) -> None:
        """Write down what a handler has spent."""
        await self.spending.spend(run, amount, note)

    def transaction(self, run: Run) -> TransactionBlock:
        """Open the transaction in which a job completes."""
        return Block(run, self._own_store, self._settings)

    def lock(self, run: Run, name: str, timeout: Duration | None) -> LockBlock:
        """Hold a lock for a job."""
        return block_of(run, self._own_locks, name, timeout)

    def vanished(self, run: Run) -> None:
        """Let go of the locks of a handler whose process is gone."""
        self.locks.free(*run.key)

    async def ending(self, run: Run, transition: Transition) -> None:
        """Wait until what a handler has spent is written down."""
        await self.spending.settle(run, transition)

    async def _own_store(self) -> Store:
        return self._store

    async def _own_locks(self) -> LockKeeper:
        return self.locks
