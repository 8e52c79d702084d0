"""What a job has started ends with the process of the job, also when that is killed."""

import signal
import time

import pytest

from tests.support.figures import show
from tests.support.groups import is_running, send
from tests.support.place import Place
from tests.support.sizes import size
from tests.support.wait import until

pytestmark = [pytest.mark.real_time, pytest.mark.sample]

GONE_S = size(30, 2)


@pytest.mark.parametrize("kind", ["forker", "spawned_forker"])
@pytest.mark.parametrize("whom", ["the worker process", "the process of the job"])
@pytest.mark.guards("orphan-kill")
async def test_a_program_that_a_job_started_is_gone(sqlite_place: Place, kind: str, whom: str) -> None:
    place, note = sqlite_place, sqlite_place.folder / "program"
    group = place.start("--concurrency", "2", CHAOS_PROGRAM=str(note))
    await place.enqueue(kind, "default", ["{}"])
    await until(lambda: note.exists() and note.read_text().endswith("\n"), "the job has started its program")
    program, own = map(int, note.read_text().split())
    (child,) = group.children
    assert (own == child) == (kind == "forker"), "it runs where it was meant to"
    assert is_running(program)
    assert send(child if whom == "the worker process" else own, signal.SIGKILL)
    killed_at = time.monotonic()
    await until(lambda: not is_running(program), "the program is gone", GONE_S)
    await until(lambda: not is_running(own), "the process of the job is gone", GONE_S)
    show(f"{kind}, {whom} killed: gone after {time.monotonic() - killed_at:.2f} s")
    assert group.process.poll() is None
