"""Waiting for ids: at all shards at once, and nothing that arrives too late is lost."""

import asyncio

import pytest

from holdfast.delivery.redis import ByRedis
from holdfast.shards import RedisDelivery, Shard
from holdfast.stores.values import Ready
from tests.redis.conftest import Deliver
from tests.support.ready import ids, ready
from tests.support.valkey import Valkey
from tests.support.wait import until


async def blocked(server: Valkey, clients: int) -> None:
    """Wait until so many calls block at the server."""

    def is_so() -> bool:
        info = server.ask("INFO", "clients")
        assert isinstance(info, dict)
        return bool(info["blocked_clients"] == clients)

    await until(is_so)


def bells(server: Valkey) -> int:
    """Count the calls that were woken before their second was over."""
    found = server.ask("INFO", "commandstats")
    assert isinstance(found, dict)
    return int(found.get("cmdstat_pexpire", {"calls": 0})["calls"])


async def popped(worker: ByRedis, queue: str = "mail") -> list[int]:
    """Pop until there is something: each call waits for a second, and this machine may be busy for longer."""
    while not (found := await worker.pop({queue: 1}, 1)):
        pass
    return ids(found)


@pytest.fixture
def shards(valkey: Valkey, other_valkey: Valkey, prefix: str) -> RedisDelivery:
    return RedisDelivery([Shard("high", valkey.url, (0, 4), 4), Shard("low", other_valkey.url, (5, 10))], prefix)


async def test_nothing_to_do_is_an_empty_answer_and_no_busy_loop(by_redis: ByRedis) -> None:
    loop = asyncio.get_running_loop()

    async def wait_for_nothing(rooms: dict[str, int], limit: int) -> None:
        began = loop.time()
        assert await by_redis.pop(rooms, limit) == []
        assert loop.time() - began > 0.9  # it has waited for a second

    waits: list[tuple[dict[str, int], int]] = [({"mail": 1}, 1), ({"mail": 0}, 1), ({}, 1), ({"mail": 1}, 0)]
    await asyncio.gather(*(wait_for_nothing(rooms, limit) for rooms, limit in waits))


@pytest.mark.parametrize("priority", [0, 10])
async def test_an_id_of_either_shard_is_waited_for_at_the_same_time(
    priority: int, deliver: Deliver, shards: RedisDelivery, valkey: Valkey, other_valkey: Valkey
) -> None:
    worker, client = deliver(shards), deliver(shards)
    for number in range(20):
        waiting = asyncio.create_task(popped(worker))
        await blocked(valkey, 1)
        await blocked(other_valkey, 1)
        client.announce([ready(number, priority)])
        assert await waiting == [number]


async def test_a_call_that_still_waits_serves_the_next(deliver: Deliver, shards: RedisDelivery, valkey: Valkey) -> None:
    worker, client = deliver(shards), deliver(shards)
    for number in range(1, 6):  # all of which the other shard gives
        waiting = asyncio.create_task(popped(worker))
        await blocked(valkey, 1)  # and never by more than one call
        client.announce([ready(number, 10)])
        assert await waiting == [number]


async def test_an_id_that_nobody_wants_any_more_is_put_back(
    deliver: Deliver, shards: RedisDelivery, valkey: Valkey, prefix: str
) -> None:
    worker, client = deliver(shards), deliver(shards)
    waiting = asyncio.create_task(worker.pop({"mail": 1}, 1))
    await blocked(valkey, 1)
    waiting.cancel()
    await asyncio.wait([waiting])
    await blocked(valkey, 1)  # it is not cancelled: that could lose an id
    client.announce([ready(1, 0, due_ms=17)])
    await until(lambda: client.pushed == 1)
    await blocked(valkey, 0)
    key = f"{{{prefix}}}:lane:mail:0"
    await until(lambda: valkey.ask("ZSCORE", key, 1) == 17.0)
    assert worker.popped == 0
    assert await client.pop({"mail": 1}, 1) == [Ready(1, "mail", 0, 17)]


async def test_a_queue_that_has_room_again_is_waited_for_at_once(
    deliver: Deliver, shards: RedisDelivery, valkey: Valkey, prefix: str
) -> None:
    worker, client = deliver(shards), deliver(shards)
    for number in range(5):
        narrow = asyncio.create_task(worker.pop({"mail": 1, "print": 0}, 1))
        await blocked(valkey, 1)
        narrow.cancel()
        await asyncio.wait([narrow])
        wide = asyncio.create_task(popped(worker, "print"))
        client.announce([ready(number, 0, "print")])
        assert await wide == [number]
    assert bells(valkey) >= 1  # the call before it did not have to sit out its second


async def test_a_cancelled_pop_loses_nothing(deliver: Deliver, shards: RedisDelivery) -> None:
    worker, client = deliver(shards), deliver(shards)
    client.announce(ready(identifier, identifier % 11) for identifier in range(300))
    await until(lambda: client.pushed == 300)
    popped: list[int] = []
    for turns in range(100):
        pop = asyncio.create_task(worker.pop({"mail": 3}, 3))
        for _ in range(turns % 17):
            await asyncio.sleep(0)
        pop.cancel()
        await asyncio.wait([pop])
        if not pop.cancelled():
            popped.extend(ids(pop.result()))
    await worker.close()
    while found := await client.pop({"mail": 100}, 100):
        popped.extend(ids(found))
    assert sorted(popped) == list(range(300))


async def test_closing_while_waiting_loses_nothing(deliver: Deliver, shards: RedisDelivery, valkey: Valkey) -> None:
    worker, client = deliver(shards), deliver(shards)
    waiting = asyncio.create_task(worker.pop({"mail": 1}, 1))
    await blocked(valkey, 1)
    before = bells(valkey)
    await worker.close()
    assert bells(valkey) > before  # the call that blocked did not have to sit out its second
    await blocked(valkey, 0)
    client.announce([ready(1, 0)])
    assert ids(await client.pop({"mail": 1}, 1)) == [1]
    assert await waiting == []


async def test_closing_while_ids_arrive_loses_none(
    deliver: Deliver, shards: RedisDelivery, valkey: Valkey, prefix: str
) -> None:
    client = deliver(shards)
    for number in range(60):
        worker = deliver(shards)
        waiting = asyncio.create_task(worker.pop({"mail": 1}, 1))
        await blocked(valkey, 1)
        client.announce([ready(number, 0)])
        for _ in range(number % 20):
            await asyncio.sleep(0)
        await worker.close()
        await until(lambda pushed=number + 1: client.pushed == pushed)
        waiting.cancel()
        await asyncio.wait([waiting])
        popped = [] if waiting.cancelled() else ids(waiting.result())
        if not popped:
            assert valkey.ask("ZSCORE", f"{{{prefix}}}:lane:mail:0", number) == number
            valkey.ask("FLUSHALL")
        else:
            assert popped == [number]


async def test_two_who_wait_in_one_process_are_both_served(deliver: Deliver, shards: RedisDelivery) -> None:
    worker, client = deliver(shards), deliver(shards)
    waiting = [asyncio.create_task(popped(worker, queue)) for queue in ("mail", "print")]
    client.announce([ready(1, 0, "print"), ready(2, 10, "mail")])
    assert [await pop for pop in waiting] == [[2], [1]]


async def test_no_bell_is_left_behind(deliver: Deliver, shards: RedisDelivery, valkey: Valkey, prefix: str) -> None:
    worker = deliver(shards)
    waiting = asyncio.create_task(worker.pop({"mail": 1}, 1))
    await blocked(valkey, 1)
    await asyncio.gather(worker.close(), waiting)
    for key in valkey.ask("KEYS", "*") or []:  # type: ignore[attr-defined] # redis-py gives a list
        assert 0 < int(str(valkey.ask("PTTL", key))) <= 5_000
