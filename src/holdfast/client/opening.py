"""Open and closed: an app has one store and one client at a time, in one process and one event loop."""

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from holdfast.client.client import ClientStore, LocalClient
from holdfast.client.loop_thread import LoopThread, run_on, running_loop
from holdfast.config import Settings
from holdfast.errors import ConfigError, NotOpen
from holdfast.tasks.registry import Registry

if TYPE_CHECKING:
    from holdfast.client.blocking import BlockingClient
    from holdfast.client.settings import Describe

Connect = Callable[[], Awaitable[ClientStore]]

_ELSEWHERE = "the app is open in another event loop; from other threads use `with app.blocking() as queue:`"


class Opening:
    """One time of being open: the first user connects, the last one disconnects."""

    def __init__(self, settings: Settings, describe: "Describe", tasks: Registry, connect: Connect) -> None:
        self.loop = asyncio.get_running_loop()
        self.thread: LoopThread | None = None
        self.client: LocalClient | None = None
        self._settings = settings
        self._describe = describe
        self._tasks = tasks
        self._connect = connect
        self._pid = os.getpid()
        self._users = 0
        self._turn = asyncio.Lock()

    @property
    def is_usable(self) -> bool:
        """Whether it is in use here: a fork or a closed event loop leaves one behind that nobody can use."""
        return self._users > 0 and self.is_of_this_process and not self.loop.is_closed()

    @property
    def is_of_this_process(self) -> bool:
        """Whether its event loop runs here: a forked child has no threads of its parent."""
        return os.getpid() == self._pid

    async def join(self) -> LocalClient:
        """Count one user more, and connect unless another has."""
        self._users += 1
        try:
            async with self._turn:
                if self.client is None:
                    self.client = LocalClient(await self._connect(), self._settings, self._describe, tasks=self._tasks)
                return self.client
        except BaseException:
            self._users -= 1
            raise

    async def leave(self) -> None:
        """Count one user less; the last one closes the client and its store."""
        self._users -= 1
        if self._users > 0:
            return
        async with self._turn:
            client, self.client = self.client, None
            if client is not None:
                try:
                    await client.close()
                finally:
                    await client.store.close()


class Door:
    """The way into and out of an app."""

    def __init__(self, settings: Settings, describe: "Describe", tasks: Registry) -> None:
        self._settings = settings
        self._describe = describe
        self._tasks = tasks
        self._opening: Opening | None = None
        self._entering = threading.Lock()

    @property
    def is_open(self) -> bool:
        """Whether anybody is inside."""
        return self._opening is not None and self._opening.is_usable

    @property
    def is_ready(self) -> bool:
        """Whether whoever is inside is connected."""
        return self._opening is not None and self._opening.is_usable and self._opening.client is not None

    def client(self) -> LocalClient:
        """The client, for the event loop that opened it."""
        if self._opening is None or not self._opening.is_usable or self._opening.client is None:
            message = "the app is not open; use it inside `async with app:` or `with app.blocking() as queue:`"
            raise NotOpen(message)
        if running_loop() is not self._opening.loop:
            raise NotOpen(_ELSEWHERE)
        return self._opening.client

    async def enter(self, connect: Connect) -> LocalClient:
        """Come in; the first one connects."""
        return await self._usable(connect).join()

    async def leave(self) -> None:
        """Go out; the last one disconnects."""
        if self._opening is not None:
            await self._opening.leave()

    @contextmanager
    def blocking(self, connect: Connect) -> "Iterator[BlockingClient]":
        """Come in without an event loop: share the one inside, or start one in a daemon thread."""
        from holdfast.client.blocking import BlockingClient  # noqa: PLC0415 - most programs have an event loop

        with self._entering:  # two threads at once must not start two loops
            opening, client = self._enter_from_thread(connect)
        is_left = True
        try:
            yield BlockingClient(client, opening.loop)
        except GeneratorExit:  # the program ends without leaving the block, and its threads with it
            is_left = False
            raise
        finally:
            if is_left and opening.is_of_this_process:
                self._leave_from_thread(opening)

    def _leave_from_thread(self, opening: Opening) -> None:
        with self._entering:
            if not opening.loop.is_closed():
                run_on(opening.loop, opening.leave)
            if opening.thread is not None and not opening.is_usable:
                opening.thread.stop()

    def _enter_from_thread(self, connect: Connect) -> tuple[Opening, LocalClient]:
        async def enter() -> tuple[Opening, LocalClient]:
            opening = self._usable(connect)
            return opening, await opening.join()

        if self._opening is not None and self._opening.is_usable:
            return run_on(self._opening.loop, enter)
        thread = LoopThread()
        try:
            opening, client = run_on(thread.loop, enter)
        except BaseException:
            thread.stop()
            raise
        opening.thread = thread
        return opening, client

    def _usable(self, connect: Connect) -> Opening:
        if self._opening is None or not self._opening.is_usable:
            self._opening = Opening(self._settings, self._describe, self._tasks, connect)
        elif self._opening.loop is not asyncio.get_running_loop():
            raise ConfigError(_ELSEWHERE)
        return self._opening


class Visit:
    """A way in for those who come and go: the first of them opens the app if nobody has, and it stays open for all."""

    def __init__(self, door: Door, connect: Connect) -> None:
        self._door = door
        self._connect = connect
        self._entries = 0

    async def client(self) -> LocalClient:
        """The client of the open app."""
        if not self._door.is_open:
            self._entries = 0  # an event loop that is gone has taken earlier ones with it
        if not self._door.is_ready:  # those who come while it is being opened wait for that
            self._entries += 1
            try:
                await self._door.enter(self._connect)
            except BaseException:
                self._entries -= 1
                raise
        return self._door.client()

    async def end(self) -> None:
        """Close what was opened here."""
        entries, self._entries = self._entries, 0
        for _ in range(entries if self._door.is_open else 0):
            await self._door.leave()
