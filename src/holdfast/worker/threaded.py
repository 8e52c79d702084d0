"""A worker in a thread, for programs without an event loop."""

import asyncio
import atexit
import concurrent.futures
import os
from collections.abc import Coroutine
from typing import Any

_FAREWELL_S = 1.5  # for a program that ends without leaving the block


class ThreadedWorker:
    """A worker on an event loop that runs in another thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, run: Coroutine[Any, Any, None], stop: asyncio.Event) -> None:
        self._loop = loop
        self._pid = os.getpid()
        self._stop = stop
        self._work = asyncio.run_coroutine_threadsafe(run, loop)
        atexit.register(self._end_with_program)

    @property
    def is_running(self) -> bool:
        """Whether jobs are run, in this process: a forked child has no worker."""
        return os.getpid() == self._pid and not self._work.done()

    def stop(self) -> None:
        """Let running jobs end, and claim no more."""
        if self.is_running and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._stop.set)

    def join(self) -> None:
        """Wait until the worker has left; what stopped it is raised here."""
        atexit.unregister(self._end_with_program)
        if os.getpid() == self._pid:
            self._work.result()

    def _end_with_program(self) -> None:
        """Give jobs back when the program ends without leaving the block; it does not wait long for that."""
        if self.is_running and not self._loop.is_closed() and self._work.cancel():
            concurrent.futures.wait([self._work], _FAREWELL_S)
