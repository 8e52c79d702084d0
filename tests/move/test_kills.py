"""A move that is killed again and again goes on where it was: nothing is lost, nothing comes twice."""

import asyncio
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest
from click.testing import CliRunner

from holdfast.cli.main import standalone
from holdfast.moving.sides import Side
from holdfast.stores.moving import Stage
from holdfast.stores.postgres.store import PostgresStore
from holdfast.stores.sqlite.store import SqliteStore
from tests.move.filling import LIVE, assert_same, fill, order, read_all, run_out, snapshot
from tests.support.sizes import CHAOS, size

JOBS_MOVED = size(1_650, 10_000)  # more live jobs than one page has
# Points of the move itself, then calls of either store counted from the start of the process: each kills one process.
POINTS = ("move_begun@1", "move_closed@1", "move_staged@1", "move_staged@2", "move_compared@1", "move_marked@1",
          "move_settled@1", "move_settled@3", "move_settled@2")  # fmt: skip
MANY_CALLS = tuple(f"{side}_store_call@{number}" for number in range(2, 60, 3) for side in ("before", "after"))
KILLED_AT = {"points": POINTS, "calls": MANY_CALLS} if CHAOS else {"points": POINTS}
TOO_LONG_S = 50
APP = """
from holdfast import Holdfast

app = Holdfast({url!r}, schema={schema!r})

@app.task
async def work() -> None: ...
"""


class Ended(NamedTuple):
    """How a command ended, and what it said."""

    returncode: int
    stdout: str
    stderr: str


def run_here(*words: str) -> Ended:
    """Run a command in this process, which takes a fraction of the time of another one."""
    result = CliRunner().invoke(standalone, words)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Ended(result.exit_code, result.stdout, result.stderr)


def run_elsewhere(*words: str, folder: Path | None = None, **env: str) -> Ended:
    """Run a command as a person does."""
    done = subprocess.run(
        [sys.executable, "-m", "holdfast", *words],
        env={**os.environ, **env}, cwd=folder, capture_output=True, text=True, timeout=TOO_LONG_S, check=False,
    )  # fmt: skip
    return Ended(done.returncode, done.stdout, done.stderr)


class Command:
    """`holdfast move` between two stores."""

    def __init__(self, *words: str) -> None:
        self.words = words

    async def run(self) -> Ended:
        """Run it to its end."""
        return await asyncio.to_thread(run_here, "move", *self.words)

    def killed_at(self, point: str) -> int:
        """Run it as a person does, in a process that is killed at a point; its exit code."""
        name, _, number = point.partition("@")
        ended = run_elsewhere("move", *self.words, HOLDFAST_FAILPOINTS=f"{name}:kill@{number}")
        assert ended.returncode in (-9, 0), ended.stderr
        return ended.returncode


@pytest.fixture(params=["to-postgres", "to-sqlite"])
def case(
    request: pytest.FixtureRequest, dsn: str, postgres: PostgresStore, sqlite_file: SqliteStore
) -> tuple[Side, Side, Command]:
    """Two stores and the command that moves the jobs of one to the other."""
    url = f"sqlite:///{sqlite_file.path}"
    if request.param == "to-postgres":
        return sqlite_file, postgres, Command(url, dsn, "--history", "--to-schema", postgres.schema)
    return postgres, sqlite_file, Command(dsn, url, "--history", "--from-schema", postgres.schema)


@pytest.mark.real_time
@pytest.mark.timeout(900 if CHAOS else 150)
@pytest.mark.parametrize("points", KILLED_AT.values(), ids=KILLED_AT)
async def test_killed_at_any_point_it_goes_on(case: tuple[Side, Side, Command], points: tuple[str, ...]) -> None:
    source, target, command = case
    made = await fill(source, JOBS_MOVED)
    before, lanes = await snapshot(source), await order(source)
    killed = 0
    for point in points:
        killed += command.killed_at(point) == -9
    assert killed >= 5
    ended = await command.run()
    assert ended.returncode == 0, ended.stderr
    await assert_moved(source, target, made)
    assert_same(before, await snapshot(target))
    assert await order(target) == lanes
    await assert_each_runs_once(target, made)


@pytest.mark.real_time
async def test_aborted_halfway_the_source_goes_on_and_the_target_is_clean(case: tuple[Side, Side, Command]) -> None:
    source, target, command = case
    made = await fill(source, 220)
    before = await snapshot(source)
    assert command.killed_at("move_compared@1") == -9
    assert (await read_all(target, list(made))).keys() == made.keys()
    aborting = Command("--abort", *command.words)
    ended = await aborting.run()
    assert ended.returncode == 0, ended.stderr
    assert f"{len(made)} copied jobs were removed" in ended.stdout
    assert await read_all(target, list(made)) == {}
    empty = await snapshot(target)
    assert {name: rows for name, rows in empty.items() if rows} == {}
    assert await source.read_move() is None
    again = await aborting.run()
    assert again.returncode == 4
    assert "not being moved" in again.stderr

    await assert_each_runs_once(source, made)  # the source is a store like any other
    ended = await command.run()
    assert ended.returncode == 0, ended.stderr
    assert len((await snapshot(target))["history"]) == len(before["history"]) + len(
        [job_id for job_id, sort in made.items() if sort in ("ready", "urgent", "midway", "stopped")]
    )


@pytest.mark.real_time
async def test_aborted_without_its_target_the_next_move_clears_up(case: tuple[Side, Side, Command]) -> None:
    source, target, command = case
    made = await fill(source, 220)
    assert command.killed_at("move_compared@1") == -9
    ended = await Command("--abort", command.words[0], *command.words[2:]).run()
    assert ended.returncode == 0, ended.stderr
    await assert_each_runs_once(source, made)
    before = await snapshot(source)
    ended = await command.run()
    assert ended.returncode == 0, ended.stderr
    assert_same(before, await snapshot(target))


async def assert_moved(source: Side, target: Side, made: dict[int, str]) -> None:
    mark = await source.read_move()
    assert mark is not None
    assert mark.stage is Stage.MOVED
    assert await target.move_progress() == []
    assert (await read_all(target, list(made))).keys() == made.keys()


async def assert_each_runs_once(store: Side, made: dict[int, str]) -> None:
    runnable = [job_id for job_id, sort in made.items() if sort in ("ready", "urgent", "midway", "stopped")]
    assert await run_out(store) == Counter(runnable)
    left = {row for row, sort in made.items() if sort in LIVE} - set(runnable)
    assert {row["id"] for row in (await snapshot(store))["jobs"]} == left


async def test_sides_are_named_as_they_are_typed(tmp_path: Path) -> None:
    ended = await Command(f"sqlite:///{tmp_path}/none.db", "postgresql://a:secret@localhost:1/x").run()
    assert ended.returncode == 1
    assert "there is no SQLite file" in ended.stderr
    ended = await Command(f"sqlite:///{tmp_path}/none.db").run()
    assert ended.returncode != 0
    assert "secret" not in ended.stderr


async def test_every_command_on_the_old_store_names_the_new_one(
    case: tuple[Side, Side, Command], tmp_path: Path
) -> None:
    source, _, command = case
    await fill(source, 22)
    ended = await Command(*command.words, "--json").run()
    assert ended.returncode == 0, ended.stderr
    shape = json.loads(ended.stdout)
    assert (shape["moved"], shape["rows"]["jobs"]) == (True, 14)
    again = await command.run()  # there is nothing left to do
    assert (again.returncode, again.stdout.count("\n")) == (0, 1)

    options = ["--store", command.words[0]]
    if isinstance(source, PostgresStore):
        options += ["--schema", source.schema]
    schema = source.schema if isinstance(source, PostgresStore) else "holdfast"
    (tmp_path / "shop.py").write_text(APP.format(url=command.words[0], schema=schema), encoding="utf-8")
    refusals = [await asyncio.to_thread(run_here, *words, *options) for words in (("jobs", "list"), ("doctor",))]
    refusals.append(run_elsewhere("-A", "shop:app", "worker", folder=tmp_path))
    for refused in refusals:
        assert refused.returncode != 0, refused
        assert f"has been moved to {shape['to']}" in refused.stderr + refused.stdout
    aborted = await Command("--abort", *command.words).run()
    assert aborted.returncode == 1
    assert "run there" in aborted.stderr
