"""Money: what is set aside before a handler starts, and what it reports as spent.

Jobs without a budget cost nothing here. What was spent is written even if its handler was cancelled or has lost its
job: the money is gone all the same.
"""

import asyncio
import logging
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from holdfast import failure
from holdfast import transitions as ends
from holdfast.errors import HoldfastError, OutcomeUnknown, StoreUnavailable
from holdfast.job import JobRow
from holdfast.outcomes import BudgetExceeded
from holdfast.policies.allowance import Allowance, Level, level_of
from holdfast.policies.budgets import period_around
from holdfast.policies.keys import key_of
from holdfast.policies.money import Amount, shown_amount
from holdfast.stores.budgets import BudgetRow, BudgetStore, Reservation, Reserved, Reserving, Spend, Sums
from holdfast.transitions import Transition, Verb
from holdfast.worker.marks import Way
from holdfast.worker.run import Run, Why

T = TypeVar("T")
Heard = Callable[[JobRow, Amount], None]

_logger = logging.getLogger("holdfast")

_LOOK_S, _PAUSE_S = 5.0, 0.1
_MEAN_S = 60.0  # how long what a kind spends on average is believed
_JITTER_MS = 600_000  # deferred jobs come back over the first ten minutes of a period
_PATIENCE_MS, _LONGEST_PATIENCE_MS, _MOST_DOUBLINGS = 5_000, 300_000, 6
_CROWDED_MS = 2_000
_NOTE_BYTES = 512
_MOST_LEVELS = 10_000
_REDUCED: frozenset[Level] = frozenset({"reduce", "defer", "stop"})


class Spending:
    """The budgets of the jobs of one process."""

    def __init__(self, store: BudgetStore, slots: int, heard: Heard | None = None) -> None:
        self._store = store
        self._half = -(-slots // 2)
        self._heard = heard  # is told of every amount that was written down
        self._rows: dict[str, BudgetRow] = {}
        self._by_kind: dict[str, BudgetRow] = {}
        self._by_queue: dict[str, BudgetRow] = {}
        self._now = (datetime.now(UTC), time.monotonic())
        self._is_read = asyncio.Event()
        self._levels: dict[tuple[str, str], Level] = {}  # by budget and key, as of the last answer
        self._running: Counter[tuple[str, str]] = Counter()
        self._counted: dict[Run, tuple[str, str]] = {}
        self._means: dict[tuple[str, str], tuple[float, int]] = {}
        self._writing: dict[asyncio.Task[None], Run] = {}

    async def serve(self) -> None:
        """Follow the budgets that hold."""
        while True:
            try:
                await self.look()
            except HoldfastError as error:
                _logger.debug("budgets are looked at later: %s", error)
            await asyncio.sleep(_LOOK_S if self._is_read.is_set() else _PAUSE_S)

    async def look(self) -> None:
        """Read the budgets that hold."""
        now, rows = await self._store.read_budgets()
        self._told_time(now)
        self._rows = {row.name: row for row in rows}
        # Of several the first by name counts.
        self._by_kind = {kind: row for row in reversed(rows) for kind in row.kinds}
        self._by_queue = {row.queue: row for row in reversed(rows) if row.queue is not None and not row.kinds}
        self._is_read.set()

    # ---- before a run ----------------------------------------------------------------------------------------------

    async def admit(self, run: Run) -> Transition | None:
        """Set an estimate aside for a job that has a budget; a Transition if it may not run now."""
        await self._is_read.wait()
        row = self._budget_of(run)
        if row is None:
            return None
        place = (row.name, key_of(row.path, run.job))
        if self._is_crowded(row, place):
            return _later(run)
        estimate = await self._estimate(run, row)
        answer, period = await self._reserve(run, row, place[1], estimate)
        if answer.outcome is Reserving.LOST:
            run.why = Why.LOST
            return ends.interrupted(*run.key)
        if answer.outcome is Reserving.HELD:
            run.is_held = True
            return _later(run)  # which nobody writes: the store has ended the claim
        if answer.outcome is Reserving.FREE or answer.sums is None:
            return None
        run.allowance = self._allowance(row, place, estimate, answer.sums, period)
        if answer.outcome is Reserving.REFUSED:  # guard: budget-refusal
            why = failure.from_exception(BudgetExceeded(_refusal(run.allowance)))
            return ends.failed(*run.key, why, started_ago_ms=run.started_ago_ms)
        if self._is_crowded(row, place):
            return _later(run)  # with which what was set aside is free again
        self._running[place] += 1
        self._counted[run] = place
        return None

    def freed(self, run: Run) -> None:
        """Let the next job of a budget have the slot."""
        place = self._counted.pop(run, None)
        if place is not None:
            self._running[place] -= 1
            if self._running[place] == 0:
                del self._running[place]

    def _budget_of(self, run: Run) -> BudgetRow | None:
        """Find the budget of a job: the one that its task names, else that of its kind, else that of its queue."""
        if not self._rows:
            return None
        named = None if run.task is None else run.task.policy.budget
        if named is not None and named in self._rows:
            return self._rows[named]
        return self._by_kind.get(run.job.kind) or self._by_queue.get(run.job.queue)

    async def _estimate(self, run: Run, row: BudgetRow) -> int:
        """What the enqueue says, else the task, else what such jobs have spent on average."""
        given = run.job.extra.get("estimate")
        if isinstance(given, int):
            return given
        if run.task is not None and run.task.policy.estimate is not None:
            return run.task.policy.estimate.micro
        until, mean = self._means.get((row.name, run.job.kind), (0.0, 0))
        if time.monotonic() >= until:
            found = await _answered(lambda: self._store.mean_spend(row.name, run.job.kind))
            mean = found or 0
            self._means[row.name, run.job.kind] = (time.monotonic() + _MEAN_S, mean)
        return mean

    async def _reserve(
        self, run: Run, row: BudgetRow, key: str, estimate: int
    ) -> tuple[Reserved, tuple[datetime, datetime]]:
        patience = min(_PATIENCE_MS * 2 ** min(run.job.claim - 1, _MOST_DOUBLINGS), _LONGEST_PATIENCE_MS)
        drawn = (round(random.uniform(0, _JITTER_MS)), round(patience * random.uniform(0.5, 1.5)))
        while True:
            period = period_around(self._moment(), row.period, row.tz)
            asked = Reservation(*run.key, row.name, key, estimate, *period, *drawn)
            answer = await _answered(lambda: self._store.reserve_spend(asked))  # noqa: B023 - called before the next
            self._told_time(answer.at)
            if answer.outcome is not Reserving.STALE:
                return answer, period

    def _is_crowded(self, row: BudgetRow, place: tuple[str, str]) -> bool:
        """Whether the jobs of a budget that is to be spared have half of the slots already."""
        is_spared = any(action == "reduce" for _, action in row.thresholds) and self._levels.get(place) in _REDUCED
        return is_spared and self._running[place] >= self._half

    # ---- during a run ----------------------------------------------------------------------------------------------

    async def spend(self, run: Run, amount: Amount, note: str | None) -> None:
        """Write down what a handler has spent; when this returns, it is on disk.

        While the store is away this waits. A handler that does not wait that long has told it all the same.
        """
        run.spends += 1
        cleaned = None if note is None else failure.clean(note, _NOTE_BYTES)
        writing = asyncio.create_task(self._write(run, run.spends, amount, cleaned), name="holdfast spend")
        self._writing[writing] = run
        writing.add_done_callback(self._written)
        if run.is_committing and not getattr(self._store, "is_remote", True):
            return  # a transaction on SQLite keeps everybody else from writing: it is written right after
        await asyncio.shield(writing)

    async def settle(self, run: Run, transition: Transition) -> None:
        """Wait for what a handler has told before its claim ends.

        One that was interrupted, and has come to its end, has told all that it spent. The end of its claim does not say
        so, because nobody can tell it from one whose process died.
        """
        if told := [writing for writing, teller in self._writing.items() if teller is run]:
            await asyncio.wait(told)
        if transition.verb is Verb.INTERRUPT and run.allowance is not None and run.way is not Way.PROCESS:
            try:
                await self._store.settle_spend(*run.key)
            except HoldfastError as error:
                _logger.debug("what was set aside for job %s counts as spent: %s", run.job.public_id, error)

    async def close(self, timeout_s: float) -> None:
        """Give what was told a moment to be written."""
        if not self._writing:
            return
        _, late = await asyncio.wait(self._writing, timeout=timeout_s)
        for writing in late:
            job = self._writing[writing].job
            _logger.error("job %s (%s) has spent money that could not be written down", job.public_id, job.kind)
            writing.cancel()

    async def _write(self, run: Run, n: int, amount: Amount, note: str | None) -> None:
        job, allowance = run.job, run.allowance
        row = None
        if allowance is not None and allowance.unit == amount.unit:
            row = self._rows.get(allowance.budget)
        key = "" if allowance is None else allowance.key
        while True:
            period = None if row is None else period_around(self._moment(), row.period, row.tz)
            spend = Spend(
                job_id=job.id,
                claim=job.claim,
                n=n,
                budget=None if row is None else row.name,
                key=key,
                kind=job.kind,
                queue=job.queue,
                actor=job.actor,
                unit=amount.unit,
                amount=amount.micro,
                note=note,
                starts_at=None if period is None else period[0],
                ends_at=None if period is None else period[1],
            )
            recorded = await _answered(lambda: self._store.record_spend(spend))  # noqa: B023 - called before the next
            self._told_time(recorded.at)
            if recorded.is_recorded:
                break
        if row is not None and allowance is not None and period is not None and recorded.sums is not None:
            run.allowance = self._allowance(row, (row.name, key), allowance.estimate_micro, recorded.sums, period)
        if self._heard is not None:
            self._heard(job, amount)
        if recorded.is_late:
            message = "job %s (%s) was taken from this worker, what it has spent is written down as late: %s"
            _logger.warning(message, job.public_id, job.kind, amount)

    def _written(self, writing: asyncio.Task[None]) -> None:
        run = self._writing.pop(writing)
        if not writing.cancelled() and (error := writing.exception()) is not None:
            _logger.error("job %s has spent money that the store refuses: %s", run.job.public_id, error)

    # ---- what is known ---------------------------------------------------------------------------------------------

    def _allowance(
        self, row: BudgetRow, place: tuple[str, str], estimate: int, sums: Sums, period: tuple[datetime, datetime]
    ) -> Allowance:
        spent = sums.spent + sums.lost
        level = level_of(spent, sums.ceiling, row.thresholds)
        if len(self._levels) >= _MOST_LEVELS:
            self._levels.clear()
        self._levels[place] = level
        return Allowance(
            budget=row.name,
            key=place[1],
            unit=row.unit,
            level=level,
            spent_micro=spent,
            reserved_micro=sums.reserved,
            ceiling_micro=sums.ceiling,
            estimate_micro=estimate,
            starts_at=period[0],
            ends_at=period[1],
        )

    def _moment(self) -> datetime:
        """The store's time, as far as it can be told from here; the store says so if it is wrong."""
        at, heard = self._now
        return at + timedelta(seconds=time.monotonic() - heard)

    def _told_time(self, at: datetime) -> None:
        self._now = (at, time.monotonic())


def _later(run: Run) -> Transition:
    return ends.snoozed(*run.key, round(_CROWDED_MS * random.uniform(0.5, 1.5)))


def _refusal(allowance: Allowance) -> str:
    def shown(micro: int) -> str:
        return shown_amount(micro, allowance.unit)

    of = f" of {allowance.key}" if allowance.key else ""
    message = (
        f"budget {allowance.budget}{of} has {shown(allowance.ceiling_micro)} until {allowance.ends_at:%Y-%m-%d %H:%M}"
    )
    message += f" UTC: {shown(allowance.spent_micro)} are spent, {shown(allowance.reserved_micro)} set aside, and this"
    return f"{message} job needs {shown(allowance.estimate_micro)}; raise the budget, or retry the job later"


async def _answered(verb: Callable[[], Awaitable[T]]) -> T:
    """Ask until the store answers; while it is away this waits, as long as the job may."""
    while True:
        try:
            return await verb()
        except (StoreUnavailable, OutcomeUnknown):
            await asyncio.sleep(_PAUSE_S)
