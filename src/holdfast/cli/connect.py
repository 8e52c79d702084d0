"""Opening what the commands work on, and running them."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from msgspec import MsgspecError

from holdfast.app import Holdfast
from holdfast.cli import locate
from holdfast.client.client import LocalClient
from holdfast.client.protocol import Client
from holdfast.config import Settings
from holdfast.errors import ConfigError, HoldfastError, StoreUnavailable, shown
from holdfast.locations import SqliteLocation
from holdfast.release import RELEASE
from holdfast.services.secrecy import keep_secrets
from holdfast.stores import open_store

if TYPE_CHECKING:
    from holdfast.remote.client import RemoteClient
    from holdfast.stores.postgres.store import PostgresStore
    from holdfast.stores.sqlite.store import SqliteStore

T = TypeVar("T")


@dataclass(frozen=True)
class Session:
    """What most commands work on: the client of a database or of a server."""

    client: Client


@dataclass(frozen=True)
class DatabaseSession:
    """What commands work on that no server can be asked for: an open store, its client and the app's settings."""

    client: LocalClient
    store: "PostgresStore | SqliteStore"
    settings: Settings


def with_store(ctx: click.Context, work: Callable[[Session], Awaitable[T]]) -> T:
    """Run a command that needs the store and no tasks, or ask a server for it."""
    return asyncio.run(_work(ctx, work))


def with_database(ctx: click.Context, work: Callable[[DatabaseSession], Awaitable[T]]) -> T:
    """Run a command that no server can be asked for; where one is named, this says so before anything begins."""
    app, _ = locate.app_or_store(ctx)

    async def run() -> T:
        async with session(app) as opened:
            return await work(opened)

    return asyncio.run(run())


def with_server(named: locate.Server, work: Callable[["RemoteClient"], Awaitable[T]]) -> T:
    """Run a command in the form that only a server can be asked for."""
    return asyncio.run(_asked(named, work))


def within(ctx: click.Context, work: Callable[[Session], Awaitable[T]], seconds: float) -> T:
    """Ask the store or a server for a limited time and without importing an app: the user has not run a command yet."""

    async def run() -> T:
        async with asyncio.timeout(seconds):
            if (named := locate.server(ctx)) is not None:
                return await _asked(named, lambda client: work(Session(client)))
            return await _opened(locate.store_alone(ctx), work)

    return asyncio.run(run())


def _work(ctx: click.Context, work: Callable[[Session], Awaitable[T]]) -> Coroutine[Any, Any, T]:
    """Choose what is asked; whatever is wrong with the choice is said before anything begins."""
    if (named := locate.server(ctx)) is not None:
        return _asked(named, lambda client: work(Session(client)))
    app, _ = locate.app_or_store(ctx)
    return _opened(app, work)


async def _opened(app: Holdfast, work: Callable[[Session], Awaitable[T]]) -> T:
    async with session(app) as opened:
        return await work(Session(opened.client))


async def _asked(named: locate.Server, work: Callable[["RemoteClient"], Awaitable[T]]) -> T:
    from holdfast.remote.client import RemoteClient  # noqa: PLC0415 - only who names a server needs it
    from holdfast.remote.link import Link, ServerRefused  # noqa: PLC0415 - as above

    link = Link(named.url, named.token)
    try:
        return await work(RemoteClient(link))
    except HoldfastError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError, RecursionError, MsgspecError) as error:
        # Every value that a command works on came from the server, and commands are tested with good ones.
        message = f"{named.url} answered with what this release ({RELEASE}) cannot read ({type(error).__name__}:"
        message += f" {shown(str(error))}): expected a server of Holdfast of about the same release"
        raise ServerRefused(message) from error
    finally:
        await link.close()


@asynccontextmanager
async def session(app: Holdfast) -> AsyncIterator[DatabaseSession]:
    """Connect; unlike an app that is opened, this publishes no definitions, so that a look changes nothing."""
    settings = app.config
    require_kept(settings)
    require_present(settings)
    keep_secrets(settings)
    store = await open_store(settings)
    client = LocalClient(store, settings, app.describe_settings, tasks=app.tasks)
    try:
        yield DatabaseSession(client, store, settings)
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
