"""Connections through a pooler: right for what they meet, without an error, and honest about what is not there."""

import asyncio
import contextlib

import asyncpg
import pytest

from holdfast import Holdfast
from holdfast.errors import ConfigError, StoreUnavailable
from holdfast.job import JobState
from holdfast.stores.postgres.links import Links
from holdfast.stores.postgres.store import PostgresStore
from holdfast.transitions import completed
from tests.pooler.bouncer import Bouncer, bounced
from tests.support.connections import connected, insert, register, request
from tests.support.sizes import size
from tests.support.wait import PATIENCE_S

CLIENTS, SERVERS = 8, 2
ROUNDS = size(25, 250)
_PREPARED = "SELECT count(*) FROM pg_prepared_statements WHERE name LIKE '\\_\\_asyncpg%'"


async def prepared(connection: "asyncpg.Connection[asyncpg.Record]") -> int:
    """Count the statements that asyncpg has prepared on the session that serves the transaction."""
    async with connection.transaction():
        await connection.fetchval("SELECT 1")
        return int(await connection.fetchval(_PREPARED))


async def test_a_direct_connection_prepares_statements(dsn: str) -> None:
    connection, is_pooled = await Links().connect(dsn)
    assert not is_pooled
    assert await prepared(connection) == 2
    await connection.close()


async def test_behind_a_pooler_that_does_not_know_of_them_none_is_prepared(dsn: str) -> None:
    links = Links()
    with bounced(dsn) as bouncer:  # one that nobody else has used
        for _ in range(2):
            connection, is_pooled = await links.connect(bouncer.dsn)
            assert is_pooled
            assert await prepared(connection) == 0
            await connection.close()


async def test_to_find_that_out_leaves_nothing_behind_on_the_server(dsn: str) -> None:
    with bounced(dsn, pool=1) as bouncer:
        connection, _ = await Links().connect(bouncer.dsn)
        assert await connection.fetchval("SELECT count(*) FROM pg_prepared_statements WHERE name <> ''") == 0
        await connection.close()


async def test_clients_share_fewer_sessions_without_an_error(dsn: str, schema: str) -> None:
    with bounced(dsn, pool=SERVERS) as bouncer:

        async def client() -> int:
            store = PostgresStore(bouncer.dsn, schema=schema, pool_size=1)
            await store.open()
            worker, ended = await register(store), 0
            for _ in range(ROUNDS):
                await insert(store, 2)
                jobs = await store.claim_jobs(request(worker, 2))
                await store.finish_jobs([completed(job.id, job.claim, "null") for job in jobs])
                ended += len(jobs)
            await store.close()
            return ended

        ended = await asyncio.gather(*(client() for _ in range(CLIENTS)))
        assert sum(ended) == CLIENTS * ROUNDS * 2


async def test_what_lies_between_may_change(dsn: str, schema: str, bouncer: Bouncer) -> None:
    store = PostgresStore(dsn, schema=schema, pool_size=4)
    await store.open()
    for address in (bouncer.dsn, dsn, bouncer.dsn):
        store.pool.dsn = address
        for _, connection in store.pool._idle:  # so that new ones are made
            await connection.close()
        for _ in range(10):
            await asyncio.gather(*(insert(store, 1) for _ in range(8)))
    await store.close()


async def test_settings_of_a_session_in_the_address_are_refused_with_a_reason(bouncer: Bouncer, schema: str) -> None:
    store = PostgresStore(f"{bouncer.dsn}&search_path={schema}", schema=schema)
    with pytest.raises(ConfigError, match="ignore_startup_parameters"):
        await store.open()
    with pytest.raises(ConfigError, match="ignore_startup_parameters"):
        await store.migrator.plan()


async def test_a_server_that_is_away_behind_its_pooler_is_unavailable(schema: str) -> None:
    with bounced("postgresql://postgres@/postgres?host=/nowhere", is_ready=False) as bouncer:
        store = PostgresStore(bouncer.dsn, schema=schema, deadline=5)

        async def is_refused() -> None:
            with pytest.raises(StoreUnavailable, match="cannot connect"):
                await store.open()

        await is_refused()
        await is_refused()


async def test_the_schema_is_made_through_it(bouncer: Bouncer) -> None:
    store = PostgresStore(bouncer.dsn, schema="hf_through")
    try:
        await store.migrator.up()
        assert (await store.migrator.plan()).is_empty
        await store.open()
        await store.close()
    finally:
        async with connected(bouncer.dsn) as admin:
            await admin.execute("DROP SCHEMA IF EXISTS hf_through CASCADE")


async def test_leases_have_their_own_connection_through_it(pooled: PostgresStore) -> None:
    worker = await register(pooled)
    async with pooled.reserve() as leases:
        for _ in range(5):
            assert (await leases.renew_workers([worker], 60_000)).alive == {worker}


async def test_a_transaction_is_one_through_it(pooled: PostgresStore, dsn: str) -> None:
    await insert(pooled, 20)
    jobs = await pooled.claim_jobs(request(await register(pooled), 20))

    async def end(number: int) -> None:
        job = jobs[number]
        with contextlib.suppress(ZeroDivisionError):
            async with pooled.transaction(1) as transaction:
                connection = transaction.connection
                pids = {await connection.fetchval("SELECT pg_backend_pid()") for _ in range(3)}
                assert len(pids) == 1
                await connection.execute("SET LOCAL statement_timeout = '7s'")
                await transaction.finish(completed(job.id, job.claim, "null"))
                assert number % 4 or 1 / 0

    await asyncio.gather(*(end(number) for number in range(20)))
    states = [job.state for job in await pooled.get_jobs([job.id for job in jobs])]
    assert states.count(JobState.COMPLETED) == 15
    async with connected(dsn) as admin:
        assert await admin.fetchval("SHOW statement_timeout") == "0"


async def test_an_app_works_through_it(bouncer: Bouncer, schema: str) -> None:
    app = Holdfast(bouncer.dsn, schema=schema)

    @app.task
    async def double(number: int) -> int:
        return 2 * number

    async with app:
        handles = [await double.enqueue(number) for number in range(20)]
        await app.run_worker(concurrency=4, until="empty")
        assert [await handle.result(timeout=PATIENCE_S) for handle in handles] == [2 * number for number in range(20)]
