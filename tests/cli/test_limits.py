"""`limits list` and `limits show`: what each limit says, how much of it is in use, and by whom."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from holdfast import Holdfast
from holdfast.client.limits import LocalLimits
from holdfast.client.policies import Policies
from holdfast.client.services import LocalServices
from holdfast.errors import LimitNotFound
from holdfast.stores.limits import LimitRow
from tests.cli.conftest import Shop
from tests.support.builders import claim, enqueue, register

LIMITS = [
    LimitRow(name="calls", kinds=("ask",), throttle_us=20_000, rate_us=1_500_000, rate_burst=1),
    LimitRow(name="shots", queue="default", concurrency=3, scope="instance"),
    LimitRow(name="tenants", queue="default", path=("payload", "tenant"), concurrency=1, fifo=True, rotate=True),
]


async def used(store: Any) -> None:
    """Let two jobs run and one wait."""
    await store.define_limits(LIMITS, ["default"])
    for tenant in "aab":
        await enqueue(store, payload=json.dumps({"tenant": tenant}))
    await claim(store, await register(store))


def test_no_limit_is_in_force(shop: Shop) -> None:
    result = shop("limits", "list")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.startswith("no limit is in force")
    assert json.loads(shop.ok("limits", "list", "--json")) == {"limits": []}


def test_the_table_says_what_each_says_and_how_much_is_used(shop: Shop) -> None:
    shop.on_store(used)
    rows = [line.split("\t") for line in shop.ok("limits", "list").splitlines()]
    assert rows[0] == ["NAME", "HOLDS FOR", "KEY", "SAYS", "RUNNING", "FREE", "HELD"]
    assert rows[1:] == [
        ["calls", "ask", "-", "a start every 20 ms, an enqueue every 1.5 s", "-", "-", "0"],
        ["shots", "queue default", "-", "3 at once in each instance", "2", "1", "0"],
        [
            *("tenants", "queue default", "args.tenant", "1 at once, one after the other, keys take turns"),
            *("2", "0", "1"),
        ],
    ]


def test_one_is_shown_with_who_holds_it(shop: Shop) -> None:
    shop.on_store(used)
    shown = json.loads(shop.ok("limits", "show", "tenants", "--key", "a", "--json"))
    assert (shown["maximum"], shown["taken"], shown["available"], shown["held"]) == (1, 1, 0, 1)
    (holder,) = shown["holders"]
    assert (holder["key"], holder["claim"]) == ("a", 1)
    assert holder["job"] in shop.ok("limits", "show", "tenants")


def test_the_keys_that_have_used_up_most_are_shown(shop: Shop) -> None:
    shop.on_store(used)
    shown = json.loads(shop.ok("limits", "show", "tenants", "--json"))
    used_up = {"unit": "slots", "maximum": 1, "available": 0, "next_at": None}
    assert (shown["keys"], shown["has_more_keys"]) == ([{"key": "a"} | used_up, {"key": "b"} | used_up], False)
    lines = [line.split("\t") for line in shop.ok("limits", "show", "tenants").splitlines()]
    assert lines[2:5] == [
        ["KEY", "OF", "FREE", "MAXIMUM", "NEXT"],
        ["a", "slots", "0", "1", "-"],
        ["b", "slots", "0", "1", "-"],
    ]


def test_of_a_throttle_it_is_said_when_the_next_start_comes(sqlite_shop: Shop) -> None:
    async def throttled(store: Any) -> None:
        row = LimitRow(name="pace", queue="default", path=("payload", "tenant"), throttle_us=3_600_000_000, burst=2)
        await store.define_limits([row], ["default"])
        for number in range(101):
            await enqueue(store, payload=json.dumps({"tenant": f"t{number % 51:02}"}))
        await claim(store, await register(store))

    sqlite_shop.on_store(throttled)
    result = sqlite_shop("limits", "show", "pace")
    first = result.stdout.splitlines()[3].split("\t")
    assert first[:4] == ["t00", "starts", "0", "2"]
    assert datetime.fromisoformat(first[4]) > datetime.now(UTC)
    assert len(result.stdout.splitlines()) == 3 + 50
    assert result.stderr == "and more keys are in use that have more left\n"


def test_one_that_is_not_there(shop: Shop) -> None:
    result = shop("limits", "show", "nothing")
    assert result.exit_code == 3
    assert "no limit 'nothing' is in force" in result.stderr


async def test_available_is_one_number(store: Any) -> None:
    await used(store)
    settings = Holdfast("sqlite://").config
    limits = LocalLimits(store, 10, Policies(store, settings.deadline_s, LocalServices(store, settings)))
    assert (await limits.get("shots")).available == 1
    assert (await limits.get("Tenants", "b")).available == 0
    assert (await limits.get("calls")).available is None, "it does not bound what runs"
    found = await limits.list()
    assert [limit.name for limit in found] == ["calls", "shots", "tenants"]
    assert found == [await limits.get(limit.name) for limit in found]
    with pytest.raises(LimitNotFound, match="no limit 'nothing' is in force"):
        await limits.get("nothing")
