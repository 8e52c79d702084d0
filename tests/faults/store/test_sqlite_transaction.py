"""A transaction on SQLite keeps every other writer out, so its body has a budget (rows C19 and F32)."""

import asyncio
import signal
import sqlite3
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import ConfigError, DataRefused, StoreUnavailable, TransactionTooLong
from holdfast.job import JobState
from holdfast.stores.sqlite.store import SqliteStore
from holdfast.stores.sqlite.turnstile import FileTurnstile
from holdfast.stores.values import Finish, Verdict
from holdfast.transitions import completed
from tests.support.builders import end, enqueue, register, running, state_of
from tests.support.effects import Effects
from tests.support.figures import show
from tests.support.programs import Program
from tests.support.sizes import CHAOS, size
from tests.support.sqlite_neighbour import Renewed
from tests.support.wait import until

pytestmark = pytest.mark.real_time

BUDGET_S = 0.1
ENOUGH_S = 30.0
DONE = Finish(Verdict.DONE, JobState.COMPLETED)
INSERT = "INSERT INTO holdfast_effects VALUES (?)"
FOREVER = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"


@pytest.fixture(params=["sqlite_memory", "sqlite_file"])
def each(request: pytest.FixtureRequest) -> SqliteStore:
    """Give each of the SQLite stores in turn."""
    found: SqliteStore = request.getfixturevalue(request.param)
    return found


@pytest.fixture
async def sqlite(each: SqliteStore) -> SqliteStore:
    """Give each of the SQLite stores in turn, with a table of the user's own."""
    await Effects(each).make()
    return each


async def numbers(store: SqliteStore) -> list[int]:
    """Read the effects that were committed."""
    return await Effects(store).numbers()


async def until_taken_back(connection: Any) -> None:
    """Use a connection until that is refused."""

    def is_refused() -> bool:
        try:
            connection.execute("SELECT 1").fetchall()
        except TransactionTooLong:
            return True
        return False

    await until(is_refused, "the connection is taken back")


# ---- over the budget -------------------------------------------------------------------------------------------------


async def test_a_body_over_its_budget_is_rolled_back_and_cannot_go_on(sqlite: SqliteStore) -> None:
    job = await running(sqlite)
    late: list[BaseException] = []

    async def handle() -> None:
        async with sqlite.transaction(BUDGET_S) as tx:
            tx.connection.execute(INSERT, (1,))
            cursor = tx.connection.cursor()
            await until_taken_back(tx.connection)
            for late_use in (tx.connection.execute, cursor.execute):
                with pytest.raises(TransactionTooLong) as caught:
                    late_use(INSERT, (2,))
                late.append(caught.value)
            await enqueue(sqlite)  # the others may write long before the block is left
            late.append(await failure(lambda: tx.finish(completed(job.id, job.claim))))

    with pytest.raises(TransactionTooLong, match=r"budget of 0\.1 s.* before the transaction"):
        await handle()
    assert [type(error) for error in late] == [TransactionTooLong] * 3
    assert (await numbers(sqlite), await state_of(sqlite, job.id)) == ([], JobState.RUNNING)
    assert await end(sqlite, completed(job.id, job.claim)) == DONE


async def failure(use: Callable[[], Any]) -> BaseException:
    """Give the error that an awaited call ends with."""
    with pytest.raises(BaseException) as caught:  # noqa: PT011 - which one it is, is what the test looks at
        await use()
    return caught.value


async def test_a_body_that_blocks_the_event_loop_is_rolled_back_too(sqlite_file: SqliteStore, tmp_path: Path) -> None:
    await Effects(sqlite_file).make()
    job = await running(sqlite_file)
    wrote_at: list[float] = []

    async def write() -> None:
        other = SqliteStore(str(tmp_path / "jobs.db"))
        await other.open()  # which writes nothing, so it need not wait
        has_begun.wait()
        await register(other)
        wrote_at.append(time.monotonic())
        await other.close()

    has_begun = threading.Event()
    rival = threading.Thread(target=lambda: asyncio.run(write()))
    rival.start()

    async def handle() -> float:
        async with sqlite_file.transaction(BUDGET_S) as tx:
            tx.connection.execute(INSERT, (1,))
            has_begun.set()
            rival.join(ENOUGH_S)  # the fault: a handler that blocks the event loop
            ended.append(time.monotonic())
            await tx.finish(completed(job.id, job.claim))
        return 0

    ended: list[float] = []
    with pytest.raises(TransactionTooLong):
        await handle()
    await asyncio.to_thread(rival.join)
    assert wrote_at[0] < ended[0]
    assert (await numbers(sqlite_file), await state_of(sqlite_file, job.id)) == ([], JobState.RUNNING)


async def test_a_statement_that_does_not_end_is_interrupted(sqlite: SqliteStore) -> None:
    job = await running(sqlite)

    async def handle() -> None:
        async with sqlite.transaction(BUDGET_S) as tx:
            tx.connection.execute(INSERT, (1,))
            await asyncio.to_thread(lambda: tx.connection.execute(FOREVER).fetchall())

    with pytest.raises(TransactionTooLong) as caught:
        await handle()
    assert isinstance(caught.value.__cause__, sqlite3.OperationalError)
    assert await end(sqlite, completed(job.id, job.claim)) == DONE
    assert await numbers(sqlite) == []


async def test_a_write_that_does_not_end_is_interrupted(sqlite: SqliteStore) -> None:
    """Interrupting it makes SQLite itself roll back; neighbours of the same moment are not disturbed."""
    endless = "INSERT INTO holdfast_effects " + FOREVER.replace("max(i)", "i")

    async def handle() -> None:
        async with sqlite.transaction(BUDGET_S) as tx:
            await asyncio.to_thread(tx.connection.execute, endless)

    found = await asyncio.gather(enqueue(sqlite), handle(), enqueue(sqlite), return_exceptions=True)
    assert [type(answer) for answer in found] == [int, TransactionTooLong, int]
    assert await numbers(sqlite) == []


async def test_a_transaction_in_memory_shares_its_commit_with_nobody(sqlite_memory: SqliteStore) -> None:
    """Its connection is that of the writer, for whom somebody waits whose write takes down whatever is with it."""
    await Effects(sqlite_memory).make()
    job = await running(sqlite_memory)
    clash = "INSERT OR ROLLBACK INTO holdfast_effects VALUES (1)"
    async with sqlite_memory.transaction(ENOUGH_S) as tx:
        tx.connection.execute(INSERT, (1,))
        clashing = asyncio.create_task(sqlite_memory.connection.write(lambda database, _: database.execute(clash)))
        await asyncio.sleep(0)  # it waits in the writer's line now
        assert await tx.finish(completed(job.id, job.claim)) == DONE
    assert isinstance(await failure(lambda: clashing), DataRefused)
    assert (await numbers(sqlite_memory), await state_of(sqlite_memory, job.id)) == ([1], JobState.COMPLETED)


async def test_an_outcome_that_the_body_raises_is_told_even_over_the_budget(sqlite: SqliteStore) -> None:
    async def handle() -> None:
        async with sqlite.transaction(BUDGET_S) as tx:
            await until_taken_back(tx.connection)
            raise LookupError

    with pytest.raises(LookupError):
        await handle()


async def test_whoever_asks_the_store_inside_is_told_why_that_takes_too_long(sqlite_memory: SqliteStore) -> None:
    """In memory there is one connection, and the body has it."""

    async def handle() -> None:
        async with sqlite_memory.transaction(BUDGET_S) as tx:
            await enqueue(sqlite_memory)
            tx.connection.execute("SELECT 1")

    with pytest.raises(TransactionTooLong, match="asks the store"):
        await handle()


@pytest.mark.timeout(120)
def test_leases_of_others_are_renewed_beside_bodies_over_their_budget(tmp_path: Path) -> None:
    path, seconds, budget_s = tmp_path / "jobs.db", size(3, 20), 0.3

    async def overrun(ends_at: float) -> int:
        store = SqliteStore(str(path))
        await store.open()
        await Effects(store).make()
        times = 0
        while time.monotonic() < ends_at:
            try:
                async with store.transaction(budget_s) as tx:
                    tx.connection.execute(INSERT, (times,))
                    await until_taken_back(tx.connection)
            except TransactionTooLong:
                times += 1
        assert await numbers(store) == []
        await store.close()
        return times

    with Program("tests.support.sqlite_neighbour", "renew", path, seconds, "with") as renewer:
        assert renewer.hear(str) == "ready"
        renewer.say()
        times = asyncio.run(overrun(time.monotonic() + seconds))
        renewed = renewer.hear(Renewed)
    show(f"{times} bodies over 300 ms: {len(renewed.took_ms)} renewals, the longest {max(renewed.took_ms):.0f} ms")
    assert times > 1
    assert (renewed.failures, renewed.deaths) == ([], 0)
    assert len(renewed.took_ms) > seconds
    assert max(renewed.took_ms) < (1_000 if CHAOS else 4_000)


# ---- threads, cursors and errors of the body -------------------------------------------------------------------------


async def test_a_body_may_run_on_a_thread(sqlite: SqliteStore) -> None:
    job = await running(sqlite)
    async with sqlite.transaction(ENOUGH_S) as tx:
        await asyncio.to_thread(lambda: tx.connection.executemany(INSERT, [(1,), (2,)]).close())
        tx.connection.row_factory = sqlite3.Row
        assert [row["number"] for row in tx.connection.execute("SELECT number FROM holdfast_effects")] == [1, 2]
        assert isinstance(tx.connection, sqlite3.Connection)
        assert tx.connection.in_transaction
        await tx.finish(completed(job.id, job.claim))
    assert await numbers(sqlite) == [1, 2]


async def test_a_thread_that_outlives_its_cancelled_body_cannot_write(sqlite: SqliteStore) -> None:
    begun, ended = threading.Event(), threading.Event()
    errors: list[BaseException] = []

    def work(connection: Any) -> None:
        try:
            connection.execute(INSERT, (1,))
            begun.set()
            while True:
                connection.execute("SELECT 1").fetchall()
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            errors.append(error)
        ended.set()

    async def handle() -> None:
        async with sqlite.transaction(ENOUGH_S) as tx:
            await asyncio.to_thread(work, tx.connection)

    task = asyncio.create_task(handle())
    await asyncio.to_thread(begun.wait)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await asyncio.to_thread(ended.wait, ENOUGH_S)
    assert isinstance(errors[0], ConfigError | sqlite3.Error)
    assert await numbers(sqlite) == []


@pytest.mark.parametrize("budget_s", [BUDGET_S, ENOUGH_S])
async def test_a_cursor_that_is_not_read_to_its_end_holds_nothing_up(sqlite: SqliteStore, budget_s: float) -> None:
    job = await running(sqlite)
    kept: list[Any] = []

    async def handle() -> None:
        async with sqlite.transaction(budget_s) as tx:
            tx.connection.executemany(INSERT, [(number,) for number in range(100)])
            kept.append(tx.connection.execute("SELECT number FROM holdfast_effects"))
            assert next(kept[0]) == (0,)
            if budget_s == BUDGET_S:
                await until_taken_back(tx.connection)
            await tx.finish(completed(job.id, job.claim))

    if budget_s == BUDGET_S:
        with pytest.raises(TransactionTooLong):
            await handle()
    else:
        await handle()
    with pytest.raises((ConfigError, TransactionTooLong)):
        kept[0].fetchone()
    await enqueue(sqlite)
    assert len(await numbers(sqlite)) == (0 if budget_s == BUDGET_S else 100)
    if sqlite.path != ":memory:":
        with closing(sqlite3.connect(sqlite.path)) as database:  # a reader that is left would keep the log from this
            assert database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0


@pytest.mark.guards("rolled-back-body")
async def test_after_sqlite_has_rolled_back_the_body_cannot_go_on(sqlite: SqliteStore) -> None:
    """What it writes then would be committed by itself, each statement at once."""
    job = await running(sqlite)

    async def handle() -> None:
        async with sqlite.transaction(ENOUGH_S) as tx:
            tx.connection.execute(INSERT, (1,))
            with pytest.raises(sqlite3.IntegrityError):
                tx.connection.execute("INSERT OR ROLLBACK INTO holdfast_effects VALUES (1)")
            with pytest.raises(StoreUnavailable, match="rolled back"):
                tx.connection.execute(INSERT, (2,))
            await tx.finish(completed(job.id, job.claim))

    with pytest.raises(StoreUnavailable, match="rolled"):
        await handle()
    assert (await numbers(sqlite), await state_of(sqlite, job.id)) == ([], JobState.RUNNING)
    assert await end(sqlite, completed(job.id, job.claim)) == DONE


@pytest.mark.guards("lent-transaction-end")
@pytest.mark.parametrize(
    "use",
    [
        lambda connection: connection.commit(),
        lambda connection: connection.rollback(),
        lambda connection: connection.close(),
        lambda connection: connection.__enter__(),
        lambda connection: connection.executescript("SELECT 1;"),
        lambda connection: connection.cursor().executescript("SELECT 1;"),
        lambda connection: connection.cursor(sqlite3.Cursor),
        lambda connection: connection.execute("begin immediate"),
        lambda connection: connection.executemany("COMMIT", []),
        lambda connection: connection.execute("rollback transaction"),
    ],
)
async def test_what_would_end_the_transaction_is_refused(sqlite: SqliteStore, use: Callable[[Any], Any]) -> None:
    job = await running(sqlite)
    async with sqlite.transaction(ENOUGH_S) as tx:
        tx.connection.execute(INSERT, (1,))
        with pytest.raises(ConfigError, match="leaving the block commits"):
            use(tx.connection)
        tx.connection.execute(INSERT, (2,))
        await tx.finish(completed(job.id, job.claim))
    assert await numbers(sqlite) == [1, 2]


async def test_a_refused_commit_keeps_nothing(sqlite_file: SqliteStore) -> None:
    await Effects(sqlite_file).make()
    job = await running(sqlite_file)

    def deny(_action: int, what: str | None, *_: object) -> int:
        return sqlite3.SQLITE_DENY if what == "COMMIT" else sqlite3.SQLITE_OK

    async def handle() -> None:
        async with sqlite_file.transaction(ENOUGH_S) as tx:
            tx.connection.execute(INSERT, (1,))
            tx.connection.set_authorizer(deny)
            assert await tx.finish(completed(job.id, job.claim)) == DONE

    with pytest.raises(StoreUnavailable, match="could not be committed"):
        await handle()
    assert (await numbers(sqlite_file), await state_of(sqlite_file, job.id)) == ([], JobState.RUNNING)


# ---- waiting for the turn --------------------------------------------------------------------------------------------


async def open_hasty(path: Path) -> SqliteStore:
    """Open a store, and let it give up soon from then on: making the file may take longer."""
    store = SqliteStore(str(path))
    await store.open()
    store.connection.deadline = 0.2
    return store


async def test_who_gets_no_turn_is_told_in_time_and_leaves_no_lock(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    store = await open_hasty(path)
    turnstile = FileTurnstile(f"{path}-turn")
    with turnstile:
        for _ in range(3):
            with pytest.raises(StoreUnavailable, match="no turn"):
                await store.transaction(ENOUGH_S).__aenter__()
    await until_free(turnstile)
    store.connection.deadline = ENOUGH_S
    job = await running(store)
    async with store.transaction(ENOUGH_S) as tx:
        assert await tx.finish(completed(job.id, job.claim)) == DONE
    await store.close()


async def until_free(turnstile: FileTurnstile) -> None:
    """Wait in the queue of the turnstile, behind everybody who came before."""

    def pass_through() -> None:
        with turnstile:
            pass

    await asyncio.wait_for(asyncio.to_thread(pass_through), ENOUGH_S)


@pytest.mark.parametrize("lock", ["BEGIN IMMEDIATE", "BEGIN EXCLUSIVE"])
async def test_a_foreign_program_that_holds_the_file_is_waited_for_in_vain(tmp_path: Path, lock: str) -> None:
    path = tmp_path / "jobs.db"
    store = await open_hasty(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as foreign:
        foreign.execute(lock)
        begun = time.monotonic()
        with pytest.raises(StoreUnavailable, match="another program"):
            await store.transaction(ENOUGH_S).__aenter__()
        assert time.monotonic() - begun < 2.2
        foreign.execute("ROLLBACK")
    store.connection.deadline = ENOUGH_S
    job = await running(store)
    async with store.transaction(ENOUGH_S) as tx:
        assert await tx.finish(completed(job.id, job.claim)) == DONE
    await store.close()


# ---- death -----------------------------------------------------------------------------------------------------------

DYING = """
    import asyncio, os, signal, sys, warnings
    warnings.simplefilter("ignore", DeprecationWarning)  # of forking with threads, which is what is tried here
    from holdfast.stores.sqlite.store import SqliteStore
    from holdfast.transitions import completed
    from tests.support.builders import running
    from tests.support.effects import Effects

    async def main():
        store = SqliteStore(sys.argv[1])
        await store.open()
        await Effects(store).make()
        job = await running(store)
        async with store.transaction(30) as tx:
            tx.connection.execute("INSERT INTO holdfast_effects VALUES (1)")
            await tx.finish(completed(job.id, job.claim))
            if os.fork() == 0:  # it lives on and has inherited every file
                sys.stdin.read()
                os._exit(0)
            print(job.id, flush=True)
            os.kill(os.getpid(), signal.SIGKILL)

    asyncio.run(main())
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
async def test_a_process_killed_in_a_transaction_leaves_nothing_behind_not_even_in_its_children(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(DYING), str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    job_id = int(process.stdout.readline())
    assert await asyncio.to_thread(process.wait) == -signal.SIGKILL
    await until_free(FileTurnstile(f"{path}-turn"))
    store = SqliteStore(str(path))
    await store.open()
    assert (await numbers(store), await state_of(store, job_id)) == ([], JobState.RUNNING)
    await store.close()
    process.stdin.close()  # which ends the grandchild
    process.stdout.close()
