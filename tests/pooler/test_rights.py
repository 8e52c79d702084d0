"""A role that owns nothing: it enqueues, works, and keeps history, and can change no table."""

import json
import logging
import uuid
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from urllib.parse import urlsplit

import asyncpg
import pytest

from holdfast import Context, Holdfast, Queue
from holdfast.errors import ConfigError
from holdfast.stores.postgres.store import PostgresStore
from holdfast.stores.sql import quoted
from holdfast.transitions import completed
from tests.support.connections import connected, insert, register, request
from tests.support.wait import PATIENCE_S
from tests.support.web import PAGE, bearing, filled, made_token, routes_of, visit


class Rights(NamedTuple):
    """A schema, and the addresses of its owner and of a role that only works with it."""

    schema: str
    owner: str
    worker: str
    role: str


def as_role(dsn: str, role: str) -> str:
    """Address the same database as somebody else."""
    parts = urlsplit(dsn)
    host = parts.netloc.rpartition("@")[2]
    return parts._replace(netloc=f"{role}@{host}").geturl()


@pytest.fixture
async def rights(dsn: str) -> AsyncIterator[Rights]:
    """Give a schema that a plain role owns, and another role with what `migrate grants` gives."""
    name = uuid.uuid4().hex[:12]
    schema, owner, role = f"hf_{name}", f"hf_owner_{name}", f"hf_role_{name}"
    async with connected(dsn) as admin:
        await admin.execute(f"CREATE ROLE {owner} LOGIN; CREATE ROLE {role} LOGIN")
        await admin.execute(f"CREATE SCHEMA {schema} AUTHORIZATION {owner}")
        migrator = PostgresStore(as_role(dsn, owner), schema=schema).migrator
        await migrator.up()
        await migrator.grants(role, apply=True)
        yield Rights(schema, as_role(dsn, owner), as_role(dsn, role), role)
        await admin.execute(f"DROP SCHEMA {schema} CASCADE")
        for each in (role, owner):
            await admin.execute(f"DROP OWNED BY {each}; DROP ROLE {each}")


@pytest.fixture
async def owned(rights: Rights) -> AsyncIterator[PostgresStore]:
    """Give the store as its owner has it."""
    store = PostgresStore(rights.owner, schema=rights.schema)
    await store.open()
    yield store
    await store.close()


@pytest.fixture
async def worked(rights: Rights) -> AsyncIterator[PostgresStore]:
    """Give the store as a worker has it."""
    store = PostgresStore(rights.worker, schema=rights.schema)
    await store.open()
    yield store
    await store.close()


async def test_it_enqueues_works_and_serves(rights: Rights) -> None:
    queue = Queue("default", retention="90d", tell_retention=True)
    app = Holdfast(rights.worker, schema=rights.schema, queues=[queue])

    @app.task
    async def work(ctx: Context, number: int) -> int:
        ctx.progress(50, "half")
        async with ctx.transaction() as tx:
            tx.result = 2 * number
        return 0

    async with app, app.events(types=["job:enqueued"]) as events:
        handles = [await work.using(key=f"k{number}", unique=f"u{number}").enqueue(number) for number in range(5)]
        assert (await anext(events)).id == handles[0].id
        await app.run_worker(until="empty")
        assert [await handle.result(timeout=PATIENCE_S) for handle in handles] == [0, 2, 4, 6, 8]
        assert await app.prune() == 0
    await serves(rights)


async def serves(rights: Rights) -> None:
    """Ask a server for every page and list, and let it do something of every sort that people do (H18)."""
    app = Holdfast(rights.worker, schema=rights.schema, queues=[Queue("default")])

    @app.task(max_attempts=1)
    async def fail(number: int = 0) -> None:
        raise ValueError(number)

    async with app, visit(app) as web:
        web.headers |= bearing(await made_token(app))
        failed = await fail.enqueue()
        await app.run_worker(until="empty")
        waiting = await fail.using(delay="1h").enqueue()
        (group,) = (await app.dead_letters.list()).groups
        known = {"id": failed.id, "job": failed.id, "group": group.id, "kind": "fail"}
        known |= {"queue": "default", "name": "default"}
        for method, path, body in (
            ("POST", "queues/default/pause", None),
            ("POST", "queues/default/resume", None),
            ("PUT", "queues/default/settings/workers", {"value": 3}),
            ("POST", "jobs", {"kind": "fail"}),
            ("POST", f"jobs/{waiting.id}/reprioritise", {"priority": 1}),
            ("POST", f"jobs/{waiting.id}/cancel", None),
            ("POST", f"jobs/{failed.id}/retry", None),
            ("POST", "schedules", {"name": "default", "kind": "fail", "cron": "0 3 * * *"}),
            ("POST", "schedules/default/run", None),
            ("POST", "bulk", {"verb": "cancel", "q": "state:queued"}),
            ("POST", "tokens", {"name": "other"}),
            ("DELETE", "schedules/default", None),
        ):
            answer = await web.request(method, f"/api/v1/{path}", json=body)
            assert answer.status_code < 300, (path, answer.text)
        for route in routes_of(app):
            if route.method == "GET" and not route.is_stream:
                answer = await web.get(filled(route.path, **known), headers=PAGE)
                assert answer.status_code < 500, (route, answer.text)


async def finish_one(store: PostgresStore) -> int:
    """Let a job end."""
    await insert(store, 1)
    (job,) = await store.claim_jobs(request(await register(store)))
    await store.finish_jobs([completed(job.id, job.claim, "null")])
    return job.id


async def test_it_makes_weeks_and_deletes_rows_where_it_cannot_drop_weeks(
    owned: PostgresStore, worked: PostgresStore, caplog: pytest.LogCaptureFixture
) -> None:
    now = datetime.now(UTC)
    await owned.set_time(now)
    old = [await finish_one(worked) for _ in range(5)]
    later = now + timedelta(weeks=3)
    await owned.set_time(later)
    kept = await finish_one(worked)
    with caplog.at_level(logging.WARNING, "holdfast"):
        first = await worked.keep_history(3)
        assert (first.made > 0, first.dropped, first.deleted) == (True, 0, 3)
        again = await worked.keep_history(100)
        assert (again.made, again.dropped, again.deleted) == (0, 0, 2)
        assert (await worked.keep_history(100)).deleted == 0
    assert caplog.messages == []
    ((ids,),) = await owned.fetch_sql("SELECT array_agg(id) FROM holdfast.history")
    assert ids == [kept]
    assert not set(ids) & set(old)
    until = (await worked.diagnose()).history_until
    assert until is not None
    assert until > later + timedelta(weeks=4)
    assert (await owned.keep_history(100)).dropped >= 1, "the owner drops the empty weeks"


async def test_what_has_still_to_be_told_keeps_its_row(owned: PostgresStore, worked: PostgresStore) -> None:
    now = datetime.now(UTC)
    await owned.set_time(now)
    told, quiet = await finish_one(worked), await finish_one(worked)
    ((delete_at,),) = await owned.fetch_sql(f"SELECT delete_at FROM holdfast.history WHERE id = {told}")
    await owned.fetch_sql(
        "INSERT INTO holdfast.retention_due (job_id, life, queue, what, at, delete_at) "
        "SELECT id, life, queue, 'delete', delete_at, delete_at FROM holdfast.history WHERE id = $1",
        told,
    )
    await owned.set_time(delete_at + timedelta(days=8))
    assert (await worked.keep_history(100)).deleted == 1
    assert [tuple(row) for row in await owned.fetch_sql("SELECT id FROM holdfast.history")] == [(told,)]
    assert quiet != told
    await owned.set_time(delete_at + timedelta(days=15))
    assert (await worked.keep_history(100)).deleted == 1


async def test_it_cannot_change_tables(rights: Rights) -> None:
    place = quoted(rights.schema)
    async with connected(rights.worker) as connection:
        for statement in (
            f"CREATE TABLE {place}.mine ()",
            f"DROP TABLE {place}.jobs",
            f"ALTER TABLE {place}.jobs ADD COLUMN mine integer",
            f"TRUNCATE {place}.jobs",
            f"UPDATE {place}.schema_migrations SET name = ''",
            f"DELETE FROM {place}.schema_functions",
        ):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await connection.execute(statement)
        found = await connection.fetch(
            "SELECT p.proname, p.proconfig FROM pg_proc AS p INNER JOIN pg_namespace AS n ON n.oid = p.pronamespace"
            " WHERE n.nspname = $1 AND p.prosecdef",
            rights.schema,
        )
        assert {row["proname"] for row in found} == {
            *("keep_partitions", "make_weeks", "enqueue_v1", "prune_access"),
        }, "with the rights of the owner"
        assert all("search_path=pg_catalog, pg_temp" in row["proconfig"] for row in found)


@pytest.fixture
async def limited(rights: Rights) -> Rights:
    """Give the rights of a role that was granted what a worker needs."""
    await PostgresStore(rights.owner, schema=rights.schema).migrator.grants(rights.role, purpose="work", apply=True)
    return rights


@pytest.fixture
async def enqueuer(dsn: str, rights: Rights) -> AsyncIterator[str]:
    """Give the address of a role that was granted `enqueue_v1` and nothing else."""
    role = rights.role.replace("hf_role", "hf_enqueuer")
    async with connected(dsn) as admin:
        await admin.execute(f"CREATE ROLE {role} LOGIN")
        await PostgresStore(rights.owner, schema=rights.schema).migrator.grants(role, purpose="enqueue", apply=True)
        yield as_role(dsn, role)
        await admin.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")


async def test_a_role_that_only_works_can_work_and_keep_the_store(limited: Rights) -> None:
    app = Holdfast(limited.worker, schema=limited.schema, queues=[Queue("default", retention="90d")])

    @app.task
    async def work(ctx: Context, number: int) -> int:
        async with ctx.transaction() as tx:
            tx.result = 2 * number
        return 0

    async with app:
        handles = [await work.using(key=f"k{number}", tags={"a": "b"}).enqueue(number) for number in range(3)]
        await app.run_worker(until="empty")
        assert [await handle.result(timeout=PATIENCE_S) for handle in handles] == [0, 2, 4]
        assert await app.prune() == 0
        async with connected(limited.owner) as owner:
            await owner.execute(
                f"INSERT INTO {quoted(limited.schema)}.audit (at, actor, role, action, target, status, detail, request)"
                " VALUES (now() - interval '401 days', 'a', 'admin', 'x', '/', 200, '{}', 'r')"
            )
        assert await app.store.prune_access(100) == 1
        with pytest.raises(ConfigError, match="refuses access"):
            await made_token(app)


async def test_a_role_that_only_works_can_neither_forge_tokens_nor_rewrite_the_audit(limited: Rights) -> None:
    place = quoted(limited.schema)
    async with connected(limited.worker) as connection:
        for statement in (
            f"INSERT INTO {place}.passes (kind) VALUES ('token')",
            f"UPDATE {place}.passes SET role = 'admin'",
            f"DELETE FROM {place}.passes",
            f"INSERT INTO {place}.audit (actor) VALUES ('somebody')",
            f"UPDATE {place}.audit SET actor = 'somebody else'",
            f"DELETE FROM {place}.audit",
            f"TRUNCATE {place}.audit",
            f"ALTER TABLE {place}.audit DISABLE TRIGGER ALL",
        ):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await connection.execute(statement)


async def test_a_role_that_only_enqueues_can_do_that(rights: Rights, owned: PostgresStore, enqueuer: str) -> None:
    call = f"SELECT * FROM {quoted(rights.schema)}.enqueue_v1($1::text::jsonb)"
    jobs = [
        {"kind": "a", "args": {"n": 1}, "tags": {"t": "v"}},
        {"kind": "a", "unique": "u", "unique_for_ms": 5_000, "key": "k"},
        {"kind": "a", "run_at": "2030-01-01T00:00:00Z", "extra": {"estimate": 5}},
    ]
    async with connected(enqueuer) as connection:
        ids = [row["id"] for row in await connection.fetch(call, json.dumps(jobs))]
        (again,) = await connection.fetch(call, json.dumps(jobs[1:2]))
    assert (again["id"], again["existing"]) == (ids[1], True)
    assert {job.id for job in await owned.get_jobs(ids)} == set(ids)
    # An upgrade that brings another text of the function keeps the right.
    await owned.fetch_sql("UPDATE holdfast.schema_functions SET checksum = '' WHERE name = 'enqueue_v1'")
    await owned.migrator.up()
    async with connected(enqueuer) as connection:
        assert len(await connection.fetch(call, json.dumps(jobs[:1]))) == 1


async def test_a_role_that_only_enqueues_can_do_nothing_else(
    rights: Rights, owned: PostgresStore, enqueuer: str
) -> None:
    place = quoted(rights.schema)
    found = await owned.fetch_sql(
        f"SELECT relname FROM pg_class WHERE relnamespace = '{place}'::regnamespace AND relkind IN ('r', 'p', 'v')"
    )
    assert len(found) > 40
    async with connected(enqueuer) as connection:
        for (table,) in found:
            statements = [f"SELECT FROM {place}.{table}", f"DELETE FROM {place}.{table}"]
            for statement in statements[: 1 if table.endswith("_jobs") else 2]:  # nothing can be deleted from a view
                with pytest.raises(asyncpg.InsufficientPrivilegeError):
                    await connection.execute(statement)
        for call in (
            'enqueue_jobs(\'[{"kind": "a"}]\', true)',
            "cancel_jobs('{1}', NULL)",
            "delete_jobs('{1}')",
            "rescue_jobs(1)",
            "prune_access(1)",
            "take_ids(1)",
        ):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await connection.execute(f"SELECT * FROM {place}.{call}")


async def test_a_role_that_only_reads_cannot_enqueue(dsn: str, rights: Rights) -> None:
    role, place = rights.role.replace("hf_role", "hf_reader"), quoted(rights.schema)
    async with connected(dsn) as admin:
        await admin.execute(f"CREATE ROLE {role} LOGIN")
        await admin.execute(f"GRANT USAGE ON SCHEMA {place} TO {role}; GRANT SELECT ON {place}.all_jobs TO {role}")
        async with connected(as_role(dsn, role)) as connection:
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await connection.execute(f"""SELECT * FROM {place}.enqueue_v1('[{{"kind": "a"}}]')""")
        await admin.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")


async def test_what_the_owner_makes_later_can_be_used(rights: Rights) -> None:
    place = quoted(rights.schema)
    async with connected(rights.owner) as owner, connected(rights.worker) as worker:
        await owner.execute(f"CREATE TABLE {place}.later (id bigserial)")
        await worker.execute(f"INSERT INTO {place}.later DEFAULT VALUES")
        assert await worker.fetchval(f"SELECT count(*) FROM {place}.later") == 1


async def test_a_role_that_does_not_exist_is_said_so(rights: Rights) -> None:
    migrator = PostgresStore(rights.owner, schema=rights.schema).migrator
    with pytest.raises(ConfigError, match='CREATE ROLE "nobody here" LOGIN'):
        await migrator.grants("nobody here")
