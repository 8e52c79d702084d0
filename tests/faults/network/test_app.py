"""The app over a link that is cut: an acknowledged enqueue is exactly one job, and nobody waits beyond a deadline."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from itertools import cycle

import pytest

from holdfast import Holdfast
from holdfast.errors import OutcomeUnknown, StoreUnavailable
from holdfast.stores.postgres.store import PostgresStore
from tests.support.proxy import INSERTS, Fault, Proxy
from tests.support.sizes import size
from tests.support.wait import until

pytestmark = pytest.mark.real_time

_CUTS = (Fault.CUT_REPLY, Fault.CUT_BEFORE, Fault.CUT_WITHIN_REPLY)


@pytest.fixture
async def app(proxy: Proxy, schema: str) -> AsyncIterator[Holdfast]:
    """Give an open app that reaches its store through the proxy."""
    app = Holdfast(proxy.dsn, schema=schema, deadline="5s")
    async with app:
        yield app
        proxy.heal()


async def stored(store: PostgresStore) -> dict[int, int]:
    """Read which job carries which number."""
    rows = await store.fetch_sql("SELECT id, (payload ->> 'number')::int FROM holdfast.jobs")
    numbers = {row[0]: row[1] for row in rows}
    assert len(numbers) == len(rows)
    return numbers


@pytest.mark.parametrize("how", ["plain", "keyed", "unique"])
async def test_one_job_per_acknowledged_enqueue(app: Holdfast, proxy: Proxy, postgres: PostgresStore, how: str) -> None:
    @app.task
    async def count(number: int) -> None: ...

    faults: Iterator[Fault] = cycle(_CUTS)
    handles: dict[int | None, int] = {}
    for number in range(size(20, 200)):
        proxy.arm(next(faults), *INSERTS)
        calls = {
            "plain": count.enqueue,
            "keyed": count.using(key=f"{number}").enqueue,
            "unique": count.using(unique=f"{number}").enqueue,
        }
        handle = await calls[how](number=number)
        assert handle.created
        handles[handle.number] = number
    assert proxy.faults == len(handles)
    assert await stored(postgres) == handles


async def test_one_job_per_acknowledged_enqueue_of_many_callers(
    app: Holdfast, proxy: Proxy, postgres: PostgresStore
) -> None:
    @app.task
    async def count(number: int) -> None: ...

    faults: Iterator[Fault] = cycle(_CUTS)
    handles: dict[int | None, int] = {}
    for turn in range(size(5, 50)):
        proxy.arm(next(faults), *INSERTS)
        made = await asyncio.gather(*(count.enqueue(number=turn * 40 + n) for n in range(40)))
        handles |= {handle.number: turn * 40 + n for n, handle in enumerate(made)}
    assert await stored(postgres) == handles


async def test_enqueue_many_over_a_cut_link(app: Holdfast, proxy: Proxy, postgres: PostgresStore) -> None:
    @app.task
    async def count(number: int) -> None: ...

    proxy.arm(Fault.CUT_REPLY, *INSERTS)
    handles = await app.enqueue_many(count.call(number=n) for n in range(100))
    assert [handle.created for handle in handles] == [True] * 100
    assert await stored(postgres) == {handle.number: n for n, handle in enumerate(handles)}


async def test_no_caller_waits_beyond_its_deadline(proxy: Proxy, schema: str, postgres: PostgresStore) -> None:
    app = Holdfast(proxy.dsn, schema=schema, deadline="3s")  # in which a busy machine opens it too

    @app.task
    async def count(number: int) -> None: ...

    async with app:
        await count.enqueue(number=0)
        proxy.silence()
        async with asyncio.timeout(15):
            found = await asyncio.gather(
                *(count.enqueue(number=number) for number in range(1, 20)), return_exceptions=True
            )
        assert {type(error) for error in found} <= {OutcomeUnknown, StoreUnavailable}
        proxy.heal()

        async def enqueued() -> bool:
            try:
                return (await count.enqueue(number=20)).created
            except (OutcomeUnknown, StoreUnavailable):
                return False

        await until(enqueued, "the app works again")
    assert 20 in (await stored(postgres)).values()
