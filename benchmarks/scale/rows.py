"""How many rows a store is filled with, on whichever database."""

import asyncio
import time
from dataclasses import dataclass

from benchmarks.scale import postgres_rows, sqlite_rows
from benchmarks.scale.place import Place

_WORTH_TELLING_S = 5.0


@dataclass(frozen=True)
class Rows:
    """How many rows of each sort."""

    queued: int = 0
    scheduled: int = 0
    finished: int = 0

    @property
    def total(self) -> int:
        """All of them."""
        return self.queued + self.scheduled + self.finished


def fill(place: Place, rows: Rows) -> None:
    """Fill a store that has no jobs, and tell how long it took."""
    began = time.monotonic()
    if place.is_postgres:
        asyncio.run(postgres_rows.load(place, rows.queued, rows.scheduled, rows.finished))
    else:
        sqlite_rows.load(place, rows.queued, rows.scheduled, rows.finished)
    took = time.monotonic() - began
    if took > _WORTH_TELLING_S:
        print(f"  {rows.total:,} rows loaded in {took:.0f} s", flush=True)


def expire(place: Place, rows: int) -> None:
    """Let there be finished jobs whose retention has ended: on PostgreSQL a whole week of them."""
    if place.is_postgres:
        asyncio.run(postgres_rows.load_expired_week(place, rows))
    else:
        sqlite_rows.expire(place, rows)


def settle(place: Place) -> None:
    """Leave a store as its own upkeep leaves it; SQLite has none that would change a plan."""
    if place.is_postgres:
        asyncio.run(postgres_rows.settle(place))
