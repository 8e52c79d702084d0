"""Workers that leave one after the other or by themselves, children that die, and deploys that fail."""

import contextlib
import json
import random
import signal
import sqlite3
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from holdfast.job import JobState
from tests.faults.workers.leaving import begun, charged, held, plain
from tests.faults.workers.looking import running
from tests.support.figures import show
from tests.support.groups import ROOT, Group, send
from tests.support.oracle import Note, Oracle, all_ended
from tests.support.pace import every
from tests.support.place import Place
from tests.support.sizes import CHAOS, size
from tests.support.wait import until

pytestmark = [pytest.mark.real_time, pytest.mark.sample]

SPEED = size(5, 1)  # how much shorter jobs are at every commit


# ---- one after the other ---------------------------------------------------------------------------------------------


@pytest.mark.timeout(size(120, 300))
async def test_a_rolling_restart(place: Place) -> None:
    """Row J7: no attempt is burnt, nothing is lost, and work goes on."""
    every_s, seconds, instances = size(1, 3), size(2, 60), size(2, 4)  # one that has just started is left alone
    slots = 4 * instances
    groups = [place.start() for _ in range(instances)]
    await place.arrived(instances)
    count = size(120, 1_000)
    ids = await place.enqueue("plain", "default", plain(*(random.uniform(0, 5_000) / SPEED for _ in range(count))))
    await until(lambda: len(begun(place.notes())) >= slots, "all slots are taken")
    started, restarts = time.monotonic(), 0
    leaving: list[Group] = []
    async for _ in every(every_s, lambda: time.monotonic() < started + seconds):
        old = groups.pop(0)
        await old.started()
        old.signal(signal.SIGTERM)
        leaving.append(old)
        groups.append(place.start())
        restarts += 1
    ended_at = time.monotonic()
    notes = place.notes()
    used = busy_seconds(notes, started, ended_at) / slots / (ended_at - started)
    assert sum(note.what == "end" for note in notes) < count  # or the restarts had not been under load
    codes = [await group.ended() for group in leaving]
    assert codes == [0] * restarts
    jobs = await all_ended(place.store, ids, size(60, 300))
    Oracle(jobs, place.notes(), await place.effects()).check(ids)
    assert not charged(jobs.values())
    show(f"{restarts} restarts in {ended_at - started:.0f} s, slots busy {used:.0%} of the time")
    assert not CHAOS or used >= 0.7


def busy_seconds(notes: Sequence[Note], since: float, until_: float) -> float:
    """How long handlers ran within a time, added up."""
    begins = {(note.job, note.claim): note.at for note in begun(notes)}
    ends = {(note.job, note.claim): note.at for note in notes if note.what == "end"}
    return sum(max(min(ends.get(key, until_), until_) - max(at, since), 0) for key, at in begins.items())


@pytest.mark.timeout(120)
async def test_a_sqlite_file_is_left_tidy(sqlite_place: Place) -> None:
    """Row J9."""
    place, path = sqlite_place, Path(sqlite_place.url.removeprefix("sqlite:///"))
    groups = [place.start(), place.start()]
    # More than end before they are told to leave, however late that is.
    ids = await place.enqueue("effect", "effects", plain(*[10] * size(1_000, 2_000)))
    ids += await place.enqueue("plain", "default", plain(*[10] * size(1_000, 2_000)))
    await until(lambda: len(begun(place.notes())) >= 100, "there is load")
    for group in groups:
        group.signal(signal.SIGTERM)
    assert [await group.ended() for group in groups] == [0, 0]
    done = {note.job for note in place.notes() if note.what == "end"}
    jobs = {job.id: job for job in await place.store.get_jobs(ids)}
    assert 0 < len(done) < len(ids)
    assert {job.id for job in jobs.values() if job.state is JobState.COMPLETED} == done
    await place.store.close()
    log = path.with_name(f"{path.name}-wal")
    assert not log.exists() or log.stat().st_size < 100_000
    assert not list(path.with_name(f"{path.name}-workers").glob("*"))
    with contextlib.closing(sqlite3.connect(path)) as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def stopping_child(fired: Path) -> dict[str, str]:
    """Let the first child that has made its marks stand still, before it says a word."""
    return {"HOLDFAST_FAILPOINTS": "child.marked:stop@1", "HOLDFAST_FAILPOINTS_FIRED": str(fired)}


async def leaves_nothing(place: Place, group: Group, fired: Path) -> None:
    """See that a worker leaves no file of marks while one of its children starts, and nothing beyond the next hint."""
    await until(fired.exists, "a child has made its marks and stands still")
    group.signal(signal.SIGTERM)
    assert await group.ended() == 0
    assert not list((place.folder / "jobs.db-workers").glob("*.marks"))
    await place.enqueue("plain", "default", plain(0))  # a hint, which removes the socket of a killed child
    assert not list((place.folder / "jobs.db-workers").glob("*"))


@pytest.mark.timeout(120)
@pytest.mark.guards("marks-removal")
async def test_a_first_child_that_was_starting_leaves_no_marks(sqlite_place: Place, tmp_path: Path) -> None:
    """Row J9: its supervisor does not know the folder yet."""
    fired = tmp_path / "fired"
    await leaves_nothing(sqlite_place, sqlite_place.start(**stopping_child(fired)), fired)


@pytest.mark.timeout(120)
@pytest.mark.guards("marks-removal")
async def test_a_later_child_that_was_starting_leaves_no_marks(sqlite_place: Place, tmp_path: Path) -> None:
    """Row J9: its supervisor has never seen its marks."""
    fired = tmp_path / "fired"
    fired.touch()  # so that the first child starts
    group = sqlite_place.start(**stopping_child(fired))
    await sqlite_place.arrived(1)
    fired.unlink()
    assert group.kill_child()
    await leaves_nothing(sqlite_place, group, fired)


# ---- leaving by itself -----------------------------------------------------------------------------------------------


@pytest.mark.timeout(120)
async def test_processes_are_renewed(place: Place) -> None:
    group = place.start("--processes", "2", "--recycle-after", "20")
    ids = await place.enqueue("plain", "default", plain(*[5] * size(150, 1_500)))
    ids += await place.enqueue("threaded", "default", plain(*[5] * size(50, 500)))
    jobs = await all_ended(place.store, ids, size(60, 300))
    Oracle(jobs, place.notes(), await place.effects()).check(ids)
    assert not charged(jobs.values())
    pids = {note.pid for note in place.notes()}
    show(f"{len(jobs)} jobs in {len(pids)} processes")
    assert len(pids) >= 4
    assert "without having finished a job" not in group.said()
    assert group.process.poll() is None


@pytest.mark.timeout(120)
async def test_one_job_and_no_more(place: Place) -> None:
    ids = await place.enqueue("plain", "default", plain(10, 10))
    for expected in (1, 2, 2):
        assert await place.start("--once").ended() == 0
        jobs = await place.store.get_jobs(ids)
        done = [job for job in jobs if job.state is JobState.COMPLETED]
        assert len(done) == expected
        assert all(job.state is JobState.QUEUED and job.attempt == 0 for job in jobs if job not in done)
        assert not await held(place)


@pytest.mark.timeout(120)
async def test_what_is_there_and_no_more(place: Place, tmp_path: Path) -> None:
    """What another worker runs is not waited for."""
    gate = tmp_path / "gate"
    other = place.start()
    await place.arrived(1)
    busy = await place.enqueue("gated", "default", [json.dumps({"gate": str(gate)})] * 4)
    await until(lambda: len(begun(place.notes())) == 4, "the other worker has no slot left")
    ids = await place.enqueue("plain", "default", plain(*[20] * 40))
    ids += await place.enqueue("effect", "effects", plain(*[20] * 10))
    drained = place.start("--drain", "--processes", "2")
    assert await drained.ended() == 0
    jobs = {job.id: job for job in await place.store.get_jobs(ids)}
    assert not charged(jobs.values())
    assert sorted(running(place.notes(), other.children)) == sorted(busy)
    gate.touch()
    await all_ended(place.store, busy)


# ---- children that die, and deploys that fail ------------------------------------------------------------------------


@pytest.mark.timeout(120)
async def test_restarts_slow_down_only_without_work(postgres_place: Place) -> None:
    place = postgres_place
    group = place.start()
    await place.arrived(1)

    def pauses() -> list[str]:
        return [line.rpartition("starts in ")[2] for line in group.said().splitlines() if "starts in" in line]

    async def kill() -> float:
        (child,) = group.children
        killed_at = time.monotonic()
        send(child, signal.SIGKILL)
        await until(lambda: bool(group.children) and group.children != [child], "another child is started")
        took = time.monotonic() - killed_at
        await place.arrived(1)
        return took

    assert await kill() >= 1
    assert await kill() >= 2
    assert pauses() == ["1 s", "2 s"]
    await all_ended(place.store, await place.enqueue("plain", "default", plain(0)))
    took = await kill()
    assert not CHAOS or took < 1, "a child that had worked was waited for"
    assert pauses() == ["1 s", "2 s"]
    assert await kill() >= 1
    assert pauses() == ["1 s", "2 s", "1 s"]


_GOOD = "from tests.support.ledger_app import app\n"
_BROKEN = "raise RuntimeError('the deploy is broken')\n"


@pytest.mark.timeout(120)
async def test_a_broken_deploy_does_not_bring_the_worker_down(place: Place, tmp_path: Path) -> None:
    code = tmp_path / "deployed.py"
    code.write_text(_GOOD)
    env = {"PYTHONPATH": f"{tmp_path}:{ROOT}", "PYTHONDONTWRITEBYTECODE": "1"}
    group = place.start("--processes", "2", app="deployed:app", **env)
    await place.arrived(2)
    code.write_text(_BROKEN)
    ids = await place.enqueue("plain", "default", plain(*[50] * 40))
    killed = group.kill_child()
    await until(lambda: "the deploy is broken" in group.said(), "the new child cannot import")
    assert killed is not None
    assert group.process.poll() is None
    jobs = await all_ended(place.store, ids)  # the other child goes on
    assert all(job.state is JobState.COMPLETED for job in jobs.values())
    code.write_text(_GOOD)
    await place.arrived(2)
    group.signal(signal.SIGTERM)
    assert await group.ended() == 0


@pytest.mark.timeout(120)
async def test_a_deploy_that_was_broken_from_the_start(place: Place, tmp_path: Path) -> None:
    (tmp_path / "deployed.py").write_text(_BROKEN)
    group = place.start(app="deployed:app", PYTHONPATH=f"{tmp_path}:{ROOT}")
    assert await group.ended() == 1
    assert "importing deployed failed: RuntimeError: the deploy is broken" in group.said()


@pytest.mark.timeout(120)
async def test_an_old_worker_meets_a_new_kind(place: Place) -> None:
    """Row G4: it is given back, never discarded, and a new worker runs it."""
    old = place.start(CHAOS_OLD="1")
    await place.arrived(1)
    ids = await place.enqueue("newcomer", "default", plain(10, 10, 10))
    known = await place.enqueue("plain", "default", plain(10, 10, 10))
    await all_ended(place.store, known)
    await until(lambda: old.said().count("another worker may know it") == 3, "the old worker has met them")
    jobs = await place.store.get_jobs(ids)
    assert {(job.state, job.attempt, job.crashes) for job in jobs} == {(JobState.SCHEDULED, 0, 0)}
    now = (await place.store.diagnose()).now
    assert all(0 < (job.run_at - now).total_seconds() <= 30 for job in jobs)
    place.start()
    await place.arrived(2)
    old.signal(signal.SIGTERM)
    assert await old.ended() == 0
    if not CHAOS:  # there the thirty seconds are waited for
        await place.store.reschedule_jobs(ids, run_at=None, delay_ms=0)
    ended = await all_ended(place.store, ids)
    assert not charged(ended.values())
