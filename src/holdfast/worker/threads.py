"""Threads of our own for handlers that are no coroutines.

They are daemons: a handler that never ends must not keep the process from leaving, as the threads of Python's own
executor would.
"""

import asyncio
import contextlib
import contextvars
import os
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

from holdfast.worker import forks


class _Answer:
    """What a function in a thread returned or raised, whatever that was."""

    __slots__ = ("error", "value")

    def __init__(self) -> None:
        self.value: Any = None
        self.error: BaseException | None = None


class _Thread:
    def __init__(self, number: int) -> None:
        self.work: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        threading.Thread(target=self._serve, name=f"holdfast handler {number}", daemon=True).start()

    def _serve(self) -> None:
        while (call := self.work.get()) is not None:
            call()
            del call  # or the last handler's frames would live as long as this thread waits


class Threads:
    """Runs functions, each in a thread, as many at once as are asked for."""

    def __init__(self) -> None:
        self._idle: list[_Thread] = []
        self._started = 0
        self._is_closed = False
        self._generation = forks.generation

    async def run(self, function: Callable[[], Any]) -> Any:
        """Run a function in a thread and wait for its end, however long that takes.

        No thread can be cancelled: who cancels this gets the answer all the same, unless the threads were closed.
        """
        loop = asyncio.get_running_loop()
        answer, ended = _Answer(), loop.create_future()
        context = contextvars.copy_context()
        if not self._idle:
            self._started += 1
        thread = self._idle.pop() if self._idle else _Thread(self._started)

        def call() -> None:
            try:
                answer.value = context.run(function)
            except BaseException as error:  # noqa: BLE001 - a handler may raise anything, SystemExit too
                answer.error = error
            if forks.generation != self._generation:  # the handler forked: there is no worker in the copy
                os._exit(0)
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(_end, ended)

        thread.work.put(call)
        try:
            await self._end_of(ended)
        finally:
            if ended.done() and not self._is_closed:
                self._idle.append(thread)
            else:
                thread.work.put(None)  # it leaves when its handler ends
        if isinstance(answer.error, StopIteration):  # which no coroutine can raise
            message = "the handler raised StopIteration"
            raise RuntimeError(message) from answer.error  # noqa: TRY004 - as Python itself does in a coroutine
        if answer.error is not None:
            raise answer.error
        return answer.value

    async def _end_of(self, ended: asyncio.Future[None]) -> None:
        while not ended.done():
            try:
                await asyncio.wait([ended])
            except asyncio.CancelledError:
                if self._is_closed:
                    raise

    def close(self) -> None:
        """Let idle threads end, and wait for no other any more."""
        self._is_closed = True
        for thread in self._idle:
            thread.work.put(None)
        self._idle.clear()


def _end(ended: asyncio.Future[None]) -> None:
    if not ended.done():
        ended.set_result(None)
