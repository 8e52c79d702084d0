"""Connections that handlers' code gets into its hands: a pool of their own, so that no long body keeps workers waiting.

A body may set what it likes on its session, so that a session is cleaned before the next body has it, or discarded
when it cannot be.
"""

import asyncio
import contextlib
from typing import Any, NamedTuple

import asyncpg

from holdfast.errors import NotOpen, StoreUnavailable
from holdfast.locations import masked
from holdfast.stores.postgres.connection import Pooled, farewell, reason_of, refused
from holdfast.stores.postgres.links import FAREWELL_S, Links, Plain

# What RESET ALL leaves alone.
_CLEAN = "SET SESSION AUTHORIZATION DEFAULT; DISCARD TEMP;"


class Session(Plain):
    """A connection that remembers what asyncpg would forget."""

    __slots__ = ("has_codecs", "is_pooled", "last_status")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.has_codecs = False
        self.is_pooled = False
        self.last_status = ""

    async def execute(self, query: str, *args: object, timeout: float | None = None) -> str:
        """Run a statement: a COMMIT that the server turned into a ROLLBACK is seen in its status alone."""
        self.last_status = await super().execute(query, *args, timeout=timeout)
        return self.last_status

    async def set_type_codec(self, *args: Any, **kwargs: Any) -> None:
        """Set a codec, which no reset of the session takes back."""
        self.has_codecs = True
        await super().set_type_codec(*args, **kwargs)

    async def set_builtin_type_codec(self, *args: Any, **kwargs: Any) -> None:
        """Set a codec, which no reset of the session takes back."""
        self.has_codecs = True
        await super().set_builtin_type_codec(*args, **kwargs)


class Loan(NamedTuple):
    """A connection that was lent, and the pool it goes back to, even if the store is closed meanwhile."""

    connection: Pooled
    pool: "asyncpg.Pool[asyncpg.Record]"


class LendingPool:
    """The connections of transactions; each is opened when one needs it."""

    def __init__(self, dsn: str, size: int, deadline: float) -> None:
        self._dsn = dsn
        self._size = size
        self._deadline = deadline
        self._links = Links()
        self._pool: asyncpg.Pool[asyncpg.Record] | None = None
        self._discarding: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Make the pool; this asks nothing of the server."""
        # Nothing is kept open by the pool itself: it would write tracebacks while the server is away.
        self._pool = await asyncpg.create_pool(
            self._dsn,
            min_size=0,
            max_size=self._size,
            max_inactive_connection_lifetime=300,
            connection_class=Session,
            connect=self._connect,
            reset=_clean,
        )

    async def _connect(self, dsn: str | None = None, **options: Any) -> Plain:
        connection, is_pooled = await self._links.connect(dsn or self._dsn, **options)
        session: Any = connection
        session.is_pooled = is_pooled
        return connection

    async def close(self) -> None:
        """Disconnect; a body that does not end in a moment is cut."""
        pool, self._pool = self._pool, None
        if pool is None:
            return
        try:
            # A program that ends cancels every task of its loop, and one of asyncpg's that was to put a connection
            # back leaves it in use for ever.
            async with asyncio.timeout(min(self._deadline, FAREWELL_S)):
                await asyncio.gather(*self._discarding)
                await pool.close()
        except (TimeoutError, OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
            pool.terminate()

    async def lend(self) -> Loan:
        """Take a connection, to be given back whatever happens."""
        if self._pool is None:
            message = "the store is closed: open it with `async with app`"
            raise NotOpen(message)
        try:
            async with asyncio.timeout(self._deadline):
                return Loan(await self._pool.acquire(), self._pool)
        except TimeoutError as error:
            message = f"no connection to {masked(self._dsn)} for a transaction within {self._deadline:g} s: "
            message += f"the server does not answer, or {self._size} transactions are open: end them sooner"
            raise StoreUnavailable(message) from error
        except (OSError, asyncpg.InterfaceError, asyncpg.InternalClientError) as error:
            message = f"cannot connect to {masked(self._dsn)}: {reason_of(error)}"
            raise StoreUnavailable(message) from error
        except asyncpg.PostgresError as error:
            raise refused(error, self._dsn, sent=False) from error

    async def give_back(self, loan: Loan, *, is_idle: bool) -> None:
        """Give a connection back, which nobody can use from then on; one that may still be in a transaction is dropped.

        The caller waits for the cleaning, or code after the block could go on writing, each statement by itself.
        """
        session: Any = loan.connection
        if not is_idle or session.has_codecs:
            self._discard(loan)
            return
        # What goes wrong here has ended the connection, and the pool makes another one.
        with contextlib.suppress(OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
            await loan.pool.release(loan.connection, timeout=min(self._deadline, FAREWELL_S))

    def _discard(self, loan: Loan) -> None:
        """Drop a connection without making the caller wait for it."""

        async def discard() -> None:
            try:
                await farewell(loan.connection)
            finally:
                await loan.pool.release(loan.connection)

        task = asyncio.get_running_loop().create_task(discard(), name="holdfast discards a connection")
        self._discarding.add(task)
        task.add_done_callback(self._discarding.discard)


async def _clean(connection: Any) -> None:
    if connection.is_pooled:  # the next session is any of the server, and this would meet the wrong one
        return
    await connection.execute(f"{_CLEAN}\n{connection.get_reset_query()}")  # guard: lent-session-reset
