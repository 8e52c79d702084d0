"""The store's clock in the hands of a test: it stands still until the test moves it."""

import inspect
import time
from datetime import UTC, datetime, timedelta
from typing import Any

from holdfast.stores.store import Store

# Today, in whole seconds: history on PostgreSQL has its weeks made from today on, and SQLite keeps milliseconds.
START = datetime.now(UTC).replace(microsecond=0)


async def set_time(store: Store, at: datetime | None) -> None:
    """Let the clock of any store stand at a time; None lets it run again."""
    set_clock: Any = getattr(store, "set_time")  # noqa: B009 - no part of the protocol: only tests have it
    if inspect.iscoroutinefunction(set_clock):
        await set_clock(at)
    else:
        set_clock(None if at is None else round(at.timestamp() * 1_000))


class Clock:
    """A clock that stands at `now`."""

    def __init__(self, store: Store) -> None:
        self.now = START
        self._store = store

    async def stop(self) -> None:
        """Let the store's time stand at `now`."""
        await set_time(self._store, self.now)

    async def advance(self, duration: timedelta | None = None, **parts: float) -> datetime:
        """Move time on, by a duration or by `seconds=…`, `days=…`."""
        self.now += duration if duration is not None else timedelta(**parts)
        await self.stop()
        return self.now


class LaterTime:
    """Takes the place of the module `time` in one module, which believes that it is `ahead_s` later than it is."""

    def __init__(self) -> None:
        self.ahead_s = 0.0

    def monotonic(self) -> float:
        """Give the time that is believed, in seconds."""
        return time.monotonic() + self.ahead_s

    def monotonic_ns(self) -> int:
        """Give the time that is believed, in nanoseconds."""
        return time.monotonic_ns() + round(self.ahead_s * 1e9)
