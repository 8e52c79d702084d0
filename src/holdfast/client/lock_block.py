"""One block that holds a lock: `async with`, or `with` where there is a thread of its own."""

import asyncio
import concurrent.futures
import threading
import uuid
import weakref
from collections.abc import Awaitable, Callable, Coroutine
from types import TracebackType
from typing import Any

from holdfast.client.lock_keeper import NOBODY, Held, LockKeeper, Whose
from holdfast.duration import Duration, milliseconds
from holdfast.errors import ConfigError, LockLost
from holdfast.lock import Lock

WaitFor = Callable[[Callable[[], Coroutine[Any, Any, Any]]], Any]

_contexts: "weakref.WeakKeyDictionary[asyncio.Task[Any] | threading.Thread, str]" = weakref.WeakKeyDictionary()
_drawing = threading.Lock()


class LockBlock:
    """A block; it can be entered again after it was left."""

    def __init__(
        self,
        keeper: Callable[[], Awaitable[LockKeeper]],
        name: str,
        timeout: Duration | None,
        *,
        whose: Whose = NOBODY,
        wait_for: WaitFor | None = None,
        is_stopped: Callable[[], bool] = bool,
    ) -> None:
        self._keeper = keeper
        self._name = name
        self._timeout_s = None if timeout is None else milliseconds(timeout, "timeout") / 1_000
        self._whose = whose
        self._wait_for = wait_for  # runs what is asked here on the event loop of the keeper
        self._is_stopped = is_stopped
        self._inside: tuple[LockKeeper, Held] | None = None
        self._cancelling = 0

    async def __aenter__(self) -> Lock:
        body = asyncio.current_task()
        if body is None:
            message = "a lock is taken inside a task of asyncio"
            raise ConfigError(message)
        self._cancelling = body.cancelling()
        return await self._enter(_context_of(body), body)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        locks, held = self._left()
        cancelled: asyncio.CancelledError | None = None
        try:
            await locks.release(held)
        except asyncio.CancelledError as late:  # the release goes on all the same
            cancelled = late
        if held.lock.is_lost:
            # As asyncio.timeout does it: what was cancelled here ends here, unless others cancel it too.
            is_ours = held.body is not None and held.body.uncancel() <= self._cancelling
            if is_ours and isinstance(error or cancelled, asyncio.CancelledError):
                raise LockLost(self._lost) from error
            if error is None and cancelled is None:
                raise LockLost(self._lost)
        if cancelled is not None:
            raise cancelled

    # ---- in a thread -----------------------------------------------------------------------------------------------

    def __enter__(self) -> Lock:
        context = _context_of(threading.current_thread())
        lock: Lock = self._waited(lambda: self._enter(context, None))
        return lock

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        locks, held = self._left()
        self._waited(lambda: locks.release(held))
        if held.lock.is_lost and error is None:
            raise LockLost(self._lost)

    def _waited(self, verb: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        if self._wait_for is None:
            message = "a lock is taken by `async with` here; `with` is for handlers in threads and for app.blocking()"
            raise ConfigError(message)
        try:
            return self._wait_for(verb)
        except concurrent.futures.CancelledError:  # what a coroutine would meet has another name in a thread
            raise asyncio.CancelledError from None

    # ---- both ------------------------------------------------------------------------------------------------------

    async def _enter(self, context: str, body: "asyncio.Task[Any] | None") -> Lock:
        if self._inside is not None:
            message = f"lock {self._name}: this block is entered already; call lock(...) anew for each block"
            raise ConfigError(message)
        locks = await self._keeper()
        # A task is cancelled when it should stop, and may want a lock to tidy up after that; a thread has to look.
        is_stopped = self._is_stopped if body is None else bool
        held = await locks.take(
            self._name, self._whose, context, body=body, timeout_s=self._timeout_s, is_stopped=is_stopped
        )
        self._inside = locks, held
        return held.lock

    def _left(self) -> tuple[LockKeeper, Held]:
        if self._inside is None:
            message = f"lock {self._name}: the block was left twice"
            raise ConfigError(message)
        inside, self._inside = self._inside, None
        return inside

    @property
    def _lost(self) -> str:
        return (
            f"lock {self._name}: it could not be kept while its body ran, because the store was away or this process"
            " stood still; others may have held it since. Pass the token of the lock to whatever must not be harmed"
        )


def _context_of(runner: "asyncio.Task[Any] | threading.Thread") -> str:
    """Name a task or thread: each waits for one lock at a time, so that cycles can be found."""
    with _drawing:
        return _contexts.setdefault(runner, uuid.uuid4().hex)
