"""REPEATABLE READ and SERIALIZABLE callers: a clash with what their snapshot cannot see is an answer, not an error."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest

from holdfast.errors import Conflict
from holdfast.handle import JobHandle
from holdfast.stores.postgres.store import PostgresStore
from tests.adapters.conftest import Shop, on_postgres
from tests.adapters.waiting import until_somebody_waits

LEVELS = ["REPEATABLE READ", "SERIALIZABLE"]
CLASHES: list[Any] = [{"key": "k"}, {"unique": "u"}, {"unique": "u", "unique_for": "1h"}, {"key": "k", "unique": "u"}]


async def begin_with_snapshot(shop: Shop, level: str) -> None:
    await shop.caller.begin()
    await shop.caller.value(f"SET TRANSACTION ISOLATION LEVEL {level}")
    await shop.caller.value(f"SELECT count(*) FROM {shop.place.orders}")


@on_postgres
@pytest.mark.parametrize("level", LEVELS)
async def test_a_clash_with_an_unseen_job_has_no_id(shop: Shop, level: str) -> None:
    await begin_with_snapshot(shop, level)
    for number, options in enumerate(CLASHES):
        named: dict[str, Any] = {
            name: f"{value}{number}" if name in {"key", "unique"} else value for name, value in options.items()
        }
        await shop.ship.using(**named).enqueue(number)
        met = await shop.caller.enqueue(number, **named)
        assert (met.created, met.number) == (False, None), options
    await shop.order(1)
    ours = await shop.caller.enqueue(9, key="ours")
    await shop.caller.commit()
    assert ours.created
    assert await shop.shipped() == [0, 1, 2, 3, 9]
    assert await shop.orders() == [1]


@on_postgres
@pytest.mark.parametrize("level", LEVELS)
async def test_a_clash_within_the_snapshot_has_the_id(shop: Shop, level: str) -> None:
    committed = await shop.ship.using(key="k", unique="u").enqueue(1)
    await begin_with_snapshot(shop, level)
    by_key = await shop.caller.enqueue(1, key="k")
    by_unique = await shop.caller.enqueue(1, unique="u")
    ours = await shop.caller.enqueue(2, unique="ours")
    again = await shop.caller.enqueue(2, unique="ours")
    await shop.caller.commit()
    assert by_key.number == by_unique.number == committed.number
    assert (again.created, again.number) == (False, ours.number)
    assert await shop.shipped() == [1, 2]


@on_postgres
@pytest.mark.parametrize("level", LEVELS)
async def test_an_unseen_clash_among_many_leaves_the_others(shop: Shop, level: str) -> None:
    await begin_with_snapshot(shop, level)
    await shop.ship.using(unique="u").enqueue(1)
    calls = [shop.ship.call(2), shop.ship.using(unique="u").call(1), shop.ship.using(key="k").call(3)]
    handles = await shop.caller.enqueue_many(calls)
    await shop.caller.commit()
    assert [handle.created for handle in handles] == [True, False, True]
    assert [handle.number is None for handle in handles] == [False, True, False]
    assert await shop.shipped() == [1, 2, 3]


@pytest.mark.parametrize("place", ["asyncpg"], indirect=True)
async def test_a_handle_without_id_says_what_to_do(shop: Shop) -> None:
    await begin_with_snapshot(shop, "REPEATABLE READ")
    await shop.ship.using(key="k").enqueue(1)
    met = await shop.caller.enqueue(1, key="k")
    assert isinstance(met, JobHandle)
    with pytest.raises(Conflict, match="enqueue again after the transaction"):
        await met.get()
    await shop.caller.commit()
    await shop.caller.begin()
    assert (await shop.caller.enqueue(1, key="k")).number is not None
    await shop.caller.rollback()


@pytest.mark.parametrize("place", ["asyncpg"], indirect=True)
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("options", CLASHES)
async def test_a_clash_waits_and_then_answers(shop: Shop, level: str, options: Any) -> None:
    """The other transaction is open when we ask and commits while we wait."""
    async with shop.another_caller() as other:
        await begin_with_snapshot(shop, level)
        await other.begin()
        await other.enqueue(1, **options)
        waiting = asyncio.create_task(shop.caller.enqueue(1, **options))
        await until_somebody_waits(shop.place)
        await other.commit()
        met = await waiting
        await shop.order(1)
        await shop.caller.commit()
    assert (met.created, met.number) == (False, None)
    assert await shop.shipped() == [1]
    assert await shop.orders() == [1]


@pytest.mark.parametrize("place", ["asyncpg"], indirect=True)
@pytest.mark.parametrize("level", LEVELS)
async def test_an_expired_key_taken_by_an_unseen_job(shop: Shop, level: str) -> None:
    store = shop.app.store
    assert isinstance(store, PostgresStore)
    old = await shop.ship.using(key="k").enqueue(1)
    await expire_keys(shop)
    await begin_with_snapshot(shop, level)
    new = await shop.ship.using(key="k").enqueue(1)
    met = await shop.caller.enqueue(1, key="k")
    await shop.caller.commit()
    assert new.created
    assert new.number != old.number
    assert (met.created, met.number) == (False, None)


@pytest.mark.parametrize("place", ["asyncpg"], indirect=True)
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("by", ["prune", "take"])
async def test_an_expired_key_that_goes_while_we_reach_for_it(shop: Shop, level: str, by: str) -> None:
    """Upkeep or another caller is between its lock on the row and its commit when we ask; ours must not be ended."""
    await shop.ship.using(key="k").enqueue(1)
    await expire_keys(shop)
    table = shop.place.jobs.replace(".jobs", ".idempotency")
    other = await asyncpg.connect(shop.place.address)
    await begin_with_snapshot(shop, level)
    transaction = other.transaction()
    await transaction.start()
    await other.fetch(f"SELECT * FROM {table} WHERE key = 'k' FOR UPDATE")
    waiting = asyncio.create_task(shop.caller.enqueue(1, key="k"))
    await until_somebody_waits(shop.place)
    later = datetime.now(UTC) + timedelta(days=1)
    if by == "prune":
        await other.execute(f"DELETE FROM {table} WHERE key = 'k'")
    else:
        await other.execute(f"UPDATE {table} SET job_id = 1, expires_at = $1 WHERE key = 'k'", later)
    await transaction.commit()
    await other.close()
    met = await waiting
    await shop.order(1)
    await shop.caller.commit()
    assert await shop.orders() == [1]
    if by == "prune":
        assert met.created  # nobody holds the key any more: to answer otherwise would lose the job
    else:
        assert (met.created, met.number) == (False, None)


async def expire_keys(shop: Shop) -> None:
    """Let a day pass for the keys that are held."""
    connection = await asyncpg.connect(shop.place.address)
    table = shop.place.jobs.replace(".jobs", ".idempotency")
    await connection.execute(f"UPDATE {table} SET expires_at = expires_at - interval '2 days'")
    await connection.close()
