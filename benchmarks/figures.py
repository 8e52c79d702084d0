"""The figures that Holdfast is to reach, as ratios to what ran beside it in the same rounds."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from benchmarks.roster import HOLDFAST
from benchmarks.runs import Run
from benchmarks.summary import Spread, good_values, spread

_PEERS = ("pgqueuer", "procrastinate", "chancy", "awa")
_REDIS_PEERS = ("arq", "saq", "taskiq", "dramatiq", "celery")
_COMMITS = 2  # that a lone job may take longer than on Redis alone: PostgreSQL is the truth


class Figure(NamedTuple):
    """One figure: what was asked for, and what was found."""

    name: str
    wanted: str
    found: Spread | None  # None: this run did not measure it
    is_reached: bool


class _Values(NamedTuple):
    store: str
    contestant: str
    measure: str
    value: str

    def by_round(self, runs: Sequence[Run]) -> dict[int, float]:
        return good_values(runs, *self)


def _speed(store: str, contestant: str, measure: str) -> _Values:
    return _Values(store, contestant, measure, "jobs_per_s")


_BARE = _speed("postgres", "raw", "one")  # a single-row INSERT, prepared, on one connection
# What is asked, Holdfast's value, whose it is divided by, and how much is wanted.
_RATIOS = (
    (
        "PostgreSQL drain, 1 process, over PgQueuer's",
        _speed("postgres", HOLDFAST, "drain1"),
        _speed("postgres", "pgqueuer", "drain1"),
        2.0,
    ),
    (
        "PostgreSQL drain, 2 processes, over PgQueuer's",
        _speed("postgres", HOLDFAST, "drain2"),
        _speed("postgres", "pgqueuer", "drain2"),
        1.6,
    ),
    (
        "PostgreSQL drain, 1 process, over the raw loop's",
        _speed("postgres", HOLDFAST, "drain1"),
        _speed("postgres", "raw", "drain1"),
        0.5,
    ),
    ("PostgreSQL enqueue one by one, over a bare INSERT", _speed("postgres", HOLDFAST, "one"), _BARE, 0.9),
    ("PostgreSQL enqueue by 64 coroutines, over a bare INSERT", _speed("postgres", HOLDFAST, "many"), _BARE, 5.0),
    (
        "PostgreSQL enqueue in bulk, over PgQueuer's",
        _speed("postgres", HOLDFAST, "bulk"),
        _speed("postgres", "pgqueuer", "bulk"),
        1.2,
    ),
    (
        "SQLite drain, 1 process, over Huey's",
        _speed("sqlite", HOLDFAST, "drain1"),
        _speed("sqlite", "huey", "drain1"),
        6.0,
    ),
)
_BOUNDS = (
    ("SQLite pickup, p95 in ms", _Values("sqlite", HOLDFAST, "pickup", "p95_ms"), 5.0),
    ("PostgreSQL idle worker, % of a core", _Values("postgres", HOLDFAST, "idle", "client_percent"), 1.0),
    ("SQLite idle worker, % of a core", _Values("sqlite", HOLDFAST, "idle", "client_percent"), 1.0),
    ("PostgreSQL memory after the drain, MB", _Values("postgres", HOLDFAST, "memory", "resident_mb"), 60.0),
    ("SQLite memory after the drain, MB", _Values("sqlite", HOLDFAST, "memory", "resident_mb"), 60.0),
)


def all_figures(runs: Sequence[Run]) -> list[Figure]:
    """Compare with every figure."""
    found = [_ratio(runs, *asked) for asked in _RATIOS]
    found += [_pickup_over_peers(runs), _redis_drain(runs), _redis_pickup(runs)]
    found += [_below(runs, *asked) for asked in _BOUNDS]
    return found


def _ratio(runs: Sequence[Run], name: str, ours: _Values, theirs: _Values, wanted: float) -> Figure:
    """Divide the medians; the range is that of the rounds that have both."""
    found = _divided(ours.by_round(runs), theirs.by_round(runs))
    return _judged(name, f">= {wanted:g}", found, lambda median: median >= wanted)


def _divided(ours: dict[int, float], theirs: dict[int, float]) -> Spread | None:
    if not ours or not theirs:
        return None
    rounds = [ours[turn] / theirs[turn] for turn in ours.keys() & theirs.keys()]
    median = spread(list(ours.values())).median / spread(list(theirs.values())).median
    return Spread(median, min(rounds, default=median), max(rounds, default=median))


def _below(runs: Sequence[Run], name: str, ours: _Values, wanted: float) -> Figure:
    values = ours.by_round(runs)
    found = spread(list(values.values())) if values else None
    return _judged(name, f"< {wanted:g}", found, lambda median: median < wanted)


def _pickup_over_peers(runs: Sequence[Run]) -> Figure:
    """Compare with the peer whose median is lowest."""
    ours = _Values("postgres", HOLDFAST, "pickup", "p95_ms").by_round(runs)
    peers = [_Values("postgres", peer, "pickup", "p95_ms").by_round(runs) for peer in _PEERS]
    theirs = min((peer for peer in peers if peer), key=lambda peer: spread(list(peer.values())).median, default={})
    name = "PostgreSQL pickup p95, over the lowest peer's"
    return _judged(name, "<= 1", _divided(ours, theirs), lambda median: median <= 1)


def _redis_drain(runs: Sequence[Run]) -> Figure:
    """Compare with the peer whose median is highest."""
    ours = _speed("redis", HOLDFAST, "drain1").by_round(runs)
    fastest, theirs = max(_on_redis(runs, "drain1", "jobs_per_s"), key=_median_of, default=("no peer", {}))
    name = f"Redis drain, 1 process, over the fastest peer's ({_told(fastest, theirs, 'jobs/s')})"
    return _judged(name, ">= 5", _divided(ours, theirs), lambda median: median >= 5)


def _redis_pickup(runs: Sequence[Run]) -> Figure:
    """Compare with the peer whose median is lowest, to which come the commits that it does not wait for."""
    ours = _Values("redis", HOLDFAST, "lone", "p95_ms").by_round(runs)
    lowest, theirs = min(_on_redis(runs, "lone", "p95_ms"), key=_median_of, default=("no peer", {}))
    commits = _Values("postgres", "raw", "commit", "p95_ms").by_round(runs)
    allowed = {turn: theirs[turn] + _COMMITS * commits[turn] for turn in theirs.keys() & commits.keys()}
    parts = f"{_told(lowest, theirs, 'ms')}, {_told('commit', commits, 'ms')}"
    name = f"Redis pickup p95, one at a time, over the lowest peer's and {_COMMITS} commits' ({parts})"
    return _judged(name, "<= 1", _divided(ours, allowed), lambda median: median <= 1)


def _on_redis(runs: Sequence[Run], measure: str, value: str) -> list[tuple[str, dict[int, float]]]:
    """Collect the peers of which there are figures, each with its values by round."""
    found = [(peer, _Values("redis", peer, measure, value).by_round(runs)) for peer in _REDIS_PEERS]
    return [(peer, values) for peer, values in found if values]


def _median_of(peer: tuple[str, Mapping[int, float]]) -> float:
    return spread(list(peer[1].values())).median


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"


def _told(name: str, values: Mapping[int, float], unit: str) -> str:
    return f"{name}: {_number(_median_of((name, values)))} {unit}" if values else f"{name}: not measured"


def _judged(name: str, wanted: str, found: Spread | None, is_enough: Callable[[float], bool]) -> Figure:
    return Figure(name, wanted, found, found is not None and is_enough(found.median))
