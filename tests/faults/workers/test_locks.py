"""Locks of those who are killed, and many locks on a server that has few connections."""

import asyncio
import json
import signal
import sys
import time
from datetime import timedelta
from pathlib import Path

import asyncpg
import pytest

from holdfast import Holdfast, LockInfo, LockLost, public_id
from holdfast.client.lock_keeper import LockKeeper
from holdfast.job import JobState
from holdfast.stores.postgres.store import PostgresStore
from tests.faults.workers.servers import served
from tests.support.figures import show
from tests.support.groups import ROOT, Group, send
from tests.support.oracle import all_ended
from tests.support.pace import lasts
from tests.support.place import Place
from tests.support.sizes import size
from tests.support.wait import until

pytestmark = [pytest.mark.real_time, pytest.mark.sample]

APP = "tests.faults.workers.locked:app"
HOLDER_LASTS_S = 2.0  # of a program that is killed
SECONDS = 8  # in which another one holds the lock of one who was killed; by itself it would last 30
LOCKS, WAITERS = size(200, 1_000), size(50, 200)
HOLDER = """
import asyncio, sys
from holdfast import Holdfast
from holdfast.client.lock_keeper import LockKeeper
LockKeeper.lasts_s = float(sys.argv[3])
async def main():
    async with Holdfast(sys.argv[1], schema=sys.argv[2]) as app, app.lock("x"):
        print("held", flush=True)
        await asyncio.Event().wait()
asyncio.run(main())
"""


def app_of(place: Place) -> Holdfast:
    return Holdfast(place.url, schema=place.schema)


async def row_of(app: Holdfast, waiters: int) -> LockInfo:
    """Wait until one lock is held and so many wait for it."""
    rows: list[LockInfo] = []

    async def is_so() -> bool:
        rows[:] = await app.locks.list()
        return [row.waiters for row in rows] == [waiters]

    await until(is_so, f"one lock is held, and {waiters} wait for it")
    return rows[0]


async def outlasted(app: Holdfast, row: LockInfo) -> None:
    """Wait until a lock is held for longer than it lasts without a renewal."""

    async def is_renewed() -> bool:
        (now,) = await app.locks.list()
        return now.token == row.token and now.until > row.until + timedelta(seconds=HOLDER_LASTS_S)

    await until(is_renewed, "the lock was renewed for longer than it lasts")


async def taken(app: Holdfast) -> tuple[float, int]:
    """Wait for the lock, let it go, and tell when it was got and under which token."""
    async with app.lock("x") as lock:
        return time.monotonic(), lock.token


def kill(group: Group, whom: str, job_pid: int) -> None:
    if whom == "the group":
        group.kill_all()
    else:
        (child,) = group.children
        assert send(child if whom == "the worker process" else job_pid, signal.SIGKILL)


@pytest.mark.parametrize(
    "kind, whom",
    [
        ("hold", "the worker process"),
        ("hold", "the group"),
        ("hold_in_a_process", "the process of the job"),
        ("hold_in_a_process", "the worker process"),
    ],
)
async def test_the_lock_of_a_killed_job_is_soon_another_one_s(place: Place, kind: str, whom: str) -> None:
    group = place.start("--concurrency", "1", app=APP)
    if whom == "the group":  # somebody has to notice
        place.start("--concurrency", "1", "--queues", "other", app=APP)
    async with app_of(place) as app:
        (job_id,) = await place.enqueue(kind, "default", ['{"name": "x"}'])
        await until(lambda: bool(place.notes()), "the job holds the lock")
        waiting = asyncio.create_task(taken(app))
        before = await row_of(app, 1)
        assert (before.job, before.claim) == (public_id.encode(job_id), 1)
        killed_at = time.monotonic()
        kill(group, whom, place.notes()[0].pid)
        async with asyncio.timeout(SECONDS):
            got_at, token = await waiting
        show(f"{kind}, {whom} killed: the lock was another one's after {got_at - killed_at:.2f} s")
        assert token > before.token


async def test_a_killed_job_that_waited_keeps_nobody_waiting(place: Place) -> None:
    group = place.start("--concurrency", "1", app=APP)
    async with app_of(place) as app:
        async with app.lock("x"):
            await place.enqueue("hold", "default", ['{"name": "x"}'])
            await row_of(app, 1)
            waiting = asyncio.create_task(taken(app))
            await row_of(app, 2)
            group.kill_all()
        async with asyncio.timeout(SECONDS):
            await waiting


async def test_the_lock_of_a_killed_program_ends_with_its_time(place: Place) -> None:
    program = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        HOLDER,
        place.url,
        place.schema,
        str(HOLDER_LASTS_S),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
    )
    assert program.stdout is not None
    assert await program.stdout.readline() == b"held\n"
    async with app_of(place) as app:
        waiting = asyncio.create_task(taken(app))
        before = await row_of(app, 1)
        assert before.owner.endswith(f"/{program.pid}")
        await outlasted(app, before)
        assert not waiting.done()
        program.kill()
        await program.wait()
        async with asyncio.timeout(SECONDS):
            _, token = await waiting
        assert token > before.token


async def test_a_job_runs_again_after_its_holder_was_killed_and_completes(place: Place) -> None:
    gate = place.folder / "gate"
    group = place.start("--concurrency", "2", app=APP)
    ids = await place.enqueue("hold_until", "default", [json.dumps({"name": "x", "gate": str(gate)})] * 4)
    await until(lambda: bool(place.notes()), "one of them holds the lock")
    assert group.kill_child() is not None
    gate.touch()
    await all_ended(place.store, ids)
    jobs = await place.store.get_jobs(ids)
    assert {job.state for job in jobs} == {JobState.COMPLETED}
    tokens = [job.result for job in jobs]
    assert len(set(tokens)) == len(tokens)
    notes = [note.what for note in place.notes()]
    assert notes == ["begin", *["begin", "end"] * 4], "one was cut short, and never were two inside"


async def test_many_locks_need_few_connections(server_folder: Path) -> None:
    async with served(server_folder, "max_connections=20") as server:
        app = Holdfast(server.dsn, schema="locks")
        await PostgresStore(server.dsn, schema="locks").migrator.up()
        others = [Holdfast(server.dsn, schema="locks") for _ in range(2)]
        release, held, order = asyncio.Event(), 0, []

        async def hold(number: int) -> None:
            nonlocal held
            async with app.lock("many", number):
                held += 1
                await release.wait()

        async def wait(other: Holdfast) -> None:
            async with other.lock("many", 0) as lock:
                order.append(lock.token)

        async with app, others[0], others[1], asyncio.TaskGroup() as group:
            began = time.monotonic()
            for number in range(LOCKS):
                group.create_task(hold(number))
            await until(lambda: held == LOCKS, "all locks are held")
            held_s = time.monotonic() - began
            for number in range(WAITERS):
                group.create_task(wait(others[number % 2]))

            async def all_wait() -> bool:
                return max(row.waiters for row in await app.locks.list()) == WAITERS

            await until(all_wait, "all wait")
            sessions = await sessions_of(server.dsn)
            began = time.monotonic()
            release.set()
            await until(lambda: len(order) == WAITERS, "everybody had the lock")
            show(
                f"{LOCKS} locks taken in {held_s:.2f} s, {WAITERS} waiters served in {time.monotonic() - began:.2f} s,"
                f" {sessions} sessions"
            )
        assert order == sorted(set(order))
        assert sessions < 20


async def test_a_restart_of_the_server_costs_nobody_a_lock(server_folder: Path) -> None:
    async with served(server_folder) as server:
        await PostgresStore(server.dsn, schema="locks").migrator.up()
        async with Holdfast(server.dsn, schema="locks") as app:
            async with app.lock("x") as lock:
                waiting = asyncio.create_task(taken(app))
                await row_of(app, 1)
                server.stop()
                await lasts(2)
                server.start()
                await server.ready()
                row = await row_of(app, 1)
                assert (row.token, lock.is_lost) == (lock.token, False)
            async with asyncio.timeout(SECONDS):
                _, token = await waiting
            assert token > lock.token


async def test_a_body_is_stopped_while_the_server_is_away(server_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LockKeeper, "lasts_s", 3.0)
    async with served(server_folder) as server:
        await PostgresStore(server.dsn, schema="locks").migrator.up()
        async with Holdfast(server.dsn, schema="locks", deadline="1s") as app:

            async def hold() -> None:
                async with app.lock("x"):
                    server.stop()
                    await asyncio.Event().wait()

            began = time.monotonic()
            with pytest.raises(LockLost):
                await hold()
            assert time.monotonic() - began < SECONDS
            server.start()
            await server.ready()
            async with asyncio.timeout(SECONDS):
                await taken(app)


async def sessions_of(dsn: str) -> int:
    connection = await asyncpg.connect(dsn)
    try:
        count: int = await connection.fetchval(
            "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'"
        )
        return count
    finally:
        await connection.close()
