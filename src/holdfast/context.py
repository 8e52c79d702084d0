"""What a running handler is given, when its first parameter asks for it."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, Generic, Protocol

from typing_extensions import TypeVar

from holdfast.errors import ConfigError, InvalidValue
from holdfast.job import Job

# Not Any: with that a type checker could not tell the forms of @app.task apart, and would check no argument.
State = TypeVar("State", default=object)

_logger = logging.getLogger("holdfast.job")


class Transaction(Protocol):
    """What `ctx.transaction()` gives inside the block: effect and completion commit together."""

    result: Any
    """What the job's result shall be; None unless it is set."""

    @property
    def connection(self) -> Any:
        """The connection for the effect: of asyncpg, or of sqlite3."""


class TransactionBlock(AbstractAsyncContextManager[Transaction], AbstractContextManager[Transaction], Protocol):
    """`async with` in an async handler, `with` in one that runs in a thread."""


class Running(Protocol):
    """What a context needs from the worker that runs its job."""

    @property
    def cancelled(self) -> bool:
        """Whether the handler should stop."""

    def report(self, percent: float | None, message: str | None, data: Mapping[str, Any]) -> None:
        """Take a report; it is stored soon, the last one of many."""

    def transaction(self) -> TransactionBlock:
        """Open the transaction in which the job completes."""


class Context(Generic[State]):
    """The job that a handler works on; a first parameter annotated `Context` is no part of the payload.

    `state` is what the app's `lifespan` yielded in this process; `Context[MyState]` gives it a type.
    """

    __slots__ = ("_log", "_results", "_running", "job", "state")

    def __init__(
        self,
        job: Job,
        *,
        state: State | None = None,
        running: Running | None = None,
        results: Mapping[str, Any] | None = None,
    ) -> None:
        self.job = job
        # What the lifespan yields is of the type that the handler names; nothing at run time could check it.
        self.state: State = state  # type: ignore[assignment] # see above
        self._log: logging.LoggerAdapter[logging.Logger] | None = None
        self._running = running
        self._results: Mapping[str, Any] = {} if results is None else results

    def __repr__(self) -> str:
        return f"<Context of job {self.job.public_id} ({self.job.kind}), claim {self.job.claim}>"

    @property
    def log(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger whose records say which job they are about."""
        if self._log is None:
            about = {"job": self.job.public_id, "kind": self.job.kind, "attempt": self.job.attempt}
            self._log = logging.LoggerAdapter(_logger, about)
        return self._log

    @property
    def cancelled(self) -> bool:
        """Whether the handler should stop: it was cancelled, timed out, lost its claim, or the worker leaves.

        An async handler is told by CancelledError as well; one that runs in a thread has to look here, or to `check`.
        """
        return self._running is not None and self._running.cancelled

    def check(self) -> None:
        """Stop here if the handler should stop: raises CancelledError, as an await does in an async handler."""
        if self.cancelled:
            raise asyncio.CancelledError

    def progress(self, percent: float | None = None, message: str | None = None, **data: Any) -> Awaitable[None]:
        """Report how far the handler is: `await` it in an async handler, just call it in a thread.

        Many reports in a short time become one write; the last one is always stored before the job ends.
        """
        if percent is not None and not (isinstance(percent, int | float) and 0 <= percent <= 100):  # noqa: PLR2004 - per cent
            problem = f"progress: expected a percentage from 0 to 100 or None, got {percent!r}"
            raise InvalidValue(problem)
        if self._running is not None:
            self._running.report(percent, message, data)
        return _Breath()

    def transaction(self) -> TransactionBlock:
        """Let an effect and the end of the job commit together.

            async with ctx.transaction() as tx:
                await tx.connection.execute("INSERT ...")
                tx.result = 42

        Leaving the block completes the job; what follows it still runs, but can change nothing any more.
        """
        if self._running is None:
            message = "ctx.transaction() needs a job that runs in a worker; this context belongs to none"
            raise ConfigError(message)
        return self._running.transaction()

    def result(self, phase: str) -> Any:
        """What an earlier phase of this run returned."""
        try:
            return self._results[phase]
        except KeyError:
            message = f"phase {phase!r} has no result yet; those that have: {', '.join(self._results) or 'none'}"
            raise LookupError(message) from None


class _Breath:
    """Something to await: it lets others run, and lets a cancellation arrive."""

    __slots__ = ()

    def __await__(self) -> Generator[None, None, None]:
        yield


Handler = Callable[[], Awaitable[Any]]
Around = Callable[[Context[Any], Handler], Awaitable[Any]]
