"""The harness measures and checks: tiny runs through the code that `make bench` runs, without an installation."""

import random
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from benchmarks import audit, figures, fsync, report, rounds, servers
from benchmarks.contestants import ledger
from benchmarks.contestants.ledger import Ledger
from benchmarks.entrant import Entrant
from benchmarks.roster import GROUPS, ROSTER, Entry
from benchmarks.runs import Run, Sizes, perform
from tests.support.wait import wait_until

# One of them at a time: two would drop each other's database on a server that was given to both.
pytestmark = pytest.mark.xdist_group("benchmarks")

SIZES = Sizes(jobs=200, seconds=0.2, limit=50)
PYTHON = Path(sys.executable)


@pytest.fixture
def places(dsn: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, servers.Place]]:
    monkeypatch.setenv(servers.PG_DSN, dsn)
    with servers.postgres() as postgres, servers.sqlite() as sqlite, servers.redis() as redis:
        yield {"postgres": postgres, "sqlite": sqlite, "redis": redis}


def entry_of(name: str, store: str) -> Entry:
    return next(entry for entry in ROSTER if (entry.name, entry.store) == (name, store))


@pytest.mark.real_time
@pytest.mark.sample
@pytest.mark.parametrize(
    "name,store,measure,value",
    [
        ("holdfast", "postgres", "drain1", "jobs_per_s"),
        ("holdfast", "sqlite", "drain2", "jobs_per_s"),
        ("holdfast", "sqlite", "pickup", "p95_ms"),
        ("raw", "postgres", "drain2", "resident_mb"),
        ("raw", "sqlite", "drain1", "jobs_per_s"),
        ("raw", "postgres", "many", "jobs_per_s"),
        ("raw", "postgres", "commit", "p95_ms"),
        ("holdfast", "redis", "drain1", "jobs_per_s"),
        ("holdfast", "redis", "lone", "call_p95_ms"),
    ],
)
def test_a_contestant_is_measured(
    name: str, store: str, measure: str, value: str, places: dict[str, servers.Place]
) -> None:
    entry = entry_of(name, store)
    run = perform(entry, PYTHON, servers.of(entry, places), SIZES, measure=measure, turn=1)
    assert run.problems == []
    assert run.values[value] > 0


def test_a_run_that_cannot_start_says_why(places: dict[str, servers.Place]) -> None:
    entry = Entry("nobody", "sqlite", "nobody", "nobody")
    run = perform(entry, PYTHON, places["sqlite"], SIZES, measure="one", turn=1)
    assert run.values == {}
    assert "No module named benchmarks.contestants.nobody" in run.problems[0]


@pytest.mark.real_time
def test_a_lone_job_waits_until_the_one_before_it_has_begun(places: dict[str, servers.Place], tmp_path: Path) -> None:
    called, ran = tmp_path / "called", tmp_path / "ran"
    entrant = Entrant(entry_of("raw", "sqlite"), PYTHON, places["sqlite"].fresh("raw"))
    entrant.ask("prepare", within=50)
    options = ["--jobs", 2, "--rate", 1_000, "--called", called, "--ran", ran]
    with ThreadPoolExecutor(1) as thread:
        feeding = thread.submit(entrant.ask, "feed", *options, within=50)
        wait_until(lambda: ledger.count(called) or feeding.done(), "the first job is called for")
        time.sleep(0.2)  # a hundred of its pauses: time enough to go on too early
        Ledger(ran).record(0)
        feeding.result()
    [begun] = ledger.read(ran)
    [first, second] = ledger.read(called)
    assert first.when < begun.when < second.when


def test_a_job_that_is_missing_or_doubled_is_found(tmp_path: Path) -> None:
    written = Ledger(tmp_path / "ledger")
    for number in (0, 1, 1, 3, 9):
        written.record(number)
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


def on_redis(measure: str, value: str, *found: tuple[str, Sequence[float]]) -> list[Run]:
    return [
        Run(turn, "postgres" if name == "raw" else "redis", name, measure, values={value: number})
        for name, numbers in found
        for turn, number in enumerate(numbers, 1)
    ]


def test_the_drain_on_redis_is_compared_with_its_fastest_peer() -> None:
    runs = on_redis("drain1", "jobs_per_s", ("holdfast", [9_000, 12_000]), ("saq", [1_000]), ("celery", [2_000, 2_100]))
    [figure] = [figure for figure in figures.all_figures(runs) if figure.name.startswith("Redis drain")]
    assert figure.name.endswith("(celery: 2,050 jobs/s)")
    assert figure.found is not None
    assert figure.found == pytest.approx((10_500 / 2_050, 4.5, 12_000 / 2_100))
    assert figure.is_reached


@pytest.mark.parametrize("ours,is_reached", [(2.0, True), (2.1, False)])
def test_the_pickup_on_redis_may_take_two_commits_longer_than_the_lowest_peer_s(
    ours: float, *, is_reached: bool
) -> None:
    runs = on_redis("lone", "p95_ms", ("holdfast", [ours]), ("taskiq", [1.0]), ("arq", [0.5, 40.0, 40.0]))
    runs += on_redis("commit", "p95_ms", ("raw", [0.5]))
    [figure] = [figure for figure in figures.all_figures(runs) if figure.name.startswith("Redis pickup")]
    assert figure.name.endswith("(taskiq: 1.00 ms, commit: 0.50 ms)")
    assert figure.found is not None
    assert figure.found.median == pytest.approx(ours / 2.0)
    assert figure.is_reached is is_reached


def test_the_group_of_redis_has_every_part_of_its_figures() -> None:
    turns = list(rounds.order(1, GROUPS["redis"].measures, GROUPS["redis"].entries, random.Random(7)))
    beside = {"arq", "saq", "taskiq", "dramatiq", "celery"}
    by_measure = {measure: {entry.title for _, found, entry in turns if found == measure} for _, measure, _ in turns}
    redis = {f"{name} on redis" for name in {"holdfast", *beside}}
    assert by_measure["drain1"] == redis | {"holdfast on postgres", "raw on postgres"}
    assert by_measure["lone"] == redis | {"holdfast on postgres"}
    assert by_measure["commit"] == {"raw on postgres"}


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
