"""A plugin for pytest: tests that know of no pooler are run through one.

Their stores reach the server through the pooler at HOLDFAST_POOLER, and hear at the server itself.
"""

import os
from functools import partialmethod
from typing import Any

from holdfast.stores.postgres.store import PostgresStore

_DIRECT, _POOLER = os.environ["HOLDFAST_TEST_PG_DSN"], os.environ["HOLDFAST_POOLER"]
_make = PostgresStore.__init__


def _through(store: PostgresStore, dsn: str, **options: Any) -> None:
    assert dsn in (_DIRECT, _POOLER), "a test with a server of its own is not run through a pooler"
    _make(store, _POOLER, **{"listen_dsn": _DIRECT, **options})


setattr(PostgresStore, "__init__", partialmethod(_through))  # noqa: B010 - a plain assignment is refused by mypy
