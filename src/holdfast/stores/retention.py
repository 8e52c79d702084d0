"""Deletes what has outlived its time: one list, for the retention service and for `app.prune()`."""

from typing import NamedTuple, Protocol

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


class Pruned(NamedTuple):
    """What one round deleted: rows, whole partitions (PostgreSQL); `made` are partitions for what is to come."""

    rows: int
    partitions: int
    made: int
    has_more: bool


async def prune(store: RetainedStore, batch: int) -> Pruned:
    """Delete at most `batch` rows of each thing that has outlived its time, in a short commit for each."""
    kept = await store.keep_history(batch)
    deleted = [
        kept.deleted,
        await store.prune_keys(batch),
        await store.prune_events(batch),
        await store.prune_deliveries(batch),
        await store.prune_fires(batch),
        await store.prune_locks(batch),
        await store.prune_ledger(batch),
        await store.prune_limits(batch),
        await store.prune_dead_letters(batch),
        await store.prune_bulk(batch),
        await store.prune_alarms(batch),
        await store.prune_tunings(batch),
        await store.prune_access(batch),
    ]
    return Pruned(sum(deleted), kept.dropped, kept.made, max(deleted) >= batch)
