"""Migrations on PostgreSQL: applied once, whole or not at all, by however many processes at once."""

import asyncio
import os
import sys
import uuid
from collections.abc import AsyncIterator

import asyncpg
import pytest

from holdfast.errors import ConfigError, DataRefused, HoldfastError, SchemaError, StoreUnavailable
from holdfast.job import Answer
from holdfast.stores.migrate import Function, Migration
from holdfast.stores.postgres import migrator as migrations
from holdfast.stores.postgres.connection import Connection
from holdfast.stores.postgres.store import PostgresStore
from holdfast.stores.sql import checksum, in_schema, quoted
from holdfast.stores.values import Insertion, JobFilter, Verdict
from holdfast.transitions import completed
from scripts.dump_schema import dump_postgres
from tests.support.connections import in_database, insert, new_job, register, request
from tests.support.sizes import size


@pytest.fixture
async def admin(dsn: str) -> AsyncIterator[Connection]:
    """Give a connection that is not of a store."""
    connection = await asyncpg.connect(dsn)
    yield connection
    connection.terminate()


@pytest.fixture
async def empty(admin: Connection) -> AsyncIterator[str]:
    """Give the name of a schema that does not exist yet."""
    name = f"hf_{uuid.uuid4().hex[:12]}"
    yield name
    await admin.execute(f"DROP SCHEMA IF EXISTS {quoted(name)} CASCADE")


def with_step(monkeypatch: pytest.MonkeyPatch, sql: str) -> None:
    """Let the release bring one more migration."""
    step = Migration(len(migrations.MIGRATIONS) + 1, "more", sql, checksum(sql))
    monkeypatch.setattr(migrations, "MIGRATIONS", (*migrations.MIGRATIONS, step))


async def test_a_fresh_schema_is_migrated_once(dsn: str, empty: str) -> None:
    migrator = PostgresStore(dsn, schema=empty).migrator
    before = await migrator.plan()
    assert (before.applied, len(before.migrations)) == ((), len(migrations.MIGRATIONS))
    assert len(before.functions) == len(migrations.FUNCTIONS)
    done = await migrator.up()
    assert (done.migrations, done.functions) == (before.migrations, before.functions)
    after = await migrator.plan()
    assert after.is_empty
    assert [(step.version, step.name) for step in after.applied] == [
        (step.version, step.name) for step in migrations.MIGRATIONS
    ]
    assert (await migrator.up()).is_empty
    store = PostgresStore(dsn, schema=empty)
    await store.open()
    await store.close()


async def test_the_printed_sql_makes_the_same_schema(dsn: str, empty: str, schema: str, admin: Connection) -> None:
    migrator = PostgresStore(dsn, schema=empty).migrator
    await admin.execute(migrator.sql(await migrator.plan()))
    assert (await migrator.plan()).is_empty
    assert await dump_postgres(admin, empty) == await dump_postgres(admin, schema)
    store = PostgresStore(dsn, schema=empty)
    await store.open()
    await round_trip(store)
    await store.close()


async def test_the_printed_sql_brings_changed_functions(
    dsn: str, schema: str, admin: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    edit_functions(monkeypatch, "due_state", "claim_jobs")
    migrator = PostgresStore(dsn, schema=schema).migrator
    plan = await migrator.plan()
    await admin.execute(migrator.sql(plan))
    assert [function.name for function in plan.functions] == ["claim_jobs", "due_state"]
    assert (await migrator.plan()).is_empty


async def test_many_processes_migrate_an_empty_database_at_once(dsn: str, admin: Connection) -> None:
    name = f"hf_{uuid.uuid4().hex[:12]}"
    await admin.execute(f"CREATE DATABASE {name}")
    own = in_database(dsn, name)
    program = (
        "import asyncio, sys\n"
        "from holdfast.stores.postgres.store import PostgresStore\n"
        "plan = asyncio.run(PostgresStore(sys.argv[1]).migrator.up())\n"
        "print(len(plan.migrations), len(plan.functions))\n"
    )
    processes = [
        await asyncio.create_subprocess_exec(
            sys.executable, "-c", program, own,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, env=dict(os.environ),
        )
        for _ in range(8)
    ]  # fmt: skip
    answers = await asyncio.gather(*(process.communicate() for process in processes))
    assert [process.returncode for process in processes] == [0] * 8, [error.decode()[-500:] for _, error in answers]
    done = sorted(answer.decode().split() for answer, _ in answers)
    assert done == [["0", "0"]] * 7 + [[str(len(migrations.MIGRATIONS)), str(len(migrations.FUNCTIONS))]]
    assert (await PostgresStore(own).migrator.plan()).is_empty
    await admin.execute(f"DROP DATABASE {name} WITH (FORCE)")


async def test_a_step_that_fails_half_way_leaves_the_old_version(
    dsn: str, schema: str, admin: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, newest = await dump_postgres(admin, schema), len(migrations.MIGRATIONS)
    with_step(monkeypatch, "CREATE TABLE holdfast.more (id bigint); SELECT 1 / 0; CREATE TABLE holdfast.most ();")
    migrator = PostgresStore(dsn, schema=schema).migrator
    with pytest.raises(DataRefused):
        await migrator.up()
    assert [step.version for step in (await migrator.plan()).migrations] == [newest + 1]
    assert await dump_postgres(admin, schema) == before
    monkeypatch.undo()
    assert (await migrator.plan()).is_empty


async def test_a_first_step_that_fails_leaves_nothing(
    dsn: str, empty: str, admin: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_step(monkeypatch, "SELECT 1 / 0")
    with pytest.raises(DataRefused):
        await PostgresStore(dsn, schema=empty).migrator.up()
    assert await admin.fetchval("SELECT to_regnamespace($1)", empty) is None


async def test_a_next_step_is_applied_alone(dsn: str, schema: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with_step(monkeypatch, "CREATE TABLE holdfast.more (id bigint)")
    store = PostgresStore(dsn, schema=schema)
    with pytest.raises(SchemaError, match="holdfast migrate up"):
        await store.open()
    done = await store.migrator.up()
    assert ([step.name for step in done.migrations], done.functions) == (["more"], ())
    await store.open()
    await store.close()


async def test_an_edited_migration_is_refused(dsn: str, schema: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first = migrations.MIGRATIONS[0]
    edited = Migration(first.version, first.name, f"{first.sql}\n-- edited", checksum(f"{first.sql}\n-- edited"))
    monkeypatch.setattr(migrations, "MIGRATIONS", (edited, *migrations.MIGRATIONS[1:]))
    store = PostgresStore(dsn, schema=schema)
    for refuse in (store.migrator.plan, store.migrator.up, store.open):
        with pytest.raises(SchemaError, match=f"{first.version:04d}_{first.name}"):
            await refuse()


async def test_a_schema_that_is_too_new_is_refused_with_both_numbers(dsn: str, schema: str, admin: Connection) -> None:
    newest = len(migrations.MIGRATIONS)
    await admin.execute(
        in_schema("INSERT INTO holdfast.schema_migrations VALUES ($1, 'later', 'x')", schema), newest + 41
    )
    store = PostgresStore(dsn, schema=schema)
    for refuse in (store.migrator.plan, store.migrator.up, store.open):
        with pytest.raises(SchemaError, match=rf"version {newest + 41}\b.*\b{newest}\b"):
            await refuse()


def edit_functions(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Let the release bring other texts of functions."""

    def edited(function: Function) -> Function:
        if names and function.name not in names:
            return function
        sql = f"{function.sql}\n-- edited"
        return Function(function.name, sql, checksum(sql))

    monkeypatch.setattr(migrations, "FUNCTIONS", tuple(edited(function) for function in migrations.FUNCTIONS))


async def test_a_changed_function_is_made_anew_by_the_next_up(
    dsn: str, schema: str, admin: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    (due,) = [function for function in migrations.FUNCTIONS if function.name == "due_state"]
    changed = due.sql.replace("'scheduled'", "'blocked'")
    others = tuple(function for function in migrations.FUNCTIONS if function.name != "due_state")
    monkeypatch.setattr(migrations, "FUNCTIONS", (*others, Function("due_state", changed, checksum(changed))))
    store = PostgresStore(dsn, schema=schema)
    with pytest.raises(SchemaError, match="function due_state"):
        await store.open()
    assert [function.name for function in (await store.migrator.up()).functions] == ["due_state"]
    state = in_schema("SELECT holdfast.due_state(NULL, 1000, now())", schema)
    assert await admin.fetchval(state) == "blocked"
    monkeypatch.undo()
    assert [function.name for function in (await store.migrator.up()).functions] == ["due_state"]
    assert await admin.fetchval(state) == "scheduled"


async def test_every_function_can_be_made_anew_by_itself(
    dsn: str, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None stands in the way of another: what depends on a function does not keep it from being replaced."""
    migrator = PostgresStore(dsn, schema=schema).migrator
    original = migrations.FUNCTIONS
    for function in original:
        monkeypatch.setattr(migrations, "FUNCTIONS", original)
        edit_functions(monkeypatch, function.name)
        assert [one.name for one in (await migrator.up()).functions if one.name == function.name] == [function.name]
    store = PostgresStore(dsn, schema=schema)
    monkeypatch.setattr(migrations, "FUNCTIONS", original)
    await migrator.up()
    await store.open()
    await round_trip(store)
    await store.close()


async def round_trip(store: PostgresStore) -> None:
    """Use every part of the schema once."""
    worker = await register(store)
    ids = await insert(store, 3, tags={"team": "a"})
    (keyed,) = await store.take_ids(1)
    assert (await store.insert_jobs([new_job(keyed, key="k", unique="u", unique_for_ms=1_000)]))[0].id == keyed
    assert (await store.insert_jobs([new_job(keyed + 1, key="k")]))[0].outcome is Insertion.EXISTING
    claimed = await store.claim_jobs(request(worker, 2))
    assert [job.id for job in claimed] == ids[:2]
    worked = await store.finish_jobs([completed(job.id, job.claim) for job in claimed], claim=request(worker, 1))
    assert [finish.verdict for finish in worked.finishes] == [Verdict.DONE] * 2
    assert [job.id for job in worked.claimed] == [ids[2]]
    assert {answer.answer for answer in await store.cancel_jobs([ids[2], keyed], actor="me", reason="why")} == {
        Answer.REQUESTED,
        Answer.DONE,
    }
    assert await store.force_cancels(-1_000, 10) == (ids[2],)
    assert [answer.answer for answer in await store.retry_jobs([ids[2]])] == [Answer.DONE]
    assert [answer.answer for answer in await store.delete_jobs([ids[0]])] == [Answer.DONE]
    assert len((await store.list_jobs(JobFilter(), limit=10)).jobs) == 3
    await store.promote_jobs(10)
    await store.rescue_jobs(10)
    await store.keep_history(10)
    await store.prune_keys(10)
    assert await store.count_jobs()


WEIRD = ('we"ird', "Ü x", "a.b", "holdfast.dev", "select", "x:y", "MiXeD", "-- ;", "日本", "s" * 63, "ü" * 31)


@pytest.mark.parametrize("name", WEIRD)
async def test_a_weird_name_of_a_schema_works_end_to_end(dsn: str, admin: Connection, name: str) -> None:
    store = PostgresStore(dsn, schema=name)
    try:
        await store.migrator.up()
        assert (await store.migrator.up()).is_empty
        await store.open()
        await round_trip(store)
        connection = await asyncpg.connect(dsn)
        async with connection.transaction():
            (inserted,) = await store.insert_on(connection, [new_job(0)])
        await connection.close()
        assert inserted.outcome is Insertion.CREATED
        await store.close()
    finally:
        await admin.execute(f"DROP SCHEMA IF EXISTS {quoted(name)} CASCADE")


async def test_two_schemas_of_one_database_know_nothing_of_each_other(dsn: str, schema: str, admin: Connection) -> None:
    other = 'hf"other'
    try:
        here, there = PostgresStore(dsn, schema=schema), PostgresStore(dsn, schema=other)
        await there.migrator.up()
        await here.open()
        await there.open()
        ids = await insert(here, 2, unique=None)
        assert await there.get_jobs(ids) == []
        assert await there.count_jobs() == []
        await there.insert_jobs([new_job(ids[0], unique="u", key="k")])
        await here.insert_jobs([new_job(ids[1] + 1, unique="u", key="k")])
        worker = await register(there)
        assert [job.id for job in await there.claim_jobs(request(worker, 10))] == [ids[0]]
        assert len(await here.claim_jobs(request(await register(here), 10))) == 3
        await here.close()
        await there.close()
    finally:
        await admin.execute(f"DROP SCHEMA IF EXISTS {quoted(other)} CASCADE")


BAD = ("", "s" * 64, "ü" * 32, "quote'", "back\\slash", "dollar$", "per%cent", "nul\x00", "line\nbreak", "\ud800")


@pytest.mark.parametrize("name", BAD, ids=ascii)
def test_a_name_that_cannot_be_spelled_safely_is_refused(dsn: str, name: str) -> None:
    with pytest.raises((ConfigError, HoldfastError), match="schema"):
        PostgresStore(dsn, schema=name)


async def test_a_missing_schema_says_what_to_do(dsn: str, empty: str) -> None:
    store = PostgresStore(dsn, schema=empty)
    with pytest.raises(SchemaError, match="run `holdfast migrate up`"):
        await store.open()


async def test_a_schema_lost_while_we_work_says_what_to_do(dsn: str, admin: Connection, empty: str) -> None:
    store = PostgresStore(dsn, schema=empty)
    await store.migrator.up()
    await store.open()
    await admin.execute(f"DROP SCHEMA {empty} CASCADE")
    with pytest.raises(SchemaError, match="holdfast migrate up"):
        await store.count_jobs()
    await store.close()


async def test_a_server_that_cannot_be_reached_is_unavailable() -> None:
    migrator = PostgresStore("postgresql://nobody@127.0.0.1:9/none", deadline=5).migrator
    for ask in (migrator.plan, migrator.up):
        with pytest.raises(StoreUnavailable):
            await ask()


async def test_jobs_run_on_while_functions_are_made_anew(
    dsn: str, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rolling deploy: workers of the old release go on while the new one migrates."""
    store = PostgresStore(dsn, schema=schema)
    await store.open()
    worker = await register(store)
    original = migrations.FUNCTIONS
    ids = await insert(store, size(50, 500))
    done = 0

    async def work() -> None:
        nonlocal done
        while claimed := await store.claim_jobs(request(worker, 1)):
            await store.finish_jobs([completed(job.id, job.claim) for job in claimed])
            done += 1

    working = asyncio.create_task(work())
    while not working.done():
        monkeypatch.setattr(migrations, "FUNCTIONS", original)
        edit_functions(monkeypatch)
        await store.migrator.up()
        monkeypatch.setattr(migrations, "FUNCTIONS", original)
        await store.migrator.up()
    await working
    await store.close()
    assert done == len(ids)
