"""`demo`: it runs to a good end without a terminal, cleans up, and says when something did not go as planned."""

import asyncio
import io
import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from rich.console import Console
from rich.live import Live

from holdfast import Holdfast, JobFilter, JobState
from holdfast.cli import demo_run, demo_view
from holdfast.cli.demo_processes import DemoServer
from holdfast.cli.demo_run import Demo, Story
from holdfast.cli.demo_view import Snapshot
from holdfast.cli.main import standalone
from holdfast.demo import app as shop
from holdfast.demo import plan
from holdfast.demo.plan import Planned, Summary
from holdfast.resources.job import Job
from holdfast.stores.sqlite.store import SqliteStore

LONG_ENOUGH_S = 150
stays: list[bool] = []


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give the demo a temporary folder of this test's own, beside the one it is started in."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("TMPDIR", str(folder))
    return folder


def start(*args: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "holdfast", "demo", *args],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def end(process: subprocess.Popen[str]) -> None:
    """Leave nothing of a process that a failed test did not wait for."""
    if process.poll() is None:
        process.kill()
        process.communicate()


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and was not waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] not in ("Z", "X")
    except (FileNotFoundError, ProcessLookupError):
        return False


# ---- a real run ----------------------------------------------------------------------------------------------------


@pytest.mark.real_time
@pytest.mark.timeout(LONG_ENOUGH_S + 30)
def test_it_runs_to_a_good_end(temporary: Path) -> None:
    process = start("--keep")
    try:
        text, notes = process.communicate(timeout=LONG_ENOUGH_S)
    finally:
        end(process)
    assert process.returncode == 0, f"{text}\n{notes}"
    assert "\x1b" not in text
    folder = Path(re.findall(r"^store: sqlite:///(.*)/jobs\.db$", text, re.MULTILINE)[0])
    assert folder.parent == temporary
    assert f"kept: holdfast jobs list --store sqlite:///{folder}/jobs.db" in notes
    assert list(Path.cwd().iterdir()) == [], "nothing is left where it was started"

    planned = [*plan.jobs(), plan.unwanted()]
    numbers = {state: sum(one.state is state for one in planned) for state in JobState}
    assert re.search(rf"^{len(planned)} of {len(planned)} jobs finished in [0-9.]+ s$", text, re.MULTILINE)
    for state in (JobState.COMPLETED, JobState.COMPLETED_WITH_ERRORS, JobState.FAILED, JobState.CANCELLED):
        assert re.search(rf"^  {state} +{numbers[state]}$", text, re.MULTILINE)
    retried = sum(one.attempts > 1 for one in planned)
    assert re.search(rf"^  retried +{retried} ", text, re.MULTILINE)
    for beside in ("rescued", "fired", "escalated", "spent"):
        assert int(re.findall(rf"^  {beside} +(\d+) ", text, re.MULTILINE)[0]) > 0
    assert len(re.findall(r"await_stock \S+ snoozed, due in \S+: not in stock yet", text)) > 0
    assert text.endswith("everything finished as planned\n")
    assert len(re.findall(r"kill -9 \d+: worker \d+, which held \d+ jobs", text)) == 1
    assert re.search(r"export \S+ was rescued: claim 2 of it, by worker \d", text)
    assert len(re.findall(r" queued, \d+ scheduled, \d+ running, ", text)) > 3, "a line per second"
    assert len(re.findall(r"dashboard: http://127\.0\.0\.1:\d+/login\?link=hf_\S+ \(works once\)", text)) == 1
    assert asyncio.run(left_by(f"sqlite:///{folder}/jobs.db")) == {"spent", "escalated", "scheduled", "items", "phases"}


async def left_by(url: str) -> set[str]:
    """Look what there is to see of it in the dashboard."""
    found: set[str] = set()
    async with Holdfast(url) as app:
        (budget,) = await app.budgets.list()
        found |= {"spent"} if budget.share > 0.5 else set()
        found |= {"escalated"} if (await app.escalations.list()).escalations else set()
        page = await app.jobs.list(JobFilter(kinds=("count_stock",)))
        found |= {"scheduled"} if any(job.schedule for job in page.jobs) else set()
        for listed in (await app.jobs.list(JobFilter(kinds=("import_catalogue",)))).jobs:
            job = await app.jobs.get(listed.id)
            found |= {"items"} if job.items["pages"].failed else set()
            found |= {"phases"} if [phase.state for phase in job.phases] == ["completed"] * 3 else set()
    return found


class Onlooker:
    """A person who has seen enough as soon as something is drawn."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.shown: list[Snapshot] = []

    def say(self, at: float, text: str, style: str = "") -> None:
        """Hear something."""
        self.said.append(text)

    def show(self, snapshot: Snapshot) -> None:
        """See how it stands, and press Ctrl-C."""
        self.shown.append(snapshot)
        os.kill(os.getpid(), signal.SIGINT)


async def test_where_a_person_looks_on_more_jobs_come_until_ctrl_c(tmp_path: Path) -> None:
    view = Onlooker()
    async with shop.app.open_on(SqliteStore(":memory:")):
        demo = Demo(f"sqlite:///{tmp_path}/jobs.db", tmp_path, view, stays=True)
        waiting = await asyncio.create_subprocess_exec("sleep", "60")
        server = DemoServer(None, tmp_path / "serve.log", None)
        server.address = "http://127.0.0.1:1/"
        try:
            async with asyncio.timeout(20):
                await demo._stay(waiting, server)
        finally:
            waiting.kill()
            await waiting.wait()
        stored = [job.kind async for job in shop.app.jobs.iterate()]
    assert sorted(stored) == sorted(call.kind for call in plan.more(1))
    assert len(view.shown[0].jobs) == len(stored)
    assert view.said[-1] == "dashboard: http://127.0.0.1:1/ (the link above lets you in)"


@pytest.mark.real_time
@pytest.mark.parametrize(
    "number, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)], ids=["INT", "TERM", "KILL"]
)
def test_it_leaves_nothing_behind_when_it_is_stopped(temporary: Path, number: signal.Signals, code: int) -> None:
    process = start()
    try:
        assert process.stdout is not None
        lines = iter(process.stdout.readline, "")
        worker = next(int(found[1]) for line in lines if (found := re.search(r"started: .*\(process (\d+)\)", line)))
        process.send_signal(number)
        process.communicate(timeout=30)
    finally:
        end(process)
    assert process.returncode == code
    if number is not signal.SIGKILL:
        assert list(temporary.iterdir()) == []
        assert not is_alive(worker)
    while is_alive(worker):  # the kernel ends it with the demo; the test's own timeout bounds this
        os.sched_yield()


# ---- not as planned ------------------------------------------------------------------------------------------------


def told(monkeypatch: pytest.MonkeyPatch, *problems: str, args: Sequence[str] = (), is_seen: bool = False) -> Result:
    """Run the command with a course that is already known."""
    monkeypatch.setattr("holdfast.cli.output.is_terminal", lambda: is_seen)

    async def run(self: Demo) -> Story:
        stays.append(self._stays)
        return Story(2, 1.5, Summary({JobState.COMPLETED: 1}, 0, 0, 0, ()), problems)

    monkeypatch.setattr(demo_run.Demo, "run", run)
    monkeypatch.setattr("tempfile.tempdir", None)  # it is read from the environment only once
    return CliRunner().invoke(standalone, ["demo", *args])


def test_what_did_not_go_as_planned_is_1_and_kept(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = told(monkeypatch, "job a (export): expected completed, got running", "the worker said: no")
    assert result.exit_code == 1
    assert "Error: the demo did not go as planned: job a (export): expected completed, got running\n" in result.stderr
    assert "the worker said: no" in result.stderr
    assert "kept: holdfast jobs list --store" in result.stderr
    assert "as planned" not in result.stdout
    assert len(list(temporary.iterdir())) == 1


@pytest.mark.parametrize("args, is_seen, goes_on", [([], True, True), (["--exit"], True, False), ([], False, False)])
def test_it_goes_on_where_a_person_looks_on(
    temporary: Path, monkeypatch: pytest.MonkeyPatch, args: list[str], is_seen: bool, goes_on: bool
) -> None:
    stays.clear()
    assert told(monkeypatch, args=args, is_seen=is_seen).exit_code == 0
    assert stays == [goes_on]
    assert list(temporary.iterdir()) == []


def test_a_good_end_is_0_and_removed(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = told(monkeypatch)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.endswith("everything finished as planned\n")
    assert list(temporary.iterdir()) == []


def stored() -> tuple[dict[str, Planned], dict[str, Job]]:
    """Store what is planned, and run none of it."""

    async def store() -> tuple[dict[str, Planned], dict[str, Job]]:
        async with shop.app.open_on(SqliteStore(":memory:")):
            planned = plan.jobs()
            handles = await shop.app.enqueue_many([one.call for one in planned])
            ids = [handle.id for handle in handles]
            return dict(zip(ids, planned, strict=True)), await shop.app.jobs.get_many(ids)

    return asyncio.run(store())


def test_the_plan_is_compared_with_what_happened() -> None:
    planned, found = stored()
    summary = plan.summarise(planned, found)
    assert (summary.ended, summary.retried, summary.rescued) == ({}, 0, 0)
    assert len(summary.problems) == len(planned)
    assert "(thumbnail): expected completed, got queued" in summary.problems[0]
    assert plan.summarise(planned, {}).problems[0].endswith("(thumbnail) is gone")


def test_the_plan_shows_every_sort_of_job() -> None:
    planned, found = stored()
    assert {one.call.kind for one in planned.values()} == {task.kind for task in shop.app.tasks} - {"count_stock"}
    assert {schedule.kind for schedule in shop.app.schedule_definitions.values()} == {"count_stock"}
    assert {job.queue for job in found.values()} == set(shop.app.config.queues)
    assert len({job.priority for job in found.values()}) == len(shop.app.config.queues)
    assert {one.state for one in [*planned.values(), plan.unwanted()]} == {
        JobState.COMPLETED,
        JobState.COMPLETED_WITH_ERRORS,
        JobState.FAILED,
        JobState.CANCELLED,
    }
    more = {call.kind for number in range(1, 15) for call in plan.more(number)}
    assert more < {task.kind for task in shop.app.tasks}
    assert len(more) == 7


# ---- the view ------------------------------------------------------------------------------------------------------


def test_the_view_fits_a_narrow_terminal() -> None:
    _, found = stored()
    console = Console(file=io.StringIO(), force_terminal=True, width=80, height=24, color_system=None)
    live = Live(console=console, auto_refresh=False)
    view = demo_view._Drawn(console, live)
    view.say(0.1, "something that is longer than the terminal is wide " * 3)
    view.show(Snapshot(0.2, list(found.values())))
    console.print(live.get_renderable())
    text = console.file.getvalue()  # type: ignore[attr-defined] # it is the StringIO from above
    assert isinstance(text, str)
    lines = text.splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert len(lines) <= 24
    assert f"0 of {len(found)} finished" in text
    assert re.search(r"bulk \(priority 8\) +\d+ ", text)
