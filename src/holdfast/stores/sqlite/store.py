"""The store on SQLite: its roles joined."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime

from holdfast.job import NewJob
from holdfast.stores.moving import require_here
from holdfast.stores.sqlite import callers, rows
from holdfast.stores.sqlite.access import SqliteAccess
from holdfast.stores.sqlite.alarms import SqliteAlarms
from holdfast.stores.sqlite.announcing import SqliteAnnouncing
from holdfast.stores.sqlite.answers import SqliteAnswers
from holdfast.stores.sqlite.budgets import SqliteBudgets
from holdfast.stores.sqlite.bulk import SqliteBulk
from holdfast.stores.sqlite.connection import Connection
from holdfast.stores.sqlite.deliveries import SqliteDeliveries
from holdfast.stores.sqlite.events import SqliteEvents
from holdfast.stores.sqlite.failures import SqliteFailures
from holdfast.stores.sqlite.folding import SqliteFolding
from holdfast.stores.sqlite.gauges import SqliteGauges
from holdfast.stores.sqlite.jobs import SqliteJobs
from holdfast.stores.sqlite.leaders import SqliteLeaders
from holdfast.stores.sqlite.leases import SqliteLeases
from holdfast.stores.sqlite.limits import SqliteLimits
from holdfast.stores.sqlite.locks import SqliteLocks
from holdfast.stores.sqlite.migrator import SqliteMigrator
from holdfast.stores.sqlite.moving import SqliteMoves
from holdfast.stores.sqlite.notices import SqliteNotices
from holdfast.stores.sqlite.policies import SqlitePolicies
from holdfast.stores.sqlite.queues import SqliteQueues
from holdfast.stores.sqlite.retention import SqliteRetention
from holdfast.stores.sqlite.schedules import SqliteSchedules
from holdfast.stores.sqlite.searching import SqliteSearch
from holdfast.stores.sqlite.settings import SqliteSettings
from holdfast.stores.sqlite.sla import SqliteSla
from holdfast.stores.sqlite.transaction import SqliteTransactions
from holdfast.stores.sqlite.upkeep import SqliteUpkeep
from holdfast.stores.sqlite.wakeups import Listener, SqliteWakeups
from holdfast.stores.sqlite.why import SqliteWhy
from holdfast.stores.sqlite.work import SqliteWork
from holdfast.stores.store import LeaseStore
from holdfast.stores.values import Inserted


class SqliteStore(
    SqliteJobs,
    SqliteSearch,
    SqliteWork,
    SqliteUpkeep,
    SqliteFolding,
    SqliteGauges,
    SqliteAnswers,
    SqliteAnnouncing,
    SqliteSchedules,
    SqliteSettings,
    SqliteLeaders,
    SqliteLeases,
    SqliteQueues,
    SqlitePolicies,
    SqliteEvents,
    SqliteDeliveries,
    SqliteAlarms,
    SqliteNotices,
    SqliteRetention,
    SqliteFailures,
    SqliteBulk,
    SqliteLimits,
    SqliteAccess,
    SqliteLocks,
    SqliteBudgets,
    SqliteSla,
    SqliteWhy,
    SqliteWakeups,
    SqliteTransactions,
    SqliteMoves,
):
    """Jobs in one SQLite file, shared by the processes of one machine; `:memory:` lives and ends with this object."""

    def __init__(self, path: str, *, synchronous: str = "FULL", deadline: float = 10.0) -> None:
        self.path = path
        self.connection = Connection(path, synchronous=synchronous, deadline=deadline)
        self.migrator = SqliteMigrator(self.connection)
        self.listeners: set[Listener] = set()

    async def open(self, *, to_move: bool = False) -> None:
        """Open the file, made if missing, and bring its schema to this release; refused when its jobs have moved."""
        await self.connection.open()
        try:
            await self.migrator.up()
            if not to_move:
                require_here(await self.read_move(), f"the SQLite store {self.path}")
        except BaseException:
            await self.connection.close()
            raise

    async def close(self) -> None:
        """Let what waits be served, then let go of the file."""
        await self.connection.close()

    @asynccontextmanager
    async def reserve(self) -> AsyncIterator[LeaseStore]:
        """Give this very store: its one thread that writes serves in turn, so that a renewal never waits for long."""
        yield self

    def is_async(self, connection: object) -> bool:
        """Whether a caller's connection is awaited: never here, and a wrong one is refused."""
        callers.checked(connection, self.path, self.connection.clock)
        return False

    async def insert_on(self, connection: object, jobs: Sequence[NewJob]) -> list[Inserted]:
        """Enqueue inside the caller's transaction; the connection belongs to the caller's thread."""
        return self.insert_on_sync(connection, jobs)

    def insert_on_sync(self, connection: object, jobs: Sequence[NewJob]) -> list[Inserted]:
        """Enqueue inside the caller's transaction, on the caller's thread; ids are drawn on that connection too."""
        return callers.enqueue_on(connection, self.path, jobs, self.connection.clock)

    async def set_time(self, at: datetime | None) -> None:
        """Let the store's clock stand at a time, for tests; None lets it run again."""
        self.connection.clock.override = None if at is None else rows.milliseconds(at)
