"""Where a handler's effect and the end of its claim become one commit, on SQLite.

Whoever writes excludes all others, so the body has a budget. In a file it runs on a connection of its own; a database
in memory has only that of the writer, which lends it and serves nobody else meanwhile.
"""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from holdfast import moments
from holdfast.errors import ConfigError, OutcomeUnknown, StoreUnavailable, TransactionTooLong
from holdfast.stores.sqlite import errors
from holdfast.stores.sqlite.connection import Connection
from holdfast.stores.sqlite.lending import Lent
from holdfast.stores.sqlite.loan import Loan, RolledBack
from holdfast.stores.sqlite.work import finish_claims, keep_report
from holdfast.stores.values import Finish, ProgressReport, Verdict
from holdfast.transitions import Transition

T = TypeVar("T")


class SqliteTransactions:
    """The verb of `TransactionStore`."""

    connection: Connection

    @asynccontextmanager
    async def transaction(self, budget_s: float) -> AsyncIterator["SqliteTransaction"]:
        loan = Loan(self.connection.path, budget_s)
        transaction = await SqliteTransaction.begin(self.connection, loan)
        try:
            yield transaction
        except BaseException as error:
            too_long = await transaction.roll_back()
            if too_long is not None and isinstance(error, sqlite3.Error):  # what taking the connection back looks like
                raise too_long from error
            raise
        await transaction.leave()


class SqliteTransaction:
    """One transaction of a handler."""

    def __init__(self, connection: Connection, loan: Loan, lent: Lent, ended: "asyncio.Future[None]") -> None:
        self.connection = lent
        self._path = connection.path
        self._deadline = connection.deadline
        self._loan = loan
        self._ended = ended
        self._is_finished = False
        self._is_accepted = False

    @classmethod
    async def begin(cls, connection: Connection, loan: Loan) -> "SqliteTransaction":
        """Wait for the turn and the connection; whoever stops waiting leaves no lock behind."""
        moments.reach("before_store_call")
        ended = connection.lend(loan)
        lent = asyncio.wrap_future(loan.lent)
        waited_for: set[asyncio.Future[Any]] = {lent, ended}
        try:
            await asyncio.wait(waited_for, timeout=connection.deadline, return_when=asyncio.FIRST_COMPLETED)
        except BaseException:
            loan.abandon()
            raise
        if lent.done():
            moments.reach("after_store_call")
            return cls(connection, loan, lent.result(), ended)
        loan.abandon()
        if ended.done():
            ended.result()
        message = f"the SQLite store {connection.path} had no turn for a transaction within {connection.deadline:g} s: "
        message += "nothing was changed; another program may hold it"
        raise StoreUnavailable(message)

    async def finish(self, transition: Transition, report: ProgressReport | None = None) -> Finish:
        def end(lent: Lent) -> Finish:
            if report is not None:  # a claim that is lost is found out by what follows
                keep_report(lent, lent.clock.read(lent), report)
            (finish,) = finish_claims(lent, lent.clock.read(lent), [transition])
            return finish

        finish = await self._last(end)
        self._is_accepted = finish.verdict is Verdict.DONE
        return finish

    async def report(self, report: ProgressReport) -> Verdict:
        verdict = await self._last(lambda lent: keep_report(lent, lent.clock.read(lent), report))
        self._is_accepted = verdict is Verdict.DONE
        return verdict

    async def _last(self, statement: Callable[[Lent], T]) -> T:
        """Run what is the last before the commit, on the lender's thread."""
        if self._is_finished:
            message = "the transaction has ended its claim already: finish it once, as the last statement"
            raise ConfigError(message)
        self._is_finished = True
        moments.reach("before_store_call")
        answer = asyncio.wrap_future(self._loan.order(lambda lent: self._checked(lent, statement)))
        await asyncio.wait({answer, self._ended}, timeout=self._deadline, return_when=asyncio.FIRST_COMPLETED)
        if not answer.done():
            if self._ended.done():
                self._ended.result()
            message = f"the SQLite store {self._path} did not answer within {self._deadline:g} s: "
            message += "the transaction is rolled back"
            raise StoreUnavailable(message)
        result: T = answer.result()
        moments.reach("after_store_call")
        return result

    async def leave(self) -> None:
        """Commit if the end of the claim was accepted, else roll back."""
        if not self._is_accepted:
            too_long = await self.roll_back()
            if too_long is not None:
                raise too_long
            return
        moments.reach("before_store_call")
        await self._end_loan(is_kept=True)
        moments.reach("after_store_call")
        if not self._ended.done():
            message = f"the SQLite store {self._path} did not answer within {self._deadline:g} s: "
            message += "the commit may have happened"
            raise OutcomeUnknown(message)
        self._ended.result()

    async def roll_back(self) -> TransactionTooLong | None:
        """Roll back; tells if that had happened before, because the budget was spent."""
        await self._end_loan(is_kept=False)
        error = self._ended.exception() if self._ended.done() else None
        if error is None or isinstance(error, RolledBack):
            return None
        if isinstance(error, TransactionTooLong):
            return error
        raise error

    async def _end_loan(self, *, is_kept: bool) -> None:
        self._loan.leave(is_kept=is_kept)
        await asyncio.wait({self._ended}, timeout=self._deadline)

    def _checked(self, lent: Lent, statement: Callable[[Lent], T]) -> T:
        """On the lender's thread: say the last word, after which the body has nothing more to say."""
        lent.guard.take_back(ConfigError("the transaction has ended its claim: use its connection before that"))
        if not lent.in_transaction:
            message = f"the SQLite store {self._path} rolled the transaction back after an earlier error of its body: "
            message += "let that error leave the block; nothing was changed"
            raise StoreUnavailable(message)
        try:
            return statement(lent)
        except Exception as error:
            said: Any = errors.translated(error, self._path)
            raise said from error
