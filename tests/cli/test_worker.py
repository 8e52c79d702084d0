"""`worker`: the command as a process, what it runs, how it leaves, and what it refuses."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from holdfast.cli.main import standalone
from tests.cli.conftest import Shop

SOURCE = """
import asyncio
from holdfast import Holdfast, Queue, WorkerSettings

app = Holdfast(
    {url!r}, schema={schema!r}, queues=[Queue("high", priority=1)], synchronous="normal",
    worker=WorkerSettings(shutdown_grace="300ms"),
)

@app.task
async def add(a: int, b: int) -> int:
    return a + b

@app.task(queue="high")
async def hurry() -> str:
    return "done"

@app.task
async def sit() -> None:
    print("it sits", flush=True)
    await asyncio.Event().wait()
"""

PROGRAM = """
import click
from bench import app
from holdfast.cli import command

@click.group()
def docverse() -> None: ...

docverse.add_command(command(app, name="queue"))
docverse()
"""


class Bench:
    """An app with real tasks, on each store, and its commands as processes."""

    def __init__(self, shop: Shop) -> None:
        self.folder = shop.folder
        (self.folder / "bench.py").write_text(SOURCE.format(url=shop.url, schema=shop.schema), encoding="utf-8")
        self.shop = shop
        self.environment = {**os.environ, "HOLDFAST_APP": "bench:app", "PYTHONDONTWRITEBYTECODE": "1"}

    def start(self, *args: str) -> subprocess.Popen[str]:
        """Start a command."""
        return subprocess.Popen(
            [sys.executable, "-m", "holdfast", *args],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *args: str, program: tuple[str, ...] = ("-m", "holdfast")) -> tuple[int, str, str]:
        """Run a command to its end: the exit code, stdout, stderr."""
        done = subprocess.run(
            [sys.executable, *program, *args],
            check=False,
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=40,
        )
        return done.returncode, done.stdout, done.stderr

    def enqueue(self, *args: str) -> str:
        """Enqueue a job and give its id."""
        return self._ask("enqueue", *args).strip()

    def states(self) -> dict[str, str]:
        """Read the state of every job, by its id."""
        listed = json.loads(self._ask("jobs", "list", "--json"))
        return {job["id"]: job["state"] for job in listed["jobs"]}

    def _ask(self, *args: str) -> str:
        """Run a command in this process: what a worker does is shown, not how a program starts."""
        done = self.shop("-A", "bench:app", *args, app=False)
        assert done.exit_code == 0, done.output
        return done.stdout


@pytest.fixture
def bench(sqlite_shop: Shop) -> Bench:
    """Give the app on a SQLite file."""
    return Bench(sqlite_shop)


@pytest.fixture(params=["sqlite", "postgres"])
def each(request: pytest.FixtureRequest) -> Bench:
    """Give the app on each store."""
    return Bench(request.getfixturevalue(f"{request.param}_shop"))


@pytest.fixture
def working(bench: Bench) -> Iterator[subprocess.Popen[str]]:
    """Start a worker that sits in a job; it is ended here if the test does not."""
    bench.enqueue("sit")
    process = bench.start("worker")
    assert process.stdout is not None
    assert process.stdout.readline() == "it sits\n"
    yield process
    if process.poll() is None:
        process.kill()
    process.communicate()


# ---- what it runs --------------------------------------------------------------------------------------------------


def test_drain_runs_what_may_run_now(each: Bench) -> None:
    first, second, later = (
        each.enqueue("add", "a=1", "b=2"),
        each.enqueue("hurry"),
        each.enqueue("hurry", "--delay", "1h"),
    )
    code, _, log = each.run("worker", "--drain", "--processes", "2")
    assert code == 0, log
    assert each.states() == {first: "completed", second: "completed", later: "scheduled"}
    assert each.run("jobs", "wait", first)[1] == f"{first} completed 3\n"
    assert each.run("worker", "--drain")[0] == 0, "there is nothing to do"


def test_once_runs_one_job(bench: Bench) -> None:
    ids = [bench.enqueue("add", "a=1", "b=2") for _ in range(2)]
    assert bench.run("worker", "--once")[0] == 0
    assert bench.states() == dict(zip(ids, ["completed", "queued"], strict=True))
    assert bench.run("worker", "--once")[0] == 0
    assert bench.run("worker", "--once")[0] == 0, "there is no job"
    assert bench.states() == dict.fromkeys(ids, "completed")


def test_queues_are_chosen(bench: Bench) -> None:
    calm, hurried = bench.enqueue("add", "a=1", "b=2"), bench.enqueue("hurry")
    assert bench.run("worker", "--drain", "--queues", " HIGH ,other")[0] == 0
    assert bench.states() == {calm: "queued", hurried: "completed"}


def test_recycled_processes_leave_nothing_undone(bench: Bench) -> None:
    ids = [bench.enqueue("add", f"a={number}", "b=2") for number in range(3)]
    code, _, log = bench.run("worker", "--drain", "--recycle-after", "1")
    assert code == 0, log
    assert bench.states() == dict.fromkeys(ids, "completed")


def test_it_runs_jobs_while_others_wait_for_them(each: Bench) -> None:
    process = each.start("worker")
    try:
        code, answer, log = each.run("enqueue", "add", "a=20", "b=22", "--wait", "--wait-timeout", "40s")
        assert (code, answer.splitlines()[1:]) == (0, ["completed 42"]), log
        code, answer, _ = each.run("workers", "list", "--json")
        (row,) = json.loads(answer)["workers"]
        assert (row["state"], row["slots"], set(row["queues"])) == ("alive", 10, {"default", "high"})
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 0
        assert "no worker is alive" in each.run("workers", "list", "--all")[2], "it signed off"
    finally:
        process.kill()
        process.communicate()


# ---- how it leaves -------------------------------------------------------------------------------------------------


@pytest.mark.real_time
def test_a_job_that_does_not_end_within_the_grace_is_given_back(bench: Bench, working: subprocess.Popen[str]) -> None:
    working.send_signal(signal.SIGTERM)
    assert working.wait(timeout=30) == 124
    assert list(bench.states().values()) == ["queued"]


@pytest.mark.real_time
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_told_twice_it_leaves_at_once(bench: Bench, number: signal.Signals) -> None:
    source = (bench.folder / "bench.py").read_text(encoding="utf-8")
    (bench.folder / "bench.py").write_text(source.replace('"300ms"', '"10m"'), encoding="utf-8")
    bench.enqueue("sit")
    process = bench.start("worker")
    try:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "it sits\n"
        process.send_signal(number)
        while number.name not in process.stderr.readline():
            assert process.poll() is None
        time.sleep(0.3)  # two signals within a tenth of a second count as one
        process.send_signal(number)
        assert process.wait(timeout=30) == 128 + number
        assert list(bench.states().values()) == ["queued"]
    finally:
        process.kill()
        process.communicate()


# ---- what it refuses -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "args, said",
    [
        (
            ["--recycle-after", "0"],
            "--recycle-after: expected a number of jobs like 10000 or a size like 512MB, got '0'",
        ),
        (["--recycle-after", "-1"], "--recycle-after: expected"),
        (["--recycle-after", "soon"], "--recycle-after: expected"),
        (["--recycle-after", "512XB"], "--recycle-after: expected"),
        (["--recycle-after", "0MB"], "--recycle-after: expected"),
        (["--recycle-after", ""], "--recycle-after: expected"),
        (["--once", "--drain"], "--once and --drain exclude each other"),
        (["--concurrency", "0"], "--concurrency"),
        (["--processes", "1000"], "--processes"),
        (["--queues", "a b"], "--queues: expected"),
        (["--queues", ","], "--queues: expected"),
        (["--queues", ""], "--queues: expected"),
        (["--log-level", "loud"], "--log-level"),
        (["--store", "sqlite:///jobs.db"], "needs the tasks of an app, and --store names a store alone"),
    ],
)
def test_wrong_options_are_refused_with_2(args: list[str], said: str) -> None:
    app = [] if "--store" in args else ["-A", "shop:app"]
    result = CliRunner().invoke(standalone, ["worker", *app, *args])
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    "app, source, said",
    [
        ("nowhere:app", "", "there is no module nowhere"),
        ("broken:nobody", "", "broken was imported and has no nobody"),
        ("broken:app", "import no_such_library", "No module named 'no_such_library'"),
        ("broken:app", "raise SystemExit(3)", "SystemExit: 3"),
        ("broken:app", "from holdfast import Holdfast\napp = Holdfast('mysql://x')", "store URL: expected"),
    ],
    ids=["no module", "no name", "broken import", "exit", "broken app"],
)
def test_an_app_that_cannot_be_imported_is_1(bench: Bench, app: str, source: str, said: str) -> None:
    (bench.folder / "broken.py").write_text(source, encoding="utf-8")
    code, answer, log = bench.run("worker", "-A", app)
    assert (code, answer) == (1, "")
    assert said in log
    assert "Traceback" not in log


def test_a_program_that_is_no_app_is_refused(bench: Bench) -> None:
    bench.environment.pop("HOLDFAST_APP")
    code, _, log = bench.run("worker")
    assert code == 2
    assert "no app was named" in log


@pytest.mark.parametrize("place", ["missing/jobs.db", "folder", "garbage.db"])
def test_a_file_that_cannot_be_used_is_1(bench: Bench, tmp_path: Path, place: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "garbage.db").write_bytes(b"no database, but long enough to look like one " * 100)
    source = f"from holdfast import Holdfast\napp = Holdfast('sqlite:///{tmp_path}/{place}')\n"
    (bench.folder / "other.py").write_text(source, encoding="utf-8")
    code, answer, log = bench.run("worker", "-A", "other:app")
    assert (code, answer) == (1, ""), log
    assert place in log
    assert "Traceback" not in log


def test_a_folder_of_marks_that_is_a_link_is_1(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (bench.folder / "jobs.db-workers").symlink_to(tmp_path / "elsewhere")
    code, answer, log = bench.run("worker", "--drain")
    assert (code, answer) == (1, ""), log
    assert f"{bench.folder}/jobs.db-workers" in log
    assert "got a link" in log
    assert "Traceback" not in log
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_database_in_memory_is_refused(bench: Bench) -> None:
    (bench.folder / "other.py").write_text("from holdfast import Holdfast\napp = Holdfast('sqlite://')\n")
    code, _, log = bench.run("worker", "-A", "other:app")
    assert code == 1
    assert "memory" in log


# ---- mounted -------------------------------------------------------------------------------------------------------


def test_mounted_under_a_programs_own_name(bench: Bench) -> None:
    (bench.folder / "docverse.py").write_text(PROGRAM, encoding="utf-8")
    bench.environment.pop("HOLDFAST_APP")
    mounted = ("docverse.py", "queue")
    code, job_id, log = bench.run("enqueue", "add", "a=1", "b=2", program=mounted)
    assert code == 0, log
    code, _, log = bench.run("worker", "--drain", program=mounted)
    assert code == 0, log
    code, answer, _ = bench.run("jobs", "wait", job_id.strip(), program=mounted)
    assert (code, answer) == (0, f"{job_id.strip()} completed 3\n")
    assert "`docverse.py queue worker`" in bench.run("workers", "list", program=mounted)[2]


def test_mounted_with_an_app_that_stands_nowhere(bench: Bench) -> None:
    source = PROGRAM.replace("from bench import app", "from holdfast import Holdfast").replace(
        "command(app", "command(Holdfast('sqlite:///jobs.db')"
    )
    (bench.folder / "docverse.py").write_text(source, encoding="utf-8")
    code, _, log = bench.run("worker", program=("docverse.py", "queue"))
    assert code == 2
    assert "define it at the top of a module" in log
