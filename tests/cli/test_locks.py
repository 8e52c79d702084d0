"""`locks list`: who holds what, for which job, and how many wait."""

import json
from typing import Any

from holdfast import public_id
from holdfast.stores.cluster import LockRequest
from tests.cli.conftest import Shop

LASTS = {"lasts_ms": 60_000, "waits_ms": 60_000}


async def held(store: Any) -> None:
    """Hold two locks, one of them for a job, and wait for that."""
    await store.take_lock(LockRequest("edition:42", "a", "a", "here/7"), **LASTS)
    await store.take_lock(LockRequest("project:1", "b", "b", "there/8", None, 12, 1), **LASTS)
    await store.take_lock(LockRequest("project:1", "c", "c", "here/7"), **LASTS)


def test_no_lock_is_held(shop: Shop) -> None:
    result = shop("locks", "list")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.startswith("no lock is held")
    assert json.loads(shop.ok("locks", "list", "--json")) == {"locks": []}


def test_the_table_says_who_and_for_which_job(shop: Shop) -> None:
    shop.on_store(held)
    rows = [line.split("\t") for line in shop.ok("locks", "list").splitlines()]
    assert rows[0] == ["NAME", "OWNER", "JOB", "SINCE", "WAITING", "TOKEN"]
    assert [[*row[:3], row[4]] for row in rows[1:]] == [
        ["edition:42", "here/7", "-", "0"],
        ["project:1", "there/8", public_id.encode(12), "1"],
    ]


def test_json_has_everything(shop: Shop) -> None:
    shop.on_store(held)
    first, second = json.loads(shop.ok("locks", "list", "--json"))["locks"]
    assert first["token"] < second["token"]
    assert (second["job"], second["claim"]) == (public_id.encode(12), 1)
    assert {"since", "until", "worker", "waiters", "name", "owner"} <= set(first)


def test_a_lock_is_taken_from_its_holder(shop: Shop) -> None:
    shop.on_store(held)
    unasked = shop("locks", "release", "project:1")
    assert unasked.exit_code == 2
    assert "--yes" in unasked.stderr
    assert shop.ok("locks", "release", "project:1", "--yes") == "project:1 was taken from there/8\n"
    assert [row["name"] for row in json.loads(shop.ok("locks", "list", "--json"))["locks"]] == ["edition:42"]
    gone = shop("locks", "release", "project:1", "--yes", "--json")
    assert (gone.exit_code, json.loads(gone.stderr)["error"]["type"]) == (3, "LockNotFound")
    assert json.loads(shop.ok("locks", "release", "edition:42", "--yes", "--json"))["owner"] == "here/7"
