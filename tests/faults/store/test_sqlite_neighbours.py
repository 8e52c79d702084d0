"""Several processes on one SQLite file: they come together, write side by side, and leave each other's jobs alone."""

import statistics
from contextlib import ExitStack
from pathlib import Path

import pytest

from holdfast.job import JobState
from holdfast.stores.sqlite.store import SqliteStore
from holdfast.stores.values import Verdict
from holdfast.transitions import completed
from tests.support.builders import claim, enqueue_many, register
from tests.support.figures import show
from tests.support.programs import Program
from tests.support.sizes import CHAOS, size
from tests.support.sqlite_neighbour import Opened, Renewed, Wrote

pytestmark = pytest.mark.real_time

SECONDS = size(2, 20)
MANY = size(4, 8)
MODULE = "tests.support.sqlite_neighbour"


# ---- rows C18 and F36 ------------------------------------------------------------------------------------------------


def saturated(path: Path, turnstile: str) -> tuple[Renewed, list[Wrote]]:
    """Let two processes write as fast as they can, and a third renew a lease."""
    with ExitStack() as stack:
        renewer = stack.enter_context(Program(MODULE, "renew", path, SECONDS, turnstile))
        writers = [stack.enter_context(Program(MODULE, "write", path, SECONDS, turnstile)) for _ in range(2)]
        for program in (renewer, *writers):
            assert program.hear(str) == "ready"
        for program in (renewer, *writers):
            program.say()
        renewed, wrote = renewer.hear(Renewed), [writer.hear(Wrote) for writer in writers]
    took, rate = renewed.took_ms, sum(writer.jobs for writer in wrote) / SECONDS
    show(
        f"{turnstile} turnstile: {len(took)} renewals in {SECONDS} s, p50 {statistics.median(took):.1f} ms,"
        f" max {max(took):.1f} ms; writers {wrote[0].jobs} and {wrote[1].jobs} jobs ({rate:.0f}/s),"
        f" slowest round {max(writer.longest_ms for writer in wrote):.0f} ms; failed renewals {len(renewed.failures)}"
    )
    return renewed, wrote


@pytest.mark.timeout(size(120, 400))
def test_a_lease_is_renewed_in_time_beside_two_saturating_processes(tmp_path: Path) -> None:
    renewed, wrote = saturated(tmp_path / "jobs.db", "with")
    assert renewed.failures == []
    assert renewed.deaths == 0
    assert len(renewed.took_ms) > SECONDS  # one a second would be far too few already
    assert not CHAOS or max(renewed.took_ms) < 500
    least, most = sorted(writer.jobs for writer in wrote)
    assert 0 < most <= 5 * least


@pytest.mark.chaos
@pytest.mark.timeout(40 * SECONDS)
def test_what_the_turnstile_is_for(tmp_path: Path) -> None:
    """The same without it: no figure is asserted, because how bad it gets is luck."""
    _, wrote = saturated(tmp_path / "jobs.db", "without")
    assert sum(writer.jobs for writer in wrote) > 0


# ---- row A12 ---------------------------------------------------------------------------------------------------------


def test_many_processes_make_one_file(tmp_path: Path) -> None:
    with ExitStack() as stack:
        programs = [stack.enter_context(Program(MODULE, "open", tmp_path / "jobs.db")) for _ in range(MANY)]
        for program in programs:
            assert program.hear(str) == "ready"
        for program in programs:
            program.say()
        found = [program.hear(Opened) for program in programs]
        assert [program.process.wait() for program in programs] == [0] * MANY
    assert len({opened.job for opened in found}) == MANY
    assert sum(opened.claimed for opened in found) >= MANY  # retired workers gave back, others took them again
    assert [opened.rescued for opened in found] == [0] * MANY


@pytest.mark.parametrize("is_killed", [False, True])
async def test_a_second_process_leaves_running_jobs_alone(tmp_path: Path, is_killed: bool) -> None:
    path = tmp_path / "jobs.db"
    store = SqliteStore(str(path))
    await store.open()
    ids = await enqueue_many(store, 10)
    worker = await register(store, lease_ms=600_000)
    running = await claim(store, worker)
    with Program(MODULE, "open", path) as other:
        assert other.hear(str) == "ready"
        other.say()
        if not is_killed:
            assert other.hear(Opened).rescued == 0
            assert other.process.wait() == 0
    assert {job.id: job for job in await store.get_jobs(ids)} == {job.id: job for job in running}
    renewal = await store.renew_workers([worker], 10_000)
    assert renewal.alive == {worker}
    assert {held.id for held in renewal.held} == set(ids)
    worked = await store.finish_jobs([completed(job.id, job.claim, "null") for job in running])
    assert {finish.verdict for finish in worked.finishes} == {Verdict.DONE}
    assert {job.state for job in await store.get_jobs(ids)} == {JobState.COMPLETED}
    await store.close()
