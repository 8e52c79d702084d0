"""The one conversation of a worker with the store: ends go out and new jobs come in, in the same commit.

Batching is natural: while one call is in flight the next ends gather; when idle, one goes out at once. The next call
goes out as soon as the last is answered, and only then is the answer worked on: store and worker are busy at the same
time. Claims are never cancelled half-way: what a lost reply may have taken is given back before anything else is
claimed.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterable, Sequence

from holdfast import transitions as ends
from holdfast.errors import WorkerLost
from holdfast.job import JobRow
from holdfast.stores.values import Claim, Worked
from holdfast.worker.finisher import Ending, Finisher
from holdfast.worker.pump import Pump
from holdfast.worker.run import Run

# Rounds of the event loop in which short jobs come to their end before a store in this process is called, whose thread
# would take turns with them: they run, the slots that they free are filled, and those run.
_FIRST_STEPS = 3


class Exchange:
    """Writes for one process, one call at a time."""

    def __init__(
        self,
        pump: Pump,
        finisher: Finisher,
        *,
        may_claim: Callable[[], bool],
        claimed: Callable[[Claim, Sequence[JobRow]], None],
        start: Callable[[], None],
        overlaps: bool,
        lost: Callable[[], None],
        timed: Callable[[float], None] | None = None,
    ) -> None:
        self._pump = pump
        self._finisher = finisher
        self._may_claim = may_claim
        self._claimed = claimed
        self._start = start
        self._overlaps = overlaps  # whether an answer is worked on while the next call is under way
        self._lost = lost
        self._timed = timed  # hears how long each claim took
        self._changed = asyncio.Event()
        self._idle = asyncio.Event()
        self._has_news = False  # of the last answer: ends that are known now, jobs that may start
        self.in_flight: int | None = None  # the batch of the claim that is under way

    def add(self, ending: Ending) -> None:
        """Let the end of a claim be written."""
        self._finisher.add(ending)
        self._changed.set()

    def give_back(self, runs: Iterable[Run]) -> None:
        """Let claims that were never begun be given back uncharged."""
        for run in runs:
            self.add(Ending(ends.interrupted(*run.key), run))

    def wake(self) -> None:
        """Let the next call be considered: a slot is free, or there may be work."""
        self._changed.set()

    async def serve(self) -> None:
        """Write and claim until closed."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._pump.names_again_in_s):
                    await self._changed.wait()
            self._changed.clear()
            # Let everything that became ready in this round of the loop join the batch.
            await asyncio.sleep(0)
            while await self._turn():
                if self._finisher.pause_s > 0:
                    await asyncio.sleep(self._finisher.pause_s)
            if self._finisher.is_idle:
                self._idle.set()

    async def flush(self, timeout_s: float) -> bool:
        """Wait until the store knows everything; False when it takes too long."""
        self._idle.clear()
        self._changed.set()
        try:
            async with asyncio.timeout(timeout_s):
                while not self._finisher.is_idle or self.in_flight is not None:
                    await self._idle.wait()
                    self._idle.clear()
        except TimeoutError:
            return False
        return True

    async def _turn(self) -> bool:
        """Make one call; False when there is nothing to do."""
        if not self._overlaps and self._tell_news():
            for _ in range(_FIRST_STEPS):
                await asyncio.sleep(0)
        if self._finisher.doubtful:  # guard: doubtful-claim
            if await self._finisher.give_back():
                self._pump.hint()
            return True
        claim = self._next_claim()
        if claim is None and not self._finisher.has_ends:
            if self._tell_news():
                return True
            if self._finisher.has_counts and not self._finisher.is_troubled:
                await self._finisher.count()
            return False
        self.in_flight = None if claim is None else claim.batch
        sent = time.monotonic()
        try:
            worked = await self._call(claim)
        except WorkerLost:
            self._lose(claim)
            return True
        finally:
            self.in_flight = None
        if self._timed is not None and claim is not None and worked is not None:
            self._timed(time.monotonic() - sent)
        self._take(claim, worked)
        return True

    def _next_claim(self) -> Claim | None:
        # After a failed try ends go alone; without any, only the next claim can tell that the store is back.
        if (self._finisher.is_troubled and self._finisher.has_ends) or not self._may_claim():
            return None
        return self._pump.next_claim()

    def _take(self, claim: Claim | None, worked: Worked | None) -> None:
        if worked is None:
            if claim is not None:
                self._pump.missed(claim)
            return
        self._has_news = True
        if worked.worker_lost:
            self._lose(claim)
        elif claim is not None:
            self._claimed(claim, worked.claimed)

    async def _call(self, claim: Claim | None) -> Worked | None:
        # Shielded: a worker that is told to leave still has to know what it claimed.
        call = asyncio.ensure_future(self._finisher.write(claim))
        if self._has_news:
            await asyncio.sleep(0)  # in which the call goes out
            self._tell_news()
        return await asyncio.shield(call)

    def _tell_news(self) -> bool:
        """Work on the last answer; whether there was one."""
        has_news, self._has_news = self._has_news, False
        if has_news:
            self._finisher.tell()
            self._start()
        return has_news

    def _lose(self, claim: Claim | None) -> None:
        """Say that the worker was declared dead; a late answer to an id that was replaced meanwhile says nothing."""
        if claim is not None and claim.worker == self._pump.worker:
            self._lost()
