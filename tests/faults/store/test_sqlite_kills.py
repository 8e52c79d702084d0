"""Row A11: a writer is killed again and again; the file stays whole and keeps all that was acknowledged."""

import random
import sqlite3
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from holdfast.stores.sqlite.store import SqliteStore
from tests.faults.store.ledgers import Acknowledged, assert_all_kept, killed
from tests.faults.store.writer import Run
from tests.support.builders import claim, enqueue, register
from tests.support.figures import show
from tests.support.programs import Program
from tests.support.sizes import size

pytestmark = pytest.mark.real_time

KILLS = size(12, 200)

HALF_STORED = """
WITH all_jobs AS (SELECT payload FROM holdfast_jobs UNION ALL SELECT payload FROM holdfast_history)
SELECT payload ->> 'batch', payload ->> 'count', count(*) FROM all_jobs
WHERE payload ->> 'count' > 1 GROUP BY 1, 2 HAVING count(*) <> payload ->> 'count'
"""


def assert_whole(path: Path) -> None:
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert database.execute(HALF_STORED).fetchall() == []
        twice = "SELECT id FROM holdfast_jobs INTERSECT SELECT id FROM holdfast_history"
        assert database.execute(twice).fetchall() == []


async def test_a_killed_writer_loses_nothing_and_is_in_nobodys_way(tmp_path: Path) -> None:
    path, seed = tmp_path / "jobs.db", random.randrange(2**32)
    chance, waits, acknowledged = random.Random(seed), list[float](), 0
    with Program("tests.faults.store.writer") as program:
        for number in range(KILLS):
            ledger = tmp_path / f"ledger-{number}"
            run = Run(str(path), None, str(ledger), seed + number, chance.uniform(1, 50), 30)
            killed(program, run)
            store = SqliteStore(str(path))
            begun = time.monotonic()
            await store.open()
            await enqueue(store, kind="next")
            waits.append(time.monotonic() - begun)
            found = Acknowledged(ledger)
            acknowledged += len(found.stored)
            await assert_all_kept(store, found)
            if number % 2:  # every other time the next writer finds the file as the killed one left it
                assert_whole(path)
            await store.close()

    assert_whole(path)
    store = SqliteStore(str(path))
    await store.open()
    for number in range(KILLS):
        await assert_all_kept(store, Acknowledged(tmp_path / f"ledger-{number}"))
    await assert_nothing_is_stuck(store)
    await store.close()
    longest = max(waits) * 1_000
    show(f"{KILLS} kills, {acknowledged} acknowledged jobs, the next writer was through after {longest:.0f} ms at most")
    assert acknowledged > 0, f"seed {seed}"
    assert max(waits) < 5


async def test_a_writer_killed_while_it_makes_the_file_is_in_nobodys_way(tmp_path: Path) -> None:
    chance = random.Random()
    with Program("tests.faults.store.writer") as program:
        for number in range(KILLS):
            path, ledger = tmp_path / f"jobs-{number}.db", tmp_path / f"ledger-{number}"
            killed(program, Run(str(path), None, str(ledger), number, chance.uniform(0, 25), 30, "the start"))
            store = SqliteStore(str(path))
            await store.open()
            await enqueue(store)
            await assert_all_kept(store, Acknowledged(ledger))
            assert_whole(path)
            await store.close()


async def assert_nothing_is_stuck(store: SqliteStore) -> None:
    """What the dead had claimed is given to others once their leases have ended."""
    await store.set_time(datetime.now(UTC) + timedelta(minutes=1))
    while (rescued := await store.rescue_jobs(1_000)).workers or rescued.requeued:
        assert rescued.failed == rescued.cancelled == ()
    await store.promote_jobs(10_000)  # crashed claims wait a little before they run again
    await store.set_time(datetime.now(UTC) + timedelta(hours=1))
    while (await store.promote_jobs(1_000)).jobs:
        pass
    worker = await register(store)
    waiting = sum(count.jobs for count in await store.count_jobs())
    taken = 0
    while jobs := await claim(store, worker):
        taken += len(jobs)
    assert taken == waiting
