"""`webhooks`: where messages go, what became of them, and a place that is enabled again; what a job's page tells."""

import json
from typing import Any

from holdfast.job import JobState
from holdfast.stores.values import QueueTerms
from tests.cli import working
from tests.cli.conftest import Shop
from tests.cli.test_parts import lines

URL = "https://hooks.example.org/in?token=s3cret"
PLACE = "https://hooks.example.org/in"
TRIED = '{"at": "2026-01-01T00:00:00Z", "status": 500, "error": "answered 500", "took_ms": 3}'


def hooked(shop: Shop, ending: Any = working.complete) -> str:
    """Let a job end whose queue has a webhook."""
    job_id = shop.enqueue("transcode", "url=u")

    async def end(store: Any) -> None:
        hook = json.dumps({"url": URL, "events": ["job:completed", "job:failed"]})
        await store.define_queues({"bulk": QueueTerms(kept_ms=dict.fromkeys(JobState, 3_600_000), webhook=hook)})
        await ending(store, "bulk")

    shop.on_store(end)
    return job_id


async def tried(store: Any, state: str, entry: str = TRIED) -> None:
    """Try to post what is due."""
    (message,) = await store.claim_deliveries(1, 60_000)
    assert await store.end_delivery(message, state, 60_000, entry)


# ---- list ----------------------------------------------------------------------------------------------------------


def test_no_webhook_yet(shop: Shop) -> None:
    result = shop("webhooks", "list")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.startswith("no webhook is known yet")
    assert json.loads(shop.ok("webhooks", "list", "--json")) == {"endpoints": []}


def test_counts_of_a_place(shop: Shop) -> None:
    hooked(shop)
    shop.on_store(lambda store: tried(store, "delivered"))
    hooked(shop, working.fail)
    shop.on_store(lambda store: tried(store, "failed"))
    hooked(shop)
    rows = [line.split("\t") for line in shop.ok("webhooks", "list").splitlines()]
    assert rows == [["URL", "PENDING", "DELIVERED", "FAILED", "STATUS"], [PLACE, "1", "1", "1", "enabled"]]


def test_a_disabled_place_says_since_when_and_why(shop: Shop) -> None:
    hooked(shop)
    shop.on_store(lambda store: store.disable_endpoint(PLACE, "it answered 410 Gone"))
    _, row = (line.split("\t") for line in shop.ok("webhooks", "list").splitlines())
    assert row[4].startswith("disabled 20")
    assert row[4].endswith("Z: it answered 410 Gone")
    (place,) = json.loads(shop.ok("webhooks", "list", "--json"))["endpoints"]
    assert (place["url"], place["enabled"], place["reason"]) == (PLACE, False, "it answered 410 Gone")
    assert (place["disabled_at"][-1], place["pending"], place["delivered"], place["failed"]) == ("Z", 1, 0, 0)


# ---- enable --------------------------------------------------------------------------------------------------------


def test_enable_a_place_again(shop: Shop) -> None:
    hooked(shop)
    shop.on_store(lambda store: store.disable_endpoint(PLACE, "it answered 410 Gone"))
    assert shop.ok("webhooks", "enable", URL) == f"{PLACE} enabled\n", "a query is left out"
    assert shop.ok("webhooks", "enable", PLACE) == f"{PLACE} was not disabled\n"
    place = json.loads(shop.ok("webhooks", "enable", PLACE, "--json"))
    assert (place["enabled"], place["disabled_at"], place["reason"], place["pending"]) == (True, None, None, 1)


def test_a_place_of_which_nothing_is_left_but_that_it_is_disabled(shop: Shop) -> None:
    shop.on_store(lambda store: store.disable_endpoint(PLACE, "it answered 410 Gone"))
    assert json.loads(shop.ok("webhooks", "enable", PLACE, "--json"))["enabled"] is True
    assert json.loads(shop.ok("webhooks", "list", "--json")) == {"endpoints": []}


def test_a_place_that_nobody_has_used_is_3(shop: Shop) -> None:
    hooked(shop)
    result = shop("webhooks", "enable", "https://example.org/")
    assert (result.exit_code, result.stdout) == (3, "")
    assert f"there is no endpoint https://example.org/; known are {PLACE}" in result.stderr
    error = json.loads(shop("webhooks", "enable", "https://example.org/", "--json").stderr)["error"]
    assert (error["type"], error["exit_code"]) == ("EndpointNotFound", 3)


# ---- on the page of a job ------------------------------------------------------------------------------------------


def test_a_delivery_on_a_page(shop: Shop) -> None:
    job_id = hooked(shop)
    first, second = lines(shop.ok("jobs", "show", job_id), "webhooks")
    assert first == f"  pending    job:completed of run 1 to {PLACE}"
    assert second.strip().startswith("0 tries, the next 20")
    shop.on_store(lambda store: tried(store, "pending"))
    _, second, third = lines(shop.ok("jobs", "show", job_id), "webhooks")
    assert second.strip().startswith("1 try, the next 20")
    assert third.strip() == "answered 500"


def test_a_delivery_that_was_taken(shop: Shop) -> None:
    job_id = hooked(shop)
    shop.on_store(lambda store: tried(store, "delivered", TRIED.replace("500", "204")))
    first, second = lines(shop.ok("jobs", "show", job_id), "webhooks")
    assert first == f"  delivered  job:completed of run 1 to {PLACE}"
    assert second.strip().startswith("1 try, 20")
    shown = json.loads(shop.ok("jobs", "show", job_id, "--json"))
    (delivery,) = shown["webhooks"]
    assert (delivery["state"], delivery["tries"], delivery["log"][0]["status"]) == ("delivered", 1, 204)
    assert shown["webhook_sent"] is True
