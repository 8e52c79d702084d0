"""`queues`: counts, and who paused what and why."""

import json

from holdfast.client.stats import added_up
from holdfast.job import JobState
from holdfast.stores.values import Count
from tests.cli import working
from tests.cli.conftest import Shop


def test_counts_for_each_state(shop: Shop) -> None:
    for number in range(3):
        shop.enqueue("transcode", f"url={number}")
    shop.enqueue("send_email", "to=a", "--delay", "1h")
    shop.on_store(lambda store: working.report(store, "bulk"))
    shop.ok("queues", "pause", "high", "--reason", "mail server is down", "--actor", "alice")
    rows = [line.split("\t") for line in shop.ok("queues", "list").splitlines()]
    assert rows[0] == ["QUEUE", "QUEUED", "SCHEDULED", "RUNNING", "HELD", "BLOCKED", "STATUS"]
    assert rows[1] == ["bulk", "2", "0", "1", "0", "0", "active"]
    assert rows[2][:6] == ["high", "0", "1", "0", "0", "0"]
    assert rows[2][6].startswith("paused 20")
    assert rows[2][6].endswith("Z by alice: mail server is down")


def test_as_json(shop: Shop) -> None:
    shop.enqueue("transcode", "url=a")
    paused = json.loads(shop.ok("queues", "pause", "bulk", "--reason", "why", "--actor", "who", "--json"))
    (bulk,) = (queue for queue in json.loads(shop.ok("queues", "list", "--json"))["queues"] if queue["name"] == "bulk")
    assert bulk == paused
    assert bulk["counts"] == {"queued": {"jobs": 1, "capped": False}}
    assert (bulk["paused_by"], bulk["paused_reason"], bulk["paused_at"][-1]) == ("who", "why", "Z")
    resumed = json.loads(shop.ok("queues", "resume", "bulk", "--json"))
    assert resumed == paused | {"paused_at": None, "paused_by": None, "paused_reason": None}


def test_a_large_number_is_capped() -> None:
    rows = [
        Count("a", JobState.QUEUED, 10_001, capped=True),
        Count("a", JobState.SCHEDULED, 300, capped=True),
        Count("a", JobState.RUNNING, 9_999, capped=False),
    ]
    assert list(map(str, added_up(rows)["a"].values())) == ["10,000+", "300+", "9,999"]


def test_pause_and_resume(shop: Shop) -> None:
    shop.enqueue("send_email", "to=a")
    assert shop.ok("queues", "pause", "HIGH") == "high paused\n"
    assert shop.ok("queues", "resume", "high") == "high resumed\n"
    assert shop.ok("queues", "resume", "high") == "high was not paused\n"


def test_a_name_that_nobody_has_used(shop: Shop) -> None:
    missing = shop("queues", "resume", "hihg")
    assert (missing.exit_code, missing.stdout) == (3, "")
    assert "there is no queue hihg" in missing.stderr
    paused = shop("queues", "pause", "hihg")
    assert (paused.exit_code, paused.stdout) == (0, "hihg paused\n")
    assert "is it spelled right?" in paused.stderr
    known = shop("queues", "pause", "bulk")
    assert (known.exit_code, known.stderr) == (0, ""), "a task names it"


def test_wrong_names_are_refused_with_2(shop: Shop) -> None:
    for args in (("pause", "a b"), ("resume", "a b"), ("pause", "ok", "--actor", "x" * 300)):
        assert shop("queues", *args).exit_code == 2


def test_no_queue_yet(sqlite_shop: Shop) -> None:
    sqlite_shop.ok("migrate", "up")
    result = sqlite_shop("queues", "list")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.startswith("no queue is known yet")


def test_how_many_run_at_once_is_told_in_a_sentence(sqlite_shop: Shop) -> None:
    shop = sqlite_shop
    shop.ok("migrate", "up")
    shop.ok("config", "apply")
    assert "workers      as many as an instance has slots\n" in shop.ok("queues", "show", "high")
    shop.ok("queues", "limit", "high", "3")
    assert "workers      3 in an instance\n" in shop.ok("queues", "show", "high")
