"""The writer thread of SQLite: groups, isolation, withdrawal, deadlines, fork and close."""

import asyncio
import itertools
import sqlite3
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast.errors import ConfigError, DataRefused, NotOpen, OutcomeUnknown, StoreError, StoreUnavailable
from holdfast.stores.sqlite import turnstile, writer
from holdfast.stores.sqlite.connection import Connection
from holdfast.stores.sqlite.turnstile import FileTurnstile
from tests.support.wait import PATIENCE_S

SLOWER_THAN_A_GROUP = 0.03


def put(number: int) -> Callable[[sqlite3.Connection, int], int]:
    def operation(database: sqlite3.Connection, now: int) -> int:
        database.execute("INSERT INTO numbers VALUES (?)", (number,))
        return number

    return operation


def numbers(database: sqlite3.Connection, now: int) -> list[int]:
    return [row[0] for row in database.execute("SELECT number FROM numbers ORDER BY number")]


def make_table(database: sqlite3.Connection, now: int) -> None:
    database.execute("CREATE TABLE numbers (number INTEGER PRIMARY KEY CHECK (number >= 0)) STRICT")


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "numbers.db")


@pytest.fixture
async def connection(path: str) -> AsyncIterator[Connection]:
    connection = Connection(path)
    await connection.open()
    await connection.write(make_table)
    yield connection
    await connection.close()


@pytest.fixture
async def other(path: str, connection: Connection) -> AsyncIterator[Connection]:
    """A second connection to the same file."""
    other = Connection(path)
    await other.open()
    yield other
    await other.close()


@contextmanager
def hasty(connection: Connection) -> Iterator[None]:
    """Let the deadline be short for what must meet it, and for nothing else: a busy machine takes its time."""
    patient, connection.deadline = connection.deadline, 0.05
    try:
        yield
    finally:
        connection.deadline = patient


Hold = Callable[[], FileTurnstile]


@pytest.fixture
def one_group(path: str, monkeypatch: pytest.MonkeyPatch) -> Hold:
    """Hold the writer up while a test lines its operations up, which then are one group however long they take."""
    monkeypatch.setattr(writer, "_GROUP_SECONDS", 60.0)
    return lambda: FileTurnstile(f"{path}-turn")


class Slow:
    """An operation that says when it has begun and goes on when it is told."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.has_begun = threading.Event()
        self.may_end = threading.Event()

    def __call__(self, database: sqlite3.Connection, now: int) -> int:
        self.has_begun.set()
        assert self.may_end.wait(PATIENCE_S)
        return put(self.number)(database, now)


async def test_what_waits_is_committed_together(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    has_begun, may_end = threading.Event(), threading.Event()

    def slow(database: sqlite3.Connection, now: int) -> None:
        database.set_trace_callback(seen.append)
        has_begun.set()
        assert may_end.wait(PATIENCE_S)
        time.sleep(SLOWER_THAN_A_GROUP)  # a group of operations ends by the clock; this is the shortest way past it
        monkeypatch.setattr(writer, "_GROUP_SECONDS", 60.0)  # of the next group, however long a busy machine takes

    first = asyncio.create_task(connection.write(slow))
    await asyncio.to_thread(has_begun.wait)
    writes = [asyncio.create_task(connection.write(put(number))) for number in range(50)]
    await asyncio.sleep(0)  # all of them wait
    may_end.set()
    await asyncio.gather(first, *writes)

    assert [text for text in seen if text == "COMMIT"] == ["COMMIT", "COMMIT"]
    assert await connection.read(numbers) == list(range(50))


async def test_a_group_has_one_time(connection: Connection) -> None:
    begin = int(time.time() * 1_000) - 1  # SQLite counts in fractions of a day, and rounds down
    times = await asyncio.gather(*(connection.write(lambda _, now: now) for _ in range(10)))
    assert begin <= times[0] <= time.time() * 1_000
    connection.clock.override = 12_345
    assert await connection.write(lambda _, now: now) == 12_345
    assert await connection.read(lambda _, now: now) == 12_345
    connection.clock.override = None
    assert await connection.read(lambda _, now: now) > 12_345


async def test_an_operation_that_fails_disturbs_nobody(connection: Connection) -> None:
    def half_done(database: sqlite3.Connection, now: int) -> None:
        put(100)(database, now)
        message = "changed my mind"
        raise LookupError(message)

    answers = await asyncio.gather(
        connection.write(put(1)),
        connection.write(half_done),
        connection.write(put(-1)),
        connection.write(put(2)),
        return_exceptions=True,
    )

    assert answers[0] == 1
    assert isinstance(answers[1], LookupError)
    assert isinstance(answers[2], DataRefused)
    assert answers[3] == 2
    assert await connection.read(numbers) == [1, 2]


async def test_nothing_is_answered_before_the_commit(connection: Connection, one_group: Hold) -> None:
    slow = Slow(2)
    with one_group():
        first = asyncio.create_task(connection.write(put(1)))
        second = asyncio.create_task(connection.write(slow))
        await asyncio.sleep(0)
    await asyncio.to_thread(slow.has_begun.wait)

    assert not first.done()
    assert await connection.read(numbers) == []
    slow.may_end.set()
    assert [await first, await second] == [1, 2]


async def test_a_failed_commit_fails_everybody(connection: Connection, one_group: Hold) -> None:
    def refuse_commit(database: sqlite3.Connection, now: int) -> None:
        denied = sqlite3.SQLITE_DENY
        database.set_authorizer(lambda action, what, *_: denied if what == "COMMIT" else sqlite3.SQLITE_OK)

    with one_group():
        writes = [asyncio.create_task(connection.write(one)) for one in (put(1), refuse_commit, put(2))]
        await asyncio.sleep(0)
    answers = await asyncio.gather(*writes, return_exceptions=True)

    assert all(isinstance(answer, StoreUnavailable) for answer in answers)
    assert len({id(answer) for answer in answers}) == 3
    assert await connection.read(numbers) == []


async def test_a_full_disk_answers_truly(connection: Connection) -> None:
    def fill(database: sqlite3.Connection, now: int) -> None:
        database.execute("PRAGMA max_page_count = 1")
        database.execute("CREATE TABLE big (text TEXT)")
        database.execute("INSERT INTO big VALUES (?)", ("x" * 100_000,))

    first, full = await asyncio.gather(connection.write(put(1)), connection.write(fill), return_exceptions=True)

    assert isinstance(full, StoreUnavailable)
    assert "full" in str(full)
    assert await connection.read(numbers) == ([1] if first == 1 else [])


async def test_what_was_not_taken_by_the_deadline_is_withdrawn(path: str, other: Connection) -> None:
    with FileTurnstile(f"{path}-turn"):
        with hasty(other), pytest.raises(StoreUnavailable, match="nothing was changed"):
            await other.write(put(1))
        assert await other.read(numbers) == []  # reading needs no turn

    await other.write(put(2))
    assert await other.read(numbers) == [2]


async def test_what_was_taken_by_the_deadline_is_unknown_and_goes_through(other: Connection) -> None:
    slow = Slow(1)
    with hasty(other):
        writing = asyncio.create_task(other.write(slow))
        await asyncio.sleep(0)
        assert slow.has_begun.wait(PATIENCE_S)  # the event loop waits with it: nothing gives up before it was taken
        with pytest.raises(OutcomeUnknown):
            await writing

    slow.may_end.set()
    await other.write(put(2))
    assert await other.read(numbers) == [1, 2]


async def test_a_cancelled_caller_withdraws_what_was_not_taken(path: str, connection: Connection) -> None:
    with FileTurnstile(f"{path}-turn"):
        task = asyncio.create_task(connection.write(put(1)))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    await connection.write(put(2))
    assert await connection.read(numbers) == [2]


async def test_a_cancelled_caller_does_not_stop_what_was_taken(connection: Connection) -> None:
    slow = Slow(1)
    task = asyncio.create_task(connection.write(slow))
    await asyncio.to_thread(slow.has_begun.wait)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    slow.may_end.set()
    await connection.write(put(2))
    assert await connection.read(numbers) == [1, 2]


async def test_a_read_that_takes_too_long_is_stopped(other: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    forever = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"
    monkeypatch.setattr(other._reader, "_deadline", 0.05)
    with hasty(other), pytest.raises(StoreUnavailable):
        await other.read(lambda database, _: database.execute(forever).fetchall())

    assert await other.read(numbers) == []


async def test_a_read_cannot_write(connection: Connection) -> None:
    with pytest.raises(StoreError):
        await connection.read(put(1))


async def test_reads_see_one_snapshot(connection: Connection) -> None:
    has_begun, may_go_on = threading.Event(), threading.Event()

    def read_twice(database: sqlite3.Connection, now: int) -> tuple[list[int], list[int]]:
        before = numbers(database, now)
        has_begun.set()
        assert may_go_on.wait(PATIENCE_S)
        return before, numbers(database, now)

    reading = asyncio.create_task(connection.read(read_twice))
    await asyncio.to_thread(has_begun.wait)
    await connection.write(put(1))
    may_go_on.set()

    assert await reading == ([], [])


async def test_a_database_in_memory_reads_what_it_wrote() -> None:
    connection = Connection(":memory:")
    await connection.open()
    await connection.write(make_table)
    await connection.write(put(1))

    assert await connection.read(numbers) == [1]
    await connection.close()


async def test_close_serves_what_waits_and_may_be_repeated(path: str) -> None:
    connection = Connection(path)
    with pytest.raises(NotOpen):
        await connection.write(make_table)
    await connection.open()
    await connection.write(make_table)
    writes = [asyncio.create_task(connection.write(put(number))) for number in range(10)]
    await asyncio.sleep(0)
    await connection.close()
    await connection.close()

    assert await asyncio.gather(*writes) == list(range(10))
    with pytest.raises(NotOpen, match="closed"):
        await connection.write(put(11))
    assert not Path(f"{path}-wal").exists()
    await connection.open()
    assert await connection.read(numbers) == list(range(10))
    await connection.close()


async def test_event_loops_share_a_connection(connection: Connection) -> None:
    def in_a_loop_of_its_own() -> int:
        return asyncio.run(connection.write(put(1)))

    assert await asyncio.to_thread(in_a_loop_of_its_own) == 1
    assert await connection.read(numbers) == [1]


async def test_a_long_log_is_written_back(connection: Connection, path: str) -> None:
    def big(database: sqlite3.Connection, now: int) -> None:
        database.execute("CREATE TABLE IF NOT EXISTS big (text TEXT)")
        database.executemany("INSERT INTO big VALUES (?)", [("x" * 4_000,)] * 300)

    sizes = []
    for _ in range(12):
        await connection.write(big)
        await connection.write(lambda _, __: None)  # after the log of the group before was looked at
        sizes.append(Path(f"{path}-wal").stat().st_size)

    assert max(sizes) < 8_000_000
    assert any(later < earlier for earlier, later in itertools.pairwise(sizes))  # it was begun anew


async def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nowhere does not exist"):
        await Connection(str(tmp_path / "nowhere" / "jobs.db")).open()


async def test_a_file_of_another_format_is_refused(path: str) -> None:
    Path(path).write_text("this is not a database, but it is long enough to look like a header" * 10)
    with pytest.raises(StoreUnavailable, match="not a SQLite database"):
        await Connection(path).open()


async def test_opening_behind_a_stuck_program_ends_at_the_deadline(path: str) -> None:
    with FileTurnstile(f"{path}-turn"), pytest.raises(StoreUnavailable, match="could not be opened"):
        await Connection(path, deadline=0.05).open()


def test_an_unknown_synchronous_is_refused(path: str) -> None:
    with pytest.raises(ConfigError, match="synchronous"):
        Connection(path, synchronous="maybe; DROP")


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
def test_a_forked_child_cannot_use_the_parents_connection(path: str) -> None:
    script = """
        import asyncio, os, sys, warnings
        warnings.simplefilter("ignore", DeprecationWarning)  # of forking with threads, which is what is tried here
        from holdfast.errors import NotOpen
        from holdfast.stores.sqlite.connection import Connection

        def put(number):
            return lambda database, now: database.execute("INSERT INTO numbers VALUES (?)", (number,)).rowcount

        async def refused(use):
            try:
                await use
            except NotOpen as error:
                assert "forked" in str(error)
            else:
                os._exit(3)

        async def main():
            await connection.open()
            await connection.write(lambda database, now: database.execute("CREATE TABLE numbers (n)").rowcount)
            child = os.fork()
            if child == 0:
                return 0
            assert os.waitpid(child, 0)[1] == 0
            await connection.write(put(1))
            rows = await connection.read(lambda database, now: database.execute("SELECT n FROM numbers").fetchall())
            assert rows == [(1,)], rows
            await connection.close()
            return child

        connection = Connection(sys.argv[1])
        loop = asyncio.new_event_loop()
        child = loop.run_until_complete(main())
        if child == 0:
            loop = asyncio.new_event_loop()
            loop.run_until_complete(refused(connection.write(put(99))))
            loop.run_until_complete(refused(connection.open()))
            loop.run_until_complete(refused(Connection(sys.argv[1]).open()))
            sys.exit(0)  # an ordinary exit: even that must not close what is the parent's
        print("fine")
    """
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), path], capture_output=True, text=True, timeout=30, check=False
    )

    assert (ended.returncode, ended.stdout) == (0, "fine\n"), ended.stderr


async def test_a_lock_file_that_fails_once_does_not_end_the_writer(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock, failures = turnstile._lock, iter([OSError(37, "No locks available")])

    def failing(file: int) -> None:
        if (error := next(failures, None)) is not None:
            raise error
        lock(file)

    monkeypatch.setattr(turnstile, "_lock", failing)
    with pytest.raises(StoreUnavailable, match="No locks available"):
        await connection.write(put(1))
    assert await connection.write(put(2)) == 2
    assert await connection.read(numbers) == [2]
