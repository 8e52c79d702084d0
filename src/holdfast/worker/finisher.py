"""Writing how claims end: fenced, in natural batches, until the store has answered.

Nothing is guessed and nothing is dropped: while the store is away the ends stay here and are sent again. A value that
the database refuses fails alone. A lost reply is resolved by sending the same ends again without the claim.
"""

import asyncio
import logging
import math
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from enum import IntEnum
from typing import NamedTuple

import msgspec

from holdfast import failure
from holdfast import transitions as ends
from holdfast.errors import DataRefused, HoldfastError, OutcomeUnknown, WorkerLost
from holdfast.stores.store import WorkStore
from holdfast.stores.values import Claim, Finish, Verdict, Worked
from holdfast.transitions import Transition
from holdfast.worker.run import Run
from holdfast.worker.tally import Tally

_logger = logging.getLogger("holdfast")

LARGEST_BATCH = 500
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 1.0
_QUIET_S = 2.0  # between two warnings
_REFUSED_DELAY_MS = 60_000  # before the next attempt of a job that could not be ended


class Form(IntEnum):
    """What is written of an end: less each time that the database refuses it."""

    DECIDED = 0  # as the handler ended
    FAILED = 1  # as failed, because of the refusal
    BARE = 2  # and without what is kept beside the job
    LATER = 3  # the attempt alone: the job is tried again


class Ending(NamedTuple):
    """The decided end of one claim; without a run it is one that this process never knew."""

    transition: Transition
    run: Run | None = None
    form: Form = Form.DECIDED


class Finisher:
    """The ends of claims that the store does not know yet."""

    def __init__(
        self,
        store: WorkStore,
        tally: Tally,
        known: Callable[[Ending, Finish], None],
        save_reports: Callable[[Sequence[Run]], Awaitable[None]],
        *,
        most: int = LARGEST_BATCH,
    ) -> None:
        self.pause_s = 0.0  # how long to wait before the next try
        self.doubtful: list[tuple[int, int]] = []  # claims (worker, batch) whose replies were lost
        self._store = store
        self._most = min(most, LARGEST_BATCH)  # in one call
        self._tally = tally
        self._known = known
        self._save_reports = save_reports  # the last ones, before the ends that they belong to
        self._waiting: dict[tuple[int, int], Ending] = {}
        self._halves: list[list[Ending]] = []  # of a batch in which the store refuses some value
        self._sent: list[Ending] = []  # on their way at this moment
        self._answers: list[tuple[list[Ending], Sequence[Finish]]] = []  # that came, and that nobody was told of yet
        self._is_told = False  # that the store is away
        self._told_at = -math.inf

    @property
    def is_idle(self) -> bool:
        """Whether everything is known to the store."""
        return not (self._waiting or self._halves or self._sent or self._answers or self.doubtful)

    @property
    def has_ends(self) -> bool:
        """Whether there is something to write."""
        return bool(self._waiting or self._halves)

    @property
    def has_counts(self) -> bool:
        """Whether something was counted a second ago and no end came that would carry it."""
        return self._tally.is_due

    @property
    def is_troubled(self) -> bool:
        """Whether the last try failed: nothing new is claimed meanwhile."""
        return self.pause_s > 0 or bool(self.doubtful)

    def add(self, ending: Ending) -> None:
        """Take the end of a claim; the first one decided is the one that counts."""
        self._waiting.setdefault((ending.transition.id, ending.transition.claim), ending)

    def __contains__(self, key: object) -> bool:
        return key in self._waiting or any(
            (end.transition.id, end.transition.claim) == key for some in (self._sent, *self._halves) for end in some
        )

    async def write(self, claim: Claim | None) -> Worked | None:
        """Write what waits, with the next claim in the same commit; None when the store did not answer."""
        batch = self._sent = self._next_batch()
        try:
            worked = await self._send(batch, claim)
        except asyncio.CancelledError:  # the program around the worker ends its event loop
            self._keep_in_doubt(batch, claim)
            raise
        except DataRefused as error:
            self._halve(batch, error)
            self.pause_s = 0.0
            return None
        except WorkerLost:
            raise
        except HoldfastError as error:  # whatever it is, access refused too: somebody mends it, and the ends are kept
            self._keep_in_doubt(batch, claim if isinstance(error, OutcomeUnknown) else None)
            self._slow_down(error)
            return None
        finally:
            self._sent = []
        self._answered()
        self._answers.append((batch, worked.finishes))
        return worked

    def tell(self) -> None:
        """Tell what the store has answered."""
        answers, self._answers = self._answers, []
        for batch, finishes in answers:
            for ending, finish in zip(batch, finishes, strict=True):
                self._known(ending, finish)

    async def count(self, timeout_s: float | None = None) -> bool:
        """Write what was counted and has no end to travel with; False when the store did not answer."""
        try:
            async with asyncio.timeout(timeout_s):
                if rollups := self._tally.take(at_once=True):
                    await self._store.finish_jobs([], rollups=rollups)
        except (HoldfastError, TimeoutError) as error:
            _logger.debug("counts were lost: %s", error)
            return False
        return True

    async def give_back(self) -> bool:
        """Give back what claims with lost replies may have taken; only then may another be made."""
        while self.doubtful:
            try:
                await self._store.give_back_batch(*self.doubtful[0])
            except HoldfastError as error:
                self._slow_down(error)
                return False
            self.doubtful.pop(0)
        self._answered()
        return True

    # ---- one send --------------------------------------------------------------------------------------------------

    async def _send(self, batch: Sequence[Ending], claim: Claim | None) -> Worked:
        if not batch and claim is not None:
            if claim.ids:
                return Worked([], await self._store.claim_jobs_by_id(claim, claim.ids))
            return Worked([], await self._store.claim_jobs(claim))
        if batch and batch[0].form is Form.BARE:  # and alone
            finish = await self._store.fail_refused(batch[0].transition)
            worked = Worked([], []) if claim is None else await self._store.finish_jobs([], claim=claim)
            return msgspec.structs.replace(worked, finishes=[finish])
        if reported := [ending.run for ending in batch if ending.run is not None and ending.run.has_news]:
            await self._save_reports(reported)
        rollups = self._tally.take()
        return await self._store.finish_jobs([ending.transition for ending in batch], rollups=rollups, claim=claim)

    def _next_batch(self) -> list[Ending]:
        if self._halves:
            return self._halves.pop()
        batch: dict[int, Ending] = {}
        for key, ending in list(self._waiting.items()):
            if ending.form is Form.BARE:
                if batch:
                    continue
                return [self._waiting.pop(key)]
            if ending.transition.id not in batch:  # one job may wait here under two claims, the older one first
                batch[ending.transition.id] = ending
                del self._waiting[key]
            if len(batch) == self._most:
                break
        return list(batch.values())

    def _keep_in_doubt(self, batch: Sequence[Ending], claim: Claim | None) -> None:
        if claim is not None:
            self.doubtful.append((claim.worker, claim.batch))  # guard: lost-claim-reply
        later, self._waiting = self._waiting, {}
        for ending in (*batch, *later.values()):  # of two ends of one claim the first one counts here too
            self.add(ending)

    def _halve(self, batch: list[Ending], error: DataRefused) -> None:
        if len(batch) > 1:
            middle = len(batch) // 2
            # guard: refused-neighbour, without: self._halves += [batch[:middle]]
            self._halves += [batch[middle:], batch[:middle]]
        elif batch and (lesser := _lesser(batch[0], error)) is not None:
            self._waiting[lesser.transition.id, lesser.transition.claim] = lesser
        elif batch:  # the worker is rid of it; as a claim that is not known here it is given back again and again
            _logger.error("job %d could not be ended: %s", batch[0].transition.id, error)
            self._answers.append((batch, [Finish(Verdict.LOST, None)]))

    # ---- how the store is ------------------------------------------------------------------------------------------

    def _slow_down(self, error: HoldfastError) -> None:
        now = time.monotonic()
        if not self._is_told and now - self._told_at >= _QUIET_S:  # or a link that flickers would fill the log
            self._is_told, self._told_at = True, now
            _logger.warning("the store is not available, finished work is kept and sent again: %s", error)
        longest = min(max(self.pause_s * 2, _FIRST_PAUSE_S), _LONGEST_PAUSE_S)
        self.pause_s = longest * random.uniform(0.75, 1)

    def _answered(self) -> None:
        if self._is_told:
            _logger.info("the store is available again")
        self._is_told = False
        self.pause_s = 0.0


def _lesser(ending: Ending, error: DataRefused) -> Ending | None:
    """Choose what to write instead of an end that the database refuses; None when nothing is left."""
    transition, why = ending.transition, failure.from_exception(error)
    failed = ends.failed(transition.id, transition.claim, why)
    if ending.form is Form.DECIDED and (transition.failure is None or transition.result is not None):
        return ending._replace(transition=failed, form=Form.FAILED)
    if ending.form < Form.BARE:
        return ending._replace(transition=failed, form=Form.BARE)
    if ending.form is Form.BARE:
        _logger.error("job %d could not be ended, it is tried again later: %s", transition.id, error)
        later = ends.retried(transition.id, transition.claim, why, _REFUSED_DELAY_MS)
        return ending._replace(transition=later, form=Form.LATER)
    return None


def is_ours(finish: Finish) -> bool:
    """Whether a write was accepted, now or by an earlier send."""
    return finish.verdict is not Verdict.LOST  # guard: repeated-finish, without: return finish.verdict is Verdict.DONE
