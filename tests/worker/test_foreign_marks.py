"""Files of marks that another user may have laid out: not believed, not followed, and nothing is killed for them."""

import asyncio
import logging
import os
import signal
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from holdfast import JobState
from holdfast.worker import groups, marks, offspring
from holdfast.worker.marks import Marks, Way
from holdfast.worker.offspring import Offspring
from tests.support.workers import MakeApp, drained


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Name a folder in a place that others share."""
    return tmp_path / "shared" / "workers"


@pytest.fixture(autouse=True)
def shared(folder: Path) -> None:
    """Make the place."""
    folder.parent.mkdir()


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.guards("folder-owner")
def test_a_folder_of_another_user_gets_no_marks(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.mkdir(mode=0o700)
    another = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: another)
    with pytest.raises(PermissionError, match=r"expected a folder of user \d+, got a folder of user \d+"):
        Marks.create(folder / "a.marks", 1)
    assert list(folder.iterdir()) == []


def test_a_folder_that_is_a_link_gets_no_marks(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    folder.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(PermissionError, match="got a link"):
        Marks.create(folder / "a.marks", 1)
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_link_by_the_name_of_the_marks_is_replaced_and_not_followed(folder: Path, tmp_path: Path) -> None:
    folder.mkdir(mode=0o700)
    precious = tmp_path / "precious"
    precious.write_text("kept", encoding="utf-8")
    (folder / "a.marks").symlink_to(precious)
    own = Marks.create(folder / "a.marks", 1)
    assert precious.read_text(encoding="utf-8") == "kept"
    assert stat.S_ISREG((folder / "a.marks").lstat().st_mode)
    assert mode_of(folder / "a.marks") == 0o600
    own.close()


def test_a_folder_of_ones_own_that_others_may_enter_is_closed_to_them(folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o777)
    Marks.create(folder / "a.marks", 1).close()
    assert mode_of(folder) == 0o700


@pytest.mark.guards("marks-owner")
@pytest.mark.parametrize("mode", [0o701, 0o720, 0o777], ids=oct)
def test_marks_in_a_folder_that_others_may_enter_are_not_believed(folder: Path, mode: int) -> None:
    own = Marks.create(folder / "a.marks", 1)
    own.start(1, 1, None, Way.LOOP)
    assert Marks.open(folder / "a.marks") is not None
    folder.chmod(mode)
    assert Marks.open(folder / "a.marks") is None
    assert not marks.is_abandoned(folder / "a.marks")
    own.close()


@pytest.mark.guards("link-refusal")
@pytest.mark.parametrize("is_hard", [False, True], ids=["soft", "hard"])
def test_marks_by_a_link_are_not_believed(folder: Path, is_hard: bool) -> None:
    own = Marks.create(folder / "a.marks", 1)
    link = folder / "b.marks"
    link.hardlink_to(folder / "a.marks") if is_hard else link.symlink_to(folder / "a.marks")
    assert Marks.open(link) is None
    assert not marks.is_abandoned(link)
    own.close()


def test_files_behind_a_folder_that_is_a_link_are_not_swept_away(folder: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    (elsewhere / "old.marks").write_bytes(b"not ours")
    os.utime(elsewhere / "old.marks", (0, 0))
    folder.symlink_to(elsewhere)
    marks.sweep(folder)
    assert [path.name for path in elsewhere.iterdir()] == ["old.marks"]


def test_the_runtime_directory_of_the_user_is_taken_where_it_is_private(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = tmp_path / "runtime"
    runtime.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    assert marks.folder_beside(None) == runtime / "holdfast"
    assert marks.folder_beside(str(tmp_path / "jobs.db")) == tmp_path / "jobs.db-workers"
    runtime.chmod(0o755)
    assert marks.folder_beside(None) != runtime / "holdfast"
    monkeypatch.setenv("XDG_RUNTIME_DIR", "runtime")
    assert marks.folder_beside(None).is_absolute()


# ---- what is killed --------------------------------------------------------------------------------------------------

# A process that has a group of its own, and another parent than the test.
NEIGHBOUR = """
import os, subprocess, sys
other = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE,
                         start_new_session=True)
print(other.pid, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def neighbour() -> Iterator[int]:
    """Give the number of a process that is not a child of this one."""
    with subprocess.Popen(
        [sys.executable, "-c", NEIGHBOUR], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        yield int(parent.stdout.readline())
        parent.communicate()


@pytest.fixture
async def child() -> AsyncIterator[Offspring]:
    """Give a child that waits."""
    found = await offspring.spawn(["-c", "import sys, time; time.sleep(3600)"])
    yield found
    os.kill(found.pid, signal.SIGKILL)
    found.has_ended(found._process.wait())
    await found.close()


@pytest.mark.guards("foreign-group")
async def test_only_groups_with_a_child_of_ones_own_are_killed(
    child: Offspring, neighbour: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the check, killpg(1) would be a kill of all processes of the user: here it is only written down."""
    killed: list[int] = []

    def write_down(group: int, number: int) -> None:
        if not number:
            raise ProcessLookupError  # it is empty
        killed.append(group)

    monkeypatch.setattr(os, "killpg", write_down)
    own = subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE, start_new_session=True
    )
    try:
        await child.end_all([1, 0, -1, -own.pid, 2**40, os.getpgrp(), neighbour, own.pid])
    finally:
        own.communicate()
    assert killed == [child.pid, own.pid]


@pytest.mark.guards("orphan-wait")
async def test_a_group_has_ended_with_its_last_process() -> None:
    """Else a job begins again while a program is left that its killed process had started."""
    first = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"], process_group=0)
    last = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"], process_group=first.pid)
    groups.kill(first.pid)
    first.wait()
    waiting = asyncio.create_task(groups.emptied(first.pid))
    await asyncio.sleep(0)
    assert not waiting.done()
    last.wait()
    await waiting


# ---- what the worker says --------------------------------------------------------------------------------------------


async def test_a_worker_inside_a_program_goes_on_without_marks(
    make_sqlite_file: MakeApp, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "jobs.db-workers").symlink_to(tmp_path / "elsewhere")
    async with make_sqlite_file() as app:

        @app.task
        async def work() -> None: ...

        handle = await work.enqueue()
        with caplog.at_level(logging.WARNING):
            await drained(app)
        assert (await handle.get()).state is JobState.COMPLETED
    (said,) = [record.getMessage() for record in caplog.records if "cannot be used" in record.getMessage()]
    assert "jobs.db-workers" in said
    assert "got a link" in said
    assert list((tmp_path / "elsewhere").iterdir()) == []
