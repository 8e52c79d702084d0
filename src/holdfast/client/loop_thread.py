"""Runs async verbs on an event loop in a daemon thread, for programs that have no event loop."""

import asyncio
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator
from typing import Any, TypeVar

from holdfast.errors import ConfigError, NotOpen

T = TypeVar("T")


class LoopThread:
    """An event loop in a daemon thread."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._is_ending = False
        self._thread = threading.Thread(target=self._run, name="holdfast blocking", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the loop; whatever still runs on it is given up."""
        self._is_ending = True
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()

    def _run(self) -> None:
        # To the last on this thread: the one that stops it may have a running loop of its own.
        while not self._is_ending:  # a handler of a worker on this loop may stop it, which nobody else has asked for
            self.loop.run_forever()
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.close()


def run_on(loop: asyncio.AbstractEventLoop, verb: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run an async verb on a loop in another thread and wait for it here."""
    if running_loop() is loop:
        message = "blocking verbs would stop the event loop they wait for; inside it, use `await` and the app itself"
        raise ConfigError(message)
    if loop.is_closed():
        message = "the event loop that the app was opened in is closed; open the app again"
        raise NotOpen(message)
    future = asyncio.run_coroutine_threadsafe(verb(), loop)
    try:
        return future.result()
    except BaseException:
        future.cancel()  # Ctrl-C ends the wait here and the verb there; a finished one is not touched by this
        raise


def running_loop() -> asyncio.AbstractEventLoop | None:
    """The event loop that runs in this thread, if one does."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def follow(loop: asyncio.AbstractEventLoop, events: AsyncIterator[T]) -> Iterator[T]:
    """Go through values that come on a loop in another thread."""

    async def following() -> T | None:
        return await anext(events, None)

    async def leaving() -> None:
        if isinstance(events, AsyncGenerator):
            await events.aclose()

    try:
        while (event := run_on(loop, following)) is not None:
            yield event
    finally:
        run_on(loop, leaving)
