"""Redis flushed, killed, silent or full: nothing raises, hangs or spins, and everything goes on when it is back."""

import asyncio
import logging
import resource
from urllib.parse import urlsplit

import pytest

from holdfast.delivery.redis import ByRedis
from holdfast.shards import RedisDelivery, Shard
from tests.redis.conftest import Deliver, Marked
from tests.support.proxy import proxied
from tests.support.ready import ids, ready
from tests.support.valkey import Valkey
from tests.support.wait import PATIENCE_S, until

pytestmark = pytest.mark.real_time


@pytest.fixture
def one_shard(valkey: Valkey, prefix: str) -> RedisDelivery:
    return RedisDelivery([Shard("all", valkey.url)], prefix)


@pytest.fixture
def by_redis(deliver: Deliver, one_shard: RedisDelivery) -> ByRedis:
    return deliver(one_shard)


async def popped(by_redis: ByRedis) -> list[int]:
    """Pop until there is something."""
    async with asyncio.timeout(PATIENCE_S):
        while not (found := await by_redis.pop({"mail": 100}, 100)):
            pass
    return ids(found)


async def drop_until_open(by_redis: ByRedis) -> None:
    """Announce until the breaker refuses to try."""
    for number in range(3):
        by_redis.announce([ready(1_000 + number)])
        await until(lambda failed=number + 1: by_redis.push_failures == failed)


async def push_when_allowed(by_redis: ByRedis, identifier: int) -> None:
    """Announce until the breaker lets a try through, and that succeeds."""
    before = by_redis.pushed

    async def is_pushed() -> bool:
        done = by_redis.pushed + by_redis.dropped
        by_redis.announce([ready(identifier)])
        await until(lambda: by_redis.pushed + by_redis.dropped > done)
        return by_redis.pushed > before

    await until(is_pushed, "the server is tried again")


async def test_flushed_while_somebody_waits(by_redis: ByRedis, valkey: Valkey) -> None:
    waiting = asyncio.create_task(popped(by_redis))
    for _ in range(20):
        valkey.ask("FLUSHALL")
        await asyncio.sleep(0)
    by_redis.announce([ready(1)])
    assert await waiting == [1]
    by_redis.announce([ready(2), ready(3)])
    await until(lambda: by_redis.pushed == 3)
    valkey.ask("FLUSHALL")
    by_redis.announce([ready(4)])
    assert await popped(by_redis) == [4]


async def test_flushed_while_many_pop(by_redis: ByRedis, valkey: Valkey) -> None:
    seen: list[int] = []

    async def work() -> None:
        while 9_999 not in seen:
            seen.extend(await popped(by_redis))

    working = asyncio.create_task(work())
    for number in range(200):
        by_redis.announce([ready(number)])
        await until(lambda done=number + 1: by_redis.pushed == done)
        if number % 10 == 0:
            valkey.ask("FLUSHALL")
    by_redis.announce([ready(9_999)])
    async with asyncio.timeout(PATIENCE_S):
        await working
    assert len(set(seen)) == len(seen) > 100
    assert by_redis.push_failures == 0


async def test_killed_and_started_again_empty(
    by_redis: ByRedis, valkey: Valkey, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "holdfast")
    assert not by_redis.is_live  # nobody knows yet
    by_redis.announce([ready(1)])
    assert await popped(by_redis) == [1]
    assert by_redis.is_live
    by_redis.announce([ready(2)])
    await until(lambda: by_redis.pushed == 2)
    waiting = asyncio.create_task(by_redis.pop({"other": 1}, 1))
    valkey.kill()
    assert await waiting == []
    assert not by_redis.is_live
    valkey.start()
    await until_live(by_redis)
    by_redis.announce([ready(3)])
    assert await popped(by_redis) == [3]
    lines = [(record.levelname, record.message) for record in caplog.records]
    assert [level for level, _ in lines] in (["WARNING", "INFO"], ["WARNING"])  # the second may be due later
    assert f"Redis shard all (redis://127.0.0.1:{valkey.port}/0) is lost" in lines[0][1]


async def until_live(by_redis: ByRedis) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not by_redis.is_live:
            await by_redis.pop({"nothing": 1}, 1)


async def test_one_line_when_lost_and_one_when_back(
    by_redis: ByRedis, valkey: Valkey, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "holdfast")
    await by_redis.pop({"mail": 1}, 1)
    valkey.kill()
    for _ in range(3):
        assert await by_redis.pop({"mail": 1}, 1) == []
        by_redis.announce([ready(1)])
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    valkey.start()
    await until_live(by_redis)
    await by_redis.pop({"mail": 1}, 1)
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    assert "is back" in caplog.records[1].message


async def test_a_dead_server_is_not_asked_in_a_loop(by_redis: ByRedis, valkey: Valkey) -> None:
    await by_redis.pop({"mail": 1}, 1)
    valkey.kill()
    tries = 0

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal tries
        tries += 1
        writer.transport.abort()

    async with await asyncio.start_server(refuse, "127.0.0.1", valkey.port):
        before = resource.getrusage(resource.RUSAGE_SELF)
        for _ in range(4):
            assert await by_redis.pop({"mail": 1}, 1) == []
        after = resource.getrusage(resource.RUSAGE_SELF)
    assert 1 <= tries <= 20
    assert after.ru_utime - before.ru_utime < 0.5


async def test_a_dead_shard_does_not_delay_the_other(
    deliver: Deliver, valkey: Valkey, other_valkey: Valkey, prefix: str
) -> None:
    settings = RedisDelivery([Shard("high", valkey.url, (0, 4), 4), Shard("low", other_valkey.url, (5, 10))], prefix)
    by_redis = deliver(settings)
    await by_redis.pop({"mail": 1}, 1)
    valkey.kill()
    await by_redis.pop({"mail": 1}, 1)
    assert not by_redis.is_live  # jobs of its priorities are hidden
    for number in range(20):
        by_redis.announce([ready(number, 10)])
        await until(lambda done=number + 1: by_redis.pushed == done)
        assert ids(await by_redis.pop({"mail": 1}, 1)) == [number]  # a pop that waited for the other would be empty
    assert await by_redis.lengths([("mail", 0), ("mail", 10)]) == {("mail", 10): 0}
    valkey.start()
    by_redis.announce([ready(100, 0)])
    await until_live(by_redis)


async def test_what_cannot_be_pushed_is_hinted_by_way_of_the_store(
    by_redis: ByRedis, valkey: Valkey, marked: Marked
) -> None:
    valkey.kill()
    heard: list[str] = []
    async with by_redis.wakeups(["mail"], heard.append):
        by_redis.announce([ready(1)])
        await until(lambda: heard)
    assert (by_redis.pushed, by_redis.dropped, by_redis.push_failures) == (0, 1, 1)
    assert marked.batches == []


async def test_a_failed_try_is_followed_by_another(deliver: Deliver, valkey: Valkey, prefix: str) -> None:
    tries = 0

    async def refuse_twice(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal tries
        tries += 1
        if tries <= 2:
            writer.transport.abort()
            return
        up_reader, up_writer = await asyncio.open_connection("127.0.0.1", valkey.port)
        await asyncio.gather(pump(reader, up_writer), pump(up_reader, writer))

    async with await asyncio.start_server(refuse_twice, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        by_redis = deliver(RedisDelivery([Shard("all", f"redis://127.0.0.1:{port}/0")], prefix))
        by_redis.announce([ready(1)])
        await until(lambda: by_redis.pushed == 1)
        assert (tries, by_redis.push_failures, by_redis.dropped) == (3, 0, 0)
        await by_redis.close()


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65_536):
        writer.write(data)
    writer.close()


async def test_the_breaker_spares_a_dead_server_and_finds_it_again(
    by_redis: ByRedis, valkey: Valkey, marked: Marked
) -> None:
    valkey.kill()
    await drop_until_open(by_redis)
    by_redis.announce([ready(1)])
    await until(lambda: by_redis.dropped == 4)
    assert by_redis.push_failures == 3  # no try was made
    valkey.start()
    await push_when_allowed(by_redis, 2)
    by_redis.announce([ready(3)])
    assert await popped(by_redis) == [2, 3]
    await until(lambda: set(marked.ids) == {2, 3})


@pytest.mark.timeout(90)
async def test_a_silent_server_hangs_nothing(deliver: Deliver, valkey: Valkey, prefix: str) -> None:
    loop = asyncio.get_running_loop()
    async with proxied(valkey.url) as proxy:
        url = urlsplit(proxy.dsn)._replace(query="").geturl()
        by_redis = deliver(RedisDelivery([Shard("all", url)], prefix))
        by_redis.announce([ready(1)])
        assert await popped(by_redis) == [1]
        proxy.silence()
        began = loop.time()
        by_redis.announce([ready(2)])
        assert await by_redis.pop({"mail": 1}, 1) == []
        assert await by_redis.lengths([("mail", 5)]) == {}
        assert not by_redis.is_live
        assert loop.time() - began < 6.0  # two calls with their deadlines, and the second that a pop may wait
        await until(lambda: by_redis.push_failures == 1)
        began = loop.time()
        assert await by_redis.pop({"mail": 1}, 1) == []
        assert loop.time() - began < 1.5  # it is left alone now
        proxy.heal()
        await until_live(by_redis)
        by_redis.announce([ready(3)])
        found = set(await popped(by_redis))
        while 3 not in found:
            found |= set(await popped(by_redis))
        assert found <= {2, 3}  # 2 was held back, not lost, or was not pushed
        proxy.silence()
        began = loop.time()
        await by_redis.close()
        assert loop.time() - began < 4.0


async def test_a_paused_server_is_like_a_silent_one(by_redis: ByRedis, valkey: Valkey) -> None:
    loop = asyncio.get_running_loop()
    await by_redis.pop({"mail": 1}, 1)
    valkey.pause()
    began = loop.time()
    assert await by_redis.pop({"mail": 1}, 1) == []
    assert not by_redis.is_live
    assert loop.time() - began < 4.0
    valkey.resume()
    await until_live(by_redis)
    by_redis.announce([ready(1)])
    assert await popped(by_redis) == [1]


async def test_a_full_server_opens_the_breaker_and_can_still_be_emptied(by_redis: ByRedis, valkey: Valkey) -> None:
    by_redis.announce([ready(1)])
    await until(lambda: by_redis.pushed == 1)
    valkey.ask("CONFIG", "SET", "maxmemory", 1)
    valkey.ask("CONFIG", "SET", "maxmemory-policy", "noeviction")
    await drop_until_open(by_redis)
    assert (by_redis.pushed, by_redis.dropped) == (1, 3)
    assert await popped(by_redis) == [1]
    await by_redis.put_back([ready(1)])
    assert by_redis.is_live
    assert await by_redis.lengths([("mail", 5)]) == {("mail", 5): 0}
    valkey.ask("CONFIG", "SET", "maxmemory", 0)
    await push_when_allowed(by_redis, 5)
    assert await popped(by_redis) == [5]


async def test_evicted_ids_are_gone_without_a_word(by_redis: ByRedis, valkey: Valkey) -> None:
    by_redis.announce([ready(1)])
    await until(lambda: by_redis.pushed == 1)
    valkey.ask("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    valkey.ask("CONFIG", "SET", "maxmemory", 1)
    by_redis.announce([ready(2)])
    await until(lambda: by_redis.pushed + by_redis.dropped == 2)
    await by_redis.pop({"mail": 1}, 1)
    assert by_redis.is_live


async def test_a_wrong_password_is_a_lost_server(
    deliver: Deliver, valkey: Valkey, prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    valkey.ask("CONFIG", "SET", "requirepass", "hunter2")
    by_redis = deliver(RedisDelivery([Shard("all", valkey.url.replace("redis://", "redis://:hunter3@"))], prefix))
    assert await by_redis.pop({"mail": 1}, 1) == []
    assert not by_redis.is_live
    assert "is lost" in caplog.text
    assert "hunter" not in caplog.text


@pytest.mark.parametrize(
    "answer", [b"+OK\r\n", b":7\r\n", b"*2\r\n:1\r\n:2\r\n", b"*3\r\n:9\r\n$1\r\nx\r\n+y\r\n", b"nonsense\r\n"]
)
async def test_a_server_that_lies_is_a_lost_server(answer: bytes, deliver: Deliver, prefix: str) -> None:
    async def lie(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(65_536):
            writer.write(answer)
        writer.close()

    async with await asyncio.start_server(lie, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        by_redis = deliver(RedisDelivery([Shard("all", f"redis://127.0.0.1:{port}/0")], prefix))
        by_redis.announce([ready(1)])
        assert await by_redis.pop({"mail": 1}, 1) == []
        await by_redis.lengths([("mail", 5)])
        await by_redis.put_back([ready(2)])
        await until(lambda: by_redis.pushed + by_redis.dropped == 1)
        await by_redis.close()
