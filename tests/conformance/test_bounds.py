"""No table without a bound: each is named in `stores.bounds`, and what is named there is measured."""

from holdfast.stores.bounds import BOUNDS, LEDGERS
from holdfast.stores.postgres.store import PostgresStore
from holdfast.stores.sqlite.store import SqliteStore
from tests.conformance.builders import new_job
from tests.conftest import AnyStore

IN_SCHEMA = """
SELECT relname FROM pg_class WHERE relnamespace = $1::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition
"""
IN_FILE = "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'holdfast%'"


async def test_every_table_on_postgres_has_a_bound(postgres: PostgresStore) -> None:
    found = {row[0] for row in await postgres.fetch_sql(IN_SCHEMA, postgres.schema)}
    assert found - LEDGERS - {"test_clock"} == BOUNDS.keys()


async def test_every_table_on_sqlite_has_a_bound(sqlite_file: SqliteStore) -> None:
    found = await sqlite_file.connection.read(lambda connection, _: connection.execute(IN_FILE).fetchall())
    assert {row[0].removeprefix("holdfast_") for row in found} - LEDGERS == BOUNDS.keys()


async def test_tables_are_measured(store: AnyStore) -> None:
    await store.insert_jobs([new_job(job_id) for job_id in await store.take_ids(3)])
    sizes = {size.name: size for size in await store.measure_tables()}
    assert sizes.keys() == BOUNDS.keys()
    assert (sizes["jobs"].rows, sizes["locks"].rows) == (3, 0)
    assert sizes["jobs"].oldest is not None
    if isinstance(store, PostgresStore):
        assert all(size.size is not None for size in sizes.values())
        assert (sizes["history"].size or 0) > (sizes["leaders"].size or 0) > 0  # with all its partitions
