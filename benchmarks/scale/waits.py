"""What the sessions of a server wait for, looked at every few milliseconds."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable

import asyncpg

NAME = "holdfast scale"  # the sessions that are looked at call themselves so
_PAUSE_S = 0.005
_LOOK = """
SELECT
    CASE
        WHEN state LIKE 'idle%' THEN 'idle: the client''s turn'
        WHEN wait_event IS NULL THEN 'on a CPU, or waiting for one'
        ELSE wait_event_type || ': ' || wait_event
    END,
    count(*)
FROM pg_stat_activity
WHERE application_name = $1
GROUP BY 1
"""


async def sample_waits(dsn: str, is_over: Callable[[], bool]) -> Counter[str]:
    """Count what the sessions are doing until it is over."""
    found: Counter[str] = Counter()
    connection = await asyncpg.connect(dsn)
    try:
        look = await connection.prepare(_LOOK)
        while not is_over():
            began = time.monotonic()
            for event, sessions in await look.fetch(NAME):
                found[event] += sessions
            await asyncio.sleep(max(_PAUSE_S - (time.monotonic() - began), 0))
    finally:
        await connection.close()
    return found
