"""Choosing how the leader is found."""

from holdfast.config import Settings
from holdfast.services.leader import Leadership, StoreLeader
from holdfast.stores.cluster import LeaderStore


def make_leadership(settings: Settings, store: LeaderStore) -> Leadership:
    """Lead by a lease in the store, or by a key at Redis if the settings say so."""
    if settings.leader is None:
        return StoreLeader(store)
    from holdfast.services.redis_leader import RedisLeader  # noqa: PLC0415 - only who uses Redis needs its package

    return RedisLeader(settings.leader)
