"""The raw loop on SQLite: what the library can do with full durability, with nothing of a job system around it."""

import json
import os
import sqlite3
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from benchmarks.contestants.contestant import LEDGER, URL, Contestant, main
from benchmarks.contestants.ledger import Ledger

BATCH = 100
_LOOP = "work"  # the argument with which this module is the worker
_EMPTY_S = 0.005
_BUSY_S = 30.0

_TABLES = """
CREATE TABLE raw_jobs (id INTEGER PRIMARY KEY, payload TEXT NOT NULL, claim INTEGER NOT NULL DEFAULT 0);
CREATE TABLE raw_history (id INTEGER NOT NULL, payload TEXT NOT NULL, claim INTEGER NOT NULL);
"""
_INSERT = "INSERT INTO raw_jobs (id, payload) VALUES (?, ?)"
_CLAIM = """
UPDATE raw_jobs SET claim = claim + 1
WHERE id IN (SELECT id FROM raw_jobs WHERE claim = 0 ORDER BY id LIMIT ?)
RETURNING id, claim, payload
"""
_KEEP = "INSERT INTO raw_history SELECT id, payload, claim FROM raw_jobs WHERE id = ? AND claim = ?"
_DELETE = "DELETE FROM raw_jobs WHERE id = ? AND claim = ?"


class RawOnSqlite(Contestant):
    """The sqlite3 module and three statements."""

    name = "raw"
    store = "sqlite"
    settings: ClassVar[Mapping[str, object]] = {
        "worker": f"claim {BATCH}, then a fenced move to a history table, each a transaction",
        "enqueue": "single-row INSERT, autocommit",
        "bulk": "executemany in one transaction",
        "synchronous": "FULL",
        "journal": "WAL",
        "SQLite": sqlite3.sqlite_version,
    }

    async def prepare(self) -> None:
        """Make the file anew."""
        _remove(_path(self.url))
        database = _connect(self.url)
        database.executescript(_TABLES)
        database.close()

    async def open(self) -> None:
        """Open the file."""
        self._database = _connect(self.url)

    async def close(self) -> None:
        """Close the file."""
        self._database.close()

    async def enqueue(self, number: int) -> None:
        """Insert one row in a commit of its own."""
        self._database.execute(_INSERT, (number, _payload(number)))

    async def enqueue_bulk(self, numbers: Sequence[int]) -> None:
        """Insert all rows in one transaction."""
        self._database.execute("BEGIN IMMEDIATE")
        self._database.executemany(_INSERT, [(number, _payload(number)) for number in numbers])
        self._database.execute("COMMIT")

    def worker_commands(self, processes: int) -> list[list[str]]:
        """Run this module itself."""
        return [[sys.executable, "-m", "benchmarks.contestants.raw_sqlite", _LOOP] for _ in range(processes)]

    async def open_jobs(self) -> int:
        """Count what was not moved."""
        return int(self._database.execute("SELECT count(*) FROM raw_jobs").fetchone()[0])


def _path(url: str) -> str:
    return url.removeprefix("sqlite:///")


def _remove(path: str) -> None:
    for suffix in ("", "-wal", "-shm"):
        Path(path + suffix).unlink(missing_ok=True)


def _connect(url: str) -> sqlite3.Connection:
    database = sqlite3.connect(_path(url), isolation_level=None, timeout=_BUSY_S)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = FULL")
    return database


def _payload(number: int) -> str:
    return json.dumps({"number": number})


def _work(url: str, ledger: Ledger) -> None:
    database = _connect(url)
    while True:
        rows = database.execute(_CLAIM, (BATCH,)).fetchall()
        for _, _, payload in rows:
            ledger.record(json.loads(payload)["number"])
        if not rows:
            time.sleep(_EMPTY_S)
            continue
        claims = [(number, claim) for number, claim, _ in rows]
        database.execute("BEGIN IMMEDIATE")
        database.executemany(_KEEP, claims)
        database.executemany(_DELETE, claims)
        database.execute("COMMIT")


if __name__ == "__main__":
    if sys.argv[1:] == [_LOOP]:
        _work(os.environ[URL], Ledger(os.environ[LEDGER]))
    else:
        main(RawOnSqlite)
