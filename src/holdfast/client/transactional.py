"""Enqueue inside the caller's own transaction: the job exists exactly when the caller's rows do.

The store runs one statement on the caller's connection and never commits. It draws the ids there too, so `NewJob.id`
is 0 on this path and `Inserted.id` is the truth.
"""

from collections.abc import Sequence
from typing import Any, Protocol

from holdfast.job import NewJob
from holdfast.stores.values import Inserted

UNDRAWN_ID = 0


class CallerStore(Protocol):
    """What a store can do on a connection that is not its own."""

    def is_async(self, connection: Any) -> bool:
        """Tell whether a connection must be awaited; ConfigError names the accepted kinds for any other object."""

    async def insert_on(self, connection: Any, jobs: Sequence[NewJob]) -> list[Inserted]:
        """Insert on an asynchronous connection, inside its transaction."""

    def insert_on_sync(self, connection: Any, jobs: Sequence[NewJob]) -> list[Inserted]:
        """Insert on a synchronous connection, wholly on the caller's thread."""


async def insert_on(store: CallerStore, connection: Any, jobs: Sequence[NewJob]) -> list[Inserted]:
    """Insert on the caller's connection, whichever sort it is."""
    if store.is_async(connection):
        return await store.insert_on(connection, jobs)
    return store.insert_on_sync(connection, jobs)
