"""What keeps the store going, on SQLite."""

import sqlite3
from dataclasses import dataclass, field
from datetime import datetime

import msgspec

from holdfast import failure
from holdfast import transitions as ends
from holdfast.rollup import Rollup, SeriesPoint
from holdfast.stores.bounds import BOUNDS
from holdfast.stores.diagnosis import Diagnosis, TableSize
from holdfast.stores.sqlite import endings, inserting, limits, rows, statements
from holdfast.stores.sqlite.connection import Connection
from holdfast.stores.sqlite.endings import Ending, Held
from holdfast.stores.sqlite.jobs import COUNT_CAP
from holdfast.stores.values import Kept, Promoted, Ready, Rescued
from holdfast.transitions import Transition

_MOST_PAGES = 4_096  # are read to measure tables, in about 20 ms: 16 MB, as pages usually are
_PAGES_GIVEN_BACK = 100  # by one call: each has to be moved to the end of the file first
_LEASE_ENDED = failure.from_text("WorkerLost", "its worker's lease ended")
_HISTOGRAM = msgspec.json.Decoder(dict[int, int])


@dataclass
class _Merged:
    jobs: int = 0
    wait: dict[int, int] = field(default_factory=dict)
    run: dict[int, int] = field(default_factory=dict)


class SqliteUpkeep:
    """The verbs of `UpkeepStore`."""

    connection: Connection

    async def promote_jobs(self, limit: int, *, named: bool = False) -> Promoted:
        return await self.connection.write(lambda connection, now: _promote(connection, now, limit, named=named))

    async def rescue_jobs(self, limit: int, *, before: datetime | None = None) -> Rescued:
        return await self.connection.write(lambda connection, now: _rescue(connection, now, limit, before))

    async def force_cancels(self, grace_ms: int, limit: int) -> tuple[int, ...]:
        def operation(connection: sqlite3.Connection, now: int) -> tuple[int, ...]:
            found = statements.fetch(connection, "force_cancels", now=now, grace_ms=grace_ms, limit=limit)
            return tuple(endings.cancel(connection, now, [Ending(job_id, endings.FORCED) for (job_id,) in found]))

        return await self.connection.write(operation)

    async def keep_history(self, limit: int) -> Kept:
        def operation(connection: sqlite3.Connection, now: int) -> Kept:
            deleted = statements.change(connection, "prune_history", now=now, limit=limit)
            _shrink(connection)
            return Kept(0, 0, deleted)

        return await self.connection.write(operation)

    async def prune_keys(self, limit: int) -> int:
        def operation(connection: sqlite3.Connection, now: int) -> int:
            keys = statements.change(connection, "prune_keys", now=now, limit=limit)
            workers = statements.change(connection, "prune_workers", now=now)
            return keys + workers + statements.change(connection, "prune_drains", now=now)

        return await self.connection.write(operation)

    async def diagnose(self) -> Diagnosis:
        def operation(connection: sqlite3.Connection, now: int) -> Diagnosis:
            version = str(statements.fetch_value(connection, "diagnose"))
            ((pages, free, each, _),) = statements.fetch(connection, "file_pages")
            return Diagnosis(
                "SQLite",
                tuple(map(int, version.split("."))),
                rows.moment(now),
                None,
                size=pages * each,
                free=free * each,
            )

        return await self.connection.read(operation)

    async def measure_tables(self) -> list[TableSize]:
        def operation(connection: sqlite3.Connection, _: int) -> list[TableSize]:
            taken = _bytes(connection)
            return [_size(connection, name, taken.get(f"holdfast_{name}")) for name in BOUNDS]

        return await self.connection.read(operation)

    async def read_rollups(self, since: datetime, queue: str | None = None) -> list[Rollup]:
        found = await self.connection.read(
            lambda connection, _: statements.fetch(
                connection, "read_rollups", since=rows.milliseconds(since), queue=queue
            )
        )
        merged: dict[tuple[str, str, str], _Merged] = {}
        for name, kind, state, jobs, wait, run in found:
            total = merged.setdefault((name, kind, state), _Merged())
            total.jobs += jobs
            _add(total.wait, wait)
            _add(total.run, run)
        return [
            Rollup(name, kind, rows.state(state), total.jobs, total.wait, total.run)
            for (name, kind, state), total in merged.items()
        ]

    async def read_series(self, since: datetime, step_s: int) -> list[SeriesPoint]:
        found = await self.connection.read(
            lambda connection, _: statements.fetch(
                connection, "read_series", since=rows.milliseconds(since), step=step_s * 1_000
            )
        )
        return [SeriesPoint(rows.moment(at), queue, rows.state(state), jobs) for at, queue, state, jobs in found]


def _bytes(connection: sqlite3.Connection) -> dict[str, int]:
    """Measure what each table takes, if the library can and the file is small: every page of it is read for that."""
    ((pages, _, _, is_able),) = statements.fetch(connection, "file_pages")
    return dict(statements.fetch(connection, "table_bytes")) if is_able and pages <= _MOST_PAGES else {}


def _size(connection: sqlite3.Connection, name: str, taken: int | None) -> TableSize:
    age = BOUNDS[name].age or "NULL"
    sample = f"SELECT {age} AS at FROM holdfast_{name} LIMIT {COUNT_CAP}"  # noqa: S608 - names of our own
    ((count, oldest),) = connection.execute(f"SELECT count(*), min(at) FROM ({sample})").fetchall()  # noqa: S608 - likewise
    return TableSize(name, count, rows.optional_moment(oldest), taken)


def _promote(connection: sqlite3.Connection, now: int, limit: int, *, named: bool) -> Promoted:
    due = [Ready(*row) for row in statements.fetch(connection, "due_jobs", now=now, limit=limit)]
    positions = inserting.draw_positions(connection, len(due))
    promoted = [{"id": job.id, "position": position} for job, position in zip(due, positions, strict=True)]
    statements.change_many(connection, "promote_jobs", promoted)
    released, released_queues = limits.promote(connection, now)
    queues = tuple(sorted({job.queue for job in due} | released_queues))
    next_times = [statements.fetch_value(connection, query, now=now) for query in ("next_due", "next_wake")]
    next_due_ms = min((ms for ms in next_times if ms is not None), default=None)
    lag_ms = max((now - job.due_ms for job in due), default=0)
    return Promoted(len(due) + released, queues, next_due_ms, tuple(due) if named else (), lag_ms)


def _rescue(connection: sqlite3.Connection, now: int, limit: int, before: datetime | None) -> Rescued:
    # guard: rescue-before, without: latest = now
    latest = now if before is None else min(now, rows.milliseconds(before))
    workers = statements.change(connection, "rescue_jobs", now=now, before=latest)
    lost = [Held(*row) for row in statements.fetch(connection, "lost_jobs", limit=limit)]
    rescued = endings.rescue(connection, now, workers, [(held, _lost(held)) for held in lost])
    return msgspec.structs.replace(rescued, looked_at=rows.moment(now))


def _lost(held: Held) -> Transition:
    """Charge a claim whose lease has ended, unless it is known that it had not begun.

    A worker has the start of a job stored before it begins if one more crash may end it for good, or if it crashed
    before. All others count as begun.
    """
    is_recorded = held.crashes > 0 or held.max_crashes == 1
    if is_recorded and not held.is_started:  # guard: unbegun-claim
        return ends.interrupted(held.id, held.claim)
    return ends.crashed(held.id, held.claim, _LEASE_ENDED)


def _shrink(connection: sqlite3.Connection) -> None:
    """Give some free pages back to the disk."""
    free: int = statements.fetch_value(connection, "free_pages")
    for _ in range(min(free, _PAGES_GIVEN_BACK)):
        statements.change(connection, "shrink_file")


def _add(counts: dict[int, int], text: str) -> None:
    """Add a histogram to what was counted: by hand, for a page waits for thousands of them."""
    for bucket, jobs in _HISTOGRAM.decode(text).items():
        counts[bucket] = counts.get(bucket, 0) + jobs
