"""The time as the store has it, by which leases are judged: the clock of this machine may be another."""

from datetime import UTC, datetime, timedelta

from holdfast.server.scoped.client import ScopedClient

_LASTS_S = 60.0


async def store_time(client: ScopedClient) -> datetime:
    """Tell the store's time; how far it is from ours is asked once a minute."""

    async def ask() -> timedelta:
        return await client.now() - datetime.now(UTC)

    return datetime.now(UTC) + await client.recent("clock", _LASTS_S, ask)
