"""The time as the store has it, by which leases are judged: the clock of this machine may be another."""

from datetime import UTC, datetime, timedelta

from holdfast.server.pages.recent import recent
from holdfast.stores.store import Store

_LASTS_S = 60.0


async def store_time(store: Store) -> datetime:
    """Tell the store's time; how far it is from ours is asked once a minute."""

    async def ask() -> timedelta:
        return (await store.diagnose()).now - datetime.now(UTC)

    return datetime.now(UTC) + await recent(store, "clock", _LASTS_S, ask)
