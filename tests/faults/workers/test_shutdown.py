"""Leaving: when a signal comes, twice, early, without the store, one worker after the other; and newcomers."""

import asyncio
import contextlib
import json
import os
import pty
import random
import signal
import sqlite3
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from holdfast.job import Job, JobState
from holdfast.stores.values import JobFilter
from tests.faults.workers.looking import running
from tests.support.figures import show
from tests.support.groups import ROOT, Group, is_running, send
from tests.support.moments import MomentsFile
from tests.support.oracle import Note, Oracle, all_ended
from tests.support.pace import every, lasts
from tests.support.place import Place, own_url
from tests.support.proxy import proxied
from tests.support.sizes import CHAOS, size
from tests.support.wait import until

pytestmark = [pytest.mark.real_time, pytest.mark.sample]

TWICE_S = 0.2  # what comes sooner is the same signal, sent to the process and to its group
CHARGED = {"retry", "crash", "fail"}
SPEED = size(5, 1)  # how much shorter jobs are at every commit


def plain(*ms: float) -> list[str]:
    return [f'{{"ms": {round(one)}}}' for one in ms]


def begun(notes: Sequence[Note]) -> list[Note]:
    return [note for note in notes if note.what == "begin"]


def outcomes(job: Job) -> set[str]:
    """How the claims of a job ended before its last one."""
    return {attempt.outcome for attempt in job.attempts}


def charged(jobs: Iterable[Job]) -> list[tuple[JobState, int, int, set[str]]]:
    """The jobs that needed more than one attempt, however often they were given back, or did not complete."""
    return [
        (job.state, job.attempt, job.crashes, outcomes(job))
        for job in jobs
        if job.state is not JobState.COMPLETED or job.attempt > 1 or job.crashes or outcomes(job) & CHARGED
    ]


def left_after(found: MomentsFile, *, signals: int = 1) -> float:
    """How long after a signal the worker had left, by its own clock."""
    return float(found.read("left")[0]["at"] - found.read("signalled")[signals - 1]["at"])


async def held(place: Place) -> int:
    """How many jobs are held, and how many workers are alive in the store."""
    page = await place.store.list_jobs(JobFilter(states=(JobState.RUNNING,)), limit=100)
    return len(page.jobs) + len([row for row in await place.store.list_workers() if row.dead_at is None])


# ---- one signal, and two ---------------------------------------------------------------------------------------------


@pytest.mark.timeout(120)
async def test_what_runs_may_end(place: Place, moments_file: MomentsFile) -> None:
    """Row J1."""
    group = place.start("--concurrency", "16", "--processes", "2", **moments_file.env)
    many = size(160, 64)  # more than end before it is told to leave, however late that is
    ids = await place.enqueue("plain", "default", plain(*(random.uniform(1_000, 8_000) / SPEED for _ in range(many))))
    ran: dict[int, int] = {}

    def are_busy() -> bool:
        notes = place.notes()
        ran.clear()
        ran.update(running(notes))
        return len(begun(notes)) >= 20 and len(ran) >= 15

    await until(are_busy, "sixteen jobs run")
    children = group.children
    group.signal(signal.SIGTERM)
    assert await group.ended() == 0
    took, notes = left_after(moments_file), place.notes()
    jobs = {job.id: job for job in await place.store.get_jobs(ids)}
    heard_at = moments_file.read("signalled")[0]["at"]
    last = max(claimed["at"] - heard_at for claimed in moments_file.read("claimed"))
    show(f"{len(ran)} jobs ran, the worker left after {took:.2f} s, last claim {last:+.3f} s after")
    assert len(ran) >= 14
    assert took <= 10.5
    assert not CHAOS or last <= 0.1
    assert not charged(jobs[job] for job in ran)
    left = [job for job in jobs.values() if job.id not in {note.job for note in notes}]
    assert left
    assert all(job.state is JobState.QUEUED and job.attempt == 0 for job in left)
    assert not running(notes)
    assert not [pid for pid in children if is_running(pid)]
    assert not await held(place)


@pytest.mark.parametrize(
    "stubborn", [("threaded", '{"ms": 60000}'), ("hog", '{"way": "loop"}')], ids=["thread", "loop"]
)
@pytest.mark.timeout(120)
@pytest.mark.guards("leaving-acquittal")
async def test_the_grace_is_over(place: Place, stubborn: tuple[str, str], moments_file: MomentsFile) -> None:
    """Row J2: what ignores that it is to stop is given back, and starts elsewhere."""
    grace, (kind, payload) = size(1, 5), stubborn
    leaving = place.start(CHAOS_GRACE=str(grace), **moments_file.env)
    (job_id,) = await place.enqueue(kind, "default", [payload])
    await until(lambda: len(begun(place.notes())) == 1, "the job runs")
    children = leaving.children
    place.start()
    await place.arrived(2)
    (before,) = await place.store.get_jobs([job_id])
    leaving.signal(signal.SIGTERM)
    assert await leaving.ended() == 124
    took = left_after(moments_file)
    await until(lambda: len(begun(place.notes())) == 2, "another worker starts it")
    (after,) = await place.store.get_jobs([job_id])
    again = begun(place.notes())[1]
    show(f"left {took:.2f} s after SIGTERM")
    assert grace <= took < grace + 2
    assert (after.attempt, after.crashes, after.position) == (before.attempt, 0, before.position)
    assert outcomes(after) == {"interrupt"}
    assert after.claim == before.claim + 1
    assert not [pid for pid in children if is_running(pid)]  # so there is nobody who could write
    assert again.pid not in children


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.timeout(120)
async def test_a_second_signal(place: Place, number: signal.Signals, moments_file: MomentsFile) -> None:
    """Row J3: everything is given back at once."""
    group = place.start("--processes", "2", **moments_file.env)
    ids = await place.enqueue("patient", "default", plain(60_000, 60_000))
    ids += await place.enqueue("threaded", "default", plain(60_000, 60_000))
    await until(lambda: len(begun(place.notes())) == 4, "the jobs run")
    group.signal(number)
    await moments_file.wait("signalled")
    assert len(running(place.notes())) == 4
    await lasts(TWICE_S)
    group.signal(number)
    assert await group.ended() == 128 + number
    took = left_after(moments_file, signals=2)
    show(f"left {took:.2f} s after the second {number.name}")
    assert took < 2
    jobs = await place.store.get_jobs(ids)
    assert all(job.state is JobState.QUEUED and job.attempt == 0 and outcomes(job) == {"interrupt"} for job in jobs)
    assert not await held(place)


@pytest.mark.timeout(120)
async def test_ctrl_c_in_a_terminal(postgres_place: Place) -> None:
    """Row J3: a terminal signals the whole foreground; only the supervisor is in it."""
    place = postgres_place
    ours, theirs = pty.openpty()
    with os.fdopen(ours, "r+b", buffering=0) as keyboard:
        with os.fdopen(theirs, "r+b", buffering=0) as terminal:
            group = place.start_in(terminal.fileno())
        ids = await place.enqueue("patient", "default", plain(60_000))
        await until(lambda: len(begun(place.notes())) == 1, "the job runs")
        keyboard.write(b"\x03")
        await until(lambda: "SIGINT: nothing more is claimed" in group.said(), "the first was heard")
        assert {note.what for note in place.notes()} == {"begin"}
        await lasts(TWICE_S)
        keyboard.write(b"\x03")
        assert await group.ended() == 130
    assert [note.what for note in place.notes()] == ["begin", "cancel"]
    (job,) = await place.store.get_jobs(ids)
    assert (job.state, job.attempt) == (JobState.QUEUED, 0)


# ---- at any moment ---------------------------------------------------------------------------------------------------


DELAYS = range(0, 2_000, size(330, 20))
AT_ONCE = 3


def rounds() -> list[list[int]]:
    """Deal the moments to rounds; in each, several workers are started at once."""
    mixed = random.sample(DELAYS, len(DELAYS))
    return [mixed[start : start + AT_ONCE] for start in range(0, len(mixed), AT_ONCE)]


@pytest.mark.timeout(size(120, 900))
async def test_a_signal_while_it_starts(place: Place) -> None:
    """Row J4: it is never ignored, whatever the worker was about to do."""
    codes: set[int] = set()

    async def stop_after(delay_ms: int) -> None:
        group = place.start("--processes", "2")
        await lasts(delay_ms / 1_000)
        await stop(group)

    async def stop(group: Group) -> None:
        group.signal(signal.SIGTERM)
        children = set(group.children)
        codes.add(await group.ended())
        await until(lambda: not any(map(is_running, children)), "the children are gone with it")

    ids: list[int] = []
    for delays in rounds():
        ids += await place.enqueue("plain", "default", plain(*[20] * 20 * AT_ONCE))
        await asyncio.gather(*map(stop_after, delays))
        assert not await held(place)
    # On a busy machine none of them may have come as far as to listen: so one more, which works.
    before = len(begun(place.notes()))
    group = place.start("--processes", "2")
    ids += await place.enqueue("plain", "default", plain(*[20] * 20))
    await until(lambda: len(begun(place.notes())) > before, "it works")
    await stop(group)
    assert not await held(place)
    show(f"{len(DELAYS) + 1} runs, codes {codes}")
    assert codes <= {0, -signal.SIGTERM}
    assert 0 in codes
    place.start("--drain")
    jobs = await all_ended(place.store, ids)
    assert not charged(jobs.values())


@pytest.mark.timeout(size(120, 900))
async def test_a_signal_to_a_child_while_it_starts(place: Place) -> None:
    """Row J4: a child that is told leaves, and holds nothing afterwards."""

    async def stop_after(delay_ms: int) -> None:
        group = place.start()
        await until(lambda: bool(group.children), "there is a child")
        (child,) = group.children
        await lasts(delay_ms / 1_000)
        send(child, signal.SIGTERM)
        await until(lambda: not is_running(child), f"the child leaves {delay_ms} ms after its start")
        group.signal(signal.SIGTERM)
        # Without its only child it leaves by itself: the signal may come when it no longer listens.
        assert await group.ended() in {0, -signal.SIGTERM}

    for delays in rounds():
        await place.enqueue("plain", "default", plain(*[20] * 20 * AT_ONCE))
        await asyncio.gather(*map(stop_after, delays))
        assert not await held(place)


IN_A_CONTAINER = ("unshare", "--pid", "--fork", "--mount-proc")


@pytest.mark.parametrize("shell", [(), ("sh", "-c", 'exec "$@"', "sh")], ids=["bare", "shell"])
@pytest.mark.timeout(120)
async def test_as_the_first_process(postgres_place: Place, shell: tuple[str, ...]) -> None:
    """Row J5: as in a container; it reaps what jobs leave behind, and a signal is not ignored."""
    place = postgres_place
    group = place.start(before=(*IN_A_CONTAINER, *shell))
    ids = await place.enqueue("orphans", "default", ['{"count": 5}'])
    await all_ended(place.store, ids)
    (first,) = group.children
    assert namespace_pid(first) == 1

    def sleeping() -> list[int]:
        return [pid for pid in children_of(first) if command_of(pid).startswith("sleep")]

    await until(lambda: len(sleeping()) == 5, "it has become their parent")
    orphans = sleeping()
    for pid in orphans:
        assert send(pid, signal.SIGKILL)
    await until(lambda: not set(children_of(first)) & set(orphans), "those that ended are reaped")
    running_ids = await place.enqueue("plain", "default", plain(500))
    await until(lambda: len(begun(place.notes())) == 2, "a job runs")
    send(first, signal.SIGTERM)
    assert await group.ended() == 0
    jobs = await place.store.get_jobs(running_ids)
    assert not charged(jobs)
    assert not await held(place)


@pytest.mark.timeout(120)
async def test_under_a_shell_that_does_not_exec(postgres_place: Place) -> None:
    """Row J5: a signal to the whole group, as from a service manager or a terminal, reaches it behind the shell."""
    place = postgres_place
    group = place.start(before=("setsid", "sh", "-c", '"$@"; exit $?', "sh"))
    ids = await place.enqueue("plain", "default", plain(500))
    await until(lambda: len(begun(place.notes())) == 1, "the job runs")
    (supervisor,) = group.children
    (child,) = children_of(supervisor)
    os.killpg(group.pid, signal.SIGTERM)
    assert await group.ended() == -signal.SIGTERM  # the shell does not wait
    await until(lambda: not is_running(supervisor) and not is_running(child), "the worker has left")
    assert not charged(await place.store.get_jobs(ids))
    assert not await held(place)


def children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def command_of(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")


def namespace_pid(pid: int) -> int:
    """The number of a process where it lives."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("NSpid:")).split()[-1])


# ---- without the store -----------------------------------------------------------------------------------------------


@pytest.mark.timeout(120)
async def test_a_signal_while_the_store_is_silent(
    postgres_place: Place, dsn: str, tmp_path: Path, moments_file: MomentsFile
) -> None:
    """Row J6: the store hears nothing, so the worker leaves all the same, and its jobs are rescued."""
    place, grace, lease, gate = postgres_place, size(1, 5), size(3, 10), tmp_path / "gate"
    async with proxied(dsn) as proxy:
        env = {"CHAOS_LEASE": str(lease), "CHAOS_GRACE": str(grace), **moments_file.env}
        group = place.start(CHAOS_URL=own_url(proxy.dsn, place.schema), **env)
        ids = await place.enqueue("patient", "default", plain(60_000))
        ids += await place.enqueue("threaded", "default", plain(60_000))
        ids += await place.enqueue("gated", "default", [json.dumps({"gate": str(gate)})])
        await until(lambda: len(begun(place.notes())) == 3, "the jobs run")
        children = group.children
        proxy.silence()
        gate.touch()  # it ends in time, and nobody can be told
        group.signal(signal.SIGTERM)
        assert await group.ended() == 124
        took = left_after(moments_file)
        show(f"left {took:.2f} s after SIGTERM, grace {grace} s")
        assert took < grace + 2
        assert not [pid for pid in children if is_running(pid)]
    other = place.start(CHAOS_LEASE=str(lease))
    await until(lambda: len(begun(place.notes())) == 6, "all of them run again")
    jobs = await place.store.get_jobs(ids)
    assert {job.claim for job in jobs} == {2}
    assert other.process.poll() is None


@pytest.mark.timeout(120)
async def test_a_signal_before_the_store_has_ever_answered(postgres_place: Place, dsn: str) -> None:
    """Row J4: a worker that waits for a silent server leaves at once."""
    async with proxied(dsn) as proxy:
        proxy.silence()
        group = postgres_place.start(CHAOS_URL=own_url(proxy.dsn, postgres_place.schema))
        await until(lambda: proxy.links > 0, "it tries to connect")
        children = group.children
        group.signal(signal.SIGTERM)
        assert await group.ended() == 0
        assert len(children) == 1
        assert not is_running(children[0])


@pytest.mark.timeout(120)
async def test_a_child_that_dies_at_work_while_the_worker_leaves(postgres_place: Place) -> None:
    """Whoever reads the exit code is not told that everything has ended."""
    place = postgres_place
    group = place.start()
    ids = await place.enqueue("patient", "default", plain(60_000))
    await until(lambda: len(begun(place.notes())) == 1, "the job runs")
    (child,) = group.children
    group.signal(signal.SIGTERM)
    await until(lambda: "nothing more is claimed" in group.said(), "it was heard")
    assert send(child, signal.SIGKILL)
    assert await group.ended() == 124
    (job,) = await place.store.get_jobs(ids)
    assert (job.state, job.crashes) == (JobState.QUEUED, 1)


# ---- one after the other ---------------------------------------------------------------------------------------------


@pytest.mark.timeout(size(120, 300))
async def test_a_rolling_restart(place: Place) -> None:
    """Row J7: no attempt is burnt, nothing is lost, and work goes on."""
    every_s, seconds, slots = 3 / size(2, 1), size(6, 60), 16
    groups = [place.start() for _ in range(4)]
    await place.arrived(4)
    count = size(240, 1_000)
    ids = await place.enqueue("plain", "default", plain(*(random.uniform(0, 5_000) / SPEED for _ in range(count))))
    await until(lambda: len(begun(place.notes())) >= slots, "all slots are taken")
    started, restarts = time.monotonic(), 0
    leaving: list[Group] = []
    async for _ in every(every_s, lambda: time.monotonic() < started + seconds):
        old = groups.pop(0)
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
    """See that a worker leaves no file of marks while one of its children starts."""
    await until(fired.exists, "a child has made its marks and stands still")
    group.signal(signal.SIGTERM)
    assert await group.ended() == 0
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
    ids = await place.enqueue("plain", "default", plain(10, 10, 10))
    for expected in (1, 2, 3, 3):
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
    await kill()
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
