"""The store goes away under load, in every way it can: no process exits, nothing is lost, work goes on by itself."""

import asyncio
import contextlib
import itertools
import json
import random
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

from holdfast.errors import StoreUnavailable
from holdfast.job import Job, JobState
from holdfast.stores.sql import quoted
from tests.faults.workers.servers import own_folder, place_on, served
from tests.support.disks import Disk, mounted
from tests.support.feed import Feed
from tests.support.figures import show
from tests.support.groups import Group, is_running
from tests.support.oracle import Note, Oracle, all_ended, loudest
from tests.support.pace import every, lasts
from tests.support.place import Place, own_url, place_in
from tests.support.programs import Program
from tests.support.proxy import proxied
from tests.support.sizes import size
from tests.support.wait import until

pytestmark = [pytest.mark.real_time, pytest.mark.sample]

FAULT_S = size(6, 60)
PATIENCE = size(3, 1)  # how much longer anything may take where other tests run beside this one


@pytest.fixture
def server_folder() -> Iterator[Path]:
    """Give a folder for a server."""
    with own_folder() as folder:
        yield folder


@pytest.fixture
def disk_for_log(server_folder: Path) -> Iterator[Disk]:
    """Give a disk for the server's log."""
    with mounted(server_folder / "disk", "24m") as disk:
        yield disk


class Crew:
    """Worker groups that are to live through an outage: the same processes at the end as at the start."""

    def __init__(self, place: Place, groups: int = 2, processes: int = 2, **env: str) -> None:
        self.place = place
        self.groups = [place.start("--processes", str(processes), **env) for _ in range(groups)]
        self.processes = groups * (processes + 1)
        self._children_each = processes
        self._pids: list[int] = []

    async def arrive(self) -> None:
        """Wait until each process may claim."""
        await self.place.arrived(len(self.groups) * self._children_each)
        self._pids = self.pids

    @property
    def pids(self) -> list[int]:
        return [pid for group in self.groups for pid in (group.pid, *sorted(group.children))]

    async def check(self) -> None:
        """No process has exited, none has replaced one, and each of them works."""
        assert self.pids == self._pids
        assert all(is_running(pid) for pid in self._pids)
        idle = {pid for group in self.groups for pid in group.children}
        gate = self.place.folder / f"gate-{len(self.place.notes())}"
        payload = json.dumps({"gate": str(gate)})
        # More than run at once, and than are claimed ahead: none ends before each process has begun some.
        ids = await self.place.enqueue("gated", "default", [payload] * 16 * len(self.groups))
        await until(lambda: not idle - {note.pid for note in self.place.notes() if note.job in ids}, "each works")
        gate.touch()
        await all_ended(self.place.store, ids)

    async def check_supervisors(self) -> None:
        """No supervisor has exited, a child only because its lease was about to end; each process works."""
        missing = set(self._pids) - set(self.pids)
        assert not missing & {group.pid for group in self.groups}
        assert len(missing) == self.said().count("its end is near: this process leaves")
        self._pids = self.pids
        await self.check()

    def said(self) -> str:
        return "".join(group.said() for group in self.groups)


async def judged(crew: Crew, ids: list[int], timeout: float = 60) -> dict[int, Job]:
    """Wait for the end of all jobs, and see that each ended well and had its effect once."""
    place = crew.place
    jobs = await all_ended(place.store, ids, timeout)
    Oracle(jobs, place.notes(), await place.effects()).check(ids)
    not_completed = [(job.state, job.kind, job.error) for job in jobs.values() if job.state is not JobState.COMPLETED]
    assert not not_completed, not_completed[:3]
    return jobs


def starts(notes: list[Note]) -> list[float]:
    return sorted(note.at for note in notes if note.what == "begin")


def resumed_after(notes: list[Note], moment: float) -> float:
    """How long after a moment the first handler began."""
    return next((at for at in starts(notes) if at >= moment), float("inf")) - moment


# ---- the server ------------------------------------------------------------------------------------------------------


@pytest.mark.timeout(size(120, 600))
async def test_a_server_that_restarts_again_and_again(tmp_path: Path, server_folder: Path) -> None:
    """Row C1: stopped at once and started again, down for up to two seconds."""
    jobs, seconds = size(400, 5_000), size(9, 120)
    readies: list[float] = []
    async with served(server_folder) as server, place_on(server.dsn, tmp_path, deadline=2) as place:
        crew = Crew(place)
        await crew.arrive()
        feed = Feed(place, longest_ms=400)  # which keeps every slot busy
        feeding = asyncio.create_task(feed.serve(jobs, seconds))
        async for _ in every(lambda: random.uniform(5, 10) / size(3, 1), lambda: not feeding.done()):
            server.stop()
            await lasts(random.uniform(0, 2))
            server.start()
            readies.append(await server.ready())
        await feeding
        ids = await feed.stored()
        await judged(crew, ids)
        await crew.check()
        notes = place.notes()
        slowest = max(resumed_after(notes, ready) for ready in readies)
        show(f"{len(readies)} restarts, {len(ids)} jobs, work resumed within {slowest:.2f} s, errors {feed.errors}")
        assert len(readies) >= 2
        assert feed.errors
        assert slowest <= 3 * PATIENCE


@pytest.mark.timeout(size(120, 300))
async def test_sessions_that_are_ended(postgres_place: Place, dsn: str) -> None:
    """Row C2: every 100 ms the server ends a session of the workers, whichever."""
    crew = Crew(postgres_place)
    await crew.arrive()
    feed = Feed(postgres_place, longest_ms=30)
    feeding = asyncio.create_task(feed.serve(size(500, 5_000), FAULT_S))
    own = await asyncpg.connect(dsn)
    ended = 0
    async for _ in every(0.1, lambda: not feeding.done()):
        sql = "SELECT pid FROM pg_stat_activity WHERE application_name = $1"
        sessions = [row["pid"] for row in await own.fetch(sql, postgres_place.schema)]
        if sessions:
            ended += bool(await own.fetchval("SELECT pg_terminate_backend($1)", random.choice(sessions)))
    await own.close()
    await feeding
    jobs = await judged(crew, await feed.stored())
    await crew.check()
    assert ended >= 5 * FAULT_S
    count, text = loudest(crew.said())
    show(f"{ended} sessions ended, {len(jobs)} jobs, loudest: {count} x {text}")


@pytest.mark.timeout(size(120, 300))
async def test_a_table_that_is_locked(postgres_place: Place, dsn: str) -> None:
    """Row C13: somebody keeps the table of jobs to himself, for longer than a lease."""
    lease, locked_s = size(3, 10), size(4, 20)
    crew = Crew(postgres_place, CHAOS_LEASE=str(lease), CHAOS_DEADLINE=f"{size(2, 10)}s")
    await crew.arrive()
    feed = Feed(postgres_place, longest_ms=200, kinds=(("plain", "default"), ("effect", "effects")))
    await feed.serve(size(200, 1_000), 2)
    own = await asyncpg.connect(dsn)
    await own.execute(f"BEGIN; LOCK TABLE {quoted(postgres_place.schema)}.jobs IN ACCESS EXCLUSIVE MODE")
    locked_at = time.monotonic()
    await lasts(locked_s)
    begun = [at for at in starts(postgres_place.notes()) if at > locked_at]
    await own.execute("COMMIT")
    unlocked_at = time.monotonic()
    await own.close()
    jobs = await judged(crew, await feed.stored())
    resumed = resumed_after(postgres_place.notes(), unlocked_at)
    await crew.check_supervisors()
    assert_no_rescue(crew, jobs)
    assert len(begun) <= 3 * 4 * len(crew.groups)  # what had been claimed before
    show(f"locked for {locked_s} s, lease {lease} s: work resumed within {resumed:.2f} s")
    assert resumed <= 5 * PATIENCE


def assert_no_rescue(crew: Crew, jobs: dict[int, Job]) -> None:
    """Nobody was taken for dead, and nobody was charged."""
    assert "its worker's lease ended" not in crew.said()
    assert "declared dead" not in crew.said()
    assert not [job for job in jobs.values() if job.crashes]


@pytest.mark.timeout(size(120, 300))
async def test_a_server_that_takes_no_more_connections(tmp_path: Path, server_folder: Path) -> None:
    """Row C12: workers keep the connection for their leases, and everything else has to wait."""
    lease, famine_s = size(3, 10), size(5, 30)
    async with (
        served(server_folder, "max_connections=30") as server,
        place_on(server.dsn, tmp_path, deadline=2) as place,
    ):
        crew = Crew(place, CHAOS_LEASE=str(lease), CHAOS_DEADLINE="2s")
        await crew.arrive()
        own = await asyncpg.connect(server.dsn)
        running = await place.enqueue("patient", "default", [f'{{"ms": {(famine_s - 1) * 1_000}}}'] * 3)
        await until(lambda: len(starts(place.notes())) == 3, "the long jobs run")
        waiting = await place.enqueue("plain", "default", ['{"ms": 20}'] * size(200, 1_000))
        leases: set[int] = set()

        async def all_seen() -> bool:
            leases.update(row["pid"] for row in await own.fetch(_LEASES, place.schema))
            return len(leases) == len(crew.groups)

        await until(all_seen, "the sessions of all leases are seen")
        starving, end, ended = Famine(server.dsn), time.monotonic() + famine_s, 0
        async for _ in every(0.05, lambda: time.monotonic() < end):
            await starving.fill()
            ended += len(await own.fetch(_STARVE, place.schema, leases))
        waiting += await place.enqueue("plain", "default", ['{"ms": 20}'] * size(100, 1_000))
        await starving.end()
        fed_at = time.monotonic()
        await own.close()
        jobs = await judged(crew, running + waiting)
        resumed = resumed_after(place.notes(), fed_at)
        await crew.check()
        assert_no_rescue(crew, jobs)
        assert {note.what for note in place.notes()} == {"begin", "end"}  # nobody was asked to stop
        assert "lease could not be renewed" not in crew.said()
        assert "too many clients" in crew.said()
        show(f"{starving.most} sleepers, {ended} sessions ended: work resumed within {resumed:.2f} s")
        assert resumed <= 5 * PATIENCE


_LEASES = """
SELECT pid FROM pg_stat_activity
WHERE application_name = $1 AND (query LIKE '%SET renewed_at%' OR query LIKE '%cancel_requested_at IS NOT NULL AS%')
"""
_STARVE = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1 AND pid <> ALL ($2::int[])
"""


@pytest.mark.timeout(size(120, 300))
async def test_a_server_that_refuses_logins(tmp_path: Path, server_folder: Path) -> None:
    """A password that changes on the server first: what handlers returned meanwhile is kept, and stored once."""
    refused_s = size(3, 20)
    async with served(server_folder) as server, place_on(server.dsn, tmp_path, deadline=2) as place:
        crew = Crew(place)
        await crew.arrive()
        own = await asyncpg.connect(server.dsn)
        ended_in_vain = await place.enqueue("plain", "default", ['{"ms": 1500}'] * 8)
        await until(lambda: len(starts(place.notes())) == 8, "as many run as can")
        waiting = await place.enqueue("effect", "effects", ['{"ms": 20}'] * size(100, 1_000))
        await own.execute("ALTER ROLE postgres NOLOGIN")
        sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1"
        ended = len(await own.fetch(sql, place.schema))
        await lasts(refused_s)
        await own.execute("ALTER ROLE postgres LOGIN")
        welcome_at = time.monotonic()
        await own.close()
        jobs = await judged(crew, ended_in_vain + waiting)
        resumed = resumed_after(place.notes(), welcome_at)
        await crew.check()
        assert ended >= crew.processes
        assert "not permitted to log in" in crew.said()
        assert_no_rescue(crew, jobs)
        count, text = loudest(crew.said())
        show(f"{ended} sessions ended for {refused_s} s, loudest {count} x {text}: resumed within {resumed:.2f} s")
        assert {note.claim for note in place.notes() if note.job in ended_in_vain} == {1}  # none ran twice
        assert resumed <= 5 * PATIENCE
        assert count <= (refused_s + 3) * crew.processes


class Famine:
    """Connections that do nothing, as many as the server takes."""

    def __init__(self, dsn: str) -> None:
        self.most = 0
        self._dsn = dsn
        self._sleepers: list[asyncpg.Connection[asyncpg.Record]] = []

    async def fill(self) -> None:
        with contextlib.suppress(asyncpg.TooManyConnectionsError):
            while True:
                self._sleepers.append(await asyncpg.connect(self._dsn))
        self.most = max(self.most, len(self._sleepers))

    async def end(self) -> None:
        for sleeper in self._sleepers:
            await sleeper.close()


# ---- full disks ------------------------------------------------------------------------------------------------------


def fill(disk: Disk) -> Path:
    """Leave no room on a disk."""
    filling = disk.path / "filling"
    with filling.open("ab", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4_096))
    return filling


@pytest.mark.timeout(size(120, 300))
@pytest.mark.chaos
async def test_a_log_of_the_server_that_has_no_room(tmp_path: Path, server_folder: Path, disk_for_log: Disk) -> None:
    """Row C4: PostgreSQL cannot write its log and goes down; it is back once there is room."""
    full_s, disk = size(4, 30), disk_for_log
    settings = ("min_wal_size=2MB", "max_wal_size=4MB")
    async with (
        served(server_folder, *settings, wal=disk.path) as server,
        place_on(server.dsn, tmp_path, deadline=2) as place,
    ):
        crew = Crew(place)
        await crew.arrive()
        feed = Feed(place, longest_ms=200)
        await feed.serve(size(100, 1_000), 1)
        feed.errors.clear()
        full_at = time.monotonic()
        neighbour = asyncio.create_task(take_room(disk, server.dsn))
        await feed.serve(size(100, 1_000), full_s)
        neighbour.cancel()
        refused = feed.errors.copy()
        (disk.path / "filling").unlink()
        if not server.is_running:  # as whoever looks after it would
            server.start()
        ready_at = await server.ready()
        await feed.serve(size(100, 1_000), 1)
        jobs = await judged(crew, await feed.stored())
        resumed = resumed_after(place.notes(), ready_at)
        await crew.check()
        assert "No space left on device" in server.said()
        assert set(refused) <= {"StoreUnavailable", "OutcomeUnknown"}
        assert refused["StoreUnavailable"] >= 5
        show(f"full for {ready_at - full_at:.1f} s, {len(jobs)} jobs, {refused}: resumed within {resumed:.2f} s")
        assert resumed <= 10


async def take_room(disk: Disk, dsn: str) -> None:
    """Take the room that is left, and write as an application next door does; the server goes down for it."""
    async for _ in every(0.02, lambda: True):
        fill(disk)
        with contextlib.suppress(asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
            own = await asyncpg.connect(dsn)
            try:
                await own.execute("CREATE TABLE IF NOT EXISTS next_door (text text)")
                while True:
                    await own.execute("INSERT INTO next_door SELECT repeat('x', 1000) FROM generate_series(1, 500)")
            finally:
                own.terminate()


@pytest.mark.timeout(size(120, 300))
async def test_a_disk_without_room(tmp_path: Path, disk: Disk) -> None:
    """Row C5: what handlers return on a full disk is kept, and stored when there is room; nothing runs twice."""
    full_s = size(4, 70)
    disk.resize("4m")
    path = disk.path / "jobs.db"
    async with place_in(path, tmp_path) as place:
        crew = Crew(place, processes=1, groups=2)
        await crew.arrive()
        gate = tmp_path / "gate"
        ids = await place.enqueue("gated", "default", [json.dumps({"gate": str(gate)})] * 8)
        await until(lambda: len(starts(place.notes())) == 8, "as many run as can")
        waiting = await place.enqueue("plain", "default", ['{"ms": 0}'] * size(50, 500))
        filling = fill(disk)
        ids += await write_until_full(place)
        full_at = time.monotonic()
        gate.touch()
        await lasts(full_s)
        notes = place.notes()
        done = [job for job in await place.store.get_jobs(ids) if job.is_finished]
        lines = len(crew.said().splitlines())
        filling.unlink()
        disk.resize("64m")
        roomy_at = time.monotonic()
        jobs = await judged(crew, ids + waiting)
        resumed = resumed_after(place.notes(), roomy_at)
        await crew.check()
        assert len([note for note in notes if note.what == "end"]) >= 8  # they returned
        assert not done
        assert not [at for at in starts(notes) if at > full_at]
        assert "disk is full" in crew.said()
        assert_no_rescue(crew, jobs)
        show(f"full for {full_s} s, {lines} lines in all logs: resumed within {resumed:.2f} s")
        assert {note.claim for note in place.notes()} == {1}  # nothing ran twice
        assert lines <= 3 * crew.processes + full_s * crew.processes
        assert resumed <= 5 * PATIENCE
    with contextlib.closing(sqlite3.connect(path)) as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


async def write_until_full(place: Place) -> list[int]:
    """Enqueue until there is no room; what was accepted."""
    accepted: list[int] = []
    while True:
        try:
            accepted += await place.enqueue("plain", "default", ['{"ms": 0}'])
        except StoreUnavailable as error:
            if "full" in str(error):
                return accepted
            raise


@pytest.mark.timeout(size(120, 300))
@pytest.mark.chaos
async def test_a_file_that_is_locked_by_others(sqlite_place: Place) -> None:
    """Row C11: a foreign program holds the lock of the file, three seconds at a time."""
    holds = size(2, 15)
    crew = Crew(sqlite_place, processes=1, groups=2)
    await crew.arrive()
    feed = Feed(sqlite_place, longest_ms=30)
    path = sqlite_place.url.removeprefix("sqlite:///")
    with Program("tests.support.sqlite_neighbour", "hold", path, 3, holds) as neighbour:
        assert neighbour.hear(str) == "ready"
        neighbour.say()
        await feed.serve(size(300, 3_000), 3.25 * holds)
        assert await asyncio.to_thread(neighbour.hear, str) == "done"
    jobs = await judged(crew, await feed.stored())
    await crew.check()
    assert_no_rescue(crew, jobs)
    assert not feed.errors
    assert len(jobs) == size(300, 3_000)
    assert "lease could not be renewed" not in crew.said()
    begun = starts(sqlite_place.notes())
    longest = max(later - earlier for earlier, later in itertools.pairwise(begun))
    show(f"{holds} holds of 3 s, {len(jobs)} jobs, longest pause {longest:.2f} s")
    assert longest > 2  # the lock was really held


# ---- the network -----------------------------------------------------------------------------------------------------


@pytest.mark.timeout(size(120, 300))
async def test_a_black_hole(postgres_place: Place, dsn: str) -> None:
    """Row B3: nothing comes through, for longer than a lease and than a deadline, and no link breaks."""
    lease, silent_s = size(3, 10), size(6, 60)
    async with proxied(dsn) as proxy:
        url = own_url(proxy.dsn, postgres_place.schema)
        crew = Crew(postgres_place, CHAOS_URL=url, CHAOS_LEASE=str(lease), CHAOS_DEADLINE=f"{size(2, 10)}s")
        await crew.arrive()
        feed = Feed(postgres_place, longest_ms=200)
        await feed.serve(size(150, 1_000), 2)
        proxy.silence()
        silent_at = time.monotonic()
        await feed.serve(size(150, 1_000), silent_s)
        late = [at for at in starts(postgres_place.notes()) if at > silent_at + lease]
        proxy.heal()
        healed_at = time.monotonic()
        jobs = await judged(crew, await feed.stored())
        resumed = resumed_after(postgres_place.notes(), healed_at)
        await crew.check_supervisors()
        assert_no_rescue(crew, jobs)
        assert not late
        assert "lease could not be renewed" in crew.said()
        show(f"silent for {silent_s} s, lease {lease} s: work resumed within {resumed:.2f} s")
        assert resumed <= 5 * PATIENCE


@pytest.mark.timeout(size(120, 300))
@pytest.mark.chaos
@pytest.mark.guards("lease-fence")
async def test_a_worker_that_is_cut_off_alone(postgres_place: Place, dsn: str) -> None:
    """Row B4: its handlers are stopped before its lease ends, its jobs run elsewhere, its late word is refused."""
    place, lease = postgres_place, size(3, 10)
    async with proxied(dsn) as proxy:
        env = {"CHAOS_LEASE": str(lease), "CHAOS_DEADLINE": "2s"}
        cut_off = place.start(CHAOS_URL=own_url(proxy.dsn, place.schema), **env)
        long = await place.enqueue("patient", "default", [f'{{"ms": {lease * 1_500}}}'])
        await until(lambda: len(starts(place.notes())) == 1, "the long job runs")
        place.start(**env)
        await place.arrived(2)
        # Some of these run where nobody can be told of their end.
        short = await place.enqueue("plain", "default", ['{"ms": 1000}'] * 16)
        await until(lambda: len(starts(place.notes())) >= 7, "as many run as can")
        proxy.silence()
        lease_ends = await end_of_lease(place, cut_off)
        jobs = await all_ended(place.store, long + short, 4 * lease + 20)
        proxy.heal()
        Oracle(jobs, place.notes(), await place.effects()).check(long + short)
        told = [note for note in place.notes() if note.what == "cancel"]
        assert [note.job for note in told] == long
        assert told[0].at < lease_ends
        again = [note for note in place.notes() if note.what == "begin" and note.claim > told[0].claim]
        assert {note.job for note in again} > set(long)
        assert not {note.pid for note in again} & set(cut_off.children)
        assert all(note.at > told[0].at for note in again if note.job in long)
        await until(lambda: "was taken from this worker" in cut_off.said(), "its late word is refused")
        assert all(job.state is JobState.COMPLETED for job in jobs.values())
        show(f"lease {lease} s: the handler was told {lease_ends - told[0].at:.2f} s before its end")
        # Under a fresh id it works on.
        await place.arrived(2)
        more = await place.enqueue("plain", "default", ['{"ms": 700}'] * 16)
        await all_ended(place.store, more)
        assert {note.pid for note in place.notes() if note.job in more} > set(cut_off.children)


async def end_of_lease(place: Place, group: Group) -> float:
    """When the lease of a group ends, by the monotonic clock."""
    rows = await place.store.list_workers()
    now, moment = (await place.store.diagnose()).now, time.monotonic()
    ends = [row.lease_until for row in rows if row.info.pid in group.children]
    return moment + (ends[0] - now).total_seconds()


@pytest.mark.timeout(size(120, 300))
@pytest.mark.chaos
async def test_a_storm_of_resets(postgres_place: Place, dsn: str) -> None:
    """Row B5: every link is reset, five times a second."""
    seconds = size(6, 30)
    async with proxied(dsn) as proxy:
        crew = Crew(postgres_place, CHAOS_URL=own_url(proxy.dsn, postgres_place.schema))
        await crew.arrive()
        feed = Feed(postgres_place, longest_ms=30)
        feeding = asyncio.create_task(feed.serve(size(500, 5_000), seconds))
        storms = 0
        async for _ in every(0.2, lambda: not feeding.done()):
            await proxy.cut_all()
            storms += 1
        await feeding
        jobs = await judged(crew, await feed.stored())
        await crew.check()
        assert storms >= 4 * seconds
        count, text = loudest(crew.said())
        show(f"{storms} storms, {len(jobs)} jobs, loudest: {count} x {text}")
        assert count <= (seconds + 5) * crew.processes
