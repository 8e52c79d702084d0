"""Waiting for what another connection does, without guessing how long it takes."""

import asyncpg

from tests.adapters.conftest import Place
from tests.support.wait import until


async def until_somebody_waits(place: Place) -> None:
    """Wait until a statement on this schema waits for a lock."""
    sql = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND position($1 IN query) > 0"
    connection = await asyncpg.connect(place.address)
    try:
        await until(lambda: connection.fetchval(sql, place.schema), "a statement waits for a lock")
    finally:
        await connection.close()
