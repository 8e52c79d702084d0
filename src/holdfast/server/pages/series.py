"""What has ended lately, step by step, as the overview draws it."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from holdfast.job import TERMINAL, JobState
from holdfast.rollup import SeriesPoint
from holdfast.server.scoped.client import ScopedClient

_HEIGHT = 32
_BAR = 10


@dataclass(frozen=True)
class Range:
    """How far back is looked, in which steps, and for how long the answer is good enough."""

    name: str
    seconds: int
    step_s: int
    lasts_s: float


RANGES = {
    found.name: found
    for found in (Range("1h", 3_600, 60, 3), Range("24h", 86_400, 1_800, 30), Range("7d", 604_800, 10_800, 120))
}


@dataclass(frozen=True)
class Bar:
    """What ended within one step, and where it is drawn: those that failed stand below the others."""

    at: datetime
    well: int
    ill: int
    x: int
    well_y: float
    well_height: float
    ill_y: float
    ill_height: float


@dataclass(frozen=True)
class Series:
    """The steps of one queue, or of all; `again` is how often a job went back to try again."""

    bars: tuple[Bar, ...]
    again: int = 0

    @property
    def width(self) -> int:
        """How wide the drawing is."""
        return len(self.bars) * _BAR

    @property
    def well(self) -> int:
        """How many did not fail."""
        return sum(bar.well for bar in self.bars)

    @property
    def ill(self) -> int:
        """How many failed."""
        return sum(bar.ill for bar in self.bars)

    @property
    def share(self) -> float:
        """How many of a hundred failed."""
        return 100 * self.ill / (self.well + self.ill) if self.ill else 0.0


async def read_points(client: ScopedClient, chosen: Range) -> tuple[datetime, list[SeriesPoint]]:
    """Read what ended within a range, and when its first step begins."""

    async def ask() -> tuple[datetime, list[SeriesPoint]]:
        now = datetime.now(UTC).timestamp()
        last = now // chosen.step_s * chosen.step_s
        first = datetime.fromtimestamp(last - chosen.seconds + chosen.step_s, UTC)
        return first, await client.figures.ended(first, chosen.step_s)

    return await client.recent(("series", chosen.name), chosen.lasts_s, ask)


def draw(points: Iterable[SeriesPoint], first: datetime, chosen: Range) -> Series:
    """Lay out the steps of a range side by side, also those in which nothing ended."""
    well: Counter[int] = Counter()
    ill: Counter[int] = Counter()
    again = 0
    for point in points:
        if point.state not in TERMINAL:
            again += point.jobs
            continue
        step = int((point.at - first).total_seconds() // chosen.step_s)
        (ill if point.state is JobState.FAILED else well)[max(step, 0)] += point.jobs
    steps = range(chosen.seconds // chosen.step_s)
    most = max((well[step] + ill[step] for step in steps), default=0) or 1
    bars = [
        _bar(step, (well[step], ill[step]), most, first + timedelta(seconds=step * chosen.step_s)) for step in steps
    ]
    return Series(tuple(bars), again)


def by_queue(points: Sequence[SeriesPoint]) -> dict[str, list[SeriesPoint]]:
    """Deal out the points to their queues."""
    found: dict[str, list[SeriesPoint]] = {}
    for point in points:
        found.setdefault(point.queue, []).append(point)
    return found


def _bar(step: int, ended: tuple[int, int], most: int, at: datetime) -> Bar:
    well, ill = ended
    tall_well, tall_ill = (max(_HEIGHT * count / most, 1.5) if count else 0.0 for count in ended)
    return Bar(
        at=at,
        well=well,
        ill=ill,
        x=step * _BAR,
        well_y=round(_HEIGHT - tall_ill - tall_well, 1),
        well_height=round(tall_well, 1),
        ill_y=round(_HEIGHT - tall_ill, 1),
        ill_height=round(tall_ill, 1),
    )
