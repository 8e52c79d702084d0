"""Deleting what has outlived its time, and making room for what is to come."""

from typing import ClassVar, Protocol

from holdfast.services.service import Round
from holdfast.stores.access import AccessStore
from holdfast.stores.alarms import AlarmStore
from holdfast.stores.budgets import BudgetStore
from holdfast.stores.bulk import BulkStore
from holdfast.stores.cluster import LockStore, ScheduleStore
from holdfast.stores.deliveries import DeliveryStore
from holdfast.stores.failures import FailureStore
from holdfast.stores.limits import LimitStore
from holdfast.stores.sla import TuningStore
from holdfast.stores.store import EventStore, UpkeepStore


class RetainedStore(
    UpkeepStore,
    EventStore,
    DeliveryStore,
    ScheduleStore,
    LockStore,
    LimitStore,
    BudgetStore,
    AlarmStore,
    TuningStore,
    AccessStore,
    FailureStore,
    BulkStore,
    Protocol,
):
    """What retention needs of a store."""


class Retaining:
    """Deletes in short commits."""

    name: ClassVar[str] = "retention"

    def __init__(self, store: RetainedStore) -> None:
        self._store = store

    async def run(self, batch: int) -> Round:
        """Delete one batch of everything."""
        kept = await self._store.keep_history(batch)
        deleted = [
            kept.deleted,
            await self._store.prune_keys(batch),
            await self._store.prune_events(batch),
            await self._store.prune_deliveries(batch),
            await self._store.prune_fires(batch),
            await self._store.prune_locks(batch),
            await self._store.prune_ledger(batch),
            await self._store.prune_limits(batch),
            await self._store.prune_dead_letters(batch),
            await self._store.prune_bulk(batch),
            await self._store.prune_alarms(batch),
            await self._store.prune_tunings(batch),
            await self._store.prune_access(batch),
        ]
        return Round(
            scanned=sum(deleted),
            moved=sum(deleted) + kept.dropped + kept.made,
            has_more=max(deleted) >= batch,
        )
