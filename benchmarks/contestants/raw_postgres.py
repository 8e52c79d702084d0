"""The raw loop on PostgreSQL: what the database and its driver can do, with nothing of a job system around it."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import ClassVar

import asyncpg

from benchmarks.contestants.contestant import COROUTINES, LEDGER, URL, Contestant, main
from benchmarks.contestants.ledger import Ledger

BATCH = 500
POOL = 32
_LOOP = "work"  # the argument with which this module is the worker
_EMPTY_S = 0.005

_TABLES = """
DROP TABLE IF EXISTS raw_jobs, raw_history;
CREATE TABLE raw_jobs (id bigint PRIMARY KEY, payload jsonb NOT NULL, claim integer NOT NULL DEFAULT 0);
CREATE TABLE raw_history (id bigint NOT NULL, payload jsonb NOT NULL, claim integer NOT NULL);
"""
_INSERT = "INSERT INTO raw_jobs (id, payload) VALUES ($1, $2)"
_INSERT_MANY = "INSERT INTO raw_jobs (id, payload) SELECT * FROM unnest($1::bigint[], $2::jsonb[])"
_CLAIM = """
WITH chosen AS MATERIALIZED (
    SELECT id FROM raw_jobs WHERE claim = 0 ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED
)
UPDATE raw_jobs SET claim = claim + 1 WHERE id = ANY (ARRAY(SELECT id FROM chosen)) RETURNING id, claim, payload
"""
# The fence: a job whose claim number is no longer the one that was given out is left alone.
_FINISH = """
WITH ended AS (
    DELETE FROM raw_jobs AS job USING unnest($1::bigint[], $2::integer[]) AS claimed (id, claim)
    WHERE job.id = claimed.id AND job.claim = claimed.claim
    RETURNING job.id, job.payload, job.claim
)
INSERT INTO raw_history (id, payload, claim) SELECT id, payload, claim FROM ended
"""


class RawOnPostgres(Contestant):
    """asyncpg and two statements."""

    name = "raw"
    store = "postgres"
    packages = ("asyncpg",)
    settings: ClassVar[Mapping[str, object]] = {
        "worker": f"claim {BATCH} (SKIP LOCKED), then a fenced move to a history table; no task, no index but the key",
        "enqueue": "single-row INSERT (bigint key, jsonb), prepared, autocommit; one by one on one connection",
        "pool": f"{POOL} connections for {COROUTINES} coroutines",
        "bulk": "one INSERT from unnest",
    }

    async def prepare(self) -> None:
        """Make the tables anew."""
        connection = await asyncpg.connect(self.url)
        await connection.execute(_TABLES)
        await connection.close()

    async def open(self) -> None:
        """Connect."""
        # Nothing is set on a session, so a connection that is given back needs no round trip to reset it.
        self._pool = await asyncpg.create_pool(self.url, min_size=1, max_size=POOL, reset=_leave)
        self._single = await asyncpg.connect(self.url)
        self._insert = await self._single.prepare(_INSERT)
        self._is_alone: bool | None = None

    async def close(self) -> None:
        """Disconnect."""
        await self._single.close()
        await self._pool.close()

    async def enqueue(self, number: int) -> None:
        """Insert one row in a commit of its own: prepared, on one connection, or through the pool by many callers."""
        if self._is_alone is None:  # asked once, as it takes time; all who enqueue have started by the first call
            self._is_alone = len(asyncio.all_tasks()) == 1
        if self._is_alone:
            await self._insert.fetch(number, _payload(number))
        else:
            await self._pool.fetch(_INSERT, number, _payload(number))

    async def enqueue_bulk(self, numbers: Sequence[int]) -> None:
        """Insert all rows by one statement."""
        await self._pool.fetch(_INSERT_MANY, numbers, list(map(_payload, numbers)))

    def worker_commands(self, processes: int) -> list[list[str]]:
        """Run this module itself."""
        return [[sys.executable, "-m", "benchmarks.contestants.raw_postgres", _LOOP] for _ in range(processes)]

    async def open_jobs(self) -> int:
        """Count what was not moved."""
        return int(await self._pool.fetchval("SELECT count(*) FROM raw_jobs"))


async def _leave(connection: object) -> None:
    """Give a connection back as it is."""


def _payload(number: int) -> str:
    return json.dumps({"number": number})


async def _work(url: str, ledger: Ledger) -> None:
    connection = await asyncpg.connect(url)
    claim, finish = await connection.prepare(_CLAIM), await connection.prepare(_FINISH)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, lambda: os._exit(0))
    while True:
        rows = await claim.fetch(BATCH)
        for row in rows:
            ledger.record(json.loads(row["payload"])["number"])
        if rows:
            await finish.fetch([row["id"] for row in rows], [row["claim"] for row in rows])
        else:
            await asyncio.sleep(_EMPTY_S)


if __name__ == "__main__":
    if sys.argv[1:] == [_LOOP]:
        asyncio.run(_work(os.environ[URL], Ledger(os.environ[LEDGER])))
    else:
        main(RawOnPostgres)
