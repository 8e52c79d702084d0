"""Opening what the commands work on, and running them."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from holdfast.cli import locate
from holdfast.client.client import Client
from holdfast.config import Settings
from holdfast.errors import ConfigError, StoreUnavailable
from holdfast.locations import SqliteLocation
from holdfast.services.secrecy import keep_secrets
from holdfast.stores import open_store

if TYPE_CHECKING:
    from holdfast.stores.postgres.store import PostgresStore
    from holdfast.stores.sqlite.store import SqliteStore

T = TypeVar("T")


@dataclass(frozen=True)
class Session:
    """An open store, its client and its settings."""

    client: Client
    store: "PostgresStore | SqliteStore"
    settings: Settings


def with_store(ctx: click.Context, work: Callable[[Session], Awaitable[T]]) -> T:
    """Run a command that needs the store and no tasks."""
    app, _ = locate.app_or_store(ctx)

    async def run() -> T:
        async with session(app.settings) as opened:
            return await work(opened)

    return asyncio.run(run())


@asynccontextmanager
async def session(settings: Settings) -> AsyncIterator[Session]:
    """Connect; unlike an app that is opened, this publishes no definitions, so that a look changes nothing."""
    require_kept(settings)
    require_present(settings)
    keep_secrets(settings)
    store = await open_store(settings)
    client = Client(store, settings)
    try:
        yield Session(client, store, settings)
    finally:
        await client.close()
        await store.close()


def require_kept(settings: Settings) -> None:
    """Refuse a database in memory, which would end with the command."""
    if settings.location == SqliteLocation(None):
        message = "the app's store is in memory and ends with its process, so no command can share it; give the app a"
        message += " file: sqlite:///jobs.db"
        raise ConfigError(message)


def require_present(settings: Settings) -> None:
    """Refuse a SQLite file that does not exist: a mistyped path must not become an empty database."""
    if is_absent(settings):
        message = f"there is no SQLite file {file_of(settings)}; correct the URL, or make it with `migrate up`"
        raise StoreUnavailable(message)


def is_absent(settings: Settings) -> bool:
    """Whether the store is a SQLite file that does not exist yet."""
    file = file_of(settings)
    return file is not None and not file.exists()


def file_of(settings: Settings) -> Path | None:
    """The file of a SQLite store."""
    location = settings.location
    return Path(location.path) if isinstance(location, SqliteLocation) and location.path else None
