"""The scale runs at a tiny size: each runs, checks itself and has something to show."""

from pathlib import Path

import msgspec
import pytest

from benchmarks.scale import output, pinned
from benchmarks.scale.__main__ import RUNS, main
from benchmarks.scale.expense import Expense
from benchmarks.scale.latency import percentile
from benchmarks.scale.once import WrongRun, require_once
from benchmarks.scale.report import Figure
from benchmarks.scale.sizes import Sizes

TINY = Sizes(
    rounds=1,
    drain_jobs=100,
    claim_queued=(300,),
    claim_full=(500, 500, 1_000),
    claim_samples=5,
    pinned_jobs=500,
    pinned_plain_jobs=500,
    pinned_rounds=1,
    rows=1_000,
    expired_rows=100,
    calls=2,
    staged_jobs=50,
    staged_at_once=8,
    watched_jobs=200,
    connections=(1, 3),
    connection_jobs=100,
    connection_processes=2,
    delays_ms=(0.1,),
    one_jobs=10,
    many_jobs=100,
    feed_jobs=20,
    due_jobs=100,
    due_s=1.0,
    promoted_jobs=2_000,
    limited_jobs=100,
)


@pytest.mark.real_time
@pytest.mark.sample
@pytest.mark.parametrize("name", list(RUNS))
def test_a_run_finds_something(name: str, dsn: str, tmp_path: Path) -> None:
    reports = list(RUNS[name](dsn, tmp_path, TINY))
    for report in reports:
        output.show(report)
        assert report.tables
        assert all(len(row) == len(table.columns) for table in report.tables for row in table.rows)
    output.write(tmp_path / "found", {"cores": 1}, reports)
    written = msgspec.json.decode((tmp_path / "found" / "scale.json").read_bytes())
    assert [run["name"] for run in written["runs"]] == [report.name for report in reports]
    assert (tmp_path / "found" / "scale.md").read_text().count("## ") == len(reports)


def test_tenths_spread_jobs_that_end_together() -> None:
    times = [0.0] * 7 + [float(second) for second in range(1, 11) for _ in range(5)]
    assert pinned.tenths(times, Expense()).per_second == pytest.approx([5.0] * 10)


def test_percentiles_are_samples() -> None:
    samples = [float(number) for number in range(1, 201)]
    assert [percentile(samples, percent) for percent in (50, 99, 100)] == [100.0, 198.0, 200.0]


def test_a_figure_says_whether_it_is_reached() -> None:
    assert Figure("more", 0.7, 0.7, at_least=True).verdict == "reached"
    assert Figure("less", 1.6, 1.5, at_least=False).verdict == "short"


def test_a_job_that_did_not_run_is_no_figure(tmp_path: Path) -> None:
    with pytest.raises(WrongRun, match="never ran"):
        require_once(tmp_path / "ledger", 1)


def test_an_unknown_run_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--only", "claim,sleep"])
    assert "got sleep" in capsys.readouterr().err
