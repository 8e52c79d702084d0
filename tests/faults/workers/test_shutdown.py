"""Leaving: when a signal comes, twice, early, as the first process, and without the store."""

import asyncio
import json
import os
import pty
import random
import signal
import time
from pathlib import Path

import pytest

from holdfast.job import JobState
from tests.faults.workers.leaving import begun, begun_after_leave, charged, held, outcomes, plain, sent_away
from tests.faults.workers.looking import running
from tests.support.figures import show
from tests.support.groups import Group, is_running, send
from tests.support.moments import MomentsFile
from tests.support.oracle import all_ended
from tests.support.pace import lasts
from tests.support.place import Place, own_url
from tests.support.proxy import proxied
from tests.support.sizes import CHAOS, size
from tests.support.wait import until

pytestmark = [pytest.mark.real_time, pytest.mark.sample]

TWICE_S = 0.2  # what comes sooner is the same signal, sent to the process and to its group
NOTHING_BEGINS_S = 0.1  # after a signal, on a machine that does nothing else; the order of moments holds on any
SPEED = size(5, 1)  # how much shorter jobs are at every commit


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
    code, took = await sent_away(group)
    assert code == 0
    notes = place.notes()
    jobs = {job.id: job for job in await place.store.get_jobs(ids)}
    heard_at = moments_file.read("signalled")[0]["at"]
    last = max(claimed["at"] - heard_at for claimed in moments_file.read("claimed") if claimed["jobs"])
    show(f"{len(ran)} jobs ran, the worker left after {took:.2f} s, last claim {last:+.3f} s after")
    assert len(ran) >= 14
    assert took <= 10.5
    assert len(moments_file.read("drain_begun")) == 2
    assert not begun_after_leave(moments_file)
    assert not CHAOS or last <= NOTHING_BEGINS_S
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
async def test_the_grace_is_over(place: Place, stubborn: tuple[str, str]) -> None:
    """Row J2: what ignores that it is to stop is given back, and starts elsewhere."""
    grace, (kind, payload) = size(1, 5), stubborn
    leaving = place.start(CHAOS_GRACE=str(grace))
    (job_id,) = await place.enqueue(kind, "default", [payload])
    await until(lambda: len(begun(place.notes())) == 1, "the job runs")
    children = leaving.children
    place.start()
    await place.arrived(2)
    (before,) = await place.store.get_jobs([job_id])
    code, took = await sent_away(leaving)
    assert code == 124
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
    code, took = await sent_away(group, number)
    assert code == 128 + number
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


DELAYS = range(0, 2_000, size(500, 20))
AT_ONCE = size(2, 3)


def rounds() -> list[list[int]]:
    """Deal the moments to rounds; in each, several workers are started at once."""
    mixed = random.sample(DELAYS, len(DELAYS))
    return [mixed[start : start + AT_ONCE] for start in range(0, len(mixed), AT_ONCE)]


@pytest.mark.timeout(size(120, 900))
async def test_a_signal_while_it_starts(place: Place, moments_file: MomentsFile) -> None:
    """Row J4: it is never ignored, whatever the worker was about to do, and nothing begins after it."""
    codes: set[int] = set()

    async def stop_after(delay_ms: int) -> None:
        group = place.start("--processes", "2", **moments_file.env)
        await lasts(delay_ms / 1_000)
        await stop(group)

    async def stop(group: Group) -> None:
        children, told_at = set(group.children), time.monotonic()
        code, took = await sent_away(group)
        codes.add(code)
        assert not CHAOS or took <= 3
        await until(lambda: not any(map(is_running, children)), "the children are gone with it")
        late = [note for note in begun(place.notes()) if note.pid in children and note.at > told_at + NOTHING_BEGINS_S]
        assert not CHAOS or not late

    ids: list[int] = []
    for delays in rounds():
        ids += await place.enqueue("plain", "default", plain(*[20] * 20 * AT_ONCE))
        await asyncio.gather(*map(stop_after, delays))
        assert not await held(place)
    # On a busy machine none of them may have come as far as to listen: so one more, which works.
    before = len(begun(place.notes()))
    group = place.start("--processes", "2", **moments_file.env)
    ids += await place.enqueue("plain", "default", plain(*[20] * 20))
    await until(lambda: len(begun(place.notes())) > before, "it works")
    await stop(group)
    assert not await held(place)
    assert moments_file.read("drain_begun")
    assert not begun_after_leave(moments_file)
    show(f"{len(DELAYS) + 1} runs, codes {codes}")
    assert codes <= {0, -signal.SIGTERM}
    assert 0 in codes
    place.start("--drain")
    jobs = await all_ended(place.store, ids)
    assert not charged(jobs.values())


@pytest.mark.timeout(size(120, 900))
async def test_a_signal_to_a_child_while_it_starts(place: Place, moments_file: MomentsFile) -> None:
    """Row J4: a child that is told leaves, and holds nothing afterwards."""

    async def stop_after(delay_ms: int) -> None:
        group = place.start(**moments_file.env)
        await until(lambda: bool(group.children), "there is a child")
        (child,) = group.children
        await lasts(delay_ms / 1_000)
        told_at = time.monotonic()
        send(child, signal.SIGTERM)
        await until(lambda: not is_running(child), f"the child leaves {delay_ms} ms after its start")
        assert not CHAOS or time.monotonic() - told_at <= 3
        group.signal(signal.SIGTERM)
        # Without its only child it leaves by itself: the signal may come when it no longer listens.
        assert await group.ended() in {0, -signal.SIGTERM}

    for delays in rounds():
        await place.enqueue("plain", "default", plain(*[20] * 20 * AT_ONCE))
        await asyncio.gather(*map(stop_after, delays))
        assert not await held(place)
    assert not begun_after_leave(moments_file)


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
async def test_a_signal_while_the_store_is_silent(postgres_place: Place, dsn: str, tmp_path: Path) -> None:
    """Row J6: the store hears nothing, so the worker leaves all the same, and its jobs are rescued."""
    place, grace, lease, gate = postgres_place, size(1, 5), size(3, 10), tmp_path / "gate"
    async with proxied(dsn) as proxy:
        env = {"CHAOS_LEASE": str(lease), "CHAOS_GRACE": str(grace)}
        group = place.start(CHAOS_URL=own_url(proxy.dsn, place.schema), **env)
        ids = await place.enqueue("patient", "default", plain(60_000))
        ids += await place.enqueue("threaded", "default", plain(60_000))
        ids += await place.enqueue("gated", "default", [json.dumps({"gate": str(gate)})])
        await until(lambda: len(begun(place.notes())) == 3, "the jobs run")
        children = group.children
        proxy.silence()
        gate.touch()  # it ends in time, and nobody can be told
        code, took = await sent_away(group)
        assert code == 124
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
        code, took = await sent_away(group)
        assert code == 0
        assert took <= 3
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
