"""Ids going in: one pipeline for what gathered, duplicates collapse, and the store is told a moment later."""

import asyncio
import logging
import sys
from collections.abc import Sequence

import pytest
import redis.asyncio

from holdfast.delivery import redis_marks
from holdfast.delivery.in_store import InStore
from holdfast.delivery.redis import MOST_GATHERED, ByRedis
from holdfast.errors import ConfigError, StoreUnavailable
from holdfast.shards import RedisDelivery, Shard
from holdfast.stores.sqlite.store import SqliteStore
from tests.redis.conftest import Deliver, Marked
from tests.support.ready import ids, ready
from tests.support.valkey import Valkey
from tests.support.wait import PATIENCE_S, until


async def lane(url: str, key: str) -> list[tuple[bytes, float]]:
    async with redis.asyncio.Redis.from_url(url) as client:
        found: list[tuple[bytes, float]] = await client.zrange(key, 0, -1, withscores=True)
    return found


async def test_ids_lie_in_their_lanes_oldest_first(by_redis: ByRedis, redis_url: str, prefix: str) -> None:
    by_redis.announce([ready(3), ready(1), ready(2, queue="high"), ready(4, priority=0)])
    await until(lambda: by_redis.pushed == 4)
    assert await lane(redis_url, f"{{{prefix}}}:lane:mail:5") == [(b"1", 1.0), (b"3", 3.0)]
    assert await lane(redis_url, f"{{{prefix}}}:lane:high:5") == [(b"2", 2.0)]
    assert await lane(redis_url, f"{{{prefix}}}:lane:mail:0") == [(b"4", 4.0)]


async def test_duplicates_collapse_and_keep_their_place(by_redis: ByRedis, redis_url: str, prefix: str) -> None:
    by_redis.announce([ready(7, due_ms=100)])
    await until(lambda: by_redis.pushed == 1)
    by_redis.announce([ready(7, due_ms=900), ready(7, due_ms=50), ready(8, due_ms=500)])
    await until(lambda: by_redis.pushed == 4)
    assert await lane(redis_url, f"{{{prefix}}}:lane:mail:5") == [(b"7", 100.0), (b"8", 500.0)]


async def test_what_gathers_shares_a_pipeline(deliver: Deliver, valkey: Valkey, prefix: str) -> None:
    by_redis = deliver(RedisDelivery([Shard("all", valkey.url)], prefix))
    by_redis.announce([ready(0)])
    await until(lambda: by_redis.pushed == 1)
    valkey.ask("CONFIG", "RESETSTAT")
    for identifier in range(1, 501):
        by_redis.announce([ready(identifier)])
    await until(lambda: by_redis.pushed == 501)
    info = valkey.ask("INFO", "commandstats")
    assert isinstance(info, dict)
    assert info["cmdstat_zadd"]["calls"] == 1
    assert valkey.ask("ZCARD", f"{{{prefix}}}:lane:mail:5") == 501


async def test_announcing_returns_before_redis_is_asked(by_redis: ByRedis) -> None:
    by_redis.announce([ready(1)])
    assert by_redis.pushed == 0
    await until(lambda: by_redis.pushed == 1)


async def test_pushed_ids_are_marked_together_a_moment_later(
    by_redis: ByRedis, marked: Marked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_marks, "SPACING_S", 3_600.0)
    for identifier in range(10):
        by_redis.announce([ready(identifier)])
        await until(lambda done=identifier: by_redis.pushed == done + 1)
    assert marked.batches == []
    await by_redis.close()  # which waits for no moment
    assert marked.batches == [list(range(10))]


@pytest.mark.guards("late-mark")
async def test_no_id_is_marked_while_a_worker_may_be_claiming_its_job(
    two_shards: RedisDelivery, sqlite_memory: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PostgreSQL passes over a row that another session writes to, and the job would start late."""
    spacing_s = 0.05
    monkeypatch.setattr(redis_marks, "SPACING_S", spacing_s)
    loop = asyncio.get_running_loop()
    announced_at, ages = dict[int, float](), dict[int, float]()

    async def mark(ids: Sequence[int]) -> None:
        ages.update({identifier: loop.time() - announced_at[identifier] for identifier in ids})

    by_redis = ByRedis(two_shards, InStore(sqlite_memory), mark)
    for identifier in range(100):
        announced_at[identifier] = loop.time()
        by_redis.announce([ready(identifier)])
        await until(lambda done=identifier: by_redis.pushed == done + 1)
    await until(lambda: len(ages) == 100)
    assert min(ages.values()) >= spacing_s
    await by_redis.close()


async def test_a_thousand_pushed_ids_are_marked_at_once(
    by_redis: ByRedis, marked: Marked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_marks, "SPACING_S", 60.0)
    by_redis.announce([ready(identifier) for identifier in range(2_000)])
    await until(lambda: len(marked.ids) == 2_000)
    assert [len(batch) for batch in marked.batches] == [1_000, 1_000]


async def test_a_store_that_cannot_mark_stops_no_push(sqlite_memory: SqliteStore, two_shards: RedisDelivery) -> None:
    asked: list[int] = []

    async def mark(ids: Sequence[int]) -> None:
        asked.extend(ids)
        if len(asked) == 1:
            message = "expected an answer, got none"
            raise StoreUnavailable(message)

    by_redis = ByRedis(two_shards, InStore(sqlite_memory), mark)
    by_redis.announce([ready(1)])
    await until(lambda: asked == [1])
    by_redis.announce([ready(2)])
    await until(lambda: asked == [1, 2])
    assert by_redis.pushed == 2
    await by_redis.close()


async def test_a_store_that_hangs_stops_no_push(sqlite_memory: SqliteStore, two_shards: RedisDelivery) -> None:
    began = asyncio.Event()

    async def mark(ids: Sequence[int]) -> None:
        began.set()
        await asyncio.Event().wait()

    by_redis = ByRedis(two_shards, InStore(sqlite_memory), mark)
    by_redis.announce([ready(1)])
    await began.wait()
    by_redis.announce([ready(2)])
    await until(lambda: by_redis.pushed == 2)
    async with asyncio.timeout(PATIENCE_S):
        await by_redis.close()


async def test_closing_lets_the_last_ids_and_marks_go_out(
    deliver: Deliver, two_shards: RedisDelivery, marked: Marked
) -> None:
    first, second = deliver(two_shards), deliver(two_shards)
    first.announce([ready(1, priority=0), ready(2)])
    await first.close()
    assert sorted(marked.ids) == [1, 2]
    assert ids(await second.pop({"mail": 2}, 2)) == [1, 2]
    first.announce([ready(3)])
    assert first.dropped == 1


async def test_what_does_not_fit_is_dropped_with_one_line(
    deliver: Deliver, valkey: Valkey, prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    by_redis = deliver(RedisDelivery([Shard("all", valkey.url)], prefix))
    with caplog.at_level(logging.INFO, logger="holdfast"):
        by_redis.announce(ready(identifier) for identifier in range(MOST_GATHERED + 10))
        by_redis.announce([ready(MOST_GATHERED + 10)])
        assert by_redis.dropped == 11
    assert [record.message for record in caplog.records] == [
        "Redis is slower than jobs come: ids over 100000 are left to the sweep"
    ]
    await until(lambda: by_redis.pushed == MOST_GATHERED)
    assert valkey.ask("ZCARD", f"{{{prefix}}}:lane:mail:5") == MOST_GATHERED


async def test_hints_and_wakeups_go_by_way_of_the_store(by_redis: ByRedis) -> None:
    heard: list[str] = []
    async with by_redis.wakeups(["mail"], heard.append):
        by_redis.hint(["mail"])
        await until(lambda: "mail" in heard)


async def test_lengths(by_redis: ByRedis) -> None:
    by_redis.announce([ready(1), ready(2), ready(3, priority=0)])
    await until(lambda: by_redis.pushed == 3)
    lanes = [("mail", 5), ("mail", 0), ("mail", 10)]
    assert await by_redis.lengths(lanes) == {("mail", 5): 2, ("mail", 0): 1, ("mail", 10): 0}


def test_a_missing_package_is_named(
    monkeypatch: pytest.MonkeyPatch, two_shards: RedisDelivery, marked: Marked, sqlite_memory: SqliteStore
) -> None:
    monkeypatch.setitem(sys.modules, "redis.asyncio", None)
    with pytest.raises(ConfigError, match=r'run pip install "holdfast-jobs\[redis\]"'):
        ByRedis(two_shards, InStore(sqlite_memory), marked)


@pytest.mark.parametrize("query", ["colour=hunter2", "socket_timeout=hunter2", "protocol=hunter2"])
def test_options_that_the_client_does_not_know_are_refused_at_once(
    query: str, sqlite_memory: SqliteStore, marked: Marked
) -> None:
    settings = RedisDelivery([Shard("all", f"redis://host/0?{query}")])
    with pytest.raises(ConfigError, match="expected options that redis-py knows") as caught:
        ByRedis(settings, InStore(sqlite_memory), marked)
    assert "hunter2" not in str(caught.value)
