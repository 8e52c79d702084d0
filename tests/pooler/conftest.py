"""A pooler in transaction mode for the tests of this folder."""

from collections.abc import AsyncIterator, Iterator

import pytest

from holdfast.stores.postgres.store import PostgresStore
from tests.pooler.bouncer import Bouncer, bounced, can_track


@pytest.fixture(scope="session")
def untracked(dsn: str) -> Iterator[Bouncer]:
    """Give a pooler that does not know of prepared statements."""
    with bounced(dsn) as bouncer:
        yield bouncer


@pytest.fixture(scope="session")
def tracked(dsn: str) -> Iterator[Bouncer]:
    """Give a pooler that keeps account of prepared statements."""
    with bounced(dsn, tracks=True) as bouncer:
        yield bouncer


@pytest.fixture(params=("untracked", "tracked") if can_track() else ("untracked",))
def bouncer(request: pytest.FixtureRequest) -> Bouncer:
    """Give each kind of pooler that the installed release can be."""
    found: Bouncer = request.getfixturevalue(request.param)
    return found


@pytest.fixture
async def pooled(bouncer: Bouncer, schema: str) -> AsyncIterator[PostgresStore]:
    """Give an open store behind the pooler."""
    store = PostgresStore(bouncer.dsn, schema=schema)
    await store.open()
    yield store
    await store.close()
