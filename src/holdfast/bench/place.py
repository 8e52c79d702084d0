"""Where the bench works: a place of its own on the user's database, which is empty before and gone afterwards."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from holdfast.app import Holdfast
from holdfast.bench.plan import LONGEST_S
from holdfast.bench.setup import DEADLINE_S
from holdfast.config import Settings
from holdfast.locations import SqliteLocation
from holdfast.stores import make_store

NAME = "holdfast_bench_"
"""How the names of everything begin that the bench makes."""

PAYLOAD = '{"number": 17}'
"""The payload of a bare row: that of a job of the bench."""


@dataclass(frozen=True)
class Facts:
    """The database and its version, and those of its settings that say how durable a commit is."""

    software: str
    settings: Mapping[str, str]


class Place(Protocol):
    """A place of the bench's own."""

    async def open(self) -> None:
        """Make sure that the bench can work here; nothing is made yet."""

    async def facts(self) -> Facts:
        """Tell what the figures depend on."""

    async def fresh(self) -> Settings:
        """Make an empty store, in place of the last one."""

    async def insert(self, rows: int) -> float:
        """Insert bare rows over one connection, each in a commit of its own; the answer is commits per second."""

    async def remove(self) -> list[str]:
        """Remove everything that was made; the answer is what is left, and what to do about it."""


def place_on(settings: Settings) -> Place:
    """Find the place for a store that the user has named."""
    if isinstance(settings.location, SqliteLocation):
        from holdfast.bench.on_sqlite import SqlitePlace  # noqa: PLC0415 - it imports a driver, so only when needed

        return SqlitePlace(settings)
    make_store(settings)  # which says what to install when the driver is missing
    from holdfast.bench.on_postgres import PostgresPlace  # noqa: PLC0415 - likewise

    return PostgresPlace(settings)


def settings_on(url: str, like: Settings, schema: str = "holdfast") -> Settings:
    """Say how to reach the bench's own store, with what the user has set for their own."""
    return Holdfast(
        url, schema=schema, synchronous=like.synchronous, pool_size=like.pool_size, deadline=DEADLINE_S
    ).config


async def rate(most: int, do: Callable[[int], Awaitable[object]]) -> float:
    """Do something up to so many times, one after the other, and not much longer than a few seconds."""
    done, began = 0, time.monotonic()
    while done < most and time.monotonic() - began < LONGEST_S:
        done += 1
        await do(done)
    return done / (time.monotonic() - began)


async def unbroken(work: Awaitable[Settings]) -> Settings:
    """Let something be done to its end, also when this task is cancelled meanwhile."""
    doing = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(doing)
    except asyncio.CancelledError:
        await asyncio.gather(doing, return_exceptions=True)
        raise
