"""Disks that fill up and files that others lock under load: nothing is lost, and work goes on by itself."""

import asyncio
import contextlib
import itertools
import json
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

from holdfast.errors import StoreUnavailable
from tests.faults.workers.crew import Crew, assert_no_rescue, judged, resumed_after, starts
from tests.faults.workers.servers import place_on, served
from tests.support.disks import Disk, mounted
from tests.support.feed import Feed
from tests.support.figures import show
from tests.support.pace import every, lasts
from tests.support.place import Place, place_in
from tests.support.programs import Program
from tests.support.sizes import size
from tests.support.wait import until

pytestmark = [pytest.mark.real_time, pytest.mark.sample]

PATIENCE = size(3, 1)  # how much longer anything may take where other tests run beside this one


@pytest.fixture
def disk_for_log(server_folder: Path) -> Iterator[Disk]:
    """Give a disk for the server's log."""
    with mounted(server_folder / "disk", "24m") as disk:
        yield disk


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
