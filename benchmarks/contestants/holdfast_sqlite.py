"""Holdfast on a SQLite file."""

import contextlib
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from benchmarks.contestants.contestant import main
from benchmarks.contestants.holdfast_contestant import HoldfastContestant
from holdfast.stores.sqlite.store import SqliteStore


class HoldfastOnSqlite(HoldfastContestant):
    """Jobs in one file, with synchronous FULL, which is the default."""

    store = "sqlite"
    settings: ClassVar[Mapping[str, object]] = {
        **HoldfastContestant.settings,
        "synchronous": "FULL",
        "journal": "WAL",
        "SQLite": sqlite3.sqlite_version,
    }

    @property
    def _path(self) -> str:
        return self.url.removeprefix("sqlite:///")

    async def prepare(self) -> None:
        """Make the file anew, with its schema."""
        _remove(self._path)
        store = SqliteStore(self._path)
        await store.open()
        await store.close()

    async def open_jobs(self) -> int:
        """Count live jobs; a job that has ended is in the history."""
        with contextlib.closing(sqlite3.connect(self._path)) as database:
            return int(database.execute("SELECT count(*) FROM holdfast_live_jobs").fetchone()[0])


def _remove(path: str) -> None:
    for suffix in ("", "-wal", "-shm"):
        Path(path + suffix).unlink(missing_ok=True)


if __name__ == "__main__":
    main(HoldfastOnSqlite)
