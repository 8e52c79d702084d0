"""The store's time: whole milliseconds since 1970, by which everything is compared."""

import sqlite3

# Not unixepoch('now', 'subsec'): before SQLite 3.42 that is NULL instead of an error, and a lease of NULL never ends.
_NOW = "SELECT CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)"


class StoreClock:
    """Reads the time once per operation; tests set `override` (milliseconds) to stop it."""

    def __init__(self) -> None:
        self.override: int | None = None

    def read(self, database: sqlite3.Connection) -> int:
        """Return the time by SQLite's clock."""
        if self.override is not None:
            return self.override
        cursor = database.cursor()
        cursor.row_factory = None  # a caller's own connection may have one
        now: int = cursor.execute(_NOW).fetchone()[0]
        return now
