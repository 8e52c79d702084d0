"""The libraries whose connections a caller may bring, each driven through the same few steps.

A synchronous connection lives in a thread of its own, as it would in a program without an event loop, and its jobs go
through `app.blocking()`; an asynchronous one lives in the test's event loop.
"""

import asyncio
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from itertools import count
from typing import Any, Protocol, TypeVar, Unpack

import asyncpg
import psycopg
import sqlalchemy
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker
from sqlalchemy.pool import NullPool

from holdfast.app import Holdfast
from holdfast.client.blocking import BlockingClient
from holdfast.tasks.call import Call
from holdfast.tasks.options import UsingOptions
from holdfast.tasks.task import Task

T = TypeVar("T")
OrderTask = Task[[int], Any]


class Handle(Protocol):
    """What both `JobHandle` and `BlockingHandle` tell."""

    @property
    def number(self) -> int | None: ...
    @property
    def created(self) -> bool: ...


class Caller(ABC):
    """A program with a connection and transactions of its own."""

    is_async: bool
    connection: Any

    def __init__(self, app: Holdfast, task: OrderTask) -> None:
        self.app = app
        self.task = task

    @abstractmethod
    async def open(self, address: str) -> None: ...
    @abstractmethod
    async def close(self) -> None: ...
    @abstractmethod
    async def begin(self) -> None: ...
    @abstractmethod
    async def commit(self) -> None: ...
    @abstractmethod
    async def rollback(self) -> None: ...
    @abstractmethod
    async def value(self, sql: str) -> Any:
        """Run one of the caller's own statements, and give the first value of its answer if it has one."""

    @abstractmethod
    async def enqueue(self, n: int, **options: Unpack[UsingOptions]) -> Handle:
        """`task.using(connection=...)`."""

    @abstractmethod
    async def enqueue_many(self, calls: Iterable[Call[Any]]) -> list[Handle]:
        """`enqueue_many(..., connection=...)`."""


# ---- asynchronous ----------------------------------------------------------------------------------------------------


class AsyncCaller(Caller):
    is_async = True

    async def enqueue(self, n: int, **options: Unpack[UsingOptions]) -> Handle:
        return await self.task.using(**{**options, "connection": self.connection}).enqueue(n)

    async def enqueue_many(self, calls: Iterable[Call[Any]]) -> list[Handle]:
        return [*await self.app.enqueue_many(calls, connection=self.connection)]


class AsyncpgCaller(AsyncCaller):
    async def open(self, address: str) -> None:
        self.connection = await asyncpg.connect(address)

    async def close(self) -> None:
        await self.connection.close()

    async def begin(self) -> None:
        self._transaction = self.connection.transaction()
        await self._transaction.start()

    async def commit(self) -> None:
        await self._transaction.commit()

    async def rollback(self) -> None:
        await self._transaction.rollback()

    async def value(self, sql: str) -> Any:
        return await self.connection.fetchval(sql)


class PsycopgAsyncCaller(AsyncCaller):
    async def open(self, address: str) -> None:
        self.connection = await psycopg.AsyncConnection.connect(address)

    async def close(self) -> None:
        await self.connection.close()

    async def begin(self) -> None:
        assert self.connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE  # the next statement begins

    async def commit(self) -> None:
        await self.connection.commit()

    async def rollback(self) -> None:
        await self.connection.rollback()

    async def value(self, sql: str) -> Any:
        return _first(await _fetched_async(await self.connection.execute(sql)))


class SqlalchemyAsyncCaller(AsyncCaller):
    driver: str
    is_session: bool

    async def open(self, address: str) -> None:
        # Bound methods of the address alone: SQLAlchemy's own URLs spell socket folders differently for each driver.
        connect = asyncpg.connect if self.driver == "asyncpg" else psycopg.AsyncConnection.connect
        self.engine = create_async_engine(
            f"postgresql+{self.driver}://", async_creator=lambda **_: connect(address), poolclass=NullPool
        )
        self.connection = AsyncSession(self.engine) if self.is_session else await self.engine.connect()

    async def close(self) -> None:
        await self.connection.close()
        await self.engine.dispose()

    async def begin(self) -> None:
        assert not self.connection.in_transaction()  # the next statement begins

    async def commit(self) -> None:
        await self.connection.commit()

    async def rollback(self) -> None:
        await self.connection.rollback()

    async def value(self, sql: str) -> Any:
        result = await self.connection.execute(sqlalchemy.text(sql))
        return result.scalar() if result.returns_rows else None


class AsyncConnectionOnAsyncpg(SqlalchemyAsyncCaller):
    driver, is_session = "asyncpg", False


class AsyncSessionOnAsyncpg(SqlalchemyAsyncCaller):
    driver, is_session = "asyncpg", True


class AsyncConnectionOnPsycopg(SqlalchemyAsyncCaller):
    driver, is_session = "psycopg", False


class AsyncSessionOnPsycopg(SqlalchemyAsyncCaller):
    driver, is_session = "psycopg", True


# ---- synchronous -----------------------------------------------------------------------------------------------------


class SyncCaller(Caller):
    is_async = False
    queue: BlockingClient

    def __init__(self, app: Holdfast, task: OrderTask) -> None:
        super().__init__(app, task)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="caller")
        self._blocking: AbstractContextManager[BlockingClient] = app.blocking()

    async def here(self, action: Callable[[], T]) -> T:
        """Run something in the thread of the connection."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, action)

    async def open(self, address: str) -> None:
        self.queue = await self.here(self._blocking.__enter__)
        self.connection = await self.here(lambda: self.connect(address))

    async def close(self) -> None:
        await self.here(self.disconnect)
        await self.here(lambda: self._blocking.__exit__(None, None, None))
        self._thread.shutdown()

    async def begin(self) -> None:
        await self.here(self.begin_here)

    async def commit(self) -> None:
        await self.here(self.commit_here)

    async def rollback(self) -> None:
        await self.here(self.rollback_here)

    async def value(self, sql: str) -> Any:
        return await self.here(lambda: self.value_here(sql))

    async def enqueue(self, n: int, **options: Unpack[UsingOptions]) -> Handle:
        call = self.task.using(**{**options, "connection": self.connection}).call(n)
        return await self.here(lambda: self.queue.enqueue(call))

    async def enqueue_many(self, calls: Iterable[Call[Any]]) -> list[Handle]:
        return await self.here(lambda: [*self.queue.enqueue_many(calls, connection=self.connection)])

    @abstractmethod
    def connect(self, address: str) -> Any: ...
    @abstractmethod
    def value_here(self, sql: str) -> Any: ...

    def disconnect(self) -> None:
        self.connection.close()

    def begin_here(self) -> None:
        """The next statement begins a transaction, unless a library says otherwise."""

    def commit_here(self) -> None:
        self.connection.commit()

    def rollback_here(self) -> None:
        self.connection.rollback()


class PsycopgCaller(SyncCaller):
    def connect(self, address: str) -> Any:
        return psycopg.connect(address)

    def value_here(self, sql: str) -> Any:
        cursor = self.connection.execute(sql)
        return _first(cursor.fetchone() if cursor.description else None)


class SqlalchemyConnection(SyncCaller):
    def connect(self, address: str) -> Any:
        self.engine = self.make_engine(address)
        return self.engine.connect()

    def make_engine(self, address: str) -> sqlalchemy.Engine:
        return sqlalchemy.create_engine(
            "postgresql+psycopg://", creator=lambda: psycopg.connect(address), poolclass=NullPool
        )

    def disconnect(self) -> None:
        self.connection.close()
        self.engine.dispose()

    def value_here(self, sql: str) -> Any:
        result = self.connection.execute(sqlalchemy.text(sql))
        return result.scalar() if result.returns_rows else None


class SqlalchemySession(SqlalchemyConnection):
    def connect(self, address: str) -> Any:
        self.engine = self.make_engine(address)
        return Session(self.engine)


class SqlalchemyScopedSession(SqlalchemyConnection):
    def connect(self, address: str) -> Any:
        self.engine = self.make_engine(address)
        return scoped_session(sessionmaker(self.engine))


_aliases = count(1)


class DjangoCaller(SyncCaller):
    def connect(self, address: str) -> Any:
        connections = configured_django()
        self.alias = f"shop{next(_aliases)}"
        connections.settings[self.alias] = self.database(address)
        return connections[self.alias]

    def database(self, address: str) -> dict[str, Any]:
        return django_database(address)

    def begin_here(self) -> None:
        from django.db import transaction

        self._atomic = transaction.atomic(using=self.alias)
        self._atomic.__enter__()

    def commit_here(self) -> None:
        self._atomic.__exit__(None, None, None)

    def rollback_here(self) -> None:
        from django.db import transaction

        transaction.set_rollback(True, using=self.alias)
        self._atomic.__exit__(None, None, None)

    def value_here(self, sql: str) -> Any:
        with self.connection.cursor() as cursor:
            cursor.execute(sql)
            return _first(cursor.fetchone() if cursor.description else None)


class SqliteCaller(SyncCaller):
    def connect(self, address: str) -> Any:
        return sqlite3.connect(address, timeout=30)  # check_same_thread stays on: no other thread may touch it

    def value_here(self, sql: str) -> Any:
        return _first(self.connection.execute(sql).fetchone())


class SqlalchemyConnectionOnSqlite(SqlalchemyConnection):
    def make_engine(self, address: str) -> sqlalchemy.Engine:
        return sqlalchemy.create_engine(f"sqlite:///{address}", poolclass=NullPool)


class SqlalchemySessionOnSqlite(SqlalchemySession):
    make_engine = SqlalchemyConnectionOnSqlite.make_engine


class DjangoOnSqlite(DjangoCaller):
    def database(self, address: str) -> dict[str, Any]:
        return django_sqlite(address)


def configured_django() -> Any:
    """Give Django's connections; settings can be configured once in a process."""
    import django
    from django.conf import settings

    if not settings.configured:
        settings.configure(DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}})
        django.setup()
    from django.db import connections

    return connections


def django_database(address: str, **options: Any) -> dict[str, Any]:
    """Write a DSN as an entry of Django's DATABASES."""
    known = psycopg.conninfo.conninfo_to_dict(address)
    names = {"NAME": "dbname", "USER": "user", "PASSWORD": "password", "HOST": "host", "PORT": "port"}
    given = {name: str(known[key]) for name, key in names.items() if known.get(key)}
    return _with_defaults({"ENGINE": "django.db.backends.postgresql", "OPTIONS": options, **given})


def django_sqlite(path: str) -> dict[str, Any]:
    """Write a file as an entry of Django's DATABASES."""
    return _with_defaults({"ENGINE": "django.db.backends.sqlite3", "NAME": path})


def _with_defaults(database: dict[str, Any]) -> dict[str, Any]:
    from django.db.utils import ConnectionHandler

    settings: dict[str, Any] = ConnectionHandler({"default": database}).settings["default"]
    return settings


def _first(row: Any) -> Any:
    return None if row is None else row[0]


async def _fetched_async(cursor: psycopg.AsyncCursor[Any]) -> Any:
    return await cursor.fetchone() if cursor.description else None


POSTGRES: dict[str, type[Caller]] = {
    "asyncpg": AsyncpgCaller,
    "psycopg": PsycopgCaller,
    "psycopg-async": PsycopgAsyncCaller,
    "sqlalchemy-connection": SqlalchemyConnection,
    "sqlalchemy-session": SqlalchemySession,
    "sqlalchemy-scoped-session": SqlalchemyScopedSession,
    "sqlalchemy-async-connection-asyncpg": AsyncConnectionOnAsyncpg,
    "sqlalchemy-async-session-asyncpg": AsyncSessionOnAsyncpg,
    "sqlalchemy-async-connection-psycopg": AsyncConnectionOnPsycopg,
    "sqlalchemy-async-session-psycopg": AsyncSessionOnPsycopg,
    "django": DjangoCaller,
}
SQLITE: dict[str, type[SyncCaller]] = {
    "sqlite3": SqliteCaller,
    "sqlalchemy-connection-sqlite": SqlalchemyConnectionOnSqlite,
    "sqlalchemy-session-sqlite": SqlalchemySessionOnSqlite,
    "django-sqlite": DjangoOnSqlite,
}
LIBRARIES: dict[str, type[Caller]] = {**POSTGRES, **SQLITE}
