"""How many jobs may run at once: in all, and of each queue."""

from collections import Counter
from collections.abc import Mapping


class Slots:
    """The slots of one process."""

    def __init__(self, total: int, by_queue: Mapping[str, int]) -> None:
        self.total = total
        self.taken = 0
        self._by_queue = dict(by_queue)
        self._taken: Counter[str] = Counter()

    @property
    def free(self) -> int:
        """How many more jobs may start."""
        return self.total - self.taken

    @property
    def running(self) -> Mapping[str, int]:
        """How many jobs of each queue have a slot."""
        return self._taken

    @property
    def half(self) -> int:
        """Half of what a process holds at most, what runs and what waits beside it.

        No call takes or ends more: while the store works on one half, the handlers of the other have something to do.
        """
        return -(-3 * self.total // 2)

    def set_bounds(self, by_queue: Mapping[str, int]) -> None:
        """Let queues have other bounds from now on; what runs goes on."""
        self._by_queue = dict(by_queue)

    def bound(self, queue: str) -> int | None:
        """The bound that a queue has of its own."""
        return self._by_queue.get(queue)

    def is_bound(self, queue: str) -> bool:
        """Whether a queue has a bound of its own."""
        return queue in self._by_queue

    def room(self, queue: str) -> int:
        """How many more jobs of a queue may run, as far as the queue's own bound goes."""
        bound = self._by_queue.get(queue)
        return self.total if bound is None else max(bound - self._taken[queue], 0)

    def take(self, queue: str) -> bool:
        """Take a slot for a job of a queue, if there is one."""
        if self.taken >= self.total or self.room(queue) < 1:
            return False
        self.taken += 1
        self._taken[queue] += 1
        return True

    def give(self, queue: str) -> None:
        """Give a slot back."""
        self.taken -= 1
        self._taken[queue] -= 1


def share(total: int, processes: int, index: int) -> int:
    """Deal a total evenly: the first processes get one more where it does not divide."""
    return total // processes + (1 if index < total % processes else 0)
