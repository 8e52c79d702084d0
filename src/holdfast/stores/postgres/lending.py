"""Connections that handlers' code gets into its hands: a pool of their own, so that no long body keeps workers waiting.

A body may set what it likes on its session, so that a session is cleaned before the next body has it, or discarded
when it cannot be.
"""

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, NamedTuple

import asyncpg

from holdfast.config import masked
from holdfast.errors import NotOpen, StoreUnavailable
from holdfast.stores.postgres.connection import FAREWELL_S, Pool, Pooled, refused

if TYPE_CHECKING:
    _Connection = asyncpg.Connection[asyncpg.Record]  # generic in the stubs only
else:
    _Connection = asyncpg.Connection

# What RESET ALL leaves alone.
_CLEAN = "SET SESSION AUTHORIZATION DEFAULT; DISCARD TEMP;"


class Session(_Connection):
    """A connection that remembers what asyncpg would forget."""

    __slots__ = ("has_codecs", "last_status")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.has_codecs = False
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


class LendingPool(Pool):
    """The connections of transactions; each is opened when one needs it."""

    async def open(self) -> None:
        """Make the pool; this asks nothing of the server."""
        self._pool = await self._make_pool(connection_class=Session, reset=_clean)

    async def lend(self) -> Loan:
        """Take a connection, to be given back whatever happens."""
        if self._pool is None:
            message = "the store is closed: open it with `async with app`"
            raise NotOpen(message)
        try:
            async with asyncio.timeout(self.deadline):
                return Loan(await self._pool.acquire(), self._pool)
        except TimeoutError as error:
            message = f"no connection to {masked(self.dsn)} for a transaction within {self.deadline:g} s: "
            message += f"the server does not answer, or {self._size} transactions are open: end them sooner"
            raise StoreUnavailable(message) from error
        except (OSError, asyncpg.InterfaceError, asyncpg.InternalClientError) as error:
            message = f"cannot connect to {masked(self.dsn)}: {error}"
            raise StoreUnavailable(message) from error
        except asyncpg.PostgresError as error:
            raise refused(error, self.dsn) from error

    async def give_back(self, loan: Loan, *, is_idle: bool) -> None:
        """Give a connection back, which nobody can use from then on; one that may still be in a transaction is dropped.

        The caller waits for the cleaning, or code after the block could go on writing, each statement by itself.
        """
        session: Any = loan.connection
        if not is_idle or session.has_codecs:
            self._discard(loan.pool, loan.connection)
            return
        # What goes wrong here has ended the connection, and the pool makes another one.
        with contextlib.suppress(OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
            await loan.pool.release(loan.connection, timeout=min(self.deadline, FAREWELL_S))


async def _clean(connection: Any) -> None:
    await connection.execute(f"{_CLEAN}\n{connection.get_reset_query()}")
