"""Choosing the delivery that the settings name, in the one place that knows them all."""

from typing import Protocol

from holdfast.arq_delivery import ArqDelivery
from holdfast.config import Settings
from holdfast.delivery.delivery import Delivery
from holdfast.delivery.in_store import InStore
from holdfast.stores.cluster import AnnounceStore
from holdfast.stores.store import WakeStore


class DeliveredStore(WakeStore, AnnounceStore, Protocol):
    """What deliveries need of a store."""


def make_delivery(settings: Settings, store: DeliveredStore) -> Delivery:
    """Make the delivery; a package that it needs is imported only here."""
    in_store = InStore(store)
    if settings.delivery is None:
        return in_store
    if isinstance(settings.delivery, ArqDelivery):
        from holdfast.delivery.arq import ByArq  # noqa: PLC0415 - only who uses Arq needs its package

        return ByArq(settings.delivery, in_store, store.mark_announced)
    from holdfast.delivery.redis import ByRedis  # noqa: PLC0415 - only who uses Redis needs its package

    return ByRedis(settings.delivery, in_store, store.mark_announced)
