"""How busy the processors of this machine are."""

import os
from pathlib import Path

_STAT = Path("/proc/stat")
_IDLE, _WAITING = 3, 4  # columns of the first line of that file


class Processors:
    """Compares what the system has counted with what it had counted the last time."""

    def __init__(self, stat: Path = _STAT) -> None:
        self._stat = stat
        self._idle, self._total = self._counted() or (0, 0)

    def busy(self) -> float:
        """The share of their time, from 0 to 1, that the processors worked since this was last asked.

        Where the system does not count that, the load of the last minute stands for it; where it has no load either,
        nobody can tell, and the answer is 0.
        """
        counted = self._counted()
        if counted is None:
            load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
            return min(load / (os.cpu_count() or 1), 1.0)
        idle, total = counted[0] - self._idle, counted[1] - self._total
        self._idle, self._total = counted
        return 1 - idle / total if total > 0 else 0.0

    def _counted(self) -> tuple[int, int] | None:
        try:
            with self._stat.open(encoding="ascii") as file:
                numbers = [int(number) for number in file.readline().split()[1:]]
            return numbers[_IDLE] + numbers[_WAITING], sum(numbers)
        except (OSError, ValueError, IndexError):
            return None
