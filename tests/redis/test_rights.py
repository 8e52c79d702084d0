"""The rights that the documentation names are enough."""

import asyncio
import shlex

from holdfast.delivery.redis_elector import RedisElector
from holdfast.shards import RedisDelivery, Shard
from tests.redis.conftest import Deliver
from tests.support.doc_pages import ROOT
from tests.support.ready import ids, ready
from tests.support.valkey import Valkey
from tests.support.wait import until


async def test_the_documented_rights_are_enough(deliver: Deliver, valkey: Valkey) -> None:
    page = (ROOT / "docs/operate/redis.md").read_text(encoding="utf-8")
    command = next(line for line in page.splitlines() if line.startswith("ACL SETUSER"))
    more = "+get +set +del +pttl"
    assert f"`{more}`" in page
    valkey.ask(*shlex.split(command))
    url = valkey.url.replace("redis://", "redis://holdfast:secret@")
    by_redis = deliver(RedisDelivery([Shard("all", url)]))
    by_redis.announce([ready(1), ready(2)])
    await until(lambda: by_redis.pushed == 2)
    assert ids(await by_redis.pop({"mail": 2}, 2)) == [1, 2]
    await by_redis.put_back([ready(1)])
    assert await by_redis.lengths([("mail", 5)]) == {("mail", 5): 1}
    assert await by_redis.missing([ready(1), ready(2)]) == [ready(2)]
    assert ids(await by_redis.pop({"mail": 2}, 2)) == [1]
    narrow = asyncio.create_task(by_redis.pop({"mail": 2}, 2))
    wide = asyncio.create_task(by_redis.pop({"mail": 2, "print": 2}, 2))  # for which a bell is rung
    assert await narrow == await wide == []  # after they have waited
    assert by_redis.is_live
    valkey.ask("ACL", "SETUSER", "holdfast", *more.split())
    elector = RedisElector(url, "{holdfast}:leader", "host")
    elector.start()
    await until(lambda: elector.is_leader)
    elector.stop()
    assert valkey.ask("EXISTS", "{holdfast}:leader") == 0
