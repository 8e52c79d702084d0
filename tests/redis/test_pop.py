"""Ids coming out: the urgent first, by weight between shards, never more than there is room for."""

import asyncio
from collections import Counter

import pytest
import redis.asyncio

from holdfast.delivery.redis import ByRedis
from holdfast.shards import RedisDelivery, Shard
from holdfast.stores.values import Ready
from tests.redis.conftest import Deliver
from tests.support.ready import ids, ready
from tests.support.valkey import Valkey
from tests.support.wait import PATIENCE_S, until

MANY = 10_000


async def push(by_redis: ByRedis, *jobs: Ready) -> None:
    wanted = by_redis.pushed + len(jobs)
    by_redis.announce(jobs)
    await until(lambda: by_redis.pushed == wanted)


async def test_the_oldest_of_a_lane_comes_first_with_everything_about_it(by_redis: ByRedis) -> None:
    due_ms = 1_790_000_000_123
    await push(by_redis, ready(1, due_ms=due_ms + 1), ready(2, due_ms=due_ms), ready(2**63 - 1, due_ms=due_ms + 2))
    assert await by_redis.pop({"mail": MANY}, 2) == [Ready(2, "mail", 5, due_ms), Ready(1, "mail", 5, due_ms + 1)]
    assert ids(await by_redis.pop({"mail": MANY}, 2)) == [2**63 - 1]
    assert by_redis.popped == 3


async def test_within_a_shard_priority_goes_before_age(by_redis: ByRedis) -> None:
    await push(by_redis, ready(1, priority=10), ready(2, priority=7), ready(3, priority=5), ready(4, priority=6))
    assert ids(await by_redis.pop({"mail": MANY}, MANY)) == [3, 4, 2, 1]


async def test_high_goes_first_and_low_gets_its_share(by_redis: ByRedis) -> None:
    await push(by_redis, *(ready(identifier, priority=identifier % 2 * 5) for identifier in range(100)))
    popped = await by_redis.pop({"mail": MANY}, 20)
    assert [job.priority for job in popped] == [0] * 16 + [5] * 4


async def test_what_one_shard_does_not_have_the_other_gives(by_redis: ByRedis) -> None:
    await push(by_redis, ready(1, priority=0), *(ready(identifier) for identifier in range(2, 100)))
    assert Counter(job.priority for job in await by_redis.pop({"mail": MANY}, 20)) == {0: 1, 5: 19}
    await push(by_redis, *(ready(identifier, priority=0) for identifier in range(200, 300)))
    assert len(await by_redis.pop({"mail": MANY}, 177)) == 177
    await push(by_redis, *(ready(identifier, priority=0) for identifier in range(300, 330)))
    assert len(await by_redis.pop({"mail": MANY}, MANY)) == 32


async def test_one_at_a_time_low_gets_a_turn_in_five(by_redis: ByRedis) -> None:
    await push(by_redis, *(ready(identifier, priority=identifier % 2 * 5) for identifier in range(100)))
    order = [(await by_redis.pop({"mail": 1}, 1))[0].priority for _ in range(20)]
    assert order == [0, 0, 5, 0, 0] * 4


async def test_no_queue_gives_more_than_it_has_room(by_redis: ByRedis) -> None:
    for queue, start in (("mail", 0), ("print", 100)):
        await push(by_redis, *(ready(start + number, number % 2 * 5, queue) for number in range(20)))
    popped = Counter(job.queue for job in await by_redis.pop({"mail": 3, "print": 50, "closed": 0}, 15))
    assert popped == {"mail": 3, "print": 12}
    popped = Counter(job.queue for job in await by_redis.pop({"mail": 1, "print": 1}, MANY))
    assert popped == {"mail": 1, "print": 1}
    popped = Counter(job.queue for job in await by_redis.pop({"mail": MANY, "print": 0}, MANY))
    assert popped == {"mail": 16}


async def test_rooms_hold_over_both_shards_together(by_redis: ByRedis) -> None:
    for queue, start in (("mail", 0), ("print", 100)):
        await push(by_redis, *(ready(start + number, number % 2 * 5, queue) for number in range(40)))
    for _ in range(10):  # in some of which the low shard has a share
        popped = Counter(job.queue for job in await by_redis.pop({"mail": 1, "print": 2}, 3))
        assert popped == {"mail": 1, "print": 2}


async def test_equal_queues_take_turns_to_be_first(by_redis: ByRedis) -> None:
    for queue, start in (("mail", 0), ("print", 100)):
        await push(by_redis, *(ready(start + number, queue=queue) for number in range(10)))
    popped = [(await by_redis.pop({"mail": 1, "print": 1}, 1))[0].queue for _ in range(6)]
    assert popped == ["mail", "print"] * 3


async def test_what_is_no_id_is_dropped(by_redis: ByRedis, redis_url: str, prefix: str) -> None:
    strange = [b"", b"-1", b"1_0", b" 1", b"1.5", b"\xff\x00", b"9" * 40, b"9223372036854775808", "٣".encode()]
    async with redis.asyncio.Redis.from_url(redis_url) as client:
        key = f"{{{prefix}}}:lane:mail:5"
        await client.zadd(key, dict.fromkeys(strange, 0.0))
        await client.zadd(key, {"1": float("inf"), "2": float("-inf")})
    assert await by_redis.pop({"mail": MANY}, MANY) == [Ready(2, "mail", 5, 0), Ready(1, "mail", 5, 0)]


async def test_a_key_of_another_kind_costs_its_lane_only(by_redis: ByRedis, redis_url: str, prefix: str) -> None:
    async with redis.asyncio.Redis.from_url(redis_url) as client:
        await client.set(f"{{{prefix}}}:lane:mail:6", "somebody else's")
    by_redis.announce([ready(1, priority=6), ready(2, priority=5), ready(3, priority=7)])
    await until(lambda: by_redis.pushed == 2)
    assert ids(await by_redis.pop({"mail": MANY}, MANY)) == [2, 3]
    assert await by_redis.lengths([("mail", 5), ("mail", 6)]) == {("mail", 5): 0}
    await until(lambda: by_redis.dropped == 1)


async def test_put_back_ids_have_their_old_place(by_redis: ByRedis) -> None:
    await push(by_redis, *(ready(identifier) for identifier in range(1, 5)))
    popped = await by_redis.pop({"mail": MANY}, 2)
    await by_redis.put_back(popped)
    assert ids(await by_redis.pop({"mail": MANY}, MANY)) == [1, 2, 3, 4]


async def test_a_forgotten_script_is_sent_again(deliver: Deliver, valkey: Valkey, prefix: str) -> None:
    by_redis = deliver(RedisDelivery([Shard("all", valkey.url)], prefix))
    await push(by_redis, ready(1), ready(2), ready(3))
    assert ids(await by_redis.pop({"mail": 1}, 1)) == [1]
    valkey.ask("SCRIPT", "FLUSH")
    assert ids(await by_redis.pop({"mail": 2}, 2)) == [2, 3]
    assert by_redis.is_live


async def test_many_workers_share_every_id_once(deliver: Deliver, two_shards: RedisDelivery) -> None:
    workers = [deliver(two_shards) for _ in range(4)]
    await push(workers[0], *(ready(identifier, identifier % 11) for identifier in range(2_000)))
    popped: list[int] = []

    async def work(worker: ByRedis) -> None:
        while len(popped) < 2_000:
            popped.extend(ids(await worker.pop({"mail": 7}, 7)))

    async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as group:
        for worker in workers:
            group.create_task(work(worker))
    assert sorted(popped) == list(range(2_000))


@pytest.mark.parametrize("asks", ["put_back", "lengths", "pop"])
async def test_no_cancellation_is_swallowed(asks: str, by_redis: ByRedis) -> None:
    """The client library loses one that comes while it sends, on Python 3.11; a worker that leaves would hang."""

    async def ask_for_ever() -> None:
        while True:
            if asks == "put_back":
                await by_redis.put_back([ready(1), ready(2, 0)])
            elif asks == "lengths":
                await by_redis.lengths([("mail", 0), ("mail", 5)])
            else:
                await by_redis.pop({"mail": 1}, 1)

    for steps in range(150):
        asking = asyncio.create_task(ask_for_ever())
        for _ in range(steps):
            await asyncio.sleep(0)
        asking.cancel()
        done, _ = await asyncio.wait([asking], timeout=PATIENCE_S)
        assert done, f"the cancellation after {steps} steps was swallowed"
