"""One transaction between two sides: the thread that lends a connection, and the task whose body borrows it.

The lender holds the turn of all writers, so it never waits longer than the budget: it looks after the time itself, on a
thread of its own, even while the body blocks the event loop.
"""

import contextlib
import ctypes
import queue
import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from typing import Any

from holdfast.errors import ConfigError, StoreUnavailable, TransactionTooLong
from holdfast.stores.sqlite import errors, lending
from holdfast.stores.sqlite.clock import StoreClock
from holdfast.stores.sqlite.lending import Lent
from holdfast.stores.sqlite.turnstile import FileTurnstile

Work = Callable[[Lent], Any]


class RolledBack(Exception):
    """Nothing of the transaction is kept, as its borrower wants it."""


class Loan:
    """What the two sides tell each other."""

    def __init__(self, path: str, budget_s: float) -> None:
        self.lent: Future[Lent] = Future()
        self.is_abandoned = False
        self._path = path
        self._budget_s = budget_s
        # The work and its answer; without work the block is left, and the answer says whether to commit.
        self._orders: queue.SimpleQueue[tuple[Work | None, Future[Any]]] = queue.SimpleQueue()

    # ---- the borrower ----------------------------------------------------------------------------------------------

    def order(self, work: Work) -> "Future[Any]":
        """Have something done by the lender; never answered if it has ended meanwhile."""
        answer: Future[Any] = Future()
        self._orders.put((work, answer))
        return answer

    def leave(self, *, is_kept: bool) -> None:
        """End the loan, with a commit or without."""
        answer: Future[Any] = Future()
        answer.set_result(is_kept)
        self._orders.put((None, answer))

    def abandon(self) -> None:
        """Take no loan, whether it is still waited for or has just been made."""
        self.is_abandoned = True
        self.leave(is_kept=False)

    # ---- the lender ------------------------------------------------------------------------------------------------

    def serve(self, lent: Lent) -> None:
        """Hand the connection over until the block is left or the budget is spent; raises if nothing is to be kept."""
        ends_at = time.monotonic() + self._budget_s
        lent.guard.hand_over()
        settle(self.lent, lent)
        try:
            self._follow_orders(lent, ends_at)
        except TransactionTooLong as error:
            lent.guard.take_back(error)
            raise
        finally:
            lent.guard.take_back(ConfigError("the transaction is over: use its connection inside its block only"))

    def _follow_orders(self, lent: Lent, ends_at: float) -> None:
        while True:
            try:
                work, answer = self._orders.get(timeout=max(0.0, ends_at - time.monotonic()))
            except queue.Empty:
                raise self._too_long() from None
            if work is not None:
                _carry_out(work, lent, answer)
            elif answer.result():
                return
            else:
                raise RolledBack

    def _too_long(self) -> TransactionTooLong:
        message = f"the transaction held the SQLite store {self._path} longer than its budget of {self._budget_s:g} s, "
        message += "in which nobody else can write, and was rolled back: do slow work, and whatever else asks the "
        message += "store, before the transaction"
        return TransactionTooLong(message)


class FileLender:
    """Lends a connection of its own to a file, under a turn of its own."""

    def __init__(self, path: str, synchronous: str, busy_s: float, clock: StoreClock) -> None:
        self._path = path
        self._synchronous = synchronous
        self._busy_s = busy_s
        self._clock = clock
        self._turnstile: FileTurnstile | None = None
        self._lent: Lent | None = None

    def start(self, loan: Loan) -> "Future[None]":
        """Lend on a thread of its own; the future tells how it ended."""
        ended: Future[None] = Future()

        def run() -> None:
            try:
                self._lend(loan)
            except OSError as error:
                settle(ended, StoreUnavailable(f"the lock file of the SQLite store {self._path}: {error}"))
            except BaseException as error:  # noqa: BLE001 - it belongs to the borrower
                settle(ended, errors.translated(error, self._path))
            else:
                settle(ended, None)

        # Not an executor's: those of asyncio are ended, and waited for, before the last transactions of a process.
        threading.Thread(target=run, name="holdfast-sqlite-transaction", daemon=True).start()
        return ended

    def disown(self) -> None:
        """In a forked child: never touch again what belongs to the parent."""
        if self._lent is not None:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._lent))
        if self._turnstile is not None:
            self._turnstile.close()

    def _lend(self, loan: Loan) -> None:
        # A file descriptor of its own: the lock belongs to that, and the writer of this process is a rival too.
        self._turnstile = turnstile = FileTurnstile(f"{self._path}-turn")
        try:
            with turnstile:
                if not loan.is_abandoned:
                    self._lend_in_turn(loan)
        finally:
            self._turnstile = None
            turnstile.close()

    def _lend_in_turn(self, loan: Loan) -> None:
        self._lent = lent = lending.lend_file(self._path, self._synchronous, self._busy_s, self._clock)
        try:
            lending.control(lent, "BEGIN IMMEDIATE")
            loan.serve(lent)
            try:
                lending.control(lent, "COMMIT")
            except sqlite3.Error as error:
                raise errors.translated_commit(error, self._path) from error
        finally:
            if lent.in_transaction:
                with contextlib.suppress(sqlite3.Error):
                    lending.control(lent, "ROLLBACK")
            lending.close(lent)
            self._lent = None


def settle(future: "Future[Any]", answer: Any) -> None:
    """Answer a future that its owner may have given up."""
    with contextlib.suppress(InvalidStateError):
        if isinstance(answer, BaseException):
            future.set_exception(answer)
        else:
            future.set_result(answer)


def _carry_out(work: Work, lent: Lent, answer: "Future[Any]") -> None:
    try:
        result = work(lent)
    except BaseException as error:  # noqa: BLE001 - it belongs to the borrower
        settle(answer, error)
    else:
        settle(answer, result)
