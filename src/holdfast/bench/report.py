"""What a run tells: how far it is, and what it has found."""

from dataclasses import dataclass

from holdfast.bench.figure import Figure, Unit
from holdfast.bench.place import Facts
from holdfast.bench.plan import COROUTINES, PICKUP_RATE, Part, Plan, Step

PERCENTILES = (50, 95, 99)


@dataclass(frozen=True)
class Progress:
    """How far a run is."""

    round: int
    done: int
    of: int
    step: Step


@dataclass(frozen=True)
class Report:
    """What a run has found: the figures, how many jobs ran for them, and the load of the machine before it began."""

    facts: Facts
    figures: list[Figure]
    jobs: int
    load: float


def figures_of(plan: Plan) -> list[Figure]:
    """List what a plan measures, in the order in which people read it."""
    figures = {
        Part.INSERT: [Figure("insert", "bare INSERT", Unit.COMMITS)],
        Part.ENQUEUE: [
            Figure("enqueue_one_by_one", "enqueue, one by one", Unit.JOBS),
            Figure("enqueue_at_once", f"enqueue, {COROUTINES} coroutines", Unit.JOBS),
            Figure("enqueue_in_bulk", "enqueue, in bulk", Unit.JOBS),
        ],
        Part.DRAIN: [
            Figure("drain_one", "drain, 1 process", Unit.JOBS),
            Figure("drain_several", f"drain, {plan.processes} processes", Unit.JOBS),
            Figure("memory", "memory after a drain", Unit.MEGABYTES),
        ],
        Part.PICKUP: [
            Figure(f"pickup_p{per_cent}", f"pickup at {PICKUP_RATE} jobs/s, p{per_cent}", Unit.MILLISECONDS)
            for per_cent in PERCENTILES
        ],
        Part.IDLE: [Figure("idle", "idle worker", Unit.CORE)],
    }
    chosen = [figure for part, some in figures.items() if part in plan.parts for figure in some]
    return [figure for figure in chosen if figure.name != "drain_several" or plan.drains_twice]
