"""The bench's place beside a SQLite file: a folder of its own, and so the same disk."""

import asyncio
import contextlib
import os
import secrets
from pathlib import Path

from holdfast.bench import folder
from holdfast.bench.place import NAME, PAYLOAD, Facts, rate, settings_on
from holdfast.config import Settings
from holdfast.locations import SqliteLocation
from holdfast.stores.sqlite import opening

_YIELD_EVERY = 32


class SqlitePlace:
    """A folder beside the user's file, which itself is neither opened nor needed."""

    def __init__(self, settings: Settings) -> None:
        assert isinstance(settings.location, SqliteLocation)  # noqa: S101 - who makes it has looked
        self._user_file = os.path.realpath(settings.location.path or "")
        self._settings = settings
        self._folder = Path(self._user_file).parent / f"{NAME}{secrets.token_hex(4)}"

    async def open(self) -> None:
        """Make sure that the folder of the user's file can be written to; the file itself may be missing."""
        opening.check_sqlite()
        opening.check_place(self._user_file)

    async def facts(self) -> Facts:
        """Tell the version of SQLite, and when a commit counts as done."""
        with contextlib.closing(opening.open_for_reading(opening.MEMORY)) as database:
            (version,) = database.execute("SELECT sqlite_version()").fetchone()
        return Facts(f"SQLite {version}", {"synchronous": self._settings.synchronous, "journal_mode": "wal"})

    async def fresh(self) -> Settings:
        """Make an empty folder; the store's file is made by whoever opens it."""
        await folder.remove(self._folder)
        self._folder.mkdir(mode=0o700)
        return settings_on(f"sqlite:///{self._folder / 'jobs.db'}", self._settings)

    async def insert(self, rows: int) -> float:
        """Insert bare rows into a file of their own, with one commit for each."""
        # As Holdfast opens its own: a write-ahead log, and the same care for the disk.
        database = opening.open_for_writing(str(self._folder / "rows.db"), self._settings.synchronous.upper())

        async def insert_one(number: int) -> None:
            database.execute("INSERT INTO bare_rows VALUES (?, ?)", (number, PAYLOAD))
            if number % _YIELD_EVERY == 0:  # or nobody could stop it
                await asyncio.sleep(0)

        with contextlib.closing(database):
            database.execute("CREATE TABLE bare_rows (id INTEGER PRIMARY KEY, payload TEXT NOT NULL)")
            return await rate(rows, insert_one)

    async def remove(self) -> list[str]:
        """Remove the folder."""
        return await folder.remove(self._folder)
