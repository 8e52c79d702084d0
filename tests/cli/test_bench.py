"""`bench`: it measures on both stores, touches nobody's jobs, leaves nothing behind, and notices a wrong run."""

import json
import os
import re
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner

from holdfast.bench import folder, ledger, measures
from holdfast.cli import bench as command
from holdfast.cli.main import standalone
from holdfast.client.queues import LocalQueues
from tests.cli.conftest import Shop
from tests.support.wait import PATIENCE_S, wait_until

FIGURES = {
    "insert": "commits/s",
    "enqueue_one_by_one": "jobs/s",
    "enqueue_at_once": "jobs/s",
    "enqueue_in_bulk": "jobs/s",
    "drain_one": "jobs/s",
    "drain_several": "jobs/s",
    "memory": "MB",
    "pickup_p50": "ms",
    "pickup_p95": "ms",
    "pickup_p99": "ms",
    "idle": "% of a core",
}
MARK = "HOLDFAST_TEST_MARK"


class Traces:
    """What a bench could leave behind: schemas, files, and processes, which are known by their environment."""

    def __init__(self, shop: Shop, temporary: Path, mark: str) -> None:
        self._shop = shop
        self._temporary = temporary
        self._mark = f"{MARK}={mark}".encode()
        self._before = self.now()

    def now(self) -> list[str]:
        found = [str(path) for path in self._shop.folder.rglob("*") if "__pycache__" not in path.parts]
        if self._shop.url.startswith("postgresql"):
            with psycopg.connect(self._shop.url) as connection:
                query = "SELECT nspname FROM pg_namespace WHERE nspname LIKE 'holdfast\\_bench%'"
                found += [str(name) for (name,) in connection.execute(query)]
        return sorted(found)

    def processes(self) -> list[int]:
        return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit() and self._is_ours(entry)]

    def require_none(self) -> None:
        assert self.now() == self._before
        assert list(self._temporary.iterdir()) == []
        wait_until(lambda: not self.processes(), "the kernel has ended a worker's processes with it")

    def _is_ours(self, entry: Path) -> bool:
        try:
            is_marked = self._mark in (entry / "environ").read_bytes().split(b"\0")
            return is_marked and (entry / "cmdline").read_bytes() != b""  # which is empty when it has ended
        except OSError:
            return False


@pytest.fixture
def traces(shop: Shop, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Traces:
    """Let the bench work in a temporary folder of this test's own, and know its processes."""
    temporary, mark = tmp_path_factory.mktemp("temporary"), uuid.uuid4().hex
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr("tempfile.tempdir", None)  # it is read from the environment only once
    monkeypatch.setenv(MARK, mark)
    return Traces(shop, temporary, mark)


# ---- a good run ----------------------------------------------------------------------------------------------------


def test_it_measures_everything_and_leaves_the_rest_alone(shop: Shop, traces: Traces) -> None:
    shop.enqueue("send_email", "to=a")
    shop.ok("jobs", "cancel", shop.enqueue("resize", "path=b", "width=1"))
    before = [shop.ok(*words, "--json") for words in (("jobs", "list"), ("queues", "list"), ("workers", "list"))]
    traces = Traces(shop, traces._temporary, os.environ[MARK])

    told = json.loads(shop.ok("bench", "--jobs", "200", "--rounds", "1", "--concurrency", "20", "--json"))

    after = [shop.ok(*words, "--json") for words in (("jobs", "list"), ("queues", "list"), ("workers", "list"))]
    assert after == before
    traces.require_none()
    assert list(told) == ["store", "database", "machine", "plan", "figures", "jobs_run"]
    assert told["plan"] == {
        "jobs": 200,
        "rounds": 1,
        "concurrency": 20,
        "processes": 2,
        "parts": ["insert", "enqueue", "drain", "idle", "pickup"],
    }
    assert {figure["name"]: figure["unit"] for figure in told["figures"]} == FIGURES
    for figure in told["figures"]:
        assert list(figure) == ["name", "label", "unit", "median", "lowest", "highest", "rounds"]
        assert figure["lowest"] == figure["median"] == figure["highest"] == figure["rounds"][0] > 0
    assert told["jobs_run"] == (1 + 20 + 100) + 20 + 200 + 20 + (20 + 200)
    assert list(told["machine"]) == ["cores", "load_before", "platform", "python", "holdfast"]
    assert_durability(shop, told["database"])


def assert_durability(shop: Shop, database: dict[str, Any]) -> None:
    if shop.url.startswith("sqlite"):
        assert database["software"].startswith("SQLite 3.")
        assert database["settings"] == {"synchronous": "normal", "journal_mode": "wal"}, "as the app has it"
    else:
        assert re.fullmatch(r"PostgreSQL \d+(\.\d+)?", database["software"])
        assert set(database["settings"]) >= {"synchronous_commit", "fsync", "full_page_writes"}


def test_a_part_alone_for_people(shop: Shop, traces: Traces) -> None:
    text = shop.ok("bench", "--jobs", "200", "--rounds", "3", "--only", "Insert")
    traces.require_none()
    lines = text.splitlines()
    assert [line.split()[0] for line in lines[:4]] == ["store", "database", "machine", "run"]
    assert "synchronous" in lines[1]
    assert re.search(r" cores?, .* Python 3\.", lines[2])
    assert "3 rounds, 200 jobs in bulk and to drain, concurrency 200" in lines[3]
    columns, figure = (line.split("\t") for line in lines[5:7])
    assert columns == ["MEASURE", "MEDIAN", "LOWEST", "HIGHEST", "UNIT", "x INSERT"]
    assert (figure[0], figure[4], figure[5]) == ("bare INSERT", "commits/s", "1")
    assert 0 < float(figure[2]) <= float(figure[1]) <= float(figure[3])
    assert "exactly once" not in text, "no job was stored"
    assert "are a tie" in text
    if shop.url.startswith("sqlite"):
        assert "synchronous is normal: a power cut can lose jobs" in text


def test_the_named_file_need_not_exist(sqlite_shop: Shop) -> None:
    result = sqlite_shop("bench", "--store", "sqlite:///other.db", "--jobs", "100", "--only", "insert", app=False)
    assert result.exit_code == 0
    assert not Path("other.db").exists()


def test_several_rounds_drain_once_with_one_process(sqlite_shop: Shop) -> None:
    options = ("--jobs", "100", "--rounds", "2", "--processes", "1", "--only", "drain")
    told = json.loads(sqlite_shop.ok("bench", *options, "--json"))
    assert [figure["name"] for figure in told["figures"]] == ["drain_one", "memory"]
    assert [len(figure["rounds"]) for figure in told["figures"]] == [2, 2]
    assert told["jobs_run"] == 2 * (20 + 100)


def test_mounted_under_another_program(sqlite_shop: Shop) -> None:
    from holdfast.cli import command as mount

    result = CliRunner().invoke(mount(sqlite_shop.app, name="docverse"), ["bench", "--jobs", "100", "--only", "insert"])
    assert result.exit_code == 0
    assert sqlite_shop.url in result.stdout


# ---- stopped -------------------------------------------------------------------------------------------------------


def is_working(traces: Traces) -> bool:
    """Whether jobs have run, and there are the bench, a supervisor and a process that runs more: not between rounds."""
    has_run = any(file.stat().st_size for file in traces._temporary.glob("*/ledger-1"))
    return has_run and len(traces.processes()) >= 3


@pytest.fixture
def running(shop: Shop, traces: Traces) -> Iterator[subprocess.Popen[str]]:
    """Give a bench as a process of its own, whose worker runs jobs at this moment."""
    process = subprocess.Popen(
        [sys.executable, "-m", "holdfast", "-A", "shop:app", "bench", "--rounds", "100", "--only", "drain"],
        cwd=shop.folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        wait_until(lambda: is_working(traces) or process.poll() is not None, "the bench works")
        assert process.poll() is None, process.communicate()
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.mark.real_time
@pytest.mark.sample("number", "code")
@pytest.mark.parametrize("number, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["INT", "TERM"])
def test_stopped_it_leaves_nothing(
    running: subprocess.Popen[str], traces: Traces, number: signal.Signals, code: int
) -> None:
    running.send_signal(number)
    assert running.stderr is not None
    note = running.stderr.readline()
    running.send_signal(number)  # out of impatience, while it cleans up
    text, more_notes = running.communicate(timeout=PATIENCE_S)
    assert (running.returncode, text) == (code, "")
    assert note + more_notes == "stopping: what the bench has made is removed first\n"
    traces.require_none()


# ---- a run that is wrong -------------------------------------------------------------------------------------------


def test_a_job_that_ran_twice_or_never_is_found(shop: Shop, traces: Traces, monkeypatch: pytest.MonkeyPatch) -> None:
    def doctored(path: Path, read: Any = ledger.read) -> list[tuple[int, float]]:
        records: list[tuple[int, float]] = read(path)
        return [(4 if number == 3 else number, ran) for number, ran in records]

    monkeypatch.setattr(ledger, "read", doctored)
    result = shop("bench", "--jobs", "100", "--rounds", "1", "--only", "enqueue", "--json")
    assert (result.exit_code, result.stdout) == (1, "")
    error = json.loads(result.stderr)["error"]
    assert error["type"] == "RunFailed"
    assert error["message"] == "this run is not valid: 1 of 191 jobs never ran: number 3"
    assert error["detail"] == "1 of 191 jobs ran more than once: number 4"
    traces.require_none()


def test_jobs_that_stay_open_are_found(sqlite_shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    async def forget_to_resume(_queues: LocalQueues, _name: str) -> None:
        monkeypatch.setattr(measures, "_STALLED_S", 0.2)  # and not before, when a fresh worker may take its time

    monkeypatch.setattr(LocalQueues, "resume", forget_to_resume)
    result = sqlite_shop("bench", "--jobs", "100", "--rounds", "1", "--only", "drain")
    assert (result.exit_code, result.stdout) == (1, "")
    found = "nothing happened for 0.2 s: 20 of 120 jobs have run, and the store shows as open: 100 queued"
    assert f"Error: this run is not valid: {found}\n" in result.stderr


def test_a_worker_that_dies_is_reported(shop: Shop, traces: Traces, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "_WORKER", ("-c", "raise SystemExit('no room for me')"))
    result = shop("bench", "--jobs", "100", "--rounds", "1", "--only", "drain")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "this run is not valid: the worker ended in the middle of its work, with exit code 1\n" in result.stderr
    assert "the worker said: no room for me" in result.stderr
    traces.require_none()


def test_what_is_left_is_named(sqlite_shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    async def remove(path: Path, remove: Any = folder.remove) -> list[str]:
        await remove(path)
        return [f"the folder {path.name}: remove it"] if path.name.startswith("holdfast_bench_") else []

    monkeypatch.setattr(folder, "remove", remove)
    result = sqlite_shop("bench", "--jobs", "100", "--rounds", "1", "--only", "insert")
    assert result.exit_code == 1
    assert re.search(r"^could not be removed: the folder holdfast_bench_\w+: remove it$", result.stderr, re.MULTILINE)
    assert "Error: not everything that the bench had made could be removed; see above\n" in result.stderr
    assert "bare INSERT\t" in result.stdout, "the figures are good all the same"


# ---- refused -------------------------------------------------------------------------------------------------------


def test_a_role_that_may_not_create_a_schema(postgres_shop: Shop, dsn: str) -> None:
    role = f"reader_{uuid.uuid4().hex[:8]}"
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {role} LOGIN")
        result = postgres_shop("bench", "--store", re.sub(r"//[^@/]*@", f"//{role}@", dsn), app=False)
        connection.execute(f"DROP ROLE {role}")
    assert (result.exit_code, result.stdout) == (1, "")
    assert f"the role {role} may not create a schema in the database " in result.stderr
    assert f'GRANT CREATE ON DATABASE "postgres" TO "{role}"' in result.stderr
    assert "could not be removed" not in result.stderr


@pytest.mark.parametrize(
    "words, code, message",
    [
        (("--jobs", "99"), 2, "99 is not in the range 100<=x<=1000000"),
        (("--rounds", "0"), 2, "0 is not in the range 1<=x<=100"),
        (
            ("--only", "drain,speed"),
            2,
            "expected some of insert, enqueue, drain, idle, pickup, separated by commas, got",
        ),
        (("--concurrency", "1"), 2, "--processes: expected at most --concurrency (1), got 2"),
        (("--store", "mysql://x"), 2, "store URL: expected sqlite:///file.db"),
        (("--store", "sqlite://"), 1, "store is in memory"),
        (("--store", "sqlite:///missing/jobs.db"), 1, "does not exist: make it, or correct the path"),
        (("--store", "postgresql://nobody@127.0.0.1:1/none"), 1, "cannot connect to postgresql://nobody@127.0.0.1:1"),
    ],
)
def test_what_cannot_be_measured_is_refused(words: tuple[str, ...], code: int, message: str) -> None:
    chosen = () if "--store" in words else ("--store", "sqlite:///jobs.db")
    result = CliRunner().invoke(standalone, ["bench", *chosen, *words])
    assert (result.exit_code, result.stdout) == (code, "")
    assert message in result.stderr
    assert "could not be removed" not in result.stderr
    assert list(Path.cwd().iterdir()) == []
