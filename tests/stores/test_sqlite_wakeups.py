"""Watching a SQLite file: what the thread looks at, when, and what it leaves behind."""

import asyncio
import logging
import os
import socket
import sqlite3
import subprocess
import sys
import textwrap
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from holdfast.errors import NotOpen
from holdfast.job import NewJob
from holdfast.stores.sqlite import opening, sockets, statements, watcher
from holdfast.stores.sqlite.store import SqliteStore
from holdfast.stores.sqlite.wakeups import Listener
from holdfast.stores.sqlite.watcher import Watcher
from tests.support.hints import Heard
from tests.support.wait import PATIENCE_S, until

NEVER_S = 3_600.0
THREAD = "holdfast-sqlite-watcher"
DESCRIPTORS = Path("/proc/self/fd")


@pytest.fixture
def only_hints(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let watchers look at the start and when they are told, and never by themselves."""
    monkeypatch.setattr(watcher, "FASTEST_S", NEVER_S)
    monkeypatch.setattr(watcher, "SLOWEST_S", NEVER_S)


@pytest.fixture
def no_hints(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nobody have a socket."""
    monkeypatch.setattr(sockets, "_HAS_SOCKETS", False)


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Give what each look found."""
    found: list[bool] = []
    looked = Watcher._looked

    def spy(self: Watcher, *, is_told: bool) -> bool:
        found.append(looked(self, is_told=is_told))
        return found[-1]

    monkeypatch.setattr(Watcher, "_looked", spy)
    return found


async def enqueue(store: SqliteStore, queue: str = "default", delay_ms: int | None = None) -> int:
    (job_id,) = await store.take_ids(1)
    job = NewJob(
        id=job_id,
        kind="work",
        queue=queue,
        priority=5,
        payload="{}",
        max_attempts=1,
        max_crashes=1,
        timeout_ms=None,
        delay_ms=delay_ms,
    )
    await store.insert_jobs([job])
    return job_id


@asynccontextmanager
async def opened(path: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(str(path))
    await store.open()
    try:
        yield store
    finally:
        await store.close()


def folder_of(store: SqliteStore) -> Path:
    return Path(f"{store.path}-workers")


def names_in(folder: Path) -> set[str]:
    return {file.name for file in folder.iterdir()}


def watchers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == THREAD]


# ---- hints ---------------------------------------------------------------------------------------------------------


async def test_a_datagram_makes_the_thread_look_at_once_and_once(
    only_hints: None, sqlite_file: SqliteStore, looks: list[bool]
) -> None:
    heard = Heard()
    await enqueue(sqlite_file)
    async with sqlite_file.listen(["default"], heard):
        await heard.wait_for("default")  # the look at the start
        for _ in range(3):
            heard.forget()
            await sqlite_file.announce(["default"])
            await heard.wait_for("default")
        await until(lambda: len(looks) >= 4, "the thread has come back from its last look")
        for _ in range(10):
            await sqlite_file.list_queues()  # time enough for a thread that does not rest
        assert looks == [True] * 4


async def test_a_socket_may_lie_deeper_than_the_name_of_a_socket_can_say(only_hints: None, tmp_path: Path) -> None:
    folder = tmp_path / ("d" * 100) / ("e" * 100)
    folder.mkdir(parents=True)
    heard = Heard()
    async with opened(folder / "jobs.db") as store:
        await enqueue(store)
        async with store.listen(["default"], heard):
            await heard.wait_for("default")
            (name,) = names_in(folder_of(store))
            assert len(os.fsencode(folder_of(store) / name)) > 107
            heard.forget()
            await store.announce(["default"])
            await heard.wait_for("default")


async def test_those_who_come_by_a_link_meet_at_the_same_folder(only_hints: None, tmp_path: Path) -> None:
    (tmp_path / "link.db").symlink_to(tmp_path / "jobs.db")
    heard = Heard()
    async with opened(tmp_path / "jobs.db") as store, opened(tmp_path / "link.db") as linked:
        await enqueue(store)
        async with store.listen(["default"], heard):
            await heard.wait_for("default")
            heard.forget()
            await linked.announce(["default"])
            await heard.wait_for("default")


async def test_a_socket_whose_owner_is_gone_is_removed(sqlite_file: SqliteStore) -> None:
    folder = folder_of(sqlite_file)
    folder.mkdir()
    dead = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    dead.bind(str(folder / "1-dead.sock"))
    dead.close()
    async with sqlite_file.listen(["default"], Heard()):
        await sqlite_file.announce(["default"])
        left = names_in(folder)
    assert "1-dead.sock" not in left
    assert {name.partition("-")[0] for name in left} == {str(os.getpid())}


async def test_a_socket_that_nobody_reads_holds_up_nobody(sqlite_file: SqliteStore) -> None:
    folder_of(sqlite_file).mkdir()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as full:
        full.bind(str(folder_of(sqlite_file) / "1-full.sock"))
        async with asyncio.timeout(PATIENCE_S):
            for _ in range(1_000):  # many more than its buffer takes
                await sqlite_file.announce(["default"])
        assert names_in(folder_of(sqlite_file)) == {"1-full.sock"}


@pytest.mark.guards("hint-folder-owner")
async def test_a_folder_of_another_user_gets_no_hints(
    sqlite_file: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What looks like a socket of a worker may be a link to the socket of any service."""
    folder_of(sqlite_file).mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as service:
        service.setblocking(False)
        service.bind(str(folder_of(sqlite_file) / "1-service.sock"))
        await sqlite_file.announce(["default"])
        assert service.recv(10)
        another = os.geteuid() + 1
        monkeypatch.setattr(os, "geteuid", lambda: another)
        await sqlite_file.announce(["default"])
        with pytest.raises(BlockingIOError):
            service.recv(10)


async def test_where_nobody_listens_announcing_leaves_nothing_behind(sqlite_file: SqliteStore) -> None:
    await sqlite_file.announce(["default"])
    assert not folder_of(sqlite_file).exists()


async def test_a_folder_that_cannot_be_made_leaves_the_polling(sqlite_file: SqliteStore) -> None:
    folder_of(sqlite_file).touch()
    heard = Heard()
    async with sqlite_file.listen(["default"], heard) as state:
        await sqlite_file.announce(["default"])
        await enqueue(sqlite_file)
        await heard.wait_for("default")
        assert state.is_live


# ---- polling -------------------------------------------------------------------------------------------------------


async def test_commits_of_this_very_process_are_noticed_without_a_hint(
    no_hints: None, sqlite_file: SqliteStore
) -> None:
    heard = Heard()
    async with sqlite_file.listen(["default"], heard):
        for _ in range(3):
            job_id = await enqueue(sqlite_file)
            await heard.wait_for("default")
            await sqlite_file.cancel_jobs([job_id], actor=None, reason=None)
            heard.forget()


async def test_work_is_seen_while_another_program_holds_the_write_lock(sqlite_file: SqliteStore) -> None:
    heard = Heard()
    await enqueue(sqlite_file)
    program = (
        "import sqlite3, sys; own = sqlite3.connect(sys.argv[1]); own.execute('BEGIN IMMEDIATE'); input('held\\n')"
    )
    other = subprocess.Popen(
        [sys.executable, "-uc", program, sqlite_file.path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with other:
        assert other.stdout is not None
        assert await asyncio.to_thread(other.stdout.read, 4) == b"held"
        async with sqlite_file.listen(["default"], heard) as state:
            await heard.wait_for("default")
            assert state.is_live
        other.communicate(b"\n")


async def test_the_jobs_of_a_paused_queue_wake_nobody_until_it_is_resumed(sqlite_file: SqliteStore) -> None:
    heard = Heard()
    await sqlite_file.pause_queue("default", actor=None, reason=None)
    async with sqlite_file.listen(["default", "other"], heard):
        await enqueue(sqlite_file)
        await enqueue(sqlite_file, "other")  # the later commit: when it is heard of, the first was looked at
        await heard.wait_for("other")
        assert "default" not in heard.queues
        await sqlite_file.resume_queue("default")
        await heard.wait_for("default")


async def test_a_job_that_is_due_later_wakes_nobody(sqlite_file: SqliteStore) -> None:
    heard = Heard()
    async with sqlite_file.listen(["default", "other"], heard):
        await enqueue(sqlite_file, delay_ms=60_000)
        await enqueue(sqlite_file, "other")
        await heard.wait_for("other")
        assert "default" not in heard.queues


async def test_a_job_that_is_due_within_a_second_wakes(sqlite_file: SqliteStore) -> None:
    heard = Heard()
    async with sqlite_file.listen(["default"], heard):
        await enqueue(sqlite_file, delay_ms=900)
        await heard.wait_for("default")


async def test_heartbeats_are_not_work(no_hints: None, sqlite_file: SqliteStore, looks: list[bool]) -> None:
    async with sqlite_file.listen(["default"], Heard()):
        await sqlite_file.resume_queue("other")  # a commit without work
        seen = len(looks)
        await until(lambda: len(looks) > seen + 2, "the thread looked")
    assert not any(looks)


async def test_a_look_reads_one_entry_of_the_index_of_ready_jobs(sqlite_file: SqliteStore) -> None:
    (query,) = statements.QUERIES["ready_queues"]
    plan = await sqlite_file.connection.read(
        lambda database, _: database.execute(f"EXPLAIN QUERY PLAN {query}", {"queues": "[]", "now": 0}).fetchall()
    )
    steps = [row[-1] for row in plan]
    assert "SEARCH job USING COVERING INDEX holdfast_jobs_ready (queue=?)" in steps
    assert [step for step in steps if step.startswith("SCAN") and "asked" not in step] == []


def test_the_pauses_are_short_after_work_and_grow_without() -> None:
    pace = watcher.Pace()
    assert [pace.pause(0.0, has_work=False) for _ in range(7)] == [0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.1]
    assert pace.pause(10.0, has_work=True) == 0.002
    assert [pace.pause(now, has_work=False) for now in (10.5, 10.999)] == [0.002, 0.002]
    assert [pace.pause(now, has_work=False) for now in (11.0, 11.1, 11.2)] == [0.002, 0.004, 0.008]


async def test_the_log_can_be_written_back_while_somebody_watches(sqlite_file: SqliteStore) -> None:
    heard = Heard()
    async with sqlite_file.listen(["default"], heard):
        await enqueue(sqlite_file)
        await heard.wait_for("default")
        own = sqlite3.connect(sqlite_file.path)
        assert own.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0
        own.close()
        assert Path(f"{sqlite_file.path}-wal").stat().st_size == 0


# ---- ends ----------------------------------------------------------------------------------------------------------


async def test_leaving_leaves_no_thread_no_file_and_no_socket(sqlite_file: SqliteStore) -> None:
    async with sqlite_file.listen(["default"], Heard()):
        pass
    rounds, before = 20, len(names_in(DESCRIPTORS))
    async with asyncio.timeout(PATIENCE_S):
        for _ in range(rounds):
            async with sqlite_file.listen(["default"], Heard()):
                assert len(watchers()) == 1
    assert watchers() == []
    assert names_in(folder_of(sqlite_file)) == set()
    assert len(names_in(DESCRIPTORS)) - before < rounds  # earlier tests and loops may open and close some meanwhile
    assert list(watcher._watchers) == []


async def test_what_was_found_before_the_end_wakes_nobody_after_it(sqlite_file: SqliteStore) -> None:
    heard = Heard()
    one = Watcher(sqlite_file.path, ["default"], heard, sqlite_file.connection.clock)
    one._tell({"default"})
    await one.close()
    await asyncio.sleep(0)
    assert heard.queues == []


async def test_many_finds_wake_once(
    only_hints: None, sqlite_file: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard, calls = Heard(), 0
    one = Watcher(sqlite_file.path, ["default"], heard, sqlite_file.connection.clock)
    wake_all = one._wake_all

    def spy() -> None:
        nonlocal calls
        calls += 1
        wake_all()

    monkeypatch.setattr(one, "_wake_all", spy)
    for _ in range(1_000):
        one._tell({"default"})
    await heard.wait_for("default")
    await one.close()
    assert (calls, heard.queues) == (1, ["default"])


async def test_a_cancelled_leave_still_ends_the_thread(sqlite_file: SqliteStore) -> None:
    async def listen() -> None:
        async with sqlite_file.listen(["default"], Heard()):
            await asyncio.Event().wait()

    task = asyncio.create_task(listen())
    await until(lambda: len(watchers()) == 1, "the thread runs")
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    await until(lambda: watchers() == [], "the thread has ended")
    await until(lambda: names_in(folder_of(sqlite_file)) == set(), "the socket is gone")


async def test_a_store_that_is_not_open_is_not_listened_to(tmp_path: Path) -> None:
    for path in (str(tmp_path / "jobs.db"), ":memory:"):
        with pytest.raises(NotOpen, match="is not open"):
            async with SqliteStore(path).listen(["default"], Heard()):
                pass
    assert watchers() == []


async def test_a_look_that_fails_is_said_once_and_looked_again(
    sqlite_file: SqliteStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tries: list[str] = []
    really = opening.open_for_watching

    def refuse(path: str) -> sqlite3.Connection:
        tries.append(path)
        message = "disk I/O error"
        raise sqlite3.OperationalError(message)

    monkeypatch.setattr(opening, "open_for_watching", refuse)
    heard = Heard()
    await enqueue(sqlite_file)
    with caplog.at_level(logging.INFO, "holdfast"):
        async with sqlite_file.listen(["default"], heard) as state:
            await until(lambda: len(tries) > 3, "it was tried again")
            assert not state.is_live
            monkeypatch.setattr(opening, "open_for_watching", really)
            await heard.wait_for("default")
            assert state.is_live
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]


def test_a_forked_child_leaves_the_watcher_alone(tmp_path: Path) -> None:
    program = """
        import asyncio, os, sys
        from holdfast.errors import NotOpen
        from holdfast.stores.sqlite import watcher
        from holdfast.stores.sqlite.store import SqliteStore

        async def main(path):
            store = SqliteStore(path)
            await store.open()
            async with store.listen(["default"], print) as state:
                while not (one := next(iter(watcher._watchers)))._seen_version:
                    await asyncio.sleep(0.001)
                count = sys.getrefcount(one._database)
                if (child := os.fork()) == 0:
                    is_told_apart = not one.is_live and one._hints.fileno() == -1
                    kept = sys.getrefcount(one._database) > count  # so that nothing ever closes it
                    os._exit(0 if is_told_apart and kept else 1)
                _, status = os.waitpid(child, 0)
                assert status == 0, status
                assert state.is_live
                assert len(os.listdir(path + "-workers")) == 1, "the child took the socket away"
            await store.close()

        asyncio.run(main(sys.argv[1]))
    """
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", textwrap.dedent(program), str(tmp_path / "jobs.db")],
        check=False,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0


# ---- in memory -----------------------------------------------------------------------------------------------------


async def test_a_listener_of_another_event_loop_is_woken_on_its_own(sqlite_memory: SqliteStore) -> None:
    there: list[threading.Thread] = []
    listens = threading.Event()

    async def elsewhere() -> None:
        heard = Heard()

        def wake(queue: str) -> None:
            there.append(threading.current_thread())
            heard(queue)

        async with sqlite_memory.listen(["default"], wake):
            listens.set()
            await heard.wait_for("default")

    thread = threading.Thread(target=lambda: asyncio.run(elsewhere()))
    thread.start()
    await asyncio.to_thread(listens.wait, PATIENCE_S)
    await sqlite_memory.announce(["default"])
    await asyncio.to_thread(thread.join, PATIENCE_S)
    assert there == [thread]


def test_a_listener_whose_event_loop_is_closed_is_left_alone() -> None:
    heard: list[str] = []

    async def make() -> Listener:
        return Listener(["default"], heard.append)

    asyncio.run(make()).tell(["default"])
    assert heard == []
