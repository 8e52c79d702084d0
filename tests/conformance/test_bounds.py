"""No table without a bound: each is named in `stores.bounds`, and what is named there is measured."""

import pytest

from holdfast.stores.bounds import BOUNDS, LEDGERS
from holdfast.stores.postgres.store import PostgresStore
from holdfast.stores.sqlite import statements
from holdfast.stores.sqlite.store import SqliteStore
from tests.conftest import AnyStore
from tests.support import raw
from tests.support.builders import new_job

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
    assert (sizes["jobs"].rows, sizes["events"].rows) == (3, 0)
    assert sizes["jobs"].oldest is not None
    assert all(size.size is not None for size in sizes.values())
    assert (sizes["history"].size or 0) > (sizes["leaders"].size or 0) > 0  # with its indexes, and all its partitions


async def test_a_file_tells_how_much_of_it_is_free(sqlite_file: SqliteStore) -> None:
    before = await sqlite_file.diagnose()
    sizes = [size.size or 0 for size in await sqlite_file.measure_tables()]
    assert sum(sizes) <= (before.size or 0), "beside them there are the ledgers"
    job_ids = await sqlite_file.take_ids(200)
    await sqlite_file.insert_jobs([new_job(job_id, payload=f'{{"text": "{"x" * 4_000}"}}') for job_id in job_ids])
    full = await sqlite_file.diagnose()
    assert (full.size or 0) > (before.size or 0) + 800_000
    await raw.execute(sqlite_file, "DELETE FROM holdfast.jobs")
    assert ((await sqlite_file.diagnose()).free or 0) > (full.free or 0) + 800_000


@pytest.mark.parametrize("why", ["large", "unable"])
async def test_a_large_file_and_one_that_nobody_can_measure_are_not_read_for_it(
    sqlite_file: SqliteStore, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    pages, is_able = (4_097, 1) if why == "large" else (4_096, 0)
    told = (f"SELECT {pages}, 0, 4096, {is_able};",)
    monkeypatch.setitem(statements.QUERIES, "file_pages", told)
    monkeypatch.setitem(statements.QUERIES, "table_bytes", ("SELECT * FROM nothing_that_is_there;",))
    sizes = await sqlite_file.measure_tables()
    assert {size.size for size in sizes} == {None}
    assert {size.name for size in sizes} == BOUNDS.keys()
    found = await sqlite_file.diagnose()
    assert (found.size, found.free) == (pages * 4_096, 0)
