"""What a running handler is given, when its first parameter asks for it."""

import asyncio
import logging
import sys
import time
import traceback
from collections.abc import Awaitable, Callable, Collection, Coroutine, Generator, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from contextvars import ContextVar
from datetime import datetime
from typing import Any, Generic, Protocol

from typing_extensions import TypeVar

from holdfast import failure
from holdfast.duration import Duration
from holdfast.errors import ConfigError
from holdfast.items import Items
from holdfast.job import JobRow
from holdfast.journal import Entry
from holdfast.lock import Lock, Part, name_of
from holdfast.phasing import PhaseBlock, Phasing, Voice, checked_percent
from holdfast.policies.allowance import Allowance
from holdfast.policies.money import USD, Amount, Written, read_amount
from holdfast.resources import job_rows
from holdfast.resources.job import Job

# Not Any: with that a type checker could not tell the forms of @app.task apart, and would check no argument.
State = TypeVar("State", default=object)
T = TypeVar("T")

_logger = logging.getLogger("holdfast.job")

running_job: ContextVar[int | None] = ContextVar("holdfast_running_job", default=None)
"""The job whose handler runs here: what is enqueued meanwhile names it as its parent."""


class Transaction(Protocol):
    """What `ctx.transaction()` gives inside the block: effect and completion commit together."""

    result: Any
    """What the job's result shall be; None unless it is set."""

    @property
    def connection(self) -> Any:
        """The connection for the effect: of asyncpg, or of sqlite3."""


class TransactionBlock(AbstractAsyncContextManager[Transaction], AbstractContextManager[Transaction], Protocol):
    """`async with` in an async handler, `with` in one that runs in a thread."""


class LockBlock(AbstractAsyncContextManager[Lock], AbstractContextManager[Lock], Protocol):
    """`async with` in an async handler, `with` in one that runs in a thread."""


class Running(Voice, Protocol):
    """What a context needs from the worker that runs its job."""

    @property
    def cancelled(self) -> bool:
        """Whether the handler should stop."""

    def transaction(self) -> TransactionBlock:
        """Open the transaction in which the job, or its open phase, completes."""

    def lock(self, name: str, timeout: Duration | None) -> LockBlock:
        """Hold a lock for the job."""

    @property
    def allowance(self) -> Allowance | None:
        """How far the budget of the job has come, if it has one."""

    async def spend(self, amount: Amount, note: str | None) -> None:
        """Write down what the job has spent."""


class _Nobody:
    """Stands for the worker where there is none: what is said is not stored."""

    cancelled = False
    allowance = None

    async def spend(self, amount: Amount, note: str | None) -> None:
        """Forget it."""

    def note(self, entry: Entry) -> None:
        """Forget it."""

    async def keep(self, entry: Entry) -> None:
        """Forget it."""

    def wait_for(self, verb: Coroutine[Any, Any, T]) -> T:
        """Run it on an event loop of its own."""
        return asyncio.run(verb)

    async def in_thread(self, function: Callable[[], Any]) -> Any:
        """Run it in a thread of the event loop."""
        return await asyncio.to_thread(function)

    def transaction(self) -> TransactionBlock:
        """Say that there is none."""
        message = "ctx.transaction() needs a job that runs in a worker; this context belongs to none"
        raise ConfigError(message)

    def lock(self, name: str, _timeout: Duration | None) -> LockBlock:
        """Say that nobody could keep it."""
        message = f"ctx.lock({name}) needs a job that runs in a worker; outside of one use app.lock()"
        raise ConfigError(message)


class _JobLog(logging.LoggerAdapter[logging.Logger]):
    """Says which job a record is about, keeps the line with the job, and covers the secrets among its arguments."""

    def __init__(
        self,
        about: dict[str, Any],
        keep: Callable[[int, str], None] | None,
        secrets: Callable[[], Collection[str]],
    ) -> None:
        super().__init__(_logger, about)
        self._keep = keep
        self._secrets = secrets

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        """Log a line."""
        if self._keep is not None and level >= logging.INFO:
            self._keep(level, _said(level, msg, args))
        if self.isEnabledFor(level) and (secrets := self._secrets()):
            msg, args = failure.hidden(_with_trace(level, msg, args, kwargs), secrets), ()  # guard: log-secrets
        super().log(level, msg, *args, **kwargs)


def _with_trace(level: int, msg: object, args: tuple[object, ...], kwargs: dict[str, Any]) -> str:
    """Put a line together with the traceback that belongs to it, which a formatter would add uncovered."""
    text = _said(level, msg, args)
    asked = kwargs.pop("exc_info", None)
    error = asked if isinstance(asked, BaseException) else sys.exc_info()[1] if asked else None
    return text if error is None else "\n".join([text, *traceback.format_exception(error)]).rstrip()


def _said(level: int, msg: object, args: tuple[object, ...]) -> str:
    """Put a line together as logging does it; arguments that do not fit their text hurt nobody."""
    try:
        return logging.LogRecord(_logger.name, level, "", 0, msg, args, None).getMessage()
    except Exception:  # noqa: BLE001 - whatever str() or % raise
        return failure.clean(f"{msg!r} {args!r}", failure.MESSAGE_BYTES)


class Context(Generic[State]):
    """The job that a handler works on; a first parameter annotated `Context` is not one of the arguments.

    `state` is what the app's `lifespan` yielded in this process; `Context[MyState]` gives it a type.
    """

    __slots__ = ("_breathed_at", "_job", "_keep_line", "_log", "_row", "_running", "phasing", "state")

    def __init__(
        self,
        row: JobRow,
        *,
        state: State | None = None,
        running: Running | None = None,
        phasing: Phasing | None = None,
        keep_line: Callable[[int, str], None] | None = None,
    ) -> None:
        self._row = row
        self._job: Job | None = None
        # What the lifespan yields is of the type that the handler names; nothing at run time could check it.
        self.state: State = state  # type: ignore[assignment] # see above
        self._log: _JobLog | None = None
        self._running: Running = _Nobody() if running is None else running
        self._keep_line = keep_line
        self._breathed_at = time.monotonic()
        self.phasing = Phasing(row, self._running) if phasing is None else phasing

    def __repr__(self) -> str:
        return f"<Context of job {self._row.public_id} ({self._row.kind}), claim {self._row.claim}>"

    @property
    def job(self) -> Job:
        """The job as it was claimed."""
        if self._job is None:
            self._job = job_rows.job(self._row)
        return self._job

    @property
    def log(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger whose records say which job they are about; its lines from INFO on are kept with the job."""
        if self._log is None:
            about = {"job": self._row.public_id, "kind": self._row.kind, "attempt": self._row.attempt}
            self._log = _JobLog(about, self._keep_line, self.phasing.secrets)
        return self._log

    @property
    def fire_time(self) -> datetime | None:
        """The nominal time of the schedule that made the job, whenever it runs; None for any other job."""
        return self._row.fire_time

    @property
    def cancelled(self) -> bool:
        """Whether the handler should stop: it was cancelled, timed out, lost its claim, or the worker leaves.

        An async handler is told by CancelledError as well; one that runs in a thread has to look here, or to `check`.
        """
        return self._running.cancelled

    def check(self) -> None:
        """Stop here if the handler should stop: raises CancelledError, as an await does in an async handler."""
        if self.cancelled:
            raise asyncio.CancelledError

    def progress(self, percent: float | None = None, message: str | None = None, **data: Any) -> Awaitable[None]:
        """Report how far the handler is: `await` it in an async handler, just call it in a thread.

        Inside a phase it is the phase that is so far, and the whole job by the phase's weight. Many reports in a short
        time become one write; the last one is always stored before its phase and its job end.
        """
        checked_percent(percent)
        self.phasing.progress(percent, message, data)
        now = time.monotonic()
        if now - self._breathed_at < _BREATH_S:
            return _NO_BREATH
        self._breathed_at = now
        return _BREATH

    def transaction(self) -> TransactionBlock:
        """Let an effect and the end of the job commit together.

            async with ctx.transaction() as tx:
                await tx.connection.execute("INSERT ...")
                tx.result = 42

        Leaving the block completes the job, or in a phase that is not the last that phase; what follows it still runs,
        but can change nothing any more.
        """
        return self._running.transaction()

    def lock(self, *parts: Part, timeout: Duration | None = None) -> LockBlock:
        """Hold a lock that everybody who uses this store respects, while the block runs: `with` in a thread.

            async with ctx.lock("edition", 42) as lock:
                await cdn.put(page, token=lock.token)

        The wait has no limit but the job's timeout, unless `timeout` is given. Take it outside of `ctx.transaction()`.
        """
        return self._running.lock(name_of(parts), timeout)

    # ---- money -----------------------------------------------------------------------------------------------------

    def spend(self, amount: Written, unit: str = USD, *, note: str | None = None) -> Awaitable[None]:
        """Report what the job has just spent: `await` it in an async handler, just call it in a thread.

            await ctx.spend(0.004, "usd")

        It is on disk when this returns, in the ledger and in the sum of the job's budget, and it is never refused: not
        above the estimate, not above the ceiling, and not from a worker that has lost the job meanwhile. A unit that is
        not the budget's is written down and counts for none.
        """
        reported = self._running.spend(read_amount(amount, unit), note)
        try:
            asyncio.get_running_loop()
        except RuntimeError:  # in a thread
            self._running.wait_for(reported)
            return _NO_BREATH
        return asyncio.shield(reported)  # which writes it even if nobody awaits it, or the handler is cancelled

    @property
    def budget(self) -> Allowance | None:
        """How far the job's budget has come, as of its last reservation or spend; None without one."""
        return self._running.allowance

    # ---- phases ----------------------------------------------------------------------------------------------------

    def phase(self, name: str) -> PhaseBlock:
        """Make a named part of a function task, with progress and a result of its own.

            async with ctx.phase("download") as phase:
                if not phase.is_completed:          # by an earlier attempt
                    phase.result = await download(url)

        The result is stored the moment the block is left, and survives retries and restarts.
        """
        return self.phasing.phase(name)

    async def step(self, name: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call a function once per job: what it returned is stored, and a later attempt gets that instead.

        Gives plain JSON values, the first time as well. Steps may run side by side.
        """
        return await self.phasing.step(name, function, args, kwargs)

    def items(self, name: str, keys: Iterable[str], *, concurrency: int = 8, word: str = "slug") -> Items:
        """Work through many things side by side, each ending completed, skipped (`raise Skip(...)`) or failed.

            async with ctx.items("editions", slugs, concurrency=8) as items:
                await items.each(update)

        One that fails stops no other: the job then ends `completed_with_errors`. A later attempt leaves out those that
        ended well. Readers of the job see `editions_total`, `editions_completed`, `editions_failed` and so on, where
        `word` is the name of the key of one item.
        """
        return Items(self.phasing, name, keys, concurrency=concurrency, word=word)

    @property
    def results(self) -> Mapping[str, Any]:
        """What the completed phases returned, by name, as plain JSON values; also those of earlier attempts."""
        return self.phasing.results

    def result(self, phase: str) -> Any:
        """What an earlier phase returned, in this attempt or in one before, as plain JSON values."""
        try:
            return self.results[phase]
        except KeyError:
            message = f"phase {phase!r} has no result yet; those that have: {', '.join(self.results) or 'none'}"
            raise LookupError(message) from None


class _Breath:
    """Something to await: it lets others run, and lets a cancellation arrive."""

    __slots__ = ()

    def __await__(self) -> Generator[None, None, None]:
        yield


class _NoBreath:
    """Something to await that goes on at once: others have run a moment ago."""

    __slots__ = ()

    def __await__(self) -> Generator[None, None, None]:
        yield from ()


_BREATH_S = 0.001
_BREATH, _NO_BREATH = _Breath(), _NoBreath()

Handler = Callable[[], Awaitable[Any]]
Around = Callable[[Context[Any], Handler], Awaitable[Any]]
