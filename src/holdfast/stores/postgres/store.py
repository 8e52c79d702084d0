"""The store on PostgreSQL: its roles joined."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any

from holdfast import names
from holdfast.job import NewJob
from holdfast.locations import masked
from holdfast.stores.migrate import require_current
from holdfast.stores.moving import require_here
from holdfast.stores.postgres import callers
from holdfast.stores.postgres.access import PostgresAccess
from holdfast.stores.postgres.alarms import PostgresAlarms
from holdfast.stores.postgres.announcing import PostgresAnnouncing
from holdfast.stores.postgres.answers import PostgresAnswers
from holdfast.stores.postgres.budgets import PostgresBudgets
from holdfast.stores.postgres.bulk import PostgresBulk
from holdfast.stores.postgres.connection import Connection, Pool
from holdfast.stores.postgres.deliveries import PostgresDeliveries
from holdfast.stores.postgres.events import PostgresEvents
from holdfast.stores.postgres.failures import PostgresFailures
from holdfast.stores.postgres.folding import PostgresFolding
from holdfast.stores.postgres.gauges import PostgresGauges
from holdfast.stores.postgres.jobs import PostgresJobs
from holdfast.stores.postgres.leaders import PostgresLeaders
from holdfast.stores.postgres.leases import PostgresLeases
from holdfast.stores.postgres.lending import LendingPool
from holdfast.stores.postgres.limits import PostgresLimits
from holdfast.stores.postgres.locks import PostgresLocks
from holdfast.stores.postgres.migrator import PostgresMigrator, read_plan
from holdfast.stores.postgres.moving import PostgresMoves
from holdfast.stores.postgres.notices import PostgresNotices
from holdfast.stores.postgres.policies import PostgresPolicies
from holdfast.stores.postgres.queues import PostgresQueues
from holdfast.stores.postgres.retention import PostgresRetention
from holdfast.stores.postgres.schedules import PostgresSchedules
from holdfast.stores.postgres.searching import PostgresSearch
from holdfast.stores.postgres.settings import PostgresSettings
from holdfast.stores.postgres.sla import PostgresSla
from holdfast.stores.postgres.transaction import PostgresTransactions
from holdfast.stores.postgres.upkeep import PostgresUpkeep
from holdfast.stores.postgres.wakeups import PostgresWakeups
from holdfast.stores.postgres.why import PostgresWhy
from holdfast.stores.postgres.work import PostgresWork
from holdfast.stores.sql import DEFAULT_SCHEMA, in_schema
from holdfast.stores.store import LeaseStore
from holdfast.stores.values import Inserted

_TRANSACTIONS = 4  # bodies of handlers that may be open for each connection of the store: they mostly wait

_HAS_TEST_CLOCK = "SELECT pg_get_function_sqlbody('holdfast.clock()'::regprocedure) LIKE '%test_clock%'"
_TEST_CLOCK = """
CREATE TABLE IF NOT EXISTS holdfast.test_clock (at timestamptz);
CREATE OR REPLACE FUNCTION holdfast.clock() RETURNS timestamptz LANGUAGE sql STABLE
RETURN (SELECT COALESCE((SELECT max(at) FROM holdfast.test_clock), statement_timestamp()));
"""


class PostgresStore(
    PostgresJobs,
    PostgresSearch,
    PostgresWork,
    PostgresUpkeep,
    PostgresFolding,
    PostgresGauges,
    PostgresAnswers,
    PostgresAnnouncing,
    PostgresSchedules,
    PostgresSettings,
    PostgresLeaders,
    PostgresLeases,
    PostgresQueues,
    PostgresPolicies,
    PostgresEvents,
    PostgresDeliveries,
    PostgresAlarms,
    PostgresNotices,
    PostgresRetention,
    PostgresFailures,
    PostgresBulk,
    PostgresLimits,
    PostgresAccess,
    PostgresLocks,
    PostgresBudgets,
    PostgresSla,
    PostgresWhy,
    PostgresWakeups,
    PostgresTransactions,
    PostgresMoves,
):
    """Jobs in a PostgreSQL schema, shared by any number of machines."""

    def __init__(
        self,
        dsn: str,
        *,
        schema: str = DEFAULT_SCHEMA,
        pool_size: int = 5,
        deadline: float = 10.0,
        listen_dsn: str | None = None,
    ) -> None:
        self.use(Pool(dsn, pool_size, deadline), names.schema(schema))
        self.lending = LendingPool(dsn, pool_size * _TRANSACTIONS, deadline)
        self.listen_dsn = listen_dsn
        self._dsn = dsn
        self.migrator = PostgresMigrator(dsn, schema, deadline)

    async def open(self, *, to_move: bool = False) -> None:
        """Connect, and refuse a schema that does not fit this release, or jobs that have moved."""
        await self.pool.open()
        try:
            require_current(await self.pool.call(self._read_plan), masked(self._dsn))
            if not to_move:
                require_here(await self.read_move(), masked(self._dsn))
            await self.lending.open()
        except BaseException:
            await self.pool.close()
            raise

    async def close(self) -> None:
        """Let calls in flight end, then disconnect."""
        await self.lending.close()
        await self.pool.close()

    @asynccontextmanager
    async def reserve(self) -> AsyncIterator[LeaseStore]:
        """Connect once more for leases alone, at once: under load there may be no connection to be had later."""
        leases = PostgresLeases()
        leases.use(Pool(self._dsn, 1, self.pool.deadline), self.schema)
        await leases.pool.open()
        try:
            yield leases
        finally:
            await leases.pool.close()

    async def _read_plan(self, connection: Connection) -> Any:
        return await read_plan(connection, self.schema)

    def is_async(self, connection: object) -> bool:
        """Whether a caller's connection is awaited."""
        return callers.is_async(connection)

    async def insert_on(self, connection: object, jobs: Sequence[NewJob]) -> list[Inserted]:
        """Enqueue inside the transaction of a caller's asynchronous connection."""
        return await callers.insert_on(connection, self.queries["enqueue"], jobs)

    def insert_on_sync(self, connection: object, jobs: Sequence[NewJob]) -> list[Inserted]:
        """Enqueue inside the transaction of a caller's synchronous connection, on the caller's thread."""
        return callers.insert_on_sync(connection, self.queries["enqueue"], jobs)

    async def set_time(self, at: datetime | None) -> None:
        """Let the store's clock stand at a time, for tests; None lets it run again."""

        async def run(connection: Connection) -> None:
            async with connection.transaction():
                # Only once: after each change of the function, every session plans all its statements again.
                if not await connection.fetchval(in_schema(_HAS_TEST_CLOCK, self.schema)):
                    await connection.execute(in_schema(_TEST_CLOCK, self.schema))
                await connection.execute(in_schema("DELETE FROM holdfast.test_clock", self.schema))
                await connection.execute(in_schema("INSERT INTO holdfast.test_clock VALUES ($1)", self.schema), at)

        await self.pool.call(run)
