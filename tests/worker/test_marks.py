"""What a process has begun, as others can read it."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from pathlib import Path

import pytest

from holdfast.worker import marks
from holdfast.worker.marks import UNMARKED, Marks, Way
from holdfast.worker.stepping import Stepping


@pytest.fixture
def own() -> Marks:
    """Give marks that nobody else reads."""
    return Marks.create(None, 4)


def test_a_start_is_seen_until_its_end_is_known(own: Marks) -> None:
    first, second = own.start(1, 7, 2.0, Way.LOOP), own.start(2, 8, None, Way.THREAD)
    begun = sorted(own.begun(), key=lambda entry: entry.id)
    assert [(entry.id, entry.claim, entry.way) for entry in begun] == [(1, 7, Way.LOOP), (2, 8, Way.THREAD)]
    assert begun[0].deadline - begun[0].started == 2_000_000_000
    assert begun[1].deadline == 0
    own.end(first)
    assert [entry.id for entry in own.begun()] == [2]
    own.end(second)
    assert list(own.begun()) == []


def test_marks_are_used_again_and_there_is_no_more_room_than_there_is(own: Marks) -> None:
    for _ in range(10):
        taken = [own.start(job_id, 1, None, Way.LOOP) for job_id in range(4)]
        assert sorted(taken) == [0, 1, 2, 3]
        assert own.start(9, 1, None, Way.LOOP) == UNMARKED
        own.set_process(UNMARKED, 5)
        own.end(UNMARKED)
        for index in taken:
            own.end(index)
    assert list(own.begun()) == []


def test_the_process_of_a_handler_is_marked(own: Marks) -> None:
    index = own.start(1, 1, None, Way.PROCESS)
    own.set_process(index, 4711)
    assert [entry.pid for entry in own.begun()] == [4711]
    own.end(index)
    own.start(2, 1, None, Way.LOOP)
    assert [entry.pid for entry in own.begun()] == [0]


# ---- who may have done it --------------------------------------------------------------------------------------------


def suspects(own: Marks, *, with_supervisor: bool = False) -> list[int]:
    return sorted(entry.id for entry in own.suspects(with_supervisor=with_supervisor))


def test_the_coroutine_that_was_running_is_the_suspect(own: Marks) -> None:
    own.start(1, 1, None, Way.LOOP)
    running = own.start(2, 1, None, Way.LOOP)
    own.step(running)
    assert suspects(own) == [2]


def test_threads_run_any_time(own: Marks) -> None:
    own.start(1, 1, None, Way.LOOP)
    running = own.start(2, 1, None, Way.LOOP)
    own.start(3, 1, None, Way.THREAD)
    own.step(running)
    assert suspects(own) == [2, 3]
    own.step(UNMARKED)
    assert suspects(own) == [3]


@pytest.mark.parametrize("with_supervisor", [False, True])
def test_when_no_code_was_running_it_may_have_been_any_that_had_begun(own: Marks, with_supervisor: bool) -> None:
    own.start(1, 1, None, Way.LOOP)
    own.start(2, 1, None, Way.LOOP)
    own.start(3, 1, None, Way.PROCESS)
    assert suspects(own, with_supervisor=with_supervisor) == [1, 2, 3]


@pytest.mark.guards("process-suspects")
def test_what_runs_in_another_process_has_done_it_only_if_all_was_brought_down(own: Marks) -> None:
    own.start(1, 1, None, Way.LOOP)
    running = own.start(2, 1, None, Way.LOOP)
    own.start(3, 1, None, Way.PROCESS)
    own.step(running)
    assert suspects(own) == [2]
    assert suspects(own, with_supervisor=True) == [2, 3]


@pytest.mark.guards("boot-mark")
@pytest.mark.parametrize("with_supervisor", [False, True])
def test_who_waits_for_its_process_has_not_begun(own: Marks, with_supervisor: bool) -> None:
    own.start(1, 1, None, Way.LOOP)
    own.start(2, 1, None, Way.BOOT)
    assert suspects(own, with_supervisor=with_supervisor) == [1]


def test_who_runs_alone_is_the_suspect_wherever_it_runs(own: Marks) -> None:
    own.start(3, 1, None, Way.PROCESS)
    assert suspects(own) == suspects(own, with_supervisor=True) == [3]


@pytest.mark.guards("asked-acquittal")
def test_who_was_asked_to_leave_and_was_killed_with_its_supervisor_has_no_suspects(own: Marks) -> None:
    own.step(own.start(1, 1, None, Way.LOOP))
    own.ask()
    assert suspects(own, with_supervisor=True) == []
    assert suspects(own) == [1], "its supervisor did not kill it"


@pytest.mark.parametrize("with_supervisor", [False, True])
def test_who_ends_on_purpose_has_no_suspects(own: Marks, with_supervisor: bool) -> None:
    own.step(own.start(1, 1, None, Way.LOOP))
    own.acquit()
    own.ask()
    assert suspects(own, with_supervisor=with_supervisor) == []


def test_who_has_ended_is_no_suspect(own: Marks) -> None:
    own.start(1, 1, None, Way.LOOP)
    index = own.start(2, 1, None, Way.LOOP)
    own.step(index)
    own.end(index)
    assert suspects(own) == [1]


def test_a_coroutine_is_marked_while_it_runs_and_not_while_it_waits(own: Marks) -> None:
    seen: list[list[int]] = []
    own.start(1, 1, None, Way.LOOP)
    index = own.start(2, 1, None, Way.LOOP)

    class Wait:
        def __await__(self) -> Generator[str, None, None]:
            yield "waiting"

    async def handler() -> str:
        seen.append(suspects(own))
        try:
            await Wait()
        except ValueError:
            seen.append(suspects(own))
        return "done"

    stepping = Stepping(handler(), own, lambda: index)
    assert stepping.send(None) == "waiting"
    seen.append(suspects(own))
    with pytest.raises(StopIteration) as ended:
        stepping.throw(ValueError())
    assert ended.value.value == "done"
    assert seen == [[2], [1, 2], [2]]


# ---- files -----------------------------------------------------------------------------------------------------------


def test_others_read_along_and_write_their_part(tmp_path: Path) -> None:
    path = marks.file_of(tmp_path / "workers", "instance", 7)
    own = Marks.create(path, 3)
    own.start(5, 6, 1.0, Way.THREAD)
    own.tick()
    own.count_finished(2)
    own.count_finished(1)
    other = Marks.open(path)
    assert other is not None
    assert [(entry.id, entry.claim) for entry in other.begun()] == [(5, 6)]
    assert (other.finished, other.ticked > 0, other.ticked == own.ticked) == (3, True, True)
    other.renew(77)
    other.attend()
    assert (own.renewed, own.attended > 0) == (77, True)
    other.close()
    assert path.exists()
    assert not marks.is_abandoned(path)
    own.close()
    assert not path.exists()


def test_steps_after_the_end_of_the_worker_hurt_nobody(own: Marks) -> None:
    index = own.start(1, 1, None, Way.LOOP)
    own.close()
    own.step(index)
    own.tick()
    own.count_finished(1)
    own.set_process(index, 1)
    own.end(index)


@pytest.mark.parametrize("content", [b"", b"short", b"x" * 500], ids=["empty", "short", "foreign"])
def test_what_is_no_file_of_marks_is_not_read(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "odd.marks"
    path.write_bytes(content)
    assert Marks.open(path) is None
    assert Marks.open(tmp_path / "missing.marks") is None


DIES = """
import os, signal, sys
from pathlib import Path
from holdfast.worker.marks import Marks, Way
own = Marks.create(Path(sys.argv[1]), 4)
own.start(1, 1, None, Way.LOOP)
own.step(own.start(2, 5, None, Way.LOOP))
print("ready", flush=True)
sys.stdin.read()
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_marks_of_a_killed_process_tell_whose_code_ran(tmp_path: Path) -> None:
    path = tmp_path / "dead.marks"
    with subprocess.Popen([sys.executable, "-c", DIES, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        assert not marks.is_abandoned(path)
        process.communicate()
        assert process.returncode == -signal.SIGKILL
    assert marks.is_abandoned(path)
    found = Marks.open(path)
    assert found is not None
    assert [(entry.id, entry.claim) for entry in found.suspects(with_supervisor=True)] == [(2, 5)]
    found.close()


def test_old_files_that_nobody_came_back_for_are_removed(tmp_path: Path) -> None:
    own = Marks.create(tmp_path / "living.marks", 1)
    old, young = tmp_path / "old.marks", tmp_path / "young.marks"
    for path in (old, young):
        path.write_bytes(b"left behind")
    yesterday = time.time() - 100_000
    os.utime(old, (yesterday, yesterday))
    os.utime(tmp_path / "living.marks", (yesterday, yesterday))
    marks.sweep(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["living.marks", "young.marks"]
    marks.sweep(tmp_path / "nowhere")
    own.close()
