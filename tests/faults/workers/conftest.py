"""Places for worker groups: a store that other processes reach, on SQLite and on PostgreSQL."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.workers.servers import own_folder
from tests.support.disks import disk
from tests.support.place import chance, place, postgres_place, sqlite_place

__all__ = ["chance", "disk", "place", "postgres_place", "sqlite_place"]


@pytest.fixture
def server_folder() -> Iterator[Path]:
    """Give a folder for a server."""
    with own_folder() as folder:
        yield folder
