"""Who slept must not judge others: after all of them stood still, nobody is declared dead for it."""

import json
from types import SimpleNamespace

import pytest

from holdfast.delivery.in_store import InStore
from holdfast.job import JobRow, JobState
from holdfast.services import rescue as rescue_module
from holdfast.services.rescue import RescueService
from holdfast.services.sweeps import Sweeps
from holdfast.stores.sqlite.store import SqliteStore
from holdfast.stores.values import WorkerProcess
from holdfast.worker import lease as lease_module
from holdfast.worker.lease import RENEWALS, Lease
from holdfast.worker.vanished import HostMarks
from tests.faults.workers.looking import running
from tests.faults.workers.stopping import go_on, leases_ended, stop
from tests.support.connections import new_job, request
from tests.support.figures import show
from tests.support.moments import MomentsFile
from tests.support.oracle import Oracle, all_ended
from tests.support.place import Place
from tests.support.sizes import size
from tests.support.wait import until

pytestmark = [pytest.mark.real_time, pytest.mark.sample]

LEASE_S = size(1, 3)


@pytest.mark.timeout(120)
async def test_nobody_is_declared_dead_because_all_slept(place: Place, moments_file: MomentsFile) -> None:
    env = {"CHAOS_LEASE": str(LEASE_S), **moments_file.env}
    groups = [place.start("--concurrency", "4", **env) for _ in range(2)]
    await place.arrived(2)
    gate = place.folder / "gate"
    ids = await place.enqueue("gated", "default", [json.dumps({"gate": str(gate)})] * 8)
    await until(lambda: len(running(place.notes())) == 8, "both groups work")
    for group in groups:
        await moments_file.wait("renewed", times=3, pid=group.pid)  # so that both may judge
    everybody = [pid for group in groups for pid in (group.pid, *group.children)]
    await stop(place, everybody)
    await leases_ended(place, everybody)
    go_on(everybody)
    gate.touch()
    jobs = await all_ended(place.store, ids)
    oracle = Oracle(jobs, place.notes(), await place.effects())
    oracle.check(ids)
    charged = sum(job.crashes for job in jobs.values())
    show(f"{oracle.lease_ends} claims taken because a lease had ended, {charged} jobs charged")
    assert all(job.state is JobState.COMPLETED for job in jobs.values())
    assert (oracle.lease_ends, charged) == (0, 0)


class Sleeper:
    """An instance whose clock the test moves, and another one whose lease has ended."""

    def __init__(self, store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
        self.store = store
        self.now_s = 1_000.0
        monkeypatch.setattr(lease_module, "time", SimpleNamespace(monotonic_ns=lambda: int(self.now_s * 1e9)))
        self.lease = Lease(store, 9.0, dict, lambda renewal, asked_at: None)
        self.interval_s = self.lease.lease_s / RENEWALS
        self.judges: bool | None = None  # as its lease says
        self.sweeps = Sweeps(
            store, InStore(store), HostMarks(None, "own"), cancel_grace_s=30, may_judge=lambda: self.may_judge
        )

    @property
    def may_judge(self) -> bool:
        return self.lease.is_steady if self.judges is None else self.judges

    async def other_is_late(self) -> JobRow:
        """Let a worker claim a job, and its lease end."""
        worker = await self.store.register_worker(WorkerProcess("other", "localhost", 1), 1)
        await self.store.insert_jobs([new_job((await self.store.take_ids(1))[0])])
        (job,) = await self.store.claim_jobs(request(worker))

        async def is_late() -> bool:
            now = (await self.store.diagnose()).now
            return all(row.lease_until < now for row in await self.store.list_workers() if row.id == worker)

        await until(is_late, "its lease of a millisecond has ended")
        return job

    async def is_taken(self, job: JobRow) -> bool:
        """Sweep once, and see whether the job was taken from the worker that is late."""
        await self.sweeps.sweep()
        (now,) = await self.store.get_jobs([job.id])
        return now.state is not JobState.RUNNING


@pytest.mark.guards("sweep-judgement")
async def test_a_rescuer_that_slept_looks_twice(sqlite_memory: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    sleeper = Sleeper(sqlite_memory, monkeypatch)
    job = await sleeper.other_is_late()
    assert not await sleeper.is_taken(job), "it has only just come"
    sleeper.now_s += sleeper.interval_s
    await sleeper.lease.renew()
    assert sleeper.lease.is_steady
    sleeper.now_s += 20  # a lid was closed, a signal stopped it, a lock was waited for
    assert not await sleeper.is_taken(job), "its own lease has ended as well"
    await sleeper.lease.renew()
    assert not await sleeper.is_taken(job), "the others must have had the time to renew"
    sleeper.now_s += sleeper.interval_s
    await sleeper.lease.renew()
    assert await sleeper.is_taken(job)


@pytest.mark.chaos
async def test_a_rescuer_that_does_not_look_twice_is_noticed(
    sqlite_memory: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    sleeper = Sleeper(sqlite_memory, monkeypatch)
    job = await sleeper.other_is_late()
    sleeper.now_s += 20
    sleeper.judges = True
    assert not await sleeper.is_taken(job), "nobody looked before it was late"
    assert await sleeper.is_taken(job)


@pytest.mark.guards("rescue-gap")
async def test_the_leader_judges_only_what_it_saw_awake(
    sqlite_memory: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Looks a second apart; the lease of the other one ends between the fifth and the sixth, where all may sleep."""
    now_s = 1_000.0
    monkeypatch.setattr(rescue_module, "time", SimpleNamespace(monotonic=lambda: now_s))
    rescuing = RescueService(sqlite_memory, cancel_grace_s=30, lease_s=6)

    async def is_taken() -> bool:
        nonlocal now_s
        now_s += 1
        return (await rescuing.run(10)).moved == 1

    for asleep_s, looks in ((0.0, [False, True]), (20.0, [False, False, True])):
        for _ in range(5):
            assert not await is_taken()
        await Sleeper(sqlite_memory, monkeypatch).other_is_late()
        now_s += asleep_s
        assert [await is_taken() for _ in looks] == looks


async def test_a_leader_that_looks_seldom_looks_twice(
    sqlite_memory: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = 1_000.0
    monkeypatch.setattr(rescue_module, "time", SimpleNamespace(monotonic=lambda: now_s))
    rescuing = RescueService(sqlite_memory, cancel_grace_s=30, lease_s=6)
    await Sleeper(sqlite_memory, monkeypatch).other_is_late()
    first = await rescuing.run(10)
    now_s += first.next_s or 60
    second = await rescuing.run(10)
    assert (first.moved, first.next_s, second.moved, second.next_s) == (0, 2.0, 1, None)
