"""Files that cannot be opened or written (row C15) and disks that are full: a typed error in time, nothing lost."""

import os
import re
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from holdfast.errors import ConfigError, HoldfastError, StoreUnavailable
from holdfast.stores.sqlite.store import SqliteStore
from tests.faults.store.apps import Keep, make_app
from tests.support.disks import Disk, read_only
from tests.support.figures import show

pytestmark = pytest.mark.real_time


async def make_file(path: Path) -> None:
    """Make a whole and working file, as a process that ended well leaves it."""
    app, keep = make_app(f"sqlite:///{path}")
    async with app:
        await keep.enqueue(1)


@contextmanager
def refused_in_time(path: Path, kind: type[HoldfastError], message: str) -> Iterator[None]:
    begun = time.monotonic()
    with pytest.raises(kind, match=message) as caught:
        yield
    assert time.monotonic() - begun < 2
    assert str(path) in str(caught.value)


# ---- row C15 ---------------------------------------------------------------------------------------------------------


async def test_a_folder_in_the_place_of_the_file(tmp_path: Path) -> None:
    app, _ = make_app(f"sqlite:///{tmp_path}")
    with refused_in_time(tmp_path, ConfigError, "expected a file"):
        async with app:
            pass


async def test_a_device_in_the_place_of_the_file() -> None:
    app, _ = make_app("sqlite:////dev/null")
    with refused_in_time(Path("/dev/null"), ConfigError, "expected a file"):
        async with app:
            pass


async def test_a_folder_that_does_not_exist(tmp_path: Path) -> None:
    path = tmp_path / "missing" / "jobs.db"
    app, _ = make_app(f"sqlite:///{path}")
    with refused_in_time(path, ConfigError, "does not exist"):
        async with app:
            pass


@pytest.mark.parametrize(
    "content", [b"no database at all\n", b"x" * 8_192, b"\x89PNG\r\n\x1a\n" + bytes(5_000)], ids=["text", "x", "image"]
)
async def test_a_file_that_is_no_database(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "jobs.db"
    path.write_bytes(content)
    app, _ = make_app(f"sqlite:///{path}")
    with refused_in_time(path, StoreUnavailable, "not a SQLite database"):
        async with app:
            pass
    assert path.read_bytes() == content


async def test_a_damaged_file(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    await make_file(path)
    content = bytearray(path.read_bytes())
    content[100:4_096] = os.urandom(3_996)  # the table of contents
    path.write_bytes(content)
    app, _ = make_app(f"sqlite:///{path}")
    with refused_in_time(path, StoreUnavailable, "damaged"):
        async with app:
            pass


async def test_an_empty_file_is_a_new_database(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    path.touch()
    app, keep = make_app(f"sqlite:///{path}")
    async with app:
        assert (await keep.enqueue(1)).created


async def test_a_database_of_somebody_else_gets_our_tables_beside_theirs(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE orders (n INTEGER)")
        database.execute("INSERT INTO orders VALUES (7)")
    app, keep = make_app(f"sqlite:///{path}")
    async with app:
        assert (await keep.enqueue(1)).created
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("SELECT n FROM orders").fetchall() == [(7,)]


@pytest.mark.parametrize("has_file", [True, False])
async def test_a_read_only_folder(tmp_path: Path, has_file: bool) -> None:
    """Without the right to write there, SQLite could not keep its log."""
    path = tmp_path / "folder" / "jobs.db"
    path.parent.mkdir()
    if has_file:
        await make_file(path)
    app, keep = make_app(f"sqlite:///{path}")
    with read_only(path.parent), refused_in_time(path, StoreUnavailable, "may not write to the folder"):
        async with app:
            pass
    async with app:
        assert len((await app.jobs.list()).jobs) == has_file
        assert (await keep.enqueue(2)).created


async def test_a_read_only_file(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    await make_file(path)
    app, _ = make_app(f"sqlite:///{path}")
    with read_only(path), refused_in_time(path, StoreUnavailable, "may not read and write the file"):
        async with app:
            pass
    async with app:
        assert len((await app.jobs.list()).jobs) == 1


async def test_a_file_that_is_replaced_while_it_is_open(tmp_path: Path) -> None:
    """What is asked of the old file is not answered with the emptiness of a new one."""
    path = tmp_path / "jobs.db"
    app, keep = make_app(f"sqlite:///{path}", deadline="1s")
    async with app:
        await keep.enqueue(1)
        with closing(sqlite3.connect(path)) as database, database:
            database.execute("DROP TABLE holdfast_jobs")
        with pytest.raises(HoldfastError, match="was the file replaced"):
            await keep.enqueue(2)


# ---- a full disk -----------------------------------------------------------------------------------------------------


async def fill(keep: Keep, letters: int = 5_000) -> set[int]:
    """Enqueue until there is no room, and give the ids that were acknowledged."""
    acknowledged: set[int] = set()
    while True:
        try:
            job = await keep.enqueue(len(acknowledged), "x" * letters)
        except StoreUnavailable as error:
            if "the disk is full" in str(error):
                return acknowledged
            # Or it was only slow, on a machine that does other things as well.
        else:
            acknowledged.add(job.number or 0)


def assert_whole(path: Path) -> None:
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


async def test_a_full_disk(disk: Disk) -> None:
    path = disk.path / "jobs.db"
    app, keep = make_app(f"sqlite:///{path}", deadline="1s")
    async with app:
        acknowledged = await fill(keep)
        assert len(acknowledged) > 10
        with pytest.raises(StoreUnavailable, match="the disk is full"):
            await app.enqueue_many([keep.call(0, "y" * 5_000)])
        there = await app.jobs.get_many(sorted(acknowledged))  # reading goes on
        assert {job.number for job in there.values()} == acknowledged
        disk.resize("16m")
        more = await keep.enqueue(1, "x" * 5_000)  # so does writing, without opening anew
        acknowledged.add(more.number or 0)
    assert_whole(path)
    async with app:
        assert {job.number async for job in app.jobs.iterate()} >= acknowledged
    show(f"{len(acknowledged)} jobs of 5 kB on a disk of 2 MB, none lost")


async def test_an_app_that_is_closed_on_a_full_disk_opens_with_more_room(disk: Disk) -> None:
    path = disk.path / "jobs.db"
    app, keep = make_app(f"sqlite:///{path}", deadline="1s")
    async with app:
        acknowledged = await fill(keep)
    disk.resize("16m")
    assert_whole(path)
    async with app:
        assert {job.number async for job in app.jobs.iterate()} >= acknowledged
        assert (await keep.enqueue(1)).created


async def test_a_full_disk_says_how_much_has_to_be_freed(disk: Disk) -> None:
    path = disk.path / "jobs.db"
    disk.resize("6m")
    filling = disk.path / "filling"
    filling.write_bytes(bytes(2_000_000))
    app, keep = make_app(f"sqlite:///{path}", deadline="1s")
    async with app:
        acknowledged = await fill(keep, 50_000)
    filling.unlink()  # which is not enough: the log is larger
    with pytest.raises(StoreUnavailable, match="the disk is full") as refused:
        async with app:
            await keep.enqueue(1, "x" * 5_000)
    told = re.search(
        r"free some space, ([0-9.]+) MB in all \(now .+\), for its log has to be written", str(refused.value)
    )
    assert told is not None, str(refused.value)
    disk.resize(f"{used(disk) + round(float(told[1]) * 1_100_000)}")
    async with app:
        assert (await keep.enqueue(1)).created
        assert {job.number async for job in app.jobs.iterate()} >= acknowledged
    assert_whole(path)


def used(disk: Disk) -> int:
    room = os.statvfs(disk.path)
    return (room.f_blocks - room.f_bfree) * room.f_frsize


async def test_a_disk_without_any_room_at_the_start(disk: Disk) -> None:
    (disk.path / "filling").write_bytes(bytes(2 * 1024 * 1024 - 4_096))
    path = disk.path / "jobs.db"
    app, keep = make_app(f"sqlite:///{path}", deadline="1s")
    with refused_in_time(path, StoreUnavailable, "full|disk"):
        async with app:
            pass
    (disk.path / "filling").unlink()
    async with app:
        assert (await keep.enqueue(1)).created


async def test_a_file_that_may_not_grow(tmp_path: Path) -> None:
    """The same answer of SQLite as from a full disk, for users who cannot mount one."""
    path = tmp_path / "jobs.db"
    app, keep = make_app(f"sqlite:///{path}", deadline="1s")
    async with app:
        store = app.store
        assert isinstance(store, SqliteStore)
        await store.connection.write(lambda database, _: database.execute("PRAGMA max_page_count = 150").fetchall())
        acknowledged = await fill(keep)
        await store.connection.write(lambda database, _: database.execute("PRAGMA max_page_count = 9999").fetchall())
        acknowledged.add((await keep.enqueue(1)).number or 0)
        assert {job.number async for job in app.jobs.iterate()} >= acknowledged
    assert_whole(path)
