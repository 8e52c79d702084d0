"""What a job has started ends with the process of the job, also when that is killed."""

import signal
import time

import pytest

from tests.support.figures import show
from tests.support.groups import is_running, send
from tests.support.place import Place
from tests.support.sizes import CHAOS
from tests.support.wait import until

pytestmark = [pytest.mark.real_time, pytest.mark.sample]

GONE_S = 2  # on a machine that does nothing else; before its job may begin again on any


@pytest.mark.parametrize("kind", ["forker", "spawned_forker"])
@pytest.mark.parametrize("whom", ["the worker process", "the process of the job"])
@pytest.mark.guards("orphan-kill")
async def test_a_program_that_a_job_started_is_gone(sqlite_place: Place, kind: str, whom: str) -> None:
    place, note = sqlite_place, sqlite_place.folder / "program"
    group = place.start("--concurrency", "2", CHAOS_PROGRAM=str(note))
    ids = await place.enqueue(kind, "default", ["{}"])
    await until(lambda: note.exists() and note.read_text().endswith("\n"), "the job has started its program")
    program, own = map(int, note.read_text().split())
    (child,) = group.children
    assert (own == child) == (kind == "forker"), "it runs where it was meant to"
    assert is_running(program)
    assert send(child if whom == "the worker process" else own, signal.SIGKILL)
    killed_at = time.monotonic()

    async def is_given_back() -> bool:
        return bool((await place.store.get_jobs(ids))[0].crashes)

    await until(is_given_back, "the job is taken from its process")
    assert not is_running(own), "the job may begin again while its process runs"
    assert not is_running(program), "the job may begin again while its program runs"
    assert not CHAOS or time.monotonic() - killed_at < GONE_S
    show(f"{kind}, {whom} killed: gone after {time.monotonic() - killed_at:.2f} s")
    assert group.process.poll() is None
