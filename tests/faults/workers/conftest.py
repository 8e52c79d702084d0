"""Places for worker groups: a store that other processes reach, on SQLite and on PostgreSQL."""

from tests.support.disks import disk
from tests.support.place import chance, place, postgres_place, sqlite_place

__all__ = ["chance", "disk", "place", "postgres_place", "sqlite_place"]
