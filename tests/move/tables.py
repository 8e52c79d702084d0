"""Which tables a move takes, and why it leaves the others: read beside the catalogue, not taken from the code."""

from holdfast.moving.sides import Side
from holdfast.stores.moving import Table
from holdfast.stores.postgres.store import PostgresStore
from holdfast.stores.sqlite.store import SqliteStore

MOVED = (
    Table("jobs", ("id",)),
    Table("attempts", ("job_id", "claim")),
    Table("progress", ("job_id",)),
    Table("phases", ("job_id", "name")),
    Table("item_sets", ("job_id", "name")),
    Table("items", ("job_id", "set_name", "key")),
    Table("logs", ("job_id", "claim", "line")),
    Table("history", ("id",)),
    Table("queues", ("name",)),
    Table("overrides", ("path",)),
    Table("disabled_endpoints", ("endpoint",)),
    Table("schedules", ("name",)),
    Table("fires", ("schedule", "nominal")),
    Table("budget_periods", ("budget", "key", "starts_at")),
    Table("reservations", ("job_id", "claim")),
    Table("ledger", ("job_id", "claim", "n")),
    Table("idempotency", ("scope", "key")),
    Table("passes", ("id",), "kind = 'token'"),  # people log in again
    Table("dead_letters", ("id",)),
    Table("dead_letter_queues", ("queue", "id")),
    Table("deliveries", ("job_id", "life", "event")),
    Table("retention_due", ("job_id", "what")),
    Table("rollups", ()),
    Table("audit", ("id",)),
    Table("escalation_policies", ("name",)),
    Table("escalations", ("id",)),
    Table("notices", ("id",)),
    Table("alarms", ()),
    Table("bulk_runs", ("id",)),
)
"""Everything that a move with history takes, in the order of its key."""

LEFT = {
    **dict.fromkeys(
        ("budgets", "kinds", "limits", "policies"), "each program writes its definitions when it starts on the target"
    ),
    **dict.fromkeys(
        ("drains", "events", "gauges", "leaders", "lock_waiters", "locks", "service_reports", "sla_states", "tunings"),
        "it belongs to the programs that run",
    ),
    **dict.fromkeys(("watchers", "workers"), "they are programs that run"),
    "failures": "the move counts the last of them into the dead letters before it copies those",
    "limit_keys": "rates and throttles are counted from the start of the target",
    "slots": "only a running job holds one, and no job is moved while it runs",
    "counters": "the numbers that a store hands out next are its own",
    "tags": "an index that SQLite keeps of the jobs' own tags",
    **dict.fromkeys(("meta", "schema_functions", "schema_migrations"), "what a store is, not what it holds"),
}
"""Why a move leaves a table."""

_SQLITE = "SELECT substr(name, 10) FROM sqlite_master WHERE type = 'table' AND name LIKE 'holdfast\\_%' ESCAPE '\\'"
_POSTGRES = """
SELECT relname::text FROM pg_class
WHERE relnamespace = $1::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition
"""


async def catalogue(store: Side) -> set[str]:
    """Read the names of all tables of a store."""
    if isinstance(store, PostgresStore):
        rows = await store.pool.fetch(_POSTGRES, store.schema)
        return {row[0] for row in rows}
    assert isinstance(store, SqliteStore)
    found = await store.connection.read(lambda database, _: database.execute(_SQLITE).fetchall())
    return {name for (name,) in found}
