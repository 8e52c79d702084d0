"""The harness measures and checks: tiny runs through the code that `make bench` runs, without an installation."""

import random
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks import audit, figures, fsync, report, rounds, servers
from benchmarks.contestants.ledger import Ledger
from benchmarks.roster import ROSTER, Entry
from benchmarks.runs import Run, Sizes, perform

# One of them at a time: two would drop each other's database on a server that was given to both.
pytestmark = pytest.mark.xdist_group("benchmarks")

SIZES = Sizes(jobs=200, seconds=0.2, limit=50)
PYTHON = Path(sys.executable)


@pytest.fixture
def places(dsn: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, servers.Place]]:
    monkeypatch.setenv(servers.PG_DSN, dsn)
    with servers.postgres() as postgres, servers.sqlite() as sqlite:
        yield {"postgres": postgres, "sqlite": sqlite}


def entry_of(name: str, store: str) -> Entry:
    return next(entry for entry in ROSTER if (entry.name, entry.store) == (name, store))


@pytest.mark.parametrize(
    "name,store,measure,value",
    [
        ("holdfast", "postgres", "drain1", "jobs_per_s"),
        ("holdfast", "sqlite", "drain2", "jobs_per_s"),
        ("holdfast", "sqlite", "pickup", "p95_ms"),
        ("raw", "postgres", "drain2", "resident_mb"),
        ("raw", "sqlite", "drain1", "jobs_per_s"),
        ("raw", "postgres", "many", "jobs_per_s"),
    ],
)
def test_a_contestant_is_measured(
    name: str, store: str, measure: str, value: str, places: dict[str, servers.Place]
) -> None:
    run = perform(entry_of(name, store), PYTHON, places[store], SIZES, measure=measure, turn=1)
    assert run.problems == []
    assert run.values[value] > 0


def test_a_run_that_cannot_start_says_why(places: dict[str, servers.Place]) -> None:
    entry = Entry("nobody", "sqlite", "nobody", "nobody")
    run = perform(entry, PYTHON, places["sqlite"], SIZES, measure="one", turn=1)
    assert run.values == {}
    assert "No module named benchmarks.contestants.nobody" in run.problems[0]


def test_a_job_that_is_missing_or_doubled_is_found(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger")
    for number in (0, 1, 1, 3, 9):
        ledger.record(number)
    assert audit.problems_of(tmp_path / "ledger", range(4)) == [
        "1 jobs never ran: 2",
        "1 jobs ran more than once: 1",
        "1 jobs ran and were never enqueued: 9",
    ]
    assert audit.problems_of(tmp_path / "nothing", range(0)) == []


def test_contestants_take_turns_within_each_measure() -> None:
    entries = [entry_of("holdfast", "postgres"), entry_of("raw", "postgres")]
    turns = list(rounds.order(2, ["one", "idle"], entries, random.Random(7)))
    told = [(turn, measure) for turn, measure, _ in turns]
    # The raw loop does not wait for jobs, so it has no idling.
    assert told == [(1, "one"), (1, "one"), (1, "idle"), (2, "one"), (2, "one"), (2, "idle")]


def runs_of(**speeds: float) -> list[Run]:
    return [Run(1, "postgres", name, "drain1", values={"jobs_per_s": speed}) for name, speed in speeds.items()]


def test_figures_are_reached_or_short() -> None:
    found = {
        figure.name: figure for figure in figures.all_figures(runs_of(holdfast=20_000, raw=60_000, pgqueuer=9_000))
    }
    assert found["PostgreSQL drain, 1 process, over PgQueuer's"].is_reached
    assert not found["PostgreSQL drain, 1 process, over the raw loop's"].is_reached
    assert found["SQLite drain, 1 process, over Huey's"].found is None


def test_a_failed_run_is_told_and_not_counted() -> None:
    runs = runs_of(holdfast=20_000, chancy=19_000)
    lost = ["1 jobs never ran: 7"]
    runs.append(Run(2, "postgres", "holdfast", "drain1", values={"jobs_per_s": 90_000}, problems=lost))
    text = report.as_text(runs, {"awa on postgres": "no such package"})
    assert "FAILED holdfast on postgres, drain1, round 2: 1 jobs never ran: 7" in text
    assert "FAILED 1 of 2" in text
    assert "90,000" not in text
    assert "0.95 x, tie" in text
    assert "LEFT OUT awa on postgres: no such package" in text
    page = report.as_markdown(runs, {"machine": {"cores": 2}}, {})
    assert "| holdfast | 20,000 | 20,000 to 20,000 | 1.00 x |" in page
    assert "  - cores: 2" in page


def test_only_the_first_part_of_pg_test_fsync_is_read() -> None:
    said = """
Compare file sync methods using one 8kB write:
        open_datasync                     10491.668 ops/sec      95 usecs/op
        fdatasync                          9057.565 ops/sec     110 usecs/op
        fsync_writethrough                              n/a
Compare file sync methods using two 8kB writes:
        fdatasync                         10289.558 ops/sec      97 usecs/op
"""
    assert fsync.parsed(said.splitlines()) == {"open_datasync": 10491.668, "fdatasync": 9057.565}
