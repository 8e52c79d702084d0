"""A client that goes on enqueuing, whatever the store does, and remembers what it was told."""

import random
from collections import Counter
from collections.abc import Sequence

import msgspec

from holdfast.errors import StoreError
from tests.support.pace import every
from tests.support.place import Place

MANY = 25
KINDS = (("effect", "effects"), ("plain", "default"), ("threaded", "default"))


class Feed:
    """What was accepted, what may have been, and the errors that it met."""

    def __init__(self, place: Place, *, longest_ms: int, kinds: Sequence[tuple[str, str]] = KINDS) -> None:
        self.accepted: list[int] = []
        self.doubtful: list[int] = []
        self.errors: Counter[str] = Counter()
        self._place = place
        self._longest_ms = longest_ms
        self._kinds = kinds

    async def serve(self, jobs: int, seconds: float) -> None:
        """Enqueue jobs, ten at a time, evenly over a time."""
        batch = 10
        kinds = [self._kinds[number % len(self._kinds)] for number in reversed(range(jobs // batch))]
        async for _ in every(seconds * batch / jobs, lambda: kinds):
            kind, queue = kinds.pop()
            await self.give(kind, queue, [f'{{"ms": {random.randint(0, self._longest_ms)}}}' for _ in range(batch)])

    async def give(self, kind: str, queue: str, payloads: Sequence[str]) -> bool:
        """Enqueue jobs once; True when they were accepted."""
        ids: list[int] = []
        try:
            jobs = [
                # A statement of the handler that meets the outage costs an attempt, and a kill from outside a crash:
                # here both happen all the time.
                msgspec.structs.replace(job, max_attempts=MANY, max_crashes=MANY)
                for job in await self._place.make_jobs(kind, queue, payloads)
            ]
            ids = [job.id for job in jobs]
            await self._place.store.insert_jobs(jobs)
        except StoreError as error:
            self.errors[type(error).__name__] += 1
            self.doubtful += ids
            return False
        self.accepted += ids
        try:
            await self._place.store.announce([queue])
        except StoreError as error:  # a hint only
            self.errors[type(error).__name__] += 1
        return True

    async def stored(self) -> list[int]:
        """The jobs that have to end: all that were accepted, and those that are there although nobody said so."""
        there: list[int] = []
        for start in range(0, len(self.doubtful), 1_000):
            there += [job.id for job in await self._place.store.get_jobs(self.doubtful[start : start + 1_000])]
        return self.accepted + there
