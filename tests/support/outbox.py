"""The tables beside jobs that only some tests know of, emptied for the next one."""

from holdfast.stores.postgres.store import PostgresStore
from holdfast.stores.store import Store
from tests.support import raw

TABLES = ("deliveries", "disabled_endpoints", "retention_due", "watchers", "events")


async def forget(store: Store) -> None:
    """Leave nothing to post, to tell and to hear."""
    if isinstance(store, PostgresStore):
        # One commit: parts of a WITH are all carried out.
        parts = [f"gone_{table} AS (DELETE FROM holdfast.{table})" for table in TABLES]
        await store.fetch_sql(f"WITH {', '.join(parts)} SELECT")
        return
    for table in TABLES:
        await raw.execute(store, f"DELETE FROM holdfast.{table}")
