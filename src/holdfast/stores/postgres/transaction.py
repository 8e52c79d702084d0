"""Where a handler's effect and the end of its claim become one commit, on PostgreSQL.

Nothing of the job is locked before the body has ended: the end of the claim is the last statement. Until COMMIT is sent
nothing can have happened, and every trouble means `StoreUnavailable`; from then on a lost link means `OutcomeUnknown`.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import msgspec

from holdfast import moments
from holdfast.errors import ConfigError, DataRefused, OutcomeUnknown, StoreError, StoreUnavailable
from holdfast.locations import masked
from holdfast.stores.postgres.connection import Pooled, reason_of, refused
from holdfast.stores.postgres.lending import LendingPool
from holdfast.stores.postgres.role import Role, lacks_partition
from holdfast.stores.postgres.work import read_verdict, transition_columns
from holdfast.stores.values import Finish, ProgressReport, Verdict
from holdfast.transitions import Transition

_ABORTED = "25P02"
_ROLLED_BACK = {"40001", "40P01"}
_LINK_ERRORS = (OSError, asyncpg.InterfaceError, asyncpg.InternalClientError)  # a timeout is an OSError


class PostgresTransactions(Role):
    """The verb of `TransactionStore`."""

    lending: LendingPool

    @asynccontextmanager
    async def transaction(self, budget_s: float) -> AsyncIterator["PostgresTransaction"]:
        del budget_s  # for stores whose writers exclude each other: here nobody waits for a long body
        loan = await self.lending.lend()
        is_idle = False
        try:
            transaction = PostgresTransaction(self, loan.connection)
            await transaction.begin()
            try:
                yield transaction
            except Exception:
                is_idle = await transaction.roll_back()
                raise
            is_idle = await transaction.leave()
        finally:
            # A cancelled body may have a statement under way: its session is ended, which rolls back too.
            await self.lending.give_back(loan, is_idle=is_idle)


class PostgresTransaction:
    """One transaction of a handler."""

    def __init__(self, store: PostgresTransactions, connection: Pooled) -> None:
        self.connection = connection
        self._store = store
        self._where = masked(store.pool.dsn)
        # Of asyncpg and not by hand, so that its `connection.transaction()` makes savepoints in the body.
        self._transaction = connection.transaction(isolation="read_committed")
        self._verdict: Verdict | None = None

    async def begin(self) -> None:
        """Open the transaction."""
        async with self._step("before it began"):
            await self._transaction.start()

    async def finish(self, transition: Transition, report: ProgressReport | None = None) -> Finish:
        if report is not None:  # a claim that is lost is found out by the next statement
            await self._last_statement("report_in_transaction", *msgspec.structs.astuple(report))
        columns = (column[0] if column else None for column in transition_columns([transition]))
        finish = read_verdict(await self._last_statement("finish_in_transaction", *columns))
        self._verdict = finish.verdict
        return finish

    async def report(self, report: ProgressReport) -> Verdict:
        is_ours = await self._last_statement("report_in_transaction", *msgspec.structs.astuple(report))
        self._verdict = Verdict.DONE if is_ours else Verdict.LOST
        return self._verdict

    async def _last_statement(self, query: str, *args: object) -> Any:
        self._require_open()
        try:
            async with self._step("before the commit"):
                return await self.connection.fetchval(self._store.queries[query], *args)
        except DataRefused as error:
            if not lacks_partition(error):
                raise
            # The weeks ahead were not made in time. A failed statement has ended the transaction, so it is run anew.
            await self._store.fetch("keep_partitions")
            message = f"{self._where} lacked a week of history, which is made now; the transaction was rolled back: "
            message += "run it again"
            raise StoreUnavailable(message) from error

    async def leave(self) -> bool:
        """Commit if the end of the claim was accepted, else roll back; tells whether the session is idle again."""
        if self._verdict is not Verdict.DONE:
            return await self.roll_back()
        await self._commit()
        return True

    async def roll_back(self) -> bool:
        """Roll back; tells whether the session is idle again, for one that is not has to be dropped."""
        try:
            if self.connection.is_closed() or not self.connection.is_in_transaction():
                return False
            async with asyncio.timeout(self._store.pool.deadline):
                await self._transaction.rollback()
        except (*_LINK_ERRORS, asyncpg.PostgresError):
            return False
        return True

    async def _commit(self) -> None:
        session: Any = self.connection
        try:
            async with asyncio.timeout(self._store.pool.deadline):
                moments.reach("before_store_call")
                await self._transaction.commit()
                moments.reach("after_store_call")
        except _LINK_ERRORS as error:
            reason = reason_of(error, f"no answer within {self._store.pool.deadline:g} s")
            message = f"the link to {self._where} broke during the commit: {reason}; it may have happened"
            raise OutcomeUnknown(message) from error
        except asyncpg.PostgresError as error:
            raise self._refused(error) from error
        if session.last_status != "COMMIT":  # the server says ROLLBACK, and no error, after a failed statement
            raise StoreError(self._aborted())

    def _require_open(self) -> None:
        if self._verdict is not None:
            message = "the transaction has ended its claim already: finish it once, as the last statement"
            raise ConfigError(message)
        try:
            is_open = (
                self.connection.is_in_transaction() or self.connection.is_closed()
            )  # the latter is found out later
        except asyncpg.InterfaceError as error:  # the pool has let go of it already
            message = f"the link to {self._where} broke before the commit: nothing was changed"
            raise StoreUnavailable(message) from error
        if not is_open:
            message = "the transaction was ended inside its block: expected no COMMIT and no ROLLBACK there, leaving "
            message += "the block ends it; the claim was not ended with it"
            raise ConfigError(message)

    @asynccontextmanager
    async def _step(self, when: str) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(self._store.pool.deadline):
                moments.reach("before_store_call")
                yield
                moments.reach("after_store_call")
        except _LINK_ERRORS as error:
            reason = reason_of(error, f"no answer within {self._store.pool.deadline:g} s")
            message = f"the transaction on {self._where} ended {when}: {reason}; nothing was changed"
            raise StoreUnavailable(message) from error
        except asyncpg.PostgresError as error:
            said = self._refused(error)
            if isinstance(said, OutcomeUnknown):
                message = f"the transaction on {self._where} ended {when}: {error}; nothing was changed"
                raise StoreUnavailable(message) from error
            raise said from error

    def _refused(self, error: asyncpg.PostgresError) -> Exception:
        if error.sqlstate == _ABORTED:
            return StoreError(self._aborted())
        if error.sqlstate in _ROLLED_BACK:
            return StoreUnavailable(f"{self._where} rolled the transaction back: {error}; run it again")
        return refused(error, self._store.pool.dsn)

    def _aborted(self) -> str:
        return (
            f"the transaction on {self._where} was rolled back, because an earlier statement of its body failed: let "
            "that error leave the block, or run the statement inside `async with connection.transaction()`"
        )
