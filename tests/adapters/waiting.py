"""Waiting for what another connection does, without guessing how long it takes."""

import asyncio

import asyncpg

from tests.adapters.conftest import Place


async def until_somebody_waits(place: Place) -> None:
    """Wait until a statement on this schema waits for a lock."""
    sql = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND position($1 IN query) > 0"
    connection = await asyncpg.connect(place.address)
    try:
        async with asyncio.timeout(20):
            while not await connection.fetchval(sql, place.schema):
                await asyncio.sleep(0.002)
    finally:
        await connection.close()
