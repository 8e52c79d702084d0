"""Where jobs live: the verbs (`store`), and one folder for each database that has them.

A database's driver is imported only when a store of it is made.
"""

from typing import TYPE_CHECKING

from holdfast.config import Settings
from holdfast.errors import ConfigError
from holdfast.locations import SqliteLocation

if TYPE_CHECKING:  # for the type of a store alone: importing them here would import both drivers
    from holdfast.stores.postgres.store import PostgresStore
    from holdfast.stores.sqlite.store import SqliteStore

IN_MEMORY = ":memory:"


async def open_store(settings: Settings) -> "PostgresStore | SqliteStore":
    """Connect to the store that the settings name."""
    store = make_store(settings)
    await store.open()
    return store


def make_store(settings: Settings) -> "PostgresStore | SqliteStore":
    """Make the store that the settings name; it is not open yet."""
    location, deadline = settings.location, settings.deadline_s
    if isinstance(location, SqliteLocation):
        from holdfast.stores.sqlite.store import SqliteStore  # noqa: PLC0415 - see the top

        return SqliteStore(location.path or IN_MEMORY, synchronous=settings.synchronous.upper(), deadline=deadline)
    try:
        from holdfast.stores.postgres.store import PostgresStore  # noqa: PLC0415 - see the top
    except ModuleNotFoundError as error:
        if error.name != "asyncpg":
            raise
        message = "a postgresql:// URL needs the driver asyncpg; run: pip install 'holdfast-jobs[postgres]'"
        raise ConfigError(message) from error
    return PostgresStore(
        location.dsn,
        schema=settings.schema,
        pool_size=settings.pool_size,
        deadline=deadline,
        listen_dsn=settings.listen_dsn,
    )
