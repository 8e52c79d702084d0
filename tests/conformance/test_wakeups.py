"""Wake-ups: who listens hears of jobs that may run, from whatever process, and of nothing else."""

import asyncio
import sqlite3
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
import pytest

from holdfast import Holdfast
from holdfast.client.client import LocalClient
from holdfast.stores.postgres.store import PostgresStore
from holdfast.stores.sqlite.store import SqliteStore
from holdfast.stores.store import Listening, Store
from tests.conftest import AnyStore
from tests.support import builders
from tests.support.builders import new_jobs
from tests.support.hints import Heard, until_live


@pytest.fixture(params=["sqlite-file", "postgres"])
def shared(request: pytest.FixtureRequest) -> AnyStore:
    """Give each store that other processes can reach too."""
    found: AnyStore = request.getfixturevalue(request.param.replace("-", "_"))
    return found


@asynccontextmanager
async def listening(store: Store, heard: Heard, *queues: str) -> AsyncIterator[Listening]:
    """Listen, and forget what was said at the start."""
    async with store.listen(queues or ("default",), heard) as state:
        await until_live(state)
        heard.forget()
        yield state


@asynccontextmanager
async def another(store: AnyStore) -> AsyncIterator[AnyStore]:
    """Open the same database once more."""
    other: AnyStore
    if isinstance(store, PostgresStore):
        other = PostgresStore(store.pool.dsn, schema=store.schema)
    else:
        other = SqliteStore(store.path)
    await other.open()
    try:
        yield other
    finally:
        await other.close()


def url_of(store: AnyStore) -> tuple[str, str]:
    """Name a store as a program does: its URL and schema."""
    if isinstance(store, PostgresStore):
        return store.pool.dsn, store.schema
    return f"sqlite:///{store.path}", "holdfast"


async def test_an_announcement_wakes(store: AnyStore) -> None:
    heard = Heard()
    await builders.enqueue(store)
    async with listening(store, heard):
        await store.announce(["default"])
        await heard.wait_for("default")


async def test_an_announcement_over_another_connection_wakes(shared: AnyStore) -> None:
    heard = Heard()
    await builders.enqueue(shared)
    async with listening(shared, heard), another(shared) as other:
        await other.announce(["default"])
        await heard.wait_for("default")


async def test_queues_that_were_not_asked_for_wake_nobody(store: AnyStore) -> None:
    heard = Heard()
    for queue in ("other", "default", "third"):
        await builders.enqueue(store, queue=queue)
    async with listening(store, heard, "default", "third"):
        await store.announce(["other", "default"])
        await heard.wait_for("default")
        heard.forget()
        await store.announce(["other"])
        await store.announce(["third"])
        await heard.wait_for("third")
        assert "other" not in heard.queues


async def test_announcing_nothing_is_harmless(store: AnyStore) -> None:
    await store.announce([])


async def test_an_enqueue_wakes(store: AnyStore) -> None:
    app, heard = Holdfast("sqlite://"), Heard()

    @app.task(queue="high")
    async def work(number: int) -> None: ...

    @app.task(queue="bulk")
    async def many(number: int) -> None: ...

    client = LocalClient(store, app.config, app.describe_settings)
    async with listening(store, heard, "high", "bulk"):
        await client.enqueue(work.call(1))
        await heard.wait_for("high")
        await client.enqueue_many(many.call(number) for number in range(3))
        await heard.wait_for("bulk")
        await client.close()


async def test_an_enqueue_of_another_process_wakes(shared: AnyStore) -> None:
    program = """
        import asyncio, sys
        from holdfast import Holdfast

        app = Holdfast(sys.argv[1], schema=sys.argv[2])

        @app.task
        async def work() -> None: ...

        async def main() -> None:
            async with app:
                await work.enqueue()

        asyncio.run(main())
    """
    heard = Heard()
    async with listening(shared, heard):
        await asyncio.to_thread(
            subprocess.run, [sys.executable, "-c", textwrap.dedent(program), *url_of(shared)], check=True
        )
        await heard.wait_for("default")


async def test_a_callers_transaction_wakes_after_its_commit_and_not_before(shared: AnyStore) -> None:
    heard = Heard()
    await builders.enqueue(shared, queue="other")
    jobs = await new_jobs(shared, 1)
    async with listening(shared, heard, "default", "other"):
        if isinstance(shared, PostgresStore):
            connection = await asyncpg.connect(shared.pool.dsn)
            transaction = connection.transaction()
            await transaction.start()
            await shared.insert_on(connection, jobs)
            await assert_asleep(shared, heard)
            await transaction.commit()
            await heard.wait_for("default")
            await connection.close()
        else:
            own = sqlite3.connect(Path(shared.path))
            shared.insert_on_sync(own, jobs)
            await assert_asleep(shared, heard)
            own.commit()
            await heard.wait_for("default")
            own.close()


async def assert_asleep(store: AnyStore, heard: Heard) -> None:
    """Hear of something that came later, and of nothing else."""
    for _ in range(2):
        await store.announce(["other"])
        await heard.wait_for("other")
        assert "default" not in heard.queues
        heard.forget()


async def test_a_transaction_that_is_rolled_back_wakes_nobody(shared: AnyStore) -> None:
    heard = Heard()
    await builders.enqueue(shared, queue="other")
    jobs = await new_jobs(shared, 1)
    async with listening(shared, heard, "default", "other"):
        if isinstance(shared, PostgresStore):
            connection = await asyncpg.connect(shared.pool.dsn)
            transaction = connection.transaction()
            await transaction.start()
            await shared.insert_on(connection, jobs)
            await transaction.rollback()
            await connection.close()
        else:
            own = sqlite3.connect(Path(shared.path))
            shared.insert_on_sync(own, jobs)
            own.rollback()
            own.close()
        await assert_asleep(shared, heard)


async def test_every_listener_is_woken_and_who_left_is_not(store: AnyStore) -> None:
    first, second, gone = Heard(), Heard(), Heard()
    await builders.enqueue(store)
    async with listening(store, gone):
        pass
    gone.forget()
    async with listening(store, first), listening(store, second):
        await store.announce(["default"])
        await first.wait_for("default")
        await second.wait_for("default")
    assert gone.queues == []


async def test_nobody_is_woken_after_leaving(store: AnyStore) -> None:
    heard = Heard()
    await builders.enqueue(store)
    async with listening(store, heard):
        await store.announce(["default"])
    heard.forget()
    # Whatever was on its way to the event loop arrives before a read of the store is answered.
    await store.announce(["default"])
    await store.list_queues()
    assert heard.queues == []
