"""Connections to PostgreSQL that outlast a test.

A new session compiles every function and plans every statement anew, which takes longer than most tests. So each test
has a store of its own, with nothing of the tests before in its memory, on sessions that have seen the same schema.
"""

import asyncio
import contextlib
from datetime import datetime

import asyncpg

from holdfast.stores.postgres.connection import Pool, farewell
from holdfast.stores.postgres.links import FAREWELL_S, Plain
from holdfast.stores.postgres.store import PostgresStore
from tests.support import raw
from tests.support.schemas import to_end_others


class LastingPool(Pool):
    """A pool that begins with the idle connections of the one before it, and leaves its own to the next."""

    def __init__(self, dsn: str, size: int, deadline: float, kept: list[Plain]) -> None:
        super().__init__(dsn, size, deadline)
        self._kept = kept

    async def open(self) -> None:
        """Take what was kept, as good as new; connect only if that is nothing."""
        while self._kept:
            connection = self._kept.pop()
            try:
                await connection.reset(timeout=FAREWELL_S)
            except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError):
                await farewell(connection)
            else:
                self._is_open = True
                self._keep(connection)
        if not self._is_open:
            await super().open()

    async def close(self) -> None:
        """Let calls in flight end, and keep what is idle then; a call that does not end in time is cut."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.deadline):
                await self._quiet.wait()
        self._kept += [connection for _, connection in self._idle if not connection.is_closed()]
        self._idle.clear()
        await super().close()


class LastingStore(PostgresStore):
    """A store on connections that outlast it, in a schema whose clock is in the hands of tests."""

    def __init__(self, dsn: str, schema: str, kept: list[Plain]) -> None:
        super().__init__(dsn, schema=schema)
        self.use(LastingPool(dsn, 5, self.pool.deadline, kept), schema)

    async def set_time(self, at: datetime | None) -> None:
        """Let the clock stand or run; to make the function anew each time would make every session plan anew."""
        await self.fetch_sql("UPDATE holdfast.test_clock SET at = $1", at)


async def prepare(dsn: str, schema: str) -> None:
    """Make a schema, and put its clock into the hands of tests."""
    store = PostgresStore(dsn, schema=schema)
    await store.migrator.up()
    await store.open()
    await store.set_time(None)
    await store.close()


async def clear(store: PostgresStore) -> None:
    """Leave nothing in the store, and nobody who is still in the middle of something there."""
    await store.fetch_sql(to_end_others(store.schema))
    await raw.clear(store)


async def part_with(connections: list[Plain]) -> None:
    """Close what was kept."""
    while connections:
        await farewell(connections.pop())


async def end_tasks() -> None:
    """End what a test has left running, as an event loop of its own would when it ends."""
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
