"""What is measured, how often, and with how many jobs."""

from dataclasses import dataclass
from enum import StrEnum

from holdfast.errors import InvalidValue

COROUTINES = 64
PICKUP_RATE = 100  # jobs per second
LONGEST_S = 2.0  # for what waits for a commit each time: a slow disk must not make a run endless

_USUAL_JOBS = 20_000
_IDLE_S = 3.0
_FEWEST, _ENOUGH = 20, 1_000


class Part(StrEnum):
    """A part of the bench that can be asked for by itself."""

    INSERT = "insert"
    ENQUEUE = "enqueue"
    DRAIN = "drain"
    IDLE = "idle"
    PICKUP = "pickup"


class Step(StrEnum):
    """What is being done at a moment."""

    INSERT = "bare INSERTs"
    ONE_BY_ONE = "enqueue one by one"
    AT_ONCE = "enqueue at once"
    START = "start a worker"
    BULK = "enqueue in bulk"
    DRAIN_ONE = "drain with one process"
    IDLE = "idle"
    PICKUP = "pickup"
    START_SEVERAL = "start a worker with several processes"
    DRAIN_SEVERAL = "drain with several processes"


@dataclass(frozen=True)
class Plan:
    """What the user asked for."""

    jobs: int = _USUAL_JOBS
    rounds: int = 3
    concurrency: int = 200
    processes: int = 2
    parts: frozenset[Part] = frozenset(Part)

    def __post_init__(self) -> None:
        if self.processes > self.concurrency:
            message = f"--processes: expected at most --concurrency ({self.concurrency}), got {self.processes}: each"
            message += " process needs a slot; give fewer processes, or a higher concurrency"
            raise InvalidValue(message)

    @property
    def one_by_one(self) -> int:
        """How many rows or jobs have a commit each."""
        return max(self.jobs // 10, _FEWEST)

    @property
    def at_once(self) -> int:
        """How many jobs the coroutines enqueue together."""
        return max(self.jobs // 2, _FEWEST)

    @property
    def warm_up(self) -> int:
        """How many jobs a fresh worker runs before anything is timed."""
        return min(max(self.jobs // 20, _FEWEST), _ENOUGH)

    @property
    def picked_up(self) -> int:
        """How many jobs are enqueued at a steady rate."""
        return min(max(self.jobs // 100, _FEWEST), _ENOUGH)

    @property
    def idle_s(self) -> float:
        """How long a worker is watched that has nothing to do."""
        return _IDLE_S * min(max(self.jobs / _USUAL_JOBS, 0.2), 1)

    @property
    def needs_jobs(self) -> bool:
        """Whether any job is stored."""
        return self.parts != {Part.INSERT}

    @property
    def fills(self) -> bool:
        """Whether jobs are enqueued in bulk, and then drained."""
        return bool(self.parts & {Part.ENQUEUE, Part.DRAIN})

    @property
    def drains_twice(self) -> bool:
        """Whether several processes drain too."""
        return Part.DRAIN in self.parts and self.processes > 1

    @property
    def steps(self) -> list[Step]:
        """List what one round does, in order."""
        steps = {
            Step.INSERT: Part.INSERT in self.parts,
            Step.ONE_BY_ONE: Part.ENQUEUE in self.parts,
            Step.AT_ONCE: Part.ENQUEUE in self.parts,
            Step.START: self.needs_jobs,
            Step.BULK: self.fills,
            Step.DRAIN_ONE: self.fills,
            Step.IDLE: Part.IDLE in self.parts,
            Step.PICKUP: Part.PICKUP in self.parts,
            Step.START_SEVERAL: self.drains_twice,
            Step.DRAIN_SEVERAL: self.drains_twice,
        }
        return [step for step, is_done in steps.items() if is_done]


def read_parts(text: str) -> frozenset[Part]:
    """Read which parts are asked for: names with commas in between."""
    parts = set()
    for name in text.split(","):
        try:
            parts.add(Part(name.strip().lower()))
        except ValueError:
            message = f"--only: expected some of {', '.join(Part)}, separated by commas, got {name.strip()!r}"
            raise InvalidValue(message) from None
    return frozenset(parts)
