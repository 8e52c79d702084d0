"""What bounds each table: no table of a store grows for ever, and each says here why."""

from typing import NamedTuple


class Bound(NamedTuple):
    """Until when the rows of a table stay, and the column that tells how old one is."""

    stays: str
    age: str | None = None


BOUNDS = {
    "attempts": Bound("the last 100 ended claims of a live job; folded into its history row", "ended_at"),
    "deliveries": Bound("as long as their jobs; pending ones at most 4 days longer", "at"),
    "disabled_endpoints": Bound("until somebody enables them again", "disabled_at"),
    "events": Bound("10 minutes", "at"),
    "history": Bound("the retention of the queue and outcome", "finished_at"),
    "idempotency": Bound("until the key expires: 24 hours, or what unique_for says"),
    "item_sets": Bound("with their live jobs; folded into the history row"),
    "items": Bound("10,000 of a set, with their live jobs; folded into the history row"),
    "jobs": Bound("live jobs only: until they end", "enqueued_at"),
    "logs": Bound("200 lines of each of the last 5 claims of a live job; folded into its history row", "at"),
    "meta": Bound("one row"),
    "phases": Bound("10,000 of a job, while it lives; folded into its history row", "started_at"),
    "progress": Bound("one row of a live job; folded into its history row", "updated_at"),
    "queues": Bound("one row of each queue that was defined or paused"),
    "retention_due": Bound("until it is told, at most 2 weeks after the job may be deleted"),
    "rollups": Bound("at most one row per second, queue, kind and outcome of a process; not folded yet", "minute"),
    "watchers": Bound("a minute after the last renewal", "until"),
    "workers": Bound("a day after their death", "registered_at"),
}
"""By the table's name, which on SQLite has the prefix `holdfast_`."""

LEDGERS = frozenset({"schema_migrations", "schema_functions", "counters", "tags"})
"""What holds a row per step of the schema or sequence, or (tags, on SQLite) what its jobs have."""
