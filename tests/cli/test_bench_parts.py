"""The parts of the bench: places, plans, figures, the audit, what a process uses, and what is drawn."""

import io
import os
import re
from pathlib import Path

import psycopg
import pytest
from rich.console import Console
from rich.live import Live

from holdfast import Holdfast
from holdfast.bench import audit, figure, folder, ledger, on_postgres, usage
from holdfast.bench.audit import RunFailed
from holdfast.bench.figure import Figure, Unit
from holdfast.bench.ledger import Ledger
from holdfast.bench.on_postgres import PostgresPlace
from holdfast.bench.place import Facts
from holdfast.bench.plan import Part, Plan, Step
from holdfast.bench.report import Progress, Report, figures_of
from holdfast.cli import bench_page, bench_view

# ---- places --------------------------------------------------------------------------------------------------------


async def test_a_schema_that_cannot_be_dropped_is_named(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_postgres, "_REMOVE_S", 0.3)
    place = PostgresPlace(Holdfast(dsn).config)
    await place.open()
    schema = (await place.fresh()).schema
    with psycopg.connect(dsn) as connection:
        connection.execute(f'LOCK TABLE "{schema}".jobs')
        (left,) = await place.remove()
        assert left.startswith(f"the schema {schema} (no answer from ")
        assert left.endswith(f': DROP SCHEMA IF EXISTS "{schema}" CASCADE')
        connection.rollback()
    monkeypatch.setattr(on_postgres, "_REMOVE_S", 30)
    assert await place.remove() == []
    with psycopg.connect(dsn) as connection:
        assert connection.execute("SELECT to_regnamespace(%s)", [schema]).fetchone() == (None,)


async def test_a_folder_that_cannot_be_removed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x").mkdir()
    monkeypatch.setattr(folder, "_PATIENCE_S", 0.1)
    monkeypatch.setattr("shutil.rmtree", lambda path, ignore_errors: None)
    assert await folder.remove(tmp_path / "x") == [f"the folder {tmp_path / 'x'}: remove it with everything in it"]


# ---- the audit -----------------------------------------------------------------------------------------------------


def test_the_ledger_has_a_record_for_each_run(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    assert (ledger.count(path), ledger.read(path)) == (0, [])
    one, other = Ledger(str(path)), Ledger(str(path))
    one.record(7)
    other.record(8)
    one.record(7)
    with path.open("ab") as file:
        file.write(b"half")
    assert ledger.count(path) == 3
    assert [number for number, _ in ledger.read(path)] == [7, 8, 7]
    moments = [moment for _, moment in ledger.read(path)]
    assert moments == sorted(moments)


def test_every_job_once_is_what_is_asked_for() -> None:
    audit.require_exactly_once(3, [2, 0, 1])
    audit.require_exactly_once(0, [])
    with pytest.raises(RunFailed) as failed:
        audit.require_exactly_once(20, [*range(10), 3, 99])
    assert failed.value.problems == (
        "10 of 20 jobs never ran: number 10, number 11, number 12, number 13, number 14, …",
        "1 of 20 jobs ran more than once: number 3",
        "1 of 20 jobs ran and had never been enqueued: number 99",
    )


# ---- plans and figures ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", Part)
def test_every_part_has_steps_and_figures(part: Part) -> None:
    plan = Plan(parts=frozenset({part}))
    assert plan.steps
    assert figures_of(plan)
    assert (Step.START in plan.steps) is (part is not Part.INSERT)


def test_a_plan_scales() -> None:
    usual, small = Plan(), Plan(jobs=100)
    assert (usual.one_by_one, usual.at_once, usual.warm_up, usual.picked_up, usual.idle_s) == (
        2_000,
        10_000,
        1_000,
        200,
        3,
    )
    assert (small.one_by_one, small.at_once, small.warm_up, small.picked_up) == (20, 50, 20, 20)
    assert (Plan(jobs=1_000_000).warm_up, Plan(jobs=1_000_000).picked_up) == (1_000, 1_000)
    assert small.idle_s == pytest.approx(0.6)
    assert Step.DRAIN_SEVERAL not in Plan(processes=1).steps


def test_a_figure_is_a_median_and_a_range() -> None:
    found, other = Figure("a", "a", Unit.JOBS, [30, 10, 20]), Figure("b", "b", Unit.COMMITS, [10, 10, 5])
    assert (found.median, found.low, found.high) == (20, 10, 30)
    assert found.against(other) == 3, "the rounds are compared, not the medians"
    assert not found.is_steady
    assert Figure("c", "c", Unit.JOBS, [10, 14.9]).is_steady
    assert [found.is_rate, Figure("m", "m", Unit.MEGABYTES, [1]).is_rate] == [True, False]


def test_percentiles_are_values_that_were_seen() -> None:
    values = [float(value) for value in range(100, 0, -1)]
    assert [figure.percentile(values, per_cent) for per_cent in (50, 95, 99)] == [50, 95, 99]
    assert [figure.percentile([7.0], per_cent) for per_cent in (1, 99)] == [7, 7]


# ---- what a process uses -------------------------------------------------------------------------------------------


async def test_what_a_process_uses_is_known() -> None:
    before = await usage.cpu_s(os.getpid())
    while await usage.cpu_s(os.getpid()) < before + 0.01:
        sum(range(1_000))
    assert 5 < await usage.resident_mb(os.getpid()) < 10_000


@pytest.mark.parametrize(
    "text, seconds",
    [("0:00.12", 0.12), ("  1:02.34\n", 62.34), ("00:01:02", 62), ("1:00:00", 3_600), ("2-01:00:01", 176_401)],
)
def test_times_of_ps_are_read(text: str, seconds: float) -> None:
    assert usage.read_time(text) == pytest.approx(seconds)


def test_a_strange_time_of_ps_is_refused() -> None:
    with pytest.raises(ValueError, match=r"expected a time like 1:02\.34 from ps, got 'TIME'"):
        usage.read_time("TIME")


# ---- what is shown -------------------------------------------------------------------------------------------------


def report(load: float, settings: dict[str, str], *rounds: float) -> Report:
    figures = figures_of(Plan(parts=frozenset({Part.INSERT, Part.DRAIN})))
    for found in figures:
        found.rounds.extend(rounds)
    return Report(Facts("PostgreSQL 18.4", settings), figures, 1_234, load)


def shown(capsys: pytest.CaptureFixture[str], found: Report) -> str:
    plan = Plan(parts=frozenset({Part.INSERT, Part.DRAIN}))
    bench_page.write(found, plan, Holdfast("postgresql://app:secret@db/shop").config)
    return capsys.readouterr().out


def test_the_page_of_a_quiet_machine(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, report(0, {"synchronous_commit": "on", "fsync": "on"}, 10, 11))
    assert text.startswith("store     postgresql://app:***@db/shop\ndatabase  PostgreSQL 18.4, synchronous_commit on, ")
    assert "drain, 2 processes\t10.5\t10\t11\tjobs/s\t1\n" in text
    assert "each of 1,234 jobs ran exactly once, and the store shows nothing open\n" in text
    for absent in ("busy", "swung", "is off", "pickup", "idle"):
        assert absent not in text


def test_the_page_warns_of_what_spoils_figures(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, report(1_000, {"synchronous_commit": "off", "fsync": "off"}, 10, 16))
    assert re.search(r"- the machine was busy before it began \(load 1000\.0 on \d+ cores?\): ", text)
    assert "- 3 rates swung by more than 1.5 x between rounds (LOWEST, HIGHEST): " in text
    assert "- synchronous_commit is off: a crash of the server can lose jobs" in text
    assert "- fsync is off: a power cut can destroy the whole database" in text


def test_progress_fits_a_narrow_terminal() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=80, height=24, color_system=None)
    live = Live(console=console, auto_refresh=False)
    view = bench_view.View(Plan(), lambda line: live.update(line, refresh=True))
    for step in Step:
        view.show(Progress(2, 7, 30, step))
        console.print(live.get_renderable())
    text = console.file.getvalue()  # type: ignore[attr-defined] # it is the StringIO from above
    lines = str(text).splitlines()
    assert len(lines) == len(Step)
    assert all(len(line.rstrip()) <= 80 for line in lines)
    assert re.search(r"  0 s  round 2 of 3: drain with one process", text)


def test_nothing_is_drawn_where_nobody_watches(capsys: pytest.CaptureFixture[str]) -> None:
    with bench_view.opened(Plan()) as view:
        view.show(Progress(1, 0, 30, Step.INSERT))
    assert capsys.readouterr() == ("", "")
