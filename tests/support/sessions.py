"""Sessions with PostgreSQL that outlast the connections of a test.

A new session compiles every function and plans every statement again, which takes longer than most tests. So a
connection that a test closes leaves its session, cleaned, to a connection of a later test. That works on one event loop
only, which all tests of a folder then share.
"""

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Iterator
from typing import Any
from unittest import mock
from weakref import WeakSet

import asyncpg
import pytest

from holdfast.stores.postgres.lending import Session
from holdfast.stores.postgres.links import FAREWELL_S, Plain

_MOST_IDLE = 12  # of one kind
_CLEAN = "SET SESSION AUTHORIZATION DEFAULT; DISCARD TEMP;"  # what the reset of asyncpg leaves alone
_OPTIONS = {"connection_class", "loop", "record_class", "statement_cache_size", "timeout"}  # no session remembers these
_BROKEN = (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)


class Lasting(Plain):
    """A connection whose session outlasts it, if it is closed with nothing under way."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.kept: list[Lasting] | None = None  # where its heir goes
        self.is_clean = True
        self._is_spoilt = False
        self._calls = 0

    async def execute(self, query: str, *args: object, timeout: float | None = None) -> str:
        """Run a statement; asyncpg does not tell whether one is under way."""
        self._calls += 1
        try:
            return await super().execute(query, *args, timeout=timeout)
        finally:
            self._calls -= 1

    async def set_type_codec(self, *args: Any, **kwargs: Any) -> None:
        """Set a codec, which stays in the session."""
        self._is_spoilt = True
        await super().set_type_codec(*args, **kwargs)

    async def set_builtin_type_codec(self, *args: Any, **kwargs: Any) -> None:
        """Set a codec, which stays in the session."""
        self._is_spoilt = True
        await super().set_builtin_type_codec(*args, **kwargs)

    def _cancel_current_command(self, *args: Any) -> None:
        self._is_spoilt = True  # the request to cancel may come late, and would meet the next statement
        inherited: Any = super()
        inherited._cancel_current_command(*args)

    async def clean(self) -> bool:
        """Let the session forget what was set in it; False if it cannot be used any more."""
        try:
            async with asyncio.timeout(FAREWELL_S):
                await self.execute(f"{_CLEAN}\n{self.get_reset_query()}")
        except _BROKEN:  # TimeoutError is an OSError
            return False
        except asyncio.CancelledError:
            self.end()
            raise
        self.is_clean = not self._is_spoilt
        return self.is_clean

    async def close(self, *, timeout: float | None = None) -> None:
        """Leave the session to the next connection, cleaned, or end it."""
        if self._may_last() and await self.clean() and self._may_last():
            self._bequeath()
        else:
            await super().close(timeout=timeout)

    def terminate(self) -> None:
        """Leave the session to the next connection, which is to clean it, or end it."""
        if self._may_last():
            self.is_clean = False
            self._bequeath()
        else:
            self.end()

    def end(self) -> None:
        """End the session at once."""
        super().terminate()

    def _may_last(self) -> bool:
        state: Any = self
        return (
            self.kept is not None
            and len(self.kept) < _MOST_IDLE
            and not self.is_closed()
            and not self._is_spoilt
            and not self._calls
            and not state._stmt_exclusive_section._acquired  # nothing else tells that a call is under way
            and not self.is_in_transaction()
        )

    def _bequeath(self) -> None:
        """Give the session and its prepared statements to another connection, and be closed."""
        old: Any = self
        new: Any = type(self)(old._protocol, old._transport, old._loop, old._addr, old._config, old._params)
        new._stmt_cache, old._stmt_cache = old._stmt_cache, new._stmt_cache
        new._stmt_cache._on_remove, old._stmt_cache._on_remove = old._stmt_cache._on_remove, new._stmt_cache._on_remove
        new._stmts_to_close, old._stmts_to_close = old._stmts_to_close, new._stmts_to_close
        new.is_clean = self.is_clean
        old._protocol.set_connection(new)
        old._protocol, old._aborted = None, True
        old._cleanup()
        assert self.kept is not None
        self.kept.append(new)


class LastingSession(Lasting, Session):
    """The same for connections that the store lends."""


class Sessions:
    """The sessions that are kept, and the event loop that they belong to."""

    def __init__(self, runner: asyncio.Runner) -> None:
        self.runner = runner
        self._connect = asyncpg.connect
        self._servers: set[str] = set()
        self._idle: dict[tuple[str, type[Plain], object], list[Lasting]] = defaultdict(list)
        self._lent: WeakSet[Lasting] = WeakSet()

    def keep(self, dsn: str) -> None:
        """Keep the sessions with a server; every other address is connected to as ever."""
        self._servers.add(dsn)

    @contextlib.contextmanager
    def in_use(self) -> Iterator[asyncio.Runner]:
        """Let connections of one test have the sessions that are kept; nothing of the test is left afterwards."""
        with mock.patch.object(asyncpg, "connect", self._take):
            yield self.runner
            self.runner.run(self._settle())
        self.runner.get_loop().set_exception_handler(None)

    async def close(self) -> None:
        """End every session; the server may be gone already."""
        for kept in self._idle.values():
            while kept:
                kept.pop().end()
        await asyncio.sleep(0)  # so that the loop lets go of the sockets

    async def _take(self, dsn: str | None = None, **options: Any) -> Plain:
        """Connect as asyncpg does, if possible in a session that is there."""
        is_own = asyncio.get_running_loop() is self.runner.get_loop()
        asked: type[Plain] = options.get("connection_class", asyncpg.Connection)
        lasting: type[Lasting] | None = {asyncpg.Connection: Lasting, Session: LastingSession}.get(asked)
        if dsn not in self._servers or not is_own or lasting is None or not options.keys() <= _OPTIONS:
            connection: Plain = await self._connect(dsn, **options)
            return connection
        kept = self._idle[dsn, asked, options.get("statement_cache_size")]
        found = await _usable(kept)
        if found is None:
            made: Any = await self._connect(dsn, **(options | {"connection_class": lasting}))
            found = made
        found.kept = kept
        self._lent.add(found)
        return found

    async def _settle(self) -> None:
        await end_tasks()
        for connection in list(self._lent):
            if not connection.is_closed():
                connection.end()
        self._lent.clear()
        for kept in self._idle.values():
            for connection in kept.copy():
                if not connection.is_clean and not await connection.clean():
                    kept.remove(connection)
                    connection.end()


async def _usable(kept: list[Lasting]) -> Lasting | None:
    """Find a clean session that is still there."""
    if kept:
        await asyncio.sleep(0)  # so that the loop sees what the server has ended
    while kept:
        found = kept.pop()
        if not found.is_closed() and (found.is_clean or await found.clean()):
            return found
        found.end()
    return None


async def end_tasks() -> None:
    """End what a test has left running, as an event loop of its own would when it ends."""
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)


@pytest.fixture(name="_function_scoped_runner")  # as pytest-asyncio calls the one of a test and of its fixtures
def one_loop(lasting_sessions: Sessions) -> Iterator[asyncio.Runner]:
    """Give the event loop that all tests of a folder share; the folder imports this fixture."""
    with lasting_sessions.in_use() as runner:
        yield runner
