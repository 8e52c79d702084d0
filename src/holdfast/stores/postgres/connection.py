"""Connections to PostgreSQL: a pool in which every call has a deadline, and errors that say what is known.

Nothing is set on a session, so that it works through a pooler in transaction mode. A call that ends by its deadline or
by cancellation takes its connection with it: what the server still does with the statement is unknown.
"""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import asyncpg

from holdfast import failpoints
from holdfast.config import masked
from holdfast.errors import (
    ConfigError,
    DataRefused,
    HoldfastError,
    NotOpen,
    OutcomeUnknown,
    SchemaError,
    StoreError,
    StoreUnavailable,
    WorkerLost,
)

if TYPE_CHECKING:
    # Generic in the stubs only.
    Pooled = asyncpg.pool.PoolConnectionProxy[asyncpg.Record]
    Connection = asyncpg.Connection[asyncpg.Record] | Pooled
else:
    Pooled = Connection = asyncpg.Connection

T = TypeVar("T")

_TRIES_AFTER_DEADLOCK = 5
FAREWELL_S = 2.0
_LOST_WORKER = "HF001"
_SCHEMA_MISSING = {"3F000", "42P01", "42883", "42703"}
_ROLLED_BACK_RETRY = {"40001", "40P01"}
# The statement was refused or cancelled by the server, which rolled it back: classes and single codes.
_NOTHING_CHANGED = {"53", "55", "58"}
_NOTHING_CHANGED_CODES = {"57014", "57P03"}
_SERVER_GONE = {"57P01", "57P02", "57P05"}


class Pool:
    """The connections of one store in one process."""

    def __init__(self, dsn: str, size: int, deadline: float) -> None:
        self.dsn = dsn
        self.deadline = deadline
        self._size = size
        self._pool: asyncpg.Pool[asyncpg.Record] | None = None
        self._discarding: set[asyncio.Task[None]] = set()
        self._calls = 0
        self._idle = asyncio.Event()
        self._idle.set()

    async def open(self) -> None:
        """Connect once, so that a wrong address or password is known now."""
        try:
            async with asyncio.timeout(self.deadline):
                # Nothing is ever set on a session, so there is nothing to reset: that would be a round trip per call.
                self._pool = await self._make_pool(reset=_leave)
                async with self._pool.acquire():
                    pass
        except asyncpg.PostgresError as error:
            raise refused(error, self.dsn) from error
        except (ValueError, asyncpg.InterfaceError) as error:
            message = f"cannot use {masked(self.dsn)}: {error}"
            raise ConfigError(message) from error
        except OSError as error:  # TimeoutError is one
            message = f"cannot connect to {masked(self.dsn)} within {self.deadline:g} s: {str(error) or 'no answer'}"
            raise StoreUnavailable(message) from error

    async def _make_pool(self, **options: Any) -> "asyncpg.Pool[asyncpg.Record]":
        # Nothing is kept open by the pool itself: it would write tracebacks while the server is away.
        return await asyncpg.create_pool(
            self.dsn, min_size=0, max_size=self._size, max_inactive_connection_lifetime=300, **options
        )

    async def close(self) -> None:
        """Let calls in flight end, then disconnect; what does not end in time is cut."""
        pool, self._pool = self._pool, None
        if pool is None:
            return
        try:
            async with asyncio.timeout(self.deadline):
                await self._idle.wait()
            # Nobody uses them any more. But a program that ends cancels every task of its loop, and one of asyncpg's
            # that was to put a connection back leaves it in use for ever.
            async with asyncio.timeout(min(self.deadline, FAREWELL_S)):
                await asyncio.gather(*self._discarding)
                await pool.close()
        except (TimeoutError, OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
            pool.terminate()

    async def fetch(self, sql: str, *args: object) -> list[asyncpg.Record]:
        """Run one statement in a commit of its own."""
        return await self.call(lambda connection: connection.fetch(sql, *args))

    async def call(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        """Run work within the deadline; a deadlock, which the server rolled back, is tried again."""
        for attempt in range(_TRIES_AFTER_DEADLOCK):
            try:
                async with self._connection() as connection:
                    failpoints.reach("before_store_call")
                    result = await work(connection)
                    failpoints.reach("after_store_call")
                    return result
            except asyncpg.PostgresError as error:
                if error.sqlstate not in _ROLLED_BACK_RETRY or attempt == _TRIES_AFTER_DEADLOCK - 1:
                    raise refused(error, self.dsn) from error
            await asyncio.sleep(random.uniform(0.001, 0.01) * (attempt + 1))
        raise AssertionError  # the loop returns or raises

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[Pooled]:
        if self._pool is None:
            message = "the store is closed: open it with `async with app`"
            raise NotOpen(message)
        pool, connection, broken = self._pool, None, True
        self._calls += 1
        self._idle.clear()
        try:
            async with asyncio.timeout(self.deadline):
                connection = await pool.acquire()
                yield connection
            broken = False
        except TimeoutError as error:
            raise _too_late(self.deadline, self.dsn, sent=connection is not None) from error
        except (OSError, asyncpg.InterfaceError, asyncpg.InternalClientError) as error:
            raise _broken(error, self.dsn, sent=connection is not None) from error
        except asyncpg.PostgresError as error:
            if connection is None:
                raise refused(error, self.dsn) from error
            broken = _ends_session(error.sqlstate or "")
            raise
        finally:
            self._calls -= 1
            if self._calls == 0:
                self._idle.set()
            if connection is not None and broken:
                self._discard(pool, connection)
            elif connection is not None:
                await pool.release(connection)

    def _discard(self, pool: "asyncpg.Pool[asyncpg.Record]", connection: Pooled) -> None:
        """Drop a connection on which a statement may still be under way, without making the caller wait for it.

        Left alone, the server would go on with the statement and hold its locks: it is asked to cancel it first.
        """

        async def discard() -> None:
            try:
                await connection.close(timeout=FAREWELL_S)
            except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError):
                with contextlib.suppress(asyncpg.InterfaceError):  # asyncpg has let go of it already
                    connection.terminate()
            finally:
                await pool.release(connection)

        task = asyncio.get_running_loop().create_task(discard(), name="holdfast discards a connection")
        self._discarding.add(task)
        task.add_done_callback(self._discarding.discard)


def _too_late(deadline: float, dsn: str, *, sent: bool) -> StoreError:
    if sent:
        return OutcomeUnknown(f"no answer from {masked(dsn)} within {deadline:g} s: the change may have happened")
    return StoreUnavailable(f"no connection to {masked(dsn)} within {deadline:g} s")


def _broken(error: Exception, dsn: str, *, sent: bool) -> StoreError:
    if sent:
        return OutcomeUnknown(f"the link to {masked(dsn)} broke: {error}; the change may have happened")
    return StoreUnavailable(f"cannot connect to {masked(dsn)}: {error}")


async def _leave(_connection: object) -> None:
    """Leave a session as it is."""


def _ends_session(code: str) -> bool:
    return code in _SERVER_GONE or code.startswith("08")


def refused(error: asyncpg.PostgresError, dsn: str) -> HoldfastError:
    """Say what an error of the server means for the caller."""
    code = error.sqlstate or ""
    where = masked(dsn)
    if code == _LOST_WORKER:
        return WorkerLost(str(error))
    if code in _SCHEMA_MISSING:
        return SchemaError(f"the schema at {where} does not fit this release ({error}): run `holdfast migrate up`")
    if code.startswith(("22", "23")):
        return DataRefused(f"PostgreSQL refuses a value: {error}")
    if code[:2] in _NOTHING_CHANGED or code in _NOTHING_CHANGED_CODES:
        return StoreUnavailable(f"{where} cannot do this now: {error}")
    if _ends_session(code):
        return OutcomeUnknown(f"{where} ended the session: {error}; the change may have happened")
    if code.startswith(("28", "3D", "42501")):
        return ConfigError(f"{where} refuses access: {error}")
    return StoreError(f"{where}: {error} (SQLSTATE {code})")
