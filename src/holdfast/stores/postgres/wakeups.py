"""How workers learn of work on PostgreSQL: NOTIFY with the name of a queue, on a channel of the schema's own.

Hints are never needed, only quick: nothing here raises, and whoever listens is told whether hints can be relied on. A
link may die in silence and a pooler may swallow LISTEN, so that is found out by sending hints to oneself.
"""

import asyncio
import contextlib
import logging
import math
import random
import secrets
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import asyncpg

from holdfast import moments
from holdfast.locations import masked
from holdfast.stores.postgres.connection import reason_of
from holdfast.stores.postgres.links import is_direct
from holdfast.stores.postgres.role import Role
from holdfast.stores.store import EVERY_HINT, Listening

_logger = logging.getLogger("holdfast")

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.05, 1.0
PROBE_EVERY_S = 20.0
PROBE_WAIT_S = 3.0
_PROBE = "?"  # no name of a queue begins so
QUIET_S = 2.0  # between two warnings


class PostgresWakeups(Role):
    """The verbs of `WakeStore`; hints are heard at `listen_dsn`, if that is given."""

    listen_dsn: str | None = None

    async def announce(self, queues: Sequence[str]) -> None:
        if queues:
            await self.fetch("announce", list(queues))

    @asynccontextmanager
    async def listen(self, queues: Sequence[str], wake: Callable[[str], None]) -> AsyncIterator[Listening]:
        listener = Listener(self, queues, wake)
        task = asyncio.create_task(listener.run(), name="holdfast listens")
        try:
            yield listener
        finally:
            listener.end()
            task.cancel()
            await asyncio.wait([task])


class _Deaf(Exception):
    """No hint can come this way, so that trying again at once is of no use."""


class _Pooled(_Deaf):
    """A pooler is in between: it would give LISTEN to a session that serves others a moment later."""

    def __str__(self) -> str:
        return "a pooler is in between; give the app `listen_dsn`, an address of the server itself"


class _Unheard(_Deaf):
    """The server took LISTEN and a hint, and the hint did not arrive."""

    def __str__(self) -> str:
        return "a pooler may have swallowed LISTEN, or the link is dead"


class _Link:
    """What is known of one connection that listens."""

    def __init__(self) -> None:
        self.probe = _PROBE + secrets.token_hex(8)
        self.is_cut = False
        self._news = asyncio.Event()

    def answer(self) -> None:
        """The probe came back."""
        self.probe = _PROBE + secrets.token_hex(8)
        self._news.set()

    def cut(self) -> None:
        """The connection was lost."""
        self.is_cut = True
        self._news.set()

    async def news_within(self, seconds: float) -> bool:
        """Wait for the probe; a lost connection raises."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._news.wait()
        if self.is_cut:
            message = "the link broke"
            raise ConnectionError(message)
        has_news = self._news.is_set()
        self._news.clear()
        return has_news


class Listener:
    """Hears hints on a connection of its own, which is replaced whenever it is lost or silent."""

    def __init__(self, role: PostgresWakeups, queues: Sequence[str], wake: Callable[[str], None]) -> None:
        self.is_live = False
        self._role = role
        self._queues = frozenset(queues)
        self._wake = wake
        self._was_live = False  # on the connection at hand
        self._is_lost = False  # and everybody was told so
        self._told_at = -math.inf
        self._is_ended = False

    def end(self) -> None:
        """Wake nobody any more."""
        self._is_ended = True
        self.is_live = False

    async def run(self) -> None:
        """Listen until cancelled."""
        pause = FIRST_PAUSE_S
        while True:
            self._was_live = is_deaf = False
            try:
                await self._listen_once()
            except Exception as error:  # noqa: BLE001 - whatever it is, workers do without hints until this works
                self._lose(error)
                is_deaf = isinstance(error, _Deaf)
            if self._was_live:
                pause = FIRST_PAUSE_S
            longest = PROBE_EVERY_S if is_deaf and not self._was_live else pause
            await asyncio.sleep(longest * random.uniform(0.5, 1))
            pause = min(pause * 2, LONGEST_PAUSE_S)

    async def _listen_once(self) -> None:
        """Listen on one connection until it does not work any more, which raises."""
        async with self._connected() as link:
            for queue in sorted(self._queues):  # what was announced before this moment may not have been heard
                self._wake(queue)
            while True:
                async with asyncio.timeout(PROBE_WAIT_S):
                    await self._role.fetch("announce", [link.probe])
                if not await link.news_within(PROBE_WAIT_S):
                    raise _Unheard
                self._regain()
                await link.news_within(PROBE_EVERY_S)

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[_Link]:
        role, pool, link = self._role, self._role.pool, _Link()
        # Each time anew: a schema that was made again has another channel.
        channel = await role.fetch_value("wake_channel")
        # No prepared statements: a pooler may not know them, and one statement is all that is sent.
        connection = await asyncpg.connect(role.listen_dsn or pool.dsn, timeout=pool.deadline, statement_cache_size=0)
        try:
            connection.add_termination_listener(lambda _: link.cut())
            async with asyncio.timeout(pool.deadline):
                if role.listen_dsn is None and not await is_direct(connection):
                    raise _Pooled
                await connection.add_listener(channel, lambda *heard: self._hear(link, heard[-1]))
            yield link
        finally:
            connection.terminate()  # without a farewell, for which a silent link would keep us waiting

    def _hear(self, link: _Link, heard: object) -> None:
        if heard == link.probe:
            link.answer()
        elif (heard in self._queues or EVERY_HINT in self._queues) and not self._is_ended:
            moments.reach("hint_heard", queue=str(heard))
            self._wake(str(heard))

    @property
    def _where(self) -> str:
        return masked(self._role.listen_dsn or self._role.pool.dsn)

    def _lose(self, error: Exception) -> None:
        self.is_live = False
        moments.reach("hints_lost")
        now = time.monotonic()
        if not self._is_lost and now - self._told_at >= QUIET_S:  # or a link that flickers would fill the log
            self._is_lost, self._told_at = True, now
            message = "hints from %s do not arrive (%s): workers look for work more often until they do"
            _logger.warning(message, self._where, reason_of(error, type(error).__name__))

    def _regain(self) -> None:
        self.is_live = self._was_live = True
        moments.reach("listening")
        if self._is_lost:
            _logger.info("hints from %s arrive again", self._where)
        self._is_lost = False
