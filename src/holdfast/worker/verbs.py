"""What the context of a running handler can do, in the process that runs the worker."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol, TypeVar

from holdfast.context import LockBlock, TransactionBlock
from holdfast.duration import Duration
from holdfast.journal import Entry
from holdfast.policies.allowance import Allowance
from holdfast.policies.money import Amount
from holdfast.worker.run import Run

T = TypeVar("T")


class Spoken(Protocol):
    """Who does what a context asks for."""

    def reported(self, run: Run) -> None:
        """Let what a handler said be stored soon."""

    def kept(self, run: Run) -> Awaitable[None]:
        """Let what a handler said be stored now."""

    def transaction(self, run: Run) -> TransactionBlock:
        """Open the transaction in which a job completes."""

    def lock(self, run: Run, name: str, timeout: Duration | None) -> LockBlock:
        """Hold a lock for a job."""

    def spend(self, run: Run, amount: Amount, note: str | None) -> Awaitable[None]:
        """Write down what a handler has spent."""

    def vanished(self, run: Run) -> None:
        """The process of a handler is gone: let go of the locks it held."""


class Verbs:
    """The verbs of one run; they may be called from its own thread."""

    def __init__(self, run: Run, spoken: Spoken, in_thread: Callable[[Callable[[], Any]], Awaitable[Any]]) -> None:
        self._run = run
        self._spoken = spoken
        self._in_thread = in_thread
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()

    @property
    def cancelled(self) -> bool:
        """Whether the handler should stop."""
        return self._run.why is not None

    def note(self, entry: Entry) -> None:
        """Keep what is said until it is stored."""
        if threading.get_ident() == self._thread:
            self._note(entry)
        else:
            self._loop.call_soon_threadsafe(self._note, entry)

    def _note(self, entry: Entry) -> None:
        self._run.say(entry)
        self._spoken.reported(self._run)

    async def keep(self, entry: Entry) -> None:
        """Store it now, with everything that was said before."""
        self._run.say(entry)
        await self._spoken.kept(self._run)

    def wait_for(self, verb: Coroutine[Any, Any, T]) -> T:
        """Run a verb on the event loop of the worker, for a handler in a thread."""
        return asyncio.run_coroutine_threadsafe(verb, self._loop).result()

    async def in_thread(self, function: Callable[[], Any]) -> Any:
        """Run a function in a thread."""
        return await self._in_thread(function)

    def transaction(self) -> TransactionBlock:
        """Open the transaction in which the job completes."""
        return self._spoken.transaction(self._run)

    def lock(self, name: str, timeout: Duration | None) -> LockBlock:
        """Hold a lock for the job."""
        return self._spoken.lock(self._run, name, timeout)

    @property
    def allowance(self) -> Allowance | None:
        """How far the budget of the job has come."""
        return self._run.allowance

    async def spend(self, amount: Amount, note: str | None) -> None:
        """Write down what the job has spent."""
        await self._spoken.spend(self._run, amount, note)
