"""`services`: how each is set, what it did, who leads, and what people change."""

import json
from typing import Any

from holdfast.stores.cluster import ServiceReport
from tests.cli.conftest import Shop

NAMES = ["promotion", "schedules", "rescue", "announcements", "retention", "rollups", "lane_counts"]
NAMES += ["escalations", "notices", "dead_letters", "bulk", "sla"]


async def led(store: Any) -> None:
    """Lead, and tell what two services did."""
    await store.lead("upkeep", "web-1/17/abc", None, 60_000)
    await store.report_services(
        [
            ServiceReport("promotion", "web-1/17/abc", None, 12_345, 20, 3, 0, 4),
            ServiceReport("rollups", "web-1/17/abc", None, 2, 0, 0, 2, 0, "StoreUnavailable: it is away"),
        ]
    )


def service(shop: Shop, name: str) -> dict[str, Any]:
    found = json.loads(shop.ok("services", "list", "--json"))["services"]
    (one,) = [entry for entry in found if entry["name"] == name]
    assert isinstance(one, dict)
    return one


def test_nobody_leads(shop: Shop) -> None:
    result = shop("services", "list")
    heading, *rows = [line.split("\t") for line in result.stdout.splitlines()]
    assert heading == ["SERVICE", "EVERY", "BATCH", "ROUNDS", "SCANNED", "MOVED", "FAILURES", "LATE", "REPORTED"]
    assert [row[0] for row in rows] == NAMES
    assert rows[0][:4] == ["promotion", "5 s", "1,000", ""]
    assert "no process leads: start a worker, or `" in result.stderr
    assert json.loads(shop.ok("services", "list", "--json"))["leaders"] == []


def test_the_table_says_what_was_done_and_who_leads(shop: Shop) -> None:
    shop.on_store(led)
    result = shop("services", "list")
    rows = {row[0]: row for row in (line.split("\t") for line in result.stdout.splitlines())}
    assert rows["promotion"][3:8] == ["12345", "20", "3", "0", "4"]
    assert rows["promotion"][8].endswith("Z")
    assert rows["rollups"][8] == "StoreUnavailable: it is away"
    assert "web-1/17/abc leads since 20" in result.stderr
    assert "(term 1)" in result.stderr


def test_json_has_everything(shop: Shop) -> None:
    shop.on_store(led)
    (leader,) = json.loads(shop.ok("services", "list", "--json"))["leaders"]
    assert (leader["holder"], leader["term"]) == ("web-1/17/abc", 1)
    promotion = service(shop, "promotion")
    assert promotion["reported_at"].endswith("Z")
    assert {key: value for key, value in promotion.items() if key != "reported_at"} == {
        "name": "promotion",
        "description": "queues scheduled jobs that are due",
        "interval_ms": 5_000,
        "batch": 1_000,
        "enabled": True,
        "changed": [],
        "leader": "web-1/17/abc",
        "rounds": 12_345,
        "scanned": 20,
        "moved": 3,
        "failures": 0,
        "lag_ms": 4,
        "error": None,
    }
    assert (service(shop, "lane_counts")["batch"], service(shop, "lane_counts")["reported_at"]) == (None, None)


def test_set_and_reset(shop: Shop) -> None:
    assert shop.ok("services", "set", "promotion", "--interval", "500ms", "--batch", "50") == "promotion is set\n"
    assert (
        shop.ok("services", "set", "promotion", "--off", "--actor", "alice", "--reason", "a move")
        == "promotion is set\n"
    )
    changed = service(shop, "promotion")
    assert (changed["interval_ms"], changed["batch"], changed["enabled"]) == (500, 50, False)
    assert changed["changed"] == ["batch", "enabled", "interval"]
    rows = [line.split("\t") for line in shop.ok("services", "list").splitlines()]
    assert rows[1][1] == "off *"
    overrides = shop.on_store(lambda store: store.list_overrides("services."))
    assert [(row.path, row.actor, row.reason) for row in overrides][1] == (
        "services.promotion.enabled",
        "alice",
        "a move",
    )
    shop.ok("services", "set", "promotion", "--on")
    assert service(shop, "promotion")["enabled"] is True
    assert shop.ok("services", "reset", "promotion") == "promotion is reset\n"
    assert service(shop, "promotion")["changed"] == []


def test_what_cannot_be_is_refused(shop: Shop) -> None:
    for wrong, expected in (
        (("set", "promotion"), "give --interval, --batch, --on or --off"),
        (("set", "promotion", "--interval", "1ms"), "interval: expected from 10 ms to a day"),
        (("set", "promotion", "--batch", "0"), "batch"),
        (("set", "lane_counts", "--batch", "5"), "takes no batch"),
        (("set", "nobody", "--off"), "expected one of promotion, schedules"),
        (("reset", "nobody"), "expected one of promotion, schedules"),
    ):
        result = shop("services", *wrong)
        assert result.exit_code == 2, wrong
        assert expected in result.stderr
    assert shop.on_store(lambda store: store.list_overrides("")) == []
