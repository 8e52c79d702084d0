"""`ctx.transaction()`: the effect of a handler and the end of its job as one commit."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, Self, TypeVar

from holdfast import payload
from holdfast import transitions as ends
from holdfast.config import Settings
from holdfast.errors import ArgumentError, ClaimLost, ConfigError, OutcomeUnknown
from holdfast.journal import Entry, Journal
from holdfast.locations import PostgresLocation
from holdfast.outcomes import Fatal
from holdfast.phasing import OpenPhase
from holdfast.stores.store import StoreTransaction, TransactionStore
from holdfast.stores.values import Verdict
from holdfast.transitions import Transition
from holdfast.worker.reporter import report_of
from holdfast.worker.run import Run, Why

T = TypeVar("T")


class Block:
    """One transaction of one run; `with` works where the handler has a thread of its own."""

    def __init__(self, run: Run, store: Callable[[], Awaitable[TransactionStore]], settings: Settings) -> None:
        self.result: Any = None
        self._run = run
        self._store = store
        self._settings = settings
        self._manager: AbstractAsyncContextManager[StoreTransaction] | None = None
        self._transaction: StoreTransaction | None = None

    @property
    def connection(self) -> Any:
        """The connection for the effect."""
        if self._transaction is None:
            message = "the transaction is not open: use its connection inside `async with ctx.transaction() as tx:`"
            raise ConfigError(message)
        return self._transaction.connection

    async def __aenter__(self) -> Self:
        opened = self._phase()
        if self._run.is_committing or self._run.is_committed or (opened is not None and opened.is_kept):
            message = "a job or phase has one transaction: it was completed by an earlier `ctx.transaction()`"
            raise ConfigError(message)
        self._run.is_committing = True  # before anything is waited for, or two at once would both come this far
        try:
            await self._say_before()
            self._manager = (await self._store()).transaction(self._settings.worker.transaction_budget_s)
            self._transaction = await self._manager.__aenter__()
        except BaseException:
            self._run.is_committing = False
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is not None:
                await self._leave(error)
                return
            opened = self._phase()
            await self._complete()
            if opened is None:
                self._run.is_committed = True
            else:
                opened.is_kept, opened.result = True, self.result
        finally:
            self._transaction = None
            self._run.is_committing = False

    async def _complete(self) -> None:
        if self._transaction is None:
            message = "the transaction was left twice"
            raise ConfigError(message)
        try:
            verdict = await self._last_word(self._transaction)
        except BaseException as error:
            await self._leave(error)
            if isinstance(error, ArgumentError):
                raise Fatal(str(error)) from error
            raise
        if verdict is not Verdict.DONE:
            message = f"job {self._run.job.public_id} was taken from this worker: the transaction was rolled back"
            lost = ClaimLost(message)
            await self._leave(lost)
            self._run.stop(Why.LOST)  # last, for it cancels the very task that has just rolled back
            raise lost
        try:
            await self._leave(None)
        except OutcomeUnknown:
            # The claim is given back: if the commit went through, the fence refuses that, and the job stays completed.
            self._run.why = Why.IN_DOUBT
            raise

    async def _say_before(self) -> None:
        """Store what was said so far: once the transaction is open, an older word could come after its end."""
        phasing = self._run.phasing
        if self._run.has_news or (phasing is not None and phasing.open is not None):
            await self._run.context.phasing.voice.keep(Entry())

    def _phase(self) -> OpenPhase | None:
        """The phase that the transaction completes; None when it completes the job."""
        phasing = self._run.phasing
        if phasing is None or phasing.open is None or phasing.is_last(phasing.open):
            return None
        return phasing.open

    async def _last_word(self, transaction: StoreTransaction) -> Verdict:
        """End the phase or the claim, with everything that was said, as the last statement before the commit."""
        opened, phasing = self._phase(), self._run.phasing
        said = self._said()
        try:
            if opened is not None and phasing is not None:
                said.add(phasing.completion(opened, self.result))
                return await transaction.report(report_of(self._run, said))
            if phasing is not None and phasing.open is not None:
                said.add(phasing.completion(phasing.open, self.result))
            report = None if said.is_empty else report_of(self._run, said)
            return (await transaction.finish(self._completed(), report)).verdict
        except BaseException:
            if self._run.journal is not None:
                self._run.journal.put_back(said)
            raise

    def _said(self) -> Journal:
        """Take what the handler said and the store does not know yet: nothing of it may come after the end."""
        return Journal() if self._run.journal is None else self._run.journal.take()

    def _completed(self) -> Transition:
        limits = {"most_bytes": self._settings.max_args_bytes, "most_depth": self._settings.max_depth}
        what = f"the result of {self._run.job.kind}"
        result = None if self.result is None else payload.encode(self.result, what, **limits)
        phasing, ago = self._run.phasing, self._run.started_ago_ms
        with_errors = phasing is not None and phasing.has_failed_items
        return ends.completed(*self._run.key, result, with_errors=with_errors, started_ago_ms=ago)

    async def _leave(self, error: BaseException | None) -> None:
        if self._manager is not None:
            manager, self._manager = self._manager, None
            await manager.__aexit__(None if error is None else type(error), error, None)

    # ---- in a thread -----------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        if isinstance(self._settings.location, PostgresLocation):
            message = "ctx.transaction() on PostgreSQL gives an asyncpg connection, which a thread cannot use; write"
            message += " the task as `async def`"
            raise ConfigError(message)
        return self._wait_for(self.__aenter__())

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._wait_for(self.__aexit__(kind, error, trace))

    def _wait_for(self, verb: Coroutine[Any, Any, T]) -> T:
        if self._run.handler is None:
            message = "the job does not run"
            raise ConfigError(message)
        return asyncio.run_coroutine_threadsafe(verb, self._run.handler.get_loop()).result()
