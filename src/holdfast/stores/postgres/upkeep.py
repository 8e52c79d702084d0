"""What keeps the store going, on PostgreSQL."""

import asyncio
import logging
from datetime import datetime
from itertools import starmap

import msgspec

from holdfast.errors import ConfigError, StoreError
from holdfast.rollup import Rollup, SeriesPoint
from holdfast.stores.bounds import BOUNDS
from holdfast.stores.diagnosis import Diagnosis, Holder, TableSize
from holdfast.stores.postgres import rows
from holdfast.stores.postgres.connection import Connection
from holdfast.stores.postgres.jobs import COUNT_CAP
from holdfast.stores.postgres.links import is_direct
from holdfast.stores.postgres.role import Role
from holdfast.stores.sql import quoted
from holdfast.stores.values import Kept, Promoted, Ready, Rescued

log = logging.getLogger("holdfast")


# With its indexes; of a table in partitions what they take together.
_BYTES = """
SELECT
    c.relname::text,
    COALESCE(
        (SELECT sum(pg_total_relation_size(p.relid)) FROM pg_partition_tree(c.oid) AS p), pg_total_relation_size(c.oid)
    )::bigint
FROM pg_class AS c
WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition
    AND c.relnamespace = (SELECT j.relnamespace FROM pg_class AS j WHERE j.oid = 'holdfast.jobs'::regclass)
"""


class PostgresUpkeep(Role):
    """The verbs of `UpkeepStore`."""

    async def promote_jobs(self, limit: int, *, named: bool = False) -> Promoted:
        (row,) = await self.fetch("promote_jobs", limit, named)
        columns = (row["ids"], row["all_queues"], row["priorities"], row["dues"], row["claims"])
        ready = tuple(starmap(Ready, zip(*columns, strict=True))) if named else ()
        return Promoted(row["jobs"], tuple(row["queues"]), row["next_due_ms"], ready, row["lag_ms"])

    async def rescue_jobs(self, limit: int, *, before: datetime | None = None) -> Rescued:
        (row,) = await self.fetch("rescue_jobs", limit, before)
        requeued, failed, cancelled = (tuple(row[column]) for column in ("requeued", "failed", "cancelled"))
        return Rescued(row["workers"], requeued, failed, cancelled, row["looked_at"])

    async def force_cancels(self, grace_ms: int, limit: int) -> tuple[int, ...]:
        return tuple(row[0] for row in await self.fetch("force_cancels", grace_ms, limit))

    async def keep_history(self, limit: int) -> Kept:
        made = await self.fetch_value("keep_partitions")
        dropped = deleted = 0
        expired = (await self.fetch("prune_history"))[:limit]
        for partition, action, is_ours in expired:
            dropped += await self._drop(partition, action) if is_ours else 0
        if not all(is_ours for _, _, is_ours in expired):
            deleted = await self.fetch_value("empty_weeks", limit)
        return Kept(made, dropped, deleted)

    async def _drop(self, partition: str, action: str) -> int:
        """Remove an expired week without ever making a finish wait; what a long reader holds up is left for later."""
        history, week = (f"{quoted(self.schema)}.{quoted(name)}" for name in ("history", partition))
        steps = {
            "detach": f"ALTER TABLE {history} DETACH PARTITION {week} CONCURRENTLY",
            "finalize": f"ALTER TABLE {history} DETACH PARTITION {week} FINALIZE",
        }

        async def run(connection: Connection) -> None:
            # A reader that holds the table up must not hold us up with it: the rest of the removal is done next time.
            async with asyncio.timeout(self.pool.deadline / 2):
                if action in steps:
                    await connection.execute(steps[action])
                await connection.execute(f"DROP TABLE {week}")

        try:
            await self.pool.call(run)
        except (StoreError, ConfigError) as error:
            log.warning("%s has expired and was not dropped, the next sweep tries again: %s", partition, error)
            return 0
        return 1

    async def prune_keys(self, limit: int) -> int:
        return int(await self.fetch_value("prune_keys", limit))

    async def diagnose(self) -> Diagnosis:
        ((version, now, history_until, longest_kept),) = await self.fetch("diagnose")
        holders = tuple(Holder(*row) for row in await self.fetch("holders"))
        is_pooled = not await self.pool.call(is_direct)
        return Diagnosis(
            "PostgreSQL", divmod(version, 10_000), now, history_until, longest_kept, holders, is_pooled=is_pooled
        )

    async def measure_tables(self) -> list[TableSize]:
        samples = [
            f"SELECT '{name}', count(*), min(at) FROM ("  # noqa: S608 - names of our own
            f"SELECT {bound.age or 'NULL::timestamptz'} AS at FROM holdfast.{name} LIMIT {COUNT_CAP}) AS sample"
            for name, bound in BOUNDS.items()
        ]
        found = {name: (count, oldest) for name, count, oldest in await self.fetch_sql(" UNION ALL ".join(samples))}
        taken = {name: size for name, size in await self.fetch_sql(_BYTES)}  # noqa: C416 - records are no pairs
        return [TableSize(name, *found[name], taken[name]) for name in BOUNDS]

    async def read_rollups(self, since: datetime, queue: str | None = None) -> list[Rollup]:
        return [
            Rollup(found, kind, rows.state(state), jobs, _histogram(wait), _histogram(run))
            for found, kind, state, jobs, wait, run in await self.fetch("read_rollups", since, queue)
        ]

    async def read_series(self, since: datetime, step_s: int) -> list[SeriesPoint]:
        return [
            SeriesPoint(at, queue, rows.state(state), jobs)
            for at, queue, state, jobs in await self.fetch("read_series", since, step_s)
        ]


def _histogram(text: str | None) -> dict[int, int]:
    return msgspec.json.decode(text, type=dict[int, int]) if text else {}
