"""What a worker holds, as the store sees it: claims that are shown, lost, cancelled or not known here."""

import logging
from collections.abc import Callable, Iterable, Sequence

from holdfast import moments
from holdfast import transitions as ends
from holdfast.stores.values import Held
from holdfast.worker.exchange import Exchange
from holdfast.worker.executor import Executor
from holdfast.worker.finisher import Ending, Finisher
from holdfast.worker.pump import Pump
from holdfast.worker.run import Run, Why

_logger = logging.getLogger("holdfast")

_STRANGE_MS = 5_000  # a claim that this process does not know of, and that is no reply on its way


class Custody:
    """Follows what the renewals of the lease tell."""

    def __init__(
        self, pump: Pump, executor: Executor, finisher: Finisher, exchange: Exchange, look: Callable[[], None]
    ) -> None:
        self.is_lost = False  # this worker was declared dead and has no fresh id yet
        self._pump = pump
        self._executor = executor
        self._finisher = finisher
        self._exchange = exchange
        self._look = look

    def reconcile(self, held: Sequence[Held], asked_at: int) -> None:
        """Compare what the store shows for this worker with what it knows; `asked_at` is monotonic nanoseconds."""
        known = {run.key: run for run in (*self._executor.runs.values(), *self._pump.held)}
        shown = {(claim.id, claim.claim): claim for claim in held}
        for key, claim in shown.items():
            if key in known:
                if claim.cancel_requested:
                    self._cancel(known[key])
            elif self._is_strange(claim):
                _logger.warning("claim %d of job %d is not known here and is requeued", claim.claim, claim.id)
                self._exchange.add(Ending(ends.interrupted(*key)))
        for key, run in known.items():
            is_decided = run.is_settled or run.is_committing or run.is_committed
            if key not in shown and not is_decided and run.claimed_at * 1e9 < asked_at:
                self.revoke([key])

    def revoke(self, keys: Iterable[tuple[int, int]]) -> None:
        """Stop what is no longer ours."""
        revoked = set(keys)
        self._pump.drop(revoked)
        for key in revoked & self._executor.runs.keys():
            self._executor.runs[key].stop(Why.LOST)

    def cancel(self, keys: Iterable[tuple[int, int]]) -> None:
        """Stop what is asked to stop."""
        known = {run.key: run for run in (*self._executor.runs.values(), *self._pump.held)}
        for key in keys:
            if key in known:
                self._cancel(known[key])

    def lose(self) -> None:
        """This worker was declared dead: everything it holds belongs to others; it needs a fresh id."""
        if not self.is_lost:
            self.is_lost = True
            _logger.error("this worker was declared dead: its jobs are stopped, it goes on under a fresh id")
            self.revoke([*self._executor.runs, *(run.key for run in self._pump.held)])

    def adopt(self, worker: int) -> None:
        """Go on under a fresh id."""
        former, self._pump.worker = self._pump.worker, worker
        self.is_lost = False
        moments.reach("adopted", worker=worker, former=former)
        self._look()

    def fence(self) -> None:
        """The lease can no longer be trusted: give everything back, and run nothing until it can be."""
        self._exchange.give_back(self._pump.empty())
        for run in self._executor.runs.values():
            if run.why is None and not run.is_committing:
                run.stop(Why.LEAVING)

    def _cancel(self, run: Run) -> None:
        if run.started_at is None:
            self._pump.drop([run.key])
            self._exchange.add(Ending(ends.cancelled(*run.key), run))
        elif run.why is None:
            run.stop(Why.CANCELLED)

    def _is_strange(self, claim: Held) -> bool:
        if claim.age_ms <= _STRANGE_MS or (claim.id, claim.claim) in self._finisher:
            return False
        return claim.batch is None or claim.batch != self._exchange.in_flight
