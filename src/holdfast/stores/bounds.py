"""What bounds each table: no table of a store grows for ever, and each says here why."""

from typing import NamedTuple


class Bound(NamedTuple):
    """Until when the rows of a table stay, and the column that tells how old one is."""

    stays: str
    age: str | None = None


BOUNDS = {
    "alarms": Bound("until they are taken into an escalation, within seconds; at most 3 days", "at"),
    "audit": Bound("400 days", "at"),
    "attempts": Bound("the last 100 ended claims of a live job; folded into its history row", "ended_at"),
    "bulk_runs": Bound("30 days after they have ended", "started_at"),
    "dead_letter_queues": Bound("400 days after a job was last added, and as long as the group", "last_at"),
    "dead_letters": Bound(
        "400 days after a job was last added to the group, and until no job of it is left", "last_at"
    ),
    "budget_periods": Bound("a row of each key in a period of a budget; 25 months", "starts_at"),
    "budgets": Bound("one row of each budget that is defined", "changed_at"),
    "deliveries": Bound("as long as their jobs; pending ones at most 4 days longer", "at"),
    "disabled_endpoints": Bound("until somebody enables them again", "disabled_at"),
    "drains": Bound("a day, and until no worker of the instance is entered", "asked_at"),
    "escalation_policies": Bound("one row of each policy that was ever defined", "digested_at"),
    "escalations": Bound("400 days after the last alarm", "last_at"),
    "events": Bound("10 minutes", "at"),
    "failures": Bound("until they are counted, within seconds", "at"),
    "fires": Bound("30 days", "at"),
    "gauges": Bound("one row of each lane; a day after it was last measured", "measured_at"),
    "history": Bound("the retention of the queue and outcome", "finished_at"),
    "idempotency": Bound("until the key expires: 24 hours, or what unique_for says"),
    "item_sets": Bound("with their live jobs; folded into the history row"),
    "items": Bound("10,000 of a set, with their live jobs; folded into the history row"),
    "jobs": Bound("live jobs only: until they end", "enqueued_at"),
    "kinds": Bound("one row of each kind that was ever defined", "published_at"),
    "leaders": Bound("one row: the lease of the leader"),
    "ledger": Bound("25 months", "at"),
    "limit_keys": Bound("a day after its key was last seen", "seen_at"),
    "limits": Bound("one row of each limit that is defined", "changed_at"),
    "lock_waiters": Bound("until they hold the lock or give up; 30 seconds after their process died", "since"),
    "locks": Bound("until they are released or their lease ends", "since"),
    "logs": Bound("200 lines of each of the last 5 claims of a live job; folded into its history row", "at"),
    "meta": Bound("one row, and one of each move that has not ended"),
    "notices": Bound("30 days", "created_at"),
    "passes": Bound("a month after they were revoked or expired", "created_at"),
    "overrides": Bound("one row of each setting that somebody has changed", "changed_at"),
    "phases": Bound("10,000 of a job, while it lives; folded into its history row", "started_at"),
    "policies": Bound("one row of each definition that is published", "published_at"),
    "progress": Bound("one row of a live job; folded into its history row", "updated_at"),
    "queues": Bound("one row of each queue that was defined or paused"),
    "reservations": Bound("until their claims end; lost ones until they are settled, at most 25 months", "at"),
    "retention_due": Bound("until it is told, at most 2 weeks after the job may be deleted"),
    "rollups": Bound(
        "a row per minute, queue, kind and outcome; per half hour after 2 hours, hour after 2 days, day after 90",
        "minute",
    ),
    "schedules": Bound("one row of each schedule that was ever defined", "defined_at"),
    "service_reports": Bound("one row of each service"),
    "sla_states": Bound("one row of each queue whose waits are watched", "looked_at"),
    "slots": Bound("as many rows of each key as it has slots; a day after it was last seen", "taken_at"),
    "tunings": Bound("one row of each queue and instance, while its workers are entered", "changed_at"),
    "watchers": Bound("a minute after the last renewal", "until"),
    "workers": Bound("a day after their death", "registered_at"),
}
"""By the table's name, which on SQLite has the prefix `holdfast_`."""

LEDGERS = frozenset({"schema_migrations", "schema_functions", "counters", "tags"})
"""What holds a row per step of the schema or sequence, or (tags, on SQLite) what its jobs have."""
