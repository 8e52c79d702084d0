"""What is written about jobs that go on: when their handlers began, and what they say.

Starts and progress are written in rounds of 100 ms, so that a short job costs no write beyond its end, and a handler
that reports all the time costs one write per round. What must be stored before a handler goes on, as the end of a
phase, is written at once; while such a write is under way the next ones gather.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Sequence

from holdfast.errors import ClaimLost, DataRefused, HoldfastError, OutcomeUnknown, StoreUnavailable
from holdfast.journal import Journal
from holdfast.stores.store import WorkStore
from holdfast.stores.values import ProgressReport, Started, Verdict
from holdfast.worker.run import Run, Why

_logger = logging.getLogger("holdfast")

ROUND_S = 0.1
_PAUSE_S = 0.1


class Reporter:
    """Writes for the running jobs of one process."""

    def __init__(self, store: WorkStore, runs: Callable[[], Collection[Run]]) -> None:
        self._store = store
        self._runs = runs
        self._reported: dict[tuple[int, int], Run] = {}
        self._has_work = asyncio.Event()
        self._turn = asyncio.Lock()
        self._urgent: dict[Run, asyncio.Future[None]] = {}
        self._writer: asyncio.Task[None] | None = None

    def started(self) -> None:
        """Look at the running jobs in the rounds to come."""
        self._has_work.set()

    def reported(self, run: Run) -> None:
        """Store what a handler said in the next round."""
        self._reported[run.key] = run
        self._has_work.set()

    async def keep(self, run: Run) -> None:
        """Store what a handler said now; while the store is away this waits, as long as the handler may."""
        loop = asyncio.get_running_loop()
        if run not in self._urgent:
            self._urgent[run] = loop.create_future()
        done = self._urgent[run]
        if self._writer is None:
            self._writer = loop.create_task(self._write_urgent(), name="holdfast phases")
        await asyncio.shield(done)
        if run.why is Why.LOST:
            message = f"job {run.job.public_id} was taken from this worker: what its handler says is refused"
            raise ClaimLost(message)

    async def record(self, run: Run) -> None:
        """Store that a handler begins, before it does; while the store is away this waits, as long as the job may."""
        while not run.is_recorded:
            try:
                (verdict,) = await self._store.start_jobs([Started(*run.key, run.started_ago_ms or 0)])
            except (StoreUnavailable, OutcomeUnknown):
                await asyncio.sleep(_PAUSE_S)
            else:
                run.is_recorded = True
                _stop_if_lost(run, verdict)
                await asyncio.sleep(0)  # where a run that was stopped ends, before its handler begins

    async def serve(self) -> None:
        """Write in rounds, as long as anything runs."""
        while True:
            await self._has_work.wait()
            await asyncio.sleep(ROUND_S)
            await self._round()
            if not self._reported and all(run.is_recorded for run in self._runs()):
                self._has_work.clear()

    async def _round(self) -> None:
        try:
            await self._write_starts()
            await self._write_progress()
        except HoldfastError as error:  # the next round tries again; the finisher tells that the store is away
            _logger.debug("progress and starts are written later: %s", error)

    async def _write_starts(self) -> None:
        long_ago = time.monotonic() - ROUND_S
        runs = [
            run
            for run in self._runs()
            if not run.is_recorded and not run.is_settled and run.started_at is not None and run.started_at <= long_ago
        ]
        if not runs:
            return
        verdicts = await self._store.start_jobs([Started(*run.key, run.started_ago_ms or 0) for run in runs])
        for run, verdict in zip(runs, verdicts, strict=True):
            run.is_recorded = True
            _stop_if_lost(run, verdict)

    async def _write_progress(self) -> None:
        reported, self._reported = self._reported, {}
        runs = [run for run in reported.values() if not run.is_settled]
        try:
            await self.save(runs)
        except HoldfastError:
            self._reported = {run.key: run for run in runs} | self._reported
            raise

    async def _write_urgent(self) -> None:
        """Write until nothing is urgent any more."""
        await asyncio.sleep(0)  # let everything that became ready in this round of the loop join
        try:
            while self._urgent:
                urgent, self._urgent = self._urgent, {}
                await self._answer(urgent)
        finally:
            self._writer = None

    async def _answer(self, urgent: dict[Run, asyncio.Future[None]]) -> None:
        """Write for some runs, and tell those who wait; whatever goes wrong, nobody waits for ever."""
        try:
            while not await self._written(list(urgent)):  # noqa: ASYNC110 - the store does not say that it is back
                await asyncio.sleep(_PAUSE_S)
        except BaseException as error:
            for done in urgent.values():
                if not done.done():
                    done.set_exception(error)
            raise
        for done in urgent.values():
            if not done.done():
                done.set_result(None)

    async def _written(self, runs: Sequence[Run]) -> bool:
        try:
            await self.save(runs)
        except HoldfastError as error:
            _logger.debug("the end of a phase is written later: %s", error)
            return all(run.is_settled or run.why is not None for run in runs)  # then nobody waits for it any more
        return True

    async def save(self, runs: Sequence[Run]) -> None:
        """Store what these handlers said.

        One save at a time: an older word must not arrive after a newer one, nor after the end of its job.
        """
        async with self._turn:
            taken = {run: run.journal.take() for run in runs if run.journal is not None and not run.journal.is_empty}
            if not taken:
                return
            for run in taken:
                run.is_telling = True  # guard: report-before-end
            try:
                verdicts = await self._save([report_of(run, journal) for run, journal in taken.items()])
            except BaseException:
                for run, journal in taken.items():
                    if run.journal is not None:
                        run.journal.put_back(journal)
                raise
            finally:
                for run in taken:
                    run.is_telling = False
            for run, verdict in zip(taken, verdicts, strict=True):
                _stop_if_lost(run, verdict)

    async def _save(self, reports: list[ProgressReport]) -> list[Verdict]:
        """Save reports; one that the database refuses is left out, and hurts no other."""
        try:
            return await self._store.save_progress(reports)
        except DataRefused as error:
            if len(reports) == 1:
                _logger.warning("a progress report of job %d was refused: %s", reports[0].id, error)
                return [Verdict.DONE]
            middle = len(reports) // 2
            return await self._save(reports[:middle]) + await self._save(reports[middle:])


def report_of(run: Run, journal: Journal) -> ProgressReport:
    """Make a report of what was said."""
    said, changes = journal.said, journal.changes(None if run.is_recorded else run.started_ago_ms)
    return ProgressReport(*run.key, said.percent, said.message, said.data, said.phase, said.phase_percent, changes)


def _stop_if_lost(run: Run, verdict: Verdict) -> None:
    # A run in its own transaction finds out by itself; the claim may be gone because that was just committed.
    is_decided = run.is_settled or run.is_committing or run.is_committed
    if verdict is Verdict.LOST and not is_decided:
        run.stop(Why.LOST)
