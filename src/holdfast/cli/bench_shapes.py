"""What `bench --json` prints."""

import msgspec

from holdfast.bench.figure import Figure


class DatabaseShape(msgspec.Struct, frozen=True):
    """The database that was measured, and its settings that say how durable a commit is."""

    software: str
    settings: dict[str, str]


class MachineShape(msgspec.Struct, frozen=True, kw_only=True):
    """The machine on which the bench and its workers ran; `load_before` is its load in the minute before."""

    cores: int
    load_before: float
    platform: str
    python: str
    holdfast: str


class BenchPlanShape(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked for."""

    jobs: int
    rounds: int
    concurrency: int
    processes: int
    parts: list[str]


class FigureShape(msgspec.Struct, frozen=True, kw_only=True):
    """One figure; `rounds` has its value in each round."""

    name: str
    label: str
    unit: str
    median: float
    lowest: float
    highest: float
    rounds: list[float]


class BenchShape(msgspec.Struct, frozen=True, kw_only=True):
    """`bench --json`; `jobs_run` is how many jobs ran, each exactly once."""

    store: str
    database: DatabaseShape
    machine: MachineShape
    plan: BenchPlanShape
    figures: list[FigureShape]
    jobs_run: int


def figure(found: Figure) -> FigureShape:
    """Describe a figure of the bench."""
    return FigureShape(
        name=found.name,
        label=found.label,
        unit=found.unit.value,
        median=found.median,
        lowest=found.low,
        highest=found.high,
        rounds=found.rounds,
    )
