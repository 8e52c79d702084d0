"""What a worker asks the store for, and what it holds beyond what runs.

A claim names lanes, the pairs of queue and priority, in order of preference. A lower bound per lane, at most a second
old, keeps claims from walking over rows that are gone; the first claim of each second, and any after a hint or after
something was given back, starts at the lane's beginning.

Where the delivery carries ids, those are claimed, and the lanes are read once in a while, in case ids were lost: then
for as long as they hold more, unless there are as many ids as are wanted. An id that was not claimed is named once
more a moment later: somebody may have written to its row just then, if only that it was announced.

A lane that has waited for too long goes before the others with its share of the claimed jobs (see `ageing`).
"""

import itertools
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence

from holdfast.job import JobRow
from holdfast.names import PRIORITIES
from holdfast.stores.values import Claim, Lane, Ready
from holdfast.worker.ageing import Ageing, Turn
from holdfast.worker.run import Run
from holdfast.worker.slots import Slots

_BOUND_S = 1.0
_RATE_WINDOW_S = 0.2
_AGAIN_S = 0.4  # longer than others hold a row, and past the moment when what was pushed is noted as announced
_SPACING_S = 0.1  # between looks at the lanes while ids abound: what they find first is what the ids name


class Pump:
    """The buffer of claimed jobs of one process, and the next claim."""

    def __init__(
        self,
        worker: int,
        queues: Sequence[str],
        slots: Slots,
        settled: Callable[[int], None] | None = None,
        ageing: Ageing | None = None,
    ) -> None:
        self.worker = worker
        self.offered: deque[Ready] = deque()  # ids that were delivered and not claimed yet
        self._is_offered = settled is not None  # whether ids are delivered at all
        self.settled = settled or (lambda _: None)  # told of ids that need this worker no more
        self._named: list[Ready] = []  # ids in the claim that is under way
        self._unclaimed: deque[tuple[float, Ready]] = deque()  # ids to be named once more, and when
        self._last_tries: set[int] = set()  # those of them that the claim names
        self._abound = False  # there were more ids than the last ones that came
        self._follows = False  # a lane had more jobs than were asked for, and ids do not abound
        self._has_read = False  # the last claim read lanes: if there are ids, it is their turn
        self._ids_until = 0.0  # and if they abound, until this moment
        self.queues = tuple(queues)
        self.buffer: deque[Run] = deque()
        self.aside: deque[Run] = deque()  # jobs that wait until nothing runs; others are claimed and start before them
        self.is_closed = False
        self.most: int | None = None  # jobs that may still be claimed at all
        self.ageing = Ageing() if ageing is None else ageing
        self._glance: int | None = None  # the batch of a claim that reads one aged lane while ids abound
        self._slots = slots
        self._lanes = self._worked_lanes()
        self._bounds: dict[tuple[str, int], int] = {}
        self._bounds_until = 0.0
        self._batches = itertools.count(1)
        # When the last jobs ended; no more of them than may be claimed ahead.
        self._finished: deque[float] = deque(maxlen=2 * slots.total)
        self._looks = True  # there may be work: a hint came, or the last claim was filled
        self._hints = self._asked_after = 0  # a hint that comes while a claim is under way is not answered by it
        self._is_dry = False  # a claim that read every lane from its beginning found nothing

    def hint(self, queue: str | None = None) -> None:
        """Remember that there may be work, in one queue or in any; the next claim starts at the beginning there."""
        self._look_again()
        if queue is None:
            self._bounds.clear()
            return
        for priority in PRIORITIES:
            self._bounds.pop((queue, priority), None)

    def finished(self, queue: str) -> None:
        """Count a job that ended: the faster they do, the more may be claimed ahead."""
        self._finished.append(time.monotonic())
        # It may have enqueued others, of which no hint has come yet.
        self._is_dry = False
        # What its bound kept out may come in now.
        if self._slots.is_bound(queue):
            self._look_again()

    @property
    def wanted(self) -> int:
        """How many jobs to ask for: what can start now, and a few more when jobs end quickly."""
        free = self._slots.free
        if self.is_closed:
            return 0
        ahead = self._recently_finished()
        # As many may wait aside as there are slots: they keep no slot from the others.
        # guard: room-beside-aside, without: kept = len(self.buffer) + len(self.aside)
        kept = len(self.buffer) + max(len(self.aside) - self._slots.total, 0)
        wanted = min(max(free, 0) + ahead - kept, self._slots.half)
        return wanted if self.most is None else min(wanted, self.most)

    @property
    def room(self) -> int:
        """How many more ids may be taken: what can start now, and what can be asked for next if jobs end quickly."""
        wanted = self.wanted
        ahead = min(self._recently_finished(), self._slots.half) if wanted else 0
        return max(wanted + ahead - len(self.offered) - len(self._named), 0)

    def rooms(self) -> dict[str, int]:
        """How many more ids of each queue may be taken."""
        rooms = {queue: self._room(queue) for queue in self.queues}
        for job in itertools.chain(self.offered, self._named):
            rooms[job.queue] = rooms.get(job.queue, 0) - 1
        return {queue: room for queue, room in rooms.items() if room > 0}

    def offer(self, jobs: Iterable[Ready], *, abound: bool) -> None:
        """Take ids that were delivered; `abound` says that there may be more where they came from."""
        self.offered.extend(jobs)
        self._abound = abound
        self._follows = self._follows and not abound
        self._is_dry = False

    def withdraw(self) -> list[Ready]:
        """Give up ids that were delivered, for others to take."""
        given = [*self.offered, *(job for _, job in self._unclaimed)]
        self.offered.clear()
        self._unclaimed.clear()
        return given

    def excess(self) -> list[Ready]:
        """Give up ids of queues that have no room any more: others may start their jobs sooner."""
        if not any(self._slots.is_bound(job.queue) for job in self.offered):
            return []
        fitting, given = self._parted(self.offered, len(self.offered))
        self.offered = deque(fitting)
        return given

    @property
    def has_ids(self) -> bool:
        """Whether ids that were delivered wait here to be claimed."""
        return bool(self.offered or self._unclaimed)

    @property
    def names_again_in_s(self) -> float | None:
        """When to look whether ids can be named once more; None where there are none."""
        if not self._unclaimed:
            return None
        return max(self._unclaimed[0][0] - time.monotonic(), _AGAIN_S)  # there may be no room for a while

    @property
    def is_dry(self) -> bool:
        """Whether there was nothing at all to claim when this process last looked."""
        return self._is_dry and not self.holds_any

    @property
    def held(self) -> Iterator[Run]:
        """The jobs that were claimed and have not begun."""
        return itertools.chain(self.aside, self.buffer)

    @property
    def holds_any(self) -> bool:
        """Whether jobs were claimed that have not begun."""
        return bool(self.buffer or self.aside)

    def set_aside(self, must_wait: Callable[[JobRow], bool]) -> list[Run]:
        """Part the jobs from the others that must wait until nothing runs."""
        parted = [run for run in self.buffer if must_wait(run.job)]
        self.drop(run.key for run in parted)
        self.aside.extend(parted)
        return parted

    def next_claim(self) -> Claim | None:
        """Describe the next claim, if there is room and reason for one; the last one is over, whatever became of it."""
        self._named = []
        if (wanted := self.wanted) < 1:
            return None
        turn = self.ageing.turn(wanted)
        if turn is not None and self.offered and (lane := self._lane_of(turn)) is not None:
            return self._claim_of_lane(lane)
        # Lanes that are to be read take turns with ids, or jobs whose ids were lost would wait while any others come.
        is_to_read = self._looks or self._follows
        has_ids = bool(self.offered) or self._has_due()
        now = time.monotonic()
        is_their_turn = self._has_read or not is_to_read or (self._abound and now < self._ids_until)
        if has_ids and is_their_turn and (claim := self._claim_of_ids(wanted)) is not None:
            return claim
        if not is_to_read:
            return None
        if now >= self._bounds_until:
            self._bounds.clear()
            self._bounds_until = now + _BOUND_S
        rooms = {queue: min(self._room(queue), wanted) for queue in self.queues}
        lanes = tuple(
            Lane(queue, priority, rooms[queue], self._bounds.get((queue, priority), 0))
            for queue, priority in self._lanes
            if rooms[queue] > 0
        )
        if not lanes:
            return self._claim_of_ids(wanted) if has_ids else None
        if turn is not None:
            lanes = self.ageing.ordered(lanes, turn)
        self._has_read = True
        self._ids_until = now + _SPACING_S
        self._asked_after = self._hints
        return Claim(self.worker, next(self._batches), wanted, lanes)

    def _claim_of_ids(self, wanted: int) -> Claim | None:
        """Name ids of queues that have room; a job that could not start would keep its place from those that can."""
        again: list[Ready] = []
        while self._has_due() and len(again) < wanted:
            again.append(self._unclaimed.popleft()[1])
        # Beside them as many others as if they were not there: nearly all of them have run elsewhere.
        named, later = self._parted(self.offered, wanted)
        self._named, self.offered = again + named, deque(later)
        if not self._named:
            return None
        self._last_tries = {job.id for job in again}
        self._has_read = False
        limit = min(wanted, len(self._named))
        return Claim(self.worker, next(self._batches), limit, (), tuple(job.id for job in self._named))

    def _parted(self, jobs: Iterable[Ready], most: int) -> tuple[list[Ready], list[Ready]]:
        """Part ids into at most so many whose queues have room, and the others."""
        rooms: dict[str, int] = {}
        fitting, others = list[Ready](), list[Ready]()
        for job in jobs:
            if job.queue not in rooms:
                rooms[job.queue] = self._room(job.queue) - sum(named.queue == job.queue for named in self._named)
            if rooms[job.queue] > 0 and len(fitting) < most:  # guard: room-for-ids, without: if len(fitting) < most:
                rooms[job.queue] -= 1
                fitting.append(job)
            else:
                others.append(job)
        return fitting, others

    def _has_due(self) -> bool:
        """Whether ids are to be named once more by now."""
        return bool(self._unclaimed) and self._unclaimed[0][0] <= time.monotonic()

    def _claim_of_lane(self, lane: Lane) -> Claim:
        self._glance = next(self._batches)
        return Claim(self.worker, self._glance, lane.limit, (lane,))

    def _lane_of(self, turn: Turn) -> Lane | None:
        """The lane whose turn it is, as far as there is room for it."""
        room = min(self._room(turn.queue), turn.jobs)
        bound = self._bounds.get(turn[:2], 0)
        return Lane(turn.queue, turn.priority, room, bound) if room > 0 else None

    def missed(self, claim: Claim) -> None:
        """Look for jobs again whose claim has failed: nobody will deliver their ids soon."""
        if claim.ids:
            self._named = []
            self._look_again()

    def took(self, claim: Claim, jobs: Iterable[JobRow]) -> None:
        """Put claimed jobs into the buffer."""
        jobs = list(jobs)
        if claim.ids:
            self._took_ids(claim, jobs)
            return
        for job in jobs:  # in the order of their positions, lane by lane
            self.buffer.append(Run(job))
            self._bounds[job.queue, job.priority] = job.position or 0
        taken = len(jobs)
        if self.most is not None:
            self.most -= taken
        if claim.batch == self._glance:
            self.ageing.took(_lanes_of(jobs), filled=True)
            return
        may_have_more = self.ageing.took(_lanes_of(jobs), filled=taken >= claim.limit)
        was_hinted = self._hints != self._asked_after
        has_more = taken >= claim.limit or may_have_more
        self._looks = (has_more and not self._is_offered) or was_hinted
        self._follows = has_more and self._is_offered and not (self.offered and self._abound)
        read_all = len(claim.lanes) == len(self._lanes) and not any(lane.after for lane in claim.lanes)
        self._is_dry = taken == 0 and read_all and not was_hinted

    def _took_ids(self, claim: Claim, jobs: Sequence[JobRow]) -> None:
        named, self._named = self._named, []
        self.ageing.took(_lanes_of(jobs), filled=self._abound)
        self.buffer.extend(Run(job) for job in jobs)
        claimed = {job.id for job in jobs}
        at = time.monotonic() + _AGAIN_S
        for job in named:
            if job.id in claimed:
                continue
            if len(jobs) >= claim.limit:  # there was no room for it
                self.offered.append(job)
            elif job.id in self._last_tries:
                self.settled(job.id)
            else:
                self._unclaimed.append((at, job))
        if self.most is not None:
            self.most -= len(jobs)

    def next_run(self) -> Run | None:
        """Take the first job out of the buffer that may start now, and its slot with it."""
        if self._slots.free < 1:
            return None
        now = time.monotonic()
        for index, run in enumerate(self.buffer):
            if run.not_before <= now and self._slots.take(run.job.queue):
                del self.buffer[index]
                return run
        return None

    @property
    def next_start(self) -> float | None:
        """When the first of the jobs may start that have been given a time."""
        now = time.monotonic()
        return min((run.not_before for run in self.held if run.not_before > now), default=None)

    def empty(self, queues: Iterable[str] | None = None) -> list[Run]:
        """Take jobs out of the buffer to be given back: of these queues, or all."""
        named = None if queues is None else set(queues)
        given = [run for run in self.held if named is None or run.job.queue in named]
        self.drop(run.key for run in given)
        return given

    def stuck(self, longest_s: float) -> list[Run]:
        """Take jobs out of the buffer to be given back that have waited so long that others may start them sooner."""
        oldest = time.monotonic() - longest_s
        given = [run for run in self.buffer if run.claimed_at < oldest]
        self.drop(run.key for run in given)
        return given

    def drop(self, keys: Iterable[tuple[int, int]]) -> None:
        """Forget buffered claims that are no longer ours."""
        dropped = set(keys)
        self.buffer = deque(run for run in self.buffer if run.key not in dropped)
        self.aside = deque(run for run in self.aside if run.key not in dropped)

    def bound(self) -> None:
        """Work by the bounds that queues have now."""
        self._lanes = self._worked_lanes()
        self._look_again()

    def _worked_lanes(self) -> list[tuple[str, int]]:
        worked = [queue for queue in self.queues if self._slots.bound(queue) != 0]  # a share of few may be none
        return [(queue, priority) for priority in PRIORITIES for queue in worked]

    def _look_again(self) -> None:
        self._hints += 1
        self._looks = True
        self._is_dry = False

    def _room(self, queue: str) -> int:
        if not self._slots.is_bound(queue):
            return 3 * self._slots.total  # as many as the buffer and the slots hold
        return self._slots.room(queue) - sum(run.job.queue == queue for run in self.buffer)

    def _recently_finished(self) -> int:
        oldest = time.monotonic() - _RATE_WINDOW_S
        while self._finished and self._finished[0] < oldest:
            self._finished.popleft()
        return len(self._finished)


def _lanes_of(jobs: Iterable[JobRow]) -> list[tuple[str, int]]:
    return [(job.queue, job.priority) for job in jobs]
