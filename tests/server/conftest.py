"""Apps that a server serves."""

from tests.worker.conftest import (
    app,
    empty_schema,
    make_app,
    make_postgres,
    make_shared_app,
    make_sqlite_file,
    make_sqlite_memory,
    memory_app,
    shared_schema,
)

__all__ = [
    "app",
    "empty_schema",
    "make_app",
    "make_postgres",
    "make_shared_app",
    "make_sqlite_file",
    "make_sqlite_memory",
    "memory_app",
    "shared_schema",
]
