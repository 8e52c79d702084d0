"""What is handed to Arq: ids as JSON, once for each waiting, marked when they are there, dropped when Redis is not."""

import json
import pickletools
from collections.abc import AsyncIterator, Sequence

import pytest
import redis.asyncio

from holdfast import public_id
from holdfast.arq_delivery import ArqDelivery
from holdfast.delivery.arq import FUNCTION, ByArq
from holdfast.delivery.in_store import InStore
from holdfast.stores.sqlite.store import SqliteStore
from holdfast.stores.values import Ready
from tests.support.valkey import Valkey
from tests.support.wait import until

LANES = {("mail", 5): 2, ("mail", 0): 1}


class Told:
    """What the store was told."""

    def __init__(self) -> None:
        self.ids: list[int] = []

    async def __call__(self, ids: Sequence[int]) -> None:
        self.ids.extend(ids)


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
async def by_arq(server: Valkey, sqlite_memory: SqliteStore, told: Told) -> AsyncIterator[ByArq]:
    delivery = ByArq(ArqDelivery(server.url, "arq:test"), InStore(sqlite_memory), told)
    yield delivery
    await delivery.close()


def ready(identifier: int, claim: int = 0) -> Ready:
    return Ready(identifier, "mail", 5, identifier, claim)


def held(server: Valkey) -> set[str]:
    found = server.ask("ZRANGE", "arq:test", 0, -1)
    assert isinstance(found, list)
    return set(found)


async def test_ids_go_as_json_and_nothing_else_goes(by_arq: ByArq, server: Valkey, told: Told) -> None:
    by_arq.announce([ready(1), ready(2)])
    await until(lambda: told.ids == [1, 2])
    shown = public_id.encode(1)
    assert held(server) == {f"{public_id.encode(number)}-0" for number in (1, 2)}
    async with redis.asyncio.Redis.from_url(server.url) as client:
        raw = await client.get(f"arq:job:{shown}-0")
    call = json.loads(raw)
    assert (call["f"], call["a"], call["k"]) == (FUNCTION, [], {"payload": {"job": shown, "delivery": f"{shown}-0"}})
    with pytest.raises(ValueError, match=r"opcode|pickle"):
        list(pickletools.genops(raw))


async def test_one_waiting_is_one_delivery_and_the_next_another(by_arq: ByArq, server: Valkey) -> None:
    for _ in range(3):
        by_arq.announce([ready(1)])
    by_arq.announce([ready(1, claim=1)])
    await until(lambda: by_arq.pushed == 4)
    shown = public_id.encode(1)
    assert held(server) == {f"{shown}-0", f"{shown}-1"}


async def test_id_that_was_lost_from_the_queue_comes_back(by_arq: ByArq, server: Valkey) -> None:
    by_arq.announce([ready(1)])
    await until(lambda: by_arq.pushed == 1)
    server.ask("DEL", "arq:test")
    by_arq.announce([ready(1)])
    await until(lambda: by_arq.pushed == 2)
    assert held(server) == {f"{public_id.encode(1)}-0"}


async def test_many_ids_go_in_few_calls(by_arq: ByArq, server: Valkey) -> None:
    by_arq.announce([ready(number) for number in range(1, 12_001)])
    await until(lambda: by_arq.pushed == 12_000)
    assert server.ask("ZCARD", "arq:test") == 12_000
    info = server.ask("INFO", "commandstats")
    assert isinstance(info, dict)
    assert info["cmdstat_exec"]["calls"] <= 40


async def test_lanes_lack_ids_while_the_queue_is_shorter_than_they_are(by_arq: ByArq, server: Valkey) -> None:
    assert await by_arq.lengths(LANES) == dict.fromkeys(LANES, 0)
    by_arq.announce([ready(1), ready(2), ready(3)])
    await until(lambda: by_arq.pushed == 3)
    assert await by_arq.lengths(LANES) == LANES


@pytest.mark.real_time
async def test_lost_server_costs_hints_and_is_told_once(
    by_arq: ByArq, server: Valkey, told: Told, caplog: pytest.LogCaptureFixture
) -> None:
    server.kill()
    for number in range(1, 6):
        by_arq.announce([ready(number)])
        await until(lambda: by_arq.dropped == number)  # noqa: B023 - it is waited for within the round
    assert not by_arq.is_live
    assert await by_arq.lengths(LANES) == {}
    assert by_arq.push_failures >= 3
    assert told.ids == []
    assert sum("is lost" in line for line in caplog.messages) == 1
    server.start()
    await until(lambda: by_arq.lengths(LANES), "the server is asked again")
    assert by_arq.is_live


async def test_closed_delivery_takes_no_more(by_arq: ByArq, server: Valkey) -> None:
    by_arq.announce([ready(1)])
    await by_arq.close()
    assert by_arq.pushed == 1
    by_arq.announce([ready(2)])
    assert by_arq.dropped == 1
