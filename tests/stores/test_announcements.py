"""What a client tells waiting workers by way of a store, and how seldom."""

import asyncio
from collections.abc import Sequence
from typing import cast

from holdfast import Holdfast
from holdfast.client.client import LocalClient
from holdfast.delivery import in_store
from holdfast.delivery.in_store import InStore
from holdfast.stores.sqlite.store import SqliteStore
from holdfast.stores.store import WakeStore
from tests.support.hints import Heard


async def test_who_wants_to_be_woken_listens_at_the_store(sqlite_memory: SqliteStore) -> None:
    delivery, heard = InStore(sqlite_memory), Heard()
    async with delivery.wakeups(["default"], heard) as state:
        assert state.is_live
        delivery.hint(["default"])
        await heard.wait_for("default")
    await delivery.close()


class Elsewhere:
    """Hears announcements in place of a store."""

    def __init__(self) -> None:
        self.announced: list[list[str]] = []

    async def announce(self, queues: Sequence[str]) -> None:
        self.announced.append(list(queues))


class CountingStore(SqliteStore):
    """Counts announcements."""

    def __init__(self) -> None:
        super().__init__(":memory:")
        self.announced: list[list[str]] = []

    async def announce(self, queues: Sequence[str]) -> None:
        self.announced.append(list(queues))
        await super().announce(queues)


async def test_a_storm_of_enqueues_makes_few_announcements() -> None:
    app, store, heard = Holdfast("sqlite://"), CountingStore(), Heard()

    @app.task
    async def work(number: int) -> None: ...

    loop = asyncio.get_running_loop()
    async with app.open_on(store), store.listen(["default"], heard):
        begin = loop.time()
        for _ in range(4):
            await asyncio.gather(*(work.enqueue(number) for number in range(250)))
        took = loop.time() - begin
        await heard.wait_for("default")
    assert all(queues == ["default"] for queues in store.announced)
    assert 1 <= len(store.announced) <= 2 + took / in_store.SPACING_S
    assert len(store.announced) < 500


async def test_closing_the_client_announces_what_was_enqueued_last() -> None:
    app, store = Holdfast("sqlite://"), CountingStore()

    @app.task
    async def work() -> None: ...

    async with app.open_on(store):
        await work.enqueue()
    assert store.announced == [["default"]]


async def test_a_client_takes_another_delivery() -> None:
    app, store, other = Holdfast("sqlite://"), CountingStore(), Elsewhere()

    @app.task
    async def work() -> None: ...

    await store.open()
    client = LocalClient(store, app.config, app.describe_settings, InStore(cast("WakeStore", other)))
    await client.enqueue(work.call())
    await client.enqueue_many([work.call()])
    await client.close()
    await store.close()
    assert store.announced == []
    assert {queue for queues in other.announced for queue in queues} == {"default"}
