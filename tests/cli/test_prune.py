"""`prune`: what has outlived its retention goes now, and nothing else."""

import json
from typing import Any

from holdfast.job import JobState
from holdfast.stores.values import QueueTerms
from tests.cli import working
from tests.cli.conftest import Shop


def expire(shop: Shop, count: int) -> None:
    """Let jobs end that are kept for a millisecond."""
    for number in range(count):
        shop.enqueue("transcode", f"url={number}")

    async def end(store: Any) -> None:
        await store.define_queues({"bulk": QueueTerms(kept_ms=dict.fromkeys(JobState, 1))})
        for _ in range(count):
            await working.complete(store, "bulk")

    shop.on_store(end)


def test_nothing_is_to_be_deleted(shop: Shop) -> None:
    shop.enqueue("transcode", "url=a")
    shop.on_store(lambda store: working.complete(store, "bulk"))
    assert shop.ok("prune") == "0 rows deleted\n"
    assert json.loads(shop.ok("prune", "--json")) == {"deleted": 0}
    assert len(shop.ok("jobs", "list", "-q").split()) == 1


def test_what_has_expired_goes(sqlite_shop: Shop) -> None:
    sqlite_shop.ok("migrate", "up")
    expire(sqlite_shop, 1)
    assert sqlite_shop.ok("prune") == "1 row deleted\n"
    expire(sqlite_shop, 2)
    assert json.loads(sqlite_shop.ok("prune", "--json")) == {"deleted": 2}
    assert sqlite_shop.ok("prune") == "0 rows deleted\n"
