"""What a store has confirmed is on disk as its settings promise, on every connection that writes."""

import re
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast import Context, Holdfast
from holdfast.stores.cluster import LockRequest
from holdfast.stores.postgres.store import PostgresStore
from holdfast.stores.sqlite.store import SqliteStore
from holdfast.stores.values import JobFilter, QueueTerms
from holdfast.transitions import completed, interrupted
from tests.support.builders import cancel, claim, claim_of, enqueue, register, running

LEVELS = {"NORMAL": 1, "FULL": 2, "EXTRA": 3}
_SET = re.compile(r"PRAGMA synchronous = (\w+)", re.IGNORECASE)
_WRITES = re.compile(r"\s*(INSERT|UPDATE|DELETE|REPLACE|CREATE|ALTER|DROP)\b", re.IGNORECASE)


# ---- SQLite ----------------------------------------------------------------------------------------------------------


class Spy:
    """The connections that were opened, and what each did."""

    def __init__(self) -> None:
        self.said: list[list[str]] = []
        self._connect = sqlite3.connect

    def connect(self, *args: Any, **options: Any) -> sqlite3.Connection:
        """Connect, and listen."""
        connection: sqlite3.Connection = self._connect(*args, **options)
        said: list[str] = []
        self.said.append(said)
        connection.set_trace_callback(said.append)
        return connection

    @property
    def levels(self) -> list[str | None]:
        """How durable the commits of each connection were that wrote anything."""
        return [_level(said) for said in self.said if any(map(_WRITES.match, said))]


def _level(said: list[str]) -> str | None:
    found = [match[1].upper() for statement in said if (match := _SET.fullmatch(statement.strip()))]
    return found[-1] if found else None


@pytest.fixture
def spy(monkeypatch: pytest.MonkeyPatch) -> Spy:
    found = Spy()
    monkeypatch.setattr("sqlite3.connect", found.connect)
    return found


@pytest.mark.guards("sqlite-durability", "sqlite-transaction-durability")
@pytest.mark.parametrize("level", LEVELS)
async def test_every_connection_that_writes_is_as_durable_as_the_settings_say(
    tmp_path: Path, spy: Spy, level: str
) -> None:
    store = SqliteStore(str(tmp_path / "jobs.db"), synchronous=level)
    await store.open()
    job = await running(store)
    async with store.transaction(10) as transaction:
        assert (await transaction.finish(completed(job.id, job.claim))).verdict.value == "done"
    await store.close()
    assert spy.levels == [level, level], "that of the store, which also migrates, and that of the transaction"


@pytest.mark.guards("sqlite-durability")
async def test_sqlite_itself_says_so(tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "jobs.db"))

    def level(database: sqlite3.Connection, _now: int) -> int:
        return int(database.execute("PRAGMA synchronous").fetchone()[0])

    await store.open()
    try:
        assert await store.connection.write(level) == LEVELS["FULL"], "unless somebody chose otherwise"
        async with store.transaction(10) as transaction:
            assert level(transaction.connection, 0) == LEVELS["FULL"]
    finally:
        await store.close()


@pytest.mark.guards("sqlite-durability", "sqlite-transaction-durability")
@pytest.mark.parametrize("level", ["normal", "full"])
async def test_a_transaction_of_a_handler_is_as_durable_as_the_app(tmp_path: Path, level: Any) -> None:
    app = Holdfast(f"sqlite:///{tmp_path}/jobs.db", synchronous=level)

    @app.task
    async def work(ctx: Context) -> int:
        async with ctx.transaction() as tx:
            tx.result = tx.connection.execute("PRAGMA synchronous").fetchone()[0]
        return 0

    async with app:
        handle = await work.enqueue()
        await app.run_worker(until="empty")
        assert await handle.result(timeout=30) == LEVELS[level.upper()]


# ---- PostgreSQL ------------------------------------------------------------------------------------------------------

# What a session would carry into the next call: settings, locks, temporary tables, channels and open cursors.
_LEFT = """
SELECT 'setting ' || name || ' = ' || setting FROM pg_settings
WHERE source = 'session' AND name NOT LIKE 'transaction_%'
    AND name <> 'jit'  -- which the driver sets when it looks up types; it changes no result
UNION ALL
SELECT 'lock ' || classid || ' ' || objid FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()
UNION ALL
SELECT 'table ' || relname FROM pg_class WHERE relnamespace = pg_my_temp_schema()
UNION ALL
SELECT 'channel ' || channel FROM pg_listening_channels() AS channel
UNION ALL
SELECT 'cursor ' || name FROM pg_cursors WHERE is_holdable
"""


@pytest.fixture
async def alone(dsn: str, schema: str) -> AsyncIterator[PostgresStore]:
    """Give a store with one session, so that each call finds what the one before has left on it."""
    store = PostgresStore(dsn, schema=schema, pool_size=1)
    await store.open()
    yield store
    await store.close()


async def left(store: PostgresStore) -> list[str]:
    """Tell what is different on the session of a store."""
    return [row[0] for row in await store.fetch_sql(_LEFT)]


async def finish_and_claim(store: PostgresStore) -> None:
    worker = await register(store)
    await enqueue(store)
    await enqueue(store)
    (job,) = await claim(store, worker, limit=1)
    await store.finish_jobs([completed(job.id, job.claim)], claim=claim_of(worker))


async def give_back(store: PostgresStore) -> None:
    job = await running(store)
    await store.finish_jobs([interrupted(job.id, job.claim)])
    await cancel(store, job.id)


async def lock(store: PostgresStore) -> None:
    request = LockRequest("stock", "a", "a", "here")
    await store.take_lock(request, lasts_ms=10_000, waits_ms=0)
    await store.release_lock("stock", "a")


VERBS: dict[str, Callable[[PostgresStore], Awaitable[object]]] = {
    "announce": lambda store: store.announce(["default"]),
    "answers": lambda store: store.operator_answers(org_tag="org", project_tag="project", within_s=30),
    "diagnose": lambda store: store.diagnose(),
    "finish": finish_and_claim,
    "give back": give_back,
    "lock": lock,
    "history": lambda store: store.keep_history(10),
    "migrate": lambda store: store.migrator.up(),
    "queues": lambda store: store.define_queues({"default": QueueTerms(kept_ms={})}),
    "rescue": lambda store: store.rescue_jobs(10),
    "search": lambda store: store.search_jobs(JobFilter(), limit=10),
    "count": lambda store: store.count_jobs(),
    "promote": lambda store: store.promote_jobs(10),
}


@pytest.mark.guards("announce-local")
@pytest.mark.parametrize("verb", VERBS)
async def test_a_pooled_session_comes_back_as_it_was(alone: PostgresStore, verb: str) -> None:
    assert await left(alone) == []
    await VERBS[verb](alone)
    assert await left(alone) == []


@pytest.mark.guards("announce-local")
async def test_the_commit_after_a_hint_waits_for_the_disk(alone: PostgresStore) -> None:
    (before,) = await alone.fetch_sql("SHOW synchronous_commit")
    await alone.announce(["default", "other"])
    assert await alone.fetch_sql("SHOW synchronous_commit") == [before]


@pytest.mark.guards("lent-session-reset")
async def test_what_a_handler_sets_on_its_session_is_gone_for_the_next(dsn: str, schema: str) -> None:
    store = PostgresStore(dsn, schema=schema, pool_size=1)
    await store.open()
    sessions: list[int] = []
    try:
        for turn in range(2):
            job = await running(store)
            async with store.transaction(10) as transaction:
                sessions.append(await transaction.connection.fetchval("SELECT pg_backend_pid()"))
                found = [row[0] for row in await transaction.connection.fetch(_LEFT)]
                assert found == [], f"in turn {turn}"
                await transaction.connection.execute("SET synchronous_commit = off; CREATE TEMP TABLE mine (x int)")
                await transaction.finish(completed(job.id, job.claim))
    finally:
        await store.close()
    assert len(set(sessions)) == 1, "the same session was lent twice, or this shows nothing"
