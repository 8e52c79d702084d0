"""What tests share hands nothing from one to the next, whatever a test leaves behind."""

import asyncio

import asyncpg
import psycopg
import pytest

from holdfast.job import JobState
from holdfast.stores.postgres.store import PostgresStore
from tests.conftest import AnyStore
from tests.support import raw
from tests.support.builders import finished, running
from tests.support.schemas import Schemas, to_end_others
from tests.support.sessions import end_tasks

PID = "SELECT pg_backend_pid()"
AN_ENDPOINT = "SELECT 'https://x', enqueued_at, 'gone' FROM holdfast.jobs"
A_CLOCK_OF_ITS_OWN = """
CREATE TABLE {0}.mine (at timestamptz);
CREATE OR REPLACE FUNCTION {0}.clock() RETURNS timestamptz LANGUAGE sql STABLE RETURN (SELECT max(at) FROM {0}.mine);
"""
LOCKS = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()"


async def test_nothing_is_left_in_a_store_that_was_cleared(store: AnyStore) -> None:
    await finished(store, JobState.FAILED)
    await running(store)
    await raw.execute(
        store, "INSERT INTO holdfast.disabled_endpoints SELECT 'https://x', enqueued_at, '' FROM holdfast.jobs"
    )
    await raw.clear(store)
    assert {size.name: size.rows for size in await store.measure_tables() if size.rows} == {"meta": 1}


async def test_a_session_that_is_handed_on_is_as_good_as_new(postgres: PostgresStore) -> None:
    one, two = (PostgresStore(postgres.pool.dsn, schema=postgres.schema) for _ in range(2))
    await one.open()
    before = await one.fetch_sql(PID)
    await one.pool.call(lambda connection: connection.execute("SET work_mem = '1MB'; SELECT pg_advisory_lock(7)"))
    await one.close()
    await two.open()
    assert await two.fetch_sql(PID) == before
    assert [(await two.fetch_sql(sql))[0][0] for sql in (LOCKS, "SHOW work_mem")] == [0, "4MB"]
    await two.close()


async def test_a_session_that_was_ended_is_not_handed_on(postgres: PostgresStore) -> None:
    one, two = (PostgresStore(postgres.pool.dsn, schema=postgres.schema) for _ in range(2))
    await one.open()
    ((pid,),) = await one.fetch_sql(PID)
    await one.close()
    await postgres.fetch_sql("SELECT pg_terminate_backend($1, 10000)", pid)
    await two.open()
    assert [row[0] for row in await two.fetch_sql(PID)] != [pid]
    await two.close()


async def test_a_session_that_still_hears_hints_is_not_handed_on_so(postgres: PostgresStore) -> None:
    heard: list[object] = []
    left = await asyncpg.connect(postgres.pool.dsn)
    before = left.get_server_pid()
    await left.add_listener("news", lambda *said: heard.append(said))
    left.terminate()
    assert left.is_closed()
    next_one = await asyncpg.connect(postgres.pool.dsn)
    assert next_one.get_server_pid() == before
    assert await next_one.fetch("SELECT pg_listening_channels()") == []
    await next_one.execute("NOTIFY news")
    await next_one.close()
    assert heard == []


@pytest.mark.parametrize("spoil", ["BEGIN", "SELECT pg_sleep(60)"])
async def test_a_session_in_the_middle_of_something_is_not_handed_on(postgres: PostgresStore, spoil: str) -> None:
    left = await asyncpg.connect(postgres.pool.dsn)
    pid = left.get_server_pid()
    task = asyncio.create_task(left.execute(spoil))
    await asyncio.wait([task], timeout=0 if "sleep" in spoil else None)
    left.terminate()
    await asyncio.wait([task])
    assert task.exception() is None or isinstance(task.exception(), asyncpg.PostgresError | OSError)
    next_one = await asyncpg.connect(postgres.pool.dsn)
    assert next_one.get_server_pid() != pid
    await next_one.close()


async def test_a_transaction_that_was_left_open_holds_nobody_up(postgres: PostgresStore) -> None:
    left = await asyncpg.connect(postgres.pool.dsn)
    await left.execute(f"BEGIN; LOCK TABLE {postgres.schema}.jobs")
    await postgres.fetch_sql(to_end_others(postgres.schema))
    await raw.clear(postgres)
    left.terminate()


async def test_a_task_that_was_left_running_ends() -> None:
    left = asyncio.create_task(asyncio.Event().wait())
    await asyncio.sleep(0)
    await end_tasks()
    assert left.cancelled()


@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE {0}.jobs ADD COLUMN note text",
        "ALTER TABLE {0}.jobs ALTER COLUMN payload DROP NOT NULL",
        "CREATE INDEX ON {0}.jobs (attempt)",
        "CREATE FUNCTION {0}.mine() RETURNS int LANGUAGE sql RETURN 1",
        "GRANT SELECT ON {0}.jobs TO PUBLIC",
        "GRANT USAGE ON SCHEMA {0} TO PUBLIC",
        "ANALYZE {0}.meta",
        "INSERT INTO {0}.meta VALUES ('move', '1')",
        "DROP SCHEMA {0} CASCADE",
    ],
)
def test_a_schema_that_a_test_has_changed_is_not_handed_on(dsn: str, schemas: Schemas, change: str) -> None:
    name = schemas.take()
    with psycopg.connect(dsn) as connection:
        connection.execute(change.format(name).encode())
    schemas.give_back(name)
    other = schemas.take()
    assert other != name
    schemas.give_back(other)


@pytest.mark.parametrize(
    "change",
    [
        "CREATE TABLE {0}.mine ()",
        "TRUNCATE {0}.jobs",
        "CREATE OR REPLACE FUNCTION {0}.clock() RETURNS timestamptz LANGUAGE sql STABLE RETURN now()",
        A_CLOCK_OF_ITS_OWN,
    ],
)
def test_the_next_test_gets_a_schema_as_it_was(dsn: str, schemas: Schemas, change: str) -> None:
    name = schemas.take()
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(change.format(name).encode())
        schemas.give_back(name)
        other = schemas.take()  # the same, mended, unless the server has analysed a table by itself just then
        found = connection.execute(f"SELECT to_regclass('{other}.mine'), {other}.clock() IS NULL".encode())
        assert found.fetchone() == (None, False)
    schemas.give_back(other)


def test_a_schema_that_is_handed_on_is_empty(dsn: str, schemas: Schemas) -> None:
    name = schemas.take()
    with psycopg.connect(dsn) as connection:
        connection.execute(f"INSERT INTO {name}.disabled_endpoints VALUES ('https://x', now(), '')".encode())
        connection.execute(f"SELECT nextval('{name}.position_seq')".encode())
    schemas.give_back(name)
    name = schemas.take()
    with psycopg.connect(dsn) as connection:
        found = connection.execute(
            f"SELECT count(*), nextval('{name}.position_seq') FROM {name}.disabled_endpoints".encode()
        )
        assert found.fetchone() == (0, 1)
    schemas.give_back(name)
