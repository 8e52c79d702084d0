"""Connections to PostgreSQL: a pool in which every call has a deadline, and errors that say what is known.

Nothing is set on a session, so that it works through a pooler in transaction mode. A call that ends by its deadline or
by cancellation takes its connection with it: what the server still does with the statement is unknown.
"""

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

import asyncpg

from holdfast import moments
from holdfast.errors import (
    ConfigError,
    DataRefused,
    HoldfastError,
    NotOpen,
    OutcomeUnknown,
    SchemaError,
    StoreError,
    StoreMoved,
    StoreUnavailable,
    WorkerLost,
)
from holdfast.locations import masked
from holdfast.stores.postgres.links import FAREWELL_S, Links, Plain

if TYPE_CHECKING:
    # Generic in the stubs only.
    Pooled = asyncpg.pool.PoolConnectionProxy[asyncpg.Record]
    Connection = Plain | Pooled
else:
    Pooled = Connection = asyncpg.Connection

T = TypeVar("T")

_TRIES_AFTER_DEADLOCK = 5
_LONGEST_IDLE_S = 300.0
_LOST_WORKER = "HF001"
_MOVED = "HF002"
_SCHEMA_MISSING = {"3F000", "42P01", "42883", "42703"}
_ROLLED_BACK_RETRY = {"40001", "40P01"}
# The statement was refused or cancelled by the server, which rolled it back: classes and single codes.
_NOTHING_CHANGED = {"53", "55", "58"}
_NOTHING_CHANGED_CODES = {"57014", "57P03"}
# Data, integrity, limits of the program such as the size of an entry of an index, and what a trigger raises.
_OF_THE_VALUE = ("22", "23", "54", "P0001")
_SERVER_GONE = {"57P01", "57P02", "57P05"}
_LOST = "connection_lost()"
CLOSED = "the server has closed the connection"
_STARTUP_PARAMETER = "unsupported startup parameter"


class Pool:
    """The connections of one store in one process.

    A plain one: nothing is ever set on a session, so there is nothing to reset, and a call that finds an idle
    connection waits for nothing but its answer. asyncpg's own pool takes a task and two rounds of the event loop.
    """

    def __init__(self, dsn: str, size: int, deadline: float) -> None:
        self.dsn = dsn
        self.deadline = deadline
        self._links = Links()
        self._is_open = False
        self._room = asyncio.Semaphore(size)
        self._search_room = asyncio.Semaphore(max(1, size // 2))
        self._idle: list[tuple[float, Plain]] = []  # since when, the longest first
        self._busy: set[Plain] = set()
        self._calls = 0
        self._quiet = asyncio.Event()  # no call is under way
        self._quiet.set()
        self._farewells: set[asyncio.Task[None]] = set()
        self._reaping: asyncio.TimerHandle | None = None

    async def open(self) -> None:
        """Connect once, so that a wrong address or password is known now."""
        try:
            async with asyncio.timeout(self.deadline):
                connection, _ = await self._links.connect(self.dsn)
        except asyncpg.PostgresError as error:
            raise refused(error, self.dsn, sent=False) from error
        except (ValueError, asyncpg.InterfaceError) as error:
            message = f"cannot use {masked(self.dsn)}: {error}"
            raise ConfigError(message) from error
        except OSError as error:  # TimeoutError is one
            message = f"cannot connect to {masked(self.dsn)} within {self.deadline:g} s: {str(error) or 'no answer'}"
            raise StoreUnavailable(message) from error
        self._is_open = True
        self._keep(connection)

    async def close(self) -> None:
        """Let calls in flight end, then disconnect; what does not end in time is cut."""
        if not self._is_open:
            return
        self._is_open = False
        if self._reaping is not None:
            self._reaping.cancel()
            self._reaping = None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.deadline):
                await self._quiet.wait()
        for connection in list(self._busy):
            connection.terminate()
        while self._idle:
            self._part_with(self._idle.pop()[1])
        if self._farewells:
            await asyncio.wait(self._farewells)  # each has its own bound

    async def fetch(self, sql: str, *args: object) -> list[asyncpg.Record]:
        """Run one statement in a commit of its own."""
        return await self.call(lambda connection: connection.fetch(sql, *args))

    async def call(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        """Run work within the deadline; a deadlock, which the server rolled back, is tried again."""
        for attempt in range(_TRIES_AFTER_DEADLOCK):
            try:
                return await self._call(work)
            except asyncpg.PostgresError as error:
                if error.sqlstate not in _ROLLED_BACK_RETRY or attempt == _TRIES_AFTER_DEADLOCK - 1:
                    raise refused(error, self.dsn) from error
                moments.reach("deadlocked", sqlstate=error.sqlstate)
            await asyncio.sleep(random.uniform(0.001, 0.01) * (attempt + 1))
        raise AssertionError  # the loop returns or raises

    async def search(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        """Run work that may take long: half of the connections are left to all other calls."""
        try:
            async with asyncio.timeout(self.deadline):
                await self._search_room.acquire()  # guard: search-room
        except TimeoutError as error:
            message = f"other searches kept this one waiting for {self.deadline:g} s: nothing was changed"
            raise StoreUnavailable(message) from error
        try:
            return await self.call(work)
        finally:
            self._search_room.release()

    async def _call(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        if not self._is_open:
            message = "the store is closed: open it with `async with app`"
            raise NotOpen(message)
        connection, is_sound = None, False
        self._calls += 1
        self._quiet.clear()
        try:
            async with asyncio.timeout(self.deadline):
                connection = await self._take()
                moments.reach("before_store_call")
                result = await work(connection)
                moments.reach("after_store_call")
            is_sound = True
            return result
        except TimeoutError as error:
            raise _too_late(self.deadline, self.dsn, sent=connection is not None) from error
        except (OSError, asyncpg.InterfaceError, asyncpg.InternalClientError) as error:
            raise _broken(error, self.dsn, sent=connection is not None) from error
        except asyncpg.PostgresError as error:
            if connection is None:
                raise refused(error, self.dsn, sent=False) from error
            is_sound = not _ends_session(error.sqlstate or "")
            raise
        finally:
            if connection is not None:
                self._give_back(connection, is_sound=is_sound)
            self._calls -= 1
            if self._calls == 0:
                self._quiet.set()

    # ---- connections -----------------------------------------------------------------------------------------------

    async def _take(self) -> Plain:
        await self._room.acquire()
        try:
            connection = self._pop_idle() or (await self._links.connect(self.dsn)).connection
        except BaseException:
            self._room.release()
            raise
        self._busy.add(connection)
        return connection

    def _pop_idle(self) -> Plain | None:
        while self._idle:
            _, connection = self._idle.pop()
            if not connection.is_closed():
                return connection
        return None

    def _give_back(self, connection: Plain, *, is_sound: bool) -> None:
        self._busy.discard(connection)
        if is_sound and self._is_open:
            self._keep(connection)
            self._room.release()
        else:
            self._part_with(connection, self._room.release)

    def _keep(self, connection: Plain) -> None:
        loop = asyncio.get_running_loop()
        self._idle.append((loop.time(), connection))
        if self._reaping is None:
            self._reaping = loop.call_later(_LONGEST_IDLE_S, self._reap)

    def _reap(self) -> None:
        """Let go of connections that nobody has needed for long."""
        loop = asyncio.get_running_loop()
        self._reaping = None
        while self._idle and self._idle[0][0] <= loop.time() - _LONGEST_IDLE_S:
            self._part_with(self._idle.pop(0)[1])
        if self._idle:
            self._reaping = loop.call_at(self._idle[0][0] + _LONGEST_IDLE_S, self._reap)

    def _part_with(self, connection: Plain, then: Callable[[], None] | None = None) -> None:
        """Close a connection, on which a statement may still be under way, without making the caller wait for it."""
        task = asyncio.get_running_loop().create_task(farewell(connection), name="holdfast closes a connection")
        self._farewells.add(task)
        task.add_done_callback(self._farewells.discard)
        if then is not None:
            task.add_done_callback(lambda _: then())


async def farewell(connection: Connection) -> None:
    """Close a connection within a moment.

    Left alone, the server would go on with a statement that is under way and hold its locks: asyncpg asks it first to
    cancel that.
    """
    try:
        await connection.close(timeout=FAREWELL_S)
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError):
        with contextlib.suppress(asyncpg.InterfaceError):  # asyncpg has let go of it already
            connection.terminate()


def _too_late(deadline: float, dsn: str, *, sent: bool) -> StoreError:
    if sent:
        return OutcomeUnknown(f"no answer from {masked(dsn)} within {deadline:g} s: the change may have happened")
    return StoreUnavailable(f"no connection to {masked(dsn)} within {deadline:g} s")


def _broken(error: Exception, dsn: str, *, sent: bool) -> StoreError:
    if sent:
        is_ours = isinstance(error, asyncpg.InterfaceError)  # nobody else has this connection to use it wrongly
        reason = CLOSED if is_ours else reason_of(error)
        return OutcomeUnknown(f"the link to {masked(dsn)} broke: {reason}; the change may have happened")
    return StoreUnavailable(f"cannot connect to {masked(dsn)}: {reason_of(error)}")


def reason_of(error: Exception, silence: str = "no answer") -> str:
    """Say why a link broke: asyncpg names its own states when the server ends a session in the midst of a call."""
    is_inner = isinstance(error, asyncpg.InternalClientError) or _LOST in str(error)
    return CLOSED if is_inner else str(error) or silence


def _ends_session(code: str) -> bool:
    return code in _SERVER_GONE or code.startswith("08")


def refused(error: asyncpg.PostgresError, dsn: str, *, sent: bool = True) -> HoldfastError:
    """Say what an error of the server, or of a pooler in front of it, means for the caller."""
    code = error.sqlstate or ""
    where = masked(dsn)
    if _STARTUP_PARAMETER in str(error):
        message = f"{where}: a pooler refuses the connection: {error}; expected an address without settings of a "
        message += "session after the `?`, or a pooler that ignores them (PgBouncer: ignore_startup_parameters)"
        return ConfigError(message)
    if code == _LOST_WORKER:
        return WorkerLost(str(error))
    if code == _MOVED:
        return StoreMoved(f"{where}: {error}")
    if code in _SCHEMA_MISSING:
        return SchemaError(f"the schema at {where} does not fit this release ({error}): run `holdfast migrate up`")
    if code.startswith(_OF_THE_VALUE):
        return DataRefused(f"PostgreSQL refuses a value: {error}")
    if code[:2] in _NOTHING_CHANGED or code in _NOTHING_CHANGED_CODES:
        return StoreUnavailable(f"{where} cannot do this now: {error}")
    if _ends_session(code) and not sent:
        return StoreUnavailable(f"cannot connect to {where}: {error}")
    if _ends_session(code):
        return OutcomeUnknown(f"{where} ended the session: {error}; the change may have happened")
    if code.startswith(("28", "3D", "42501")):
        return ConfigError(f"{where} refuses access: {error}")
    return StoreError(f"{where}: {error} (SQLSTATE {code})")
