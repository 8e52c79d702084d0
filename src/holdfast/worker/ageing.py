"""Whose turn it is among lanes that have waited for too long: they get a share of the claims, whatever their priority.

No row is rewritten for it. While claims are filled before they come to such a lane, one claimed job in so many (eight,
unless the queue says otherwise) is taken from the one whose first job has been due the longest.
"""

import asyncio
import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from holdfast.errors import HoldfastError
from holdfast.queues import Queue
from holdfast.stores.sla import LaneHead
from holdfast.stores.values import Lane

_logger = logging.getLogger("holdfast")

_LOOK_S = 1.0


class HeadStore(Protocol):
    """What ageing needs of a store."""

    async def lane_heads(self, queues: Sequence[str]) -> list[LaneHead]:
        """Read the first job of every lane of these queues."""


class Rule(NamedTuple):
    """After which wait a lane is aged, and of how many claimed jobs it then gets one."""

    after_ms: int
    share: int


DEFAULT_RULE = Rule(after_ms=600_000, share=8)


class Turn(NamedTuple):
    """A lane whose turn it is, and how many jobs it may give."""

    queue: str
    priority: int
    jobs: int


class Ageing:
    """The share of aged lanes in the claims of one process."""

    def __init__(self, rules: Mapping[str, Rule] | None = None) -> None:
        self.rules = dict(rules or {})
        self._is_filled = False  # the last claim was filled: lanes may have been left out
        self._is_pressed = False  # aged lanes got less than their share of it by themselves
        self._heads: list[LaneHead] = []
        self._seen_at = 0.0
        self._owed = 0  # claimed jobs that no aged one was among yet
        self._turn: Turn | None = None

    def see(self, heads: Iterable[LaneHead]) -> None:
        """Take what the store shows of the lanes; until the next time, their first jobs wait on."""
        self._heads = sorted(heads, key=lambda head: -head.waited_ms)
        self._seen_at = time.monotonic()

    @property
    def oldest(self) -> LaneHead | None:
        """The aged lane whose first job has been due the longest."""
        since_ms = (time.monotonic() - self._seen_at) * 1_000
        return next((head for head in self._heads if head.waited_ms + since_ms > self.rule(head.queue).after_ms), None)

    def rule(self, queue: str) -> Rule:
        """What holds for a queue."""
        return self.rules.get(queue, DEFAULT_RULE)

    def turn(self, wanted: int) -> Turn | None:
        """Say which lane goes first in a claim of so many jobs, if one has to."""
        self._turn = None
        if self._is_pressed and (oldest := self.oldest) is not None:
            jobs = (self._owed + wanted) // self.rule(oldest.queue).share
            if jobs:
                self._turn = Turn(oldest.queue, oldest.priority, jobs)
        return self._turn

    def ordered(self, lanes: tuple[Lane, ...], turn: Turn) -> tuple[Lane, ...]:
        """Put the lane whose turn it is before all others, for as many jobs as it may give."""
        first = [
            Lane(lane.queue, lane.priority, min(turn.jobs, lane.limit), lane.after)
            for lane in lanes
            if (lane.queue, lane.priority) == turn[:2]
        ]
        return (*first, *(lane for lane in lanes if (lane.queue, lane.priority) != turn[:2]))

    def took(self, lanes: Sequence[tuple[str, int]], *, filled: bool) -> bool:
        """Count what a claim took, by lane; True when the lane whose turn it was may have more than it was asked for.

        What the aged lane gives by itself counts too: nothing is owed to one that is served.
        """
        turn, self._turn = self._turn, None
        self._is_filled = filled
        oldest = self.oldest
        if oldest is None:
            self._owed, self._is_pressed = 0, filled
            return False
        share = self.rule(oldest.queue).share
        aged = sum(lane == (oldest.queue, oldest.priority) for lane in lanes)
        given = 0 if turn is None else sum(lane == turn[:2] for lane in lanes)
        self._owed = min(max(self._owed + len(lanes) - share * aged, 0), share)
        self._is_pressed = filled and share * max(aged - given, 0) < len(lanes)
        return turn is not None and given >= turn.jobs

    async def keep_looking(self, store: HeadStore, queues: Sequence[str]) -> None:
        """Look at the heads of the lanes once a second while claims are filled; else no lane is left out."""
        while True:
            await asyncio.sleep(_LOOK_S)
            if not self._is_filled:
                self._heads = []
                continue
            try:
                self.see(await store.lane_heads(queues))
            except HoldfastError as error:
                _logger.debug("the heads of the lanes are looked at later: %s", error)


def rules_of(queues: Mapping[str, Queue]) -> dict[str, Rule]:
    """Read what an app says of its queues."""
    return {name: Rule(queue.age_after_ms, queue.age_share) for name, queue in queues.items()}
