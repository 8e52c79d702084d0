"""`dead-letters` and `bulk`: groups of failed jobs, what is done with them, and what is asked before."""

import json
from pathlib import Path
from typing import Any

import pytest

from holdfast import failure
from holdfast.delivery.in_store import InStore
from holdfast.services.bulk import BulkService
from holdfast.stores.failures import group_id
from holdfast.stores.store import Store
from holdfast.stores.values import Claim, Lane, WorkerProcess
from holdfast.transitions import failed
from tests.cli.conftest import Shop

WHY = failure.from_text("TimeoutError", "no answer from http://user:hunter2@mail.example/ in 5 s")
GROUP = group_id("send_email", WHY.fingerprint)


def fail(shop: Shop, count: int = 1, to: str = "a@example.org") -> list[str]:
    """Let jobs fail."""
    ids = [shop.enqueue("send_email", f"to={to}") for _ in range(count)]

    async def work(store: Any) -> None:
        worker = await store.register_worker(WorkerProcess("test", "here", 1), 60_000)
        jobs = await store.claim_jobs(Claim(worker, 1, count, (Lane("high", 1, count),)))
        assert len(jobs) == count
        await store.finish_jobs([failed(job.id, job.claim, WHY) for job in jobs])
        await store.fold_failures(count // 2)

    shop.on_store(work)
    return ids


def work(shop: Shop) -> None:
    """Let the services do what was started."""

    async def serve(store: Any) -> None:
        serving = BulkService(store, InStore(store))
        while (await serving.run(100)).has_more:
            pass

    shop.on_store(serve)


def state(shop: Shop, job: str) -> Any:
    return json.loads(shop.ok("jobs", "show", job, "--json"))["state"]


def test_groups_are_listed(shop: Shop) -> None:
    assert "no failed job fits" in shop("dead-letters", "list").stderr
    last = fail(shop, 3)[-1]
    heading, row = [line.split("\t") for line in shop.ok("dead-letters", "list").splitlines()]
    assert heading == ["GROUP", "KIND", "QUEUE", "LEFT", "SEEN", "FIRST", "LAST", "ERROR"]
    assert row[:5] == [GROUP, "send_email", "high", "3", "3"]
    assert row[7] == "TimeoutError: no answer from http://user:***@mail.example/ in 5 s"
    (found,) = json.loads(shop.ok("dead-letters", "list", "--json"))["groups"]
    assert (found["id"], found["seen"], found["left"]) == (GROUP, 3, {"jobs": 3, "capped": False})
    assert found["last_job"] == last
    assert json.loads(shop.ok("dead-letters", "list", "--kind", "resize", "--json"))["groups"] == []
    assert json.loads(shop.ok("dead-letters", "list", "--error", "TimeoutError", "--since", "1h", "--json"))["groups"]
    shown = shop.ok("dead-letters", "show", GROUP)
    assert "3 left, 3 in all" in shown
    assert last in shown
    assert "hunter2" not in shown
    assert json.loads(shop.ok("dead-letters", "show", GROUP, "--json")) == found
    assert len(shop.ok("dead-letters", "show", GROUP, "--limit", "2").split("FAILED\tERROR\n")[1].splitlines()) == 2
    assert "send_email" in shop.ok("dead-letters", "show", last)


def test_a_group_is_replayed_after_it_was_asked(shop: Shop) -> None:
    ids = fail(shop, 3)
    asked = shop("dead-letters", "replay", GROUP)
    assert (asked.exit_code, asked.stdout) == (2, "")
    assert "this would replay 3 failed jobs; say --yes" in asked.stderr
    started = shop.ok(
        "dead-letters", "replay", GROUP, "--yes", "--rate", "1000/s", "--actor", "alice", "--reason", "fixed"
    )
    assert started == "bulk operation 1: retry running, 0 of 3 done\n"
    assert [state(shop, job) for job in ids] == ["failed"] * 3
    work(shop)
    assert shop.ok("bulk", "show", "1", "--wait") == "bulk operation 1: retry ended, 3 of 3 done\n"
    assert [state(shop, job) for job in ids] == ["queued"] * 3
    (run,) = json.loads(shop.ok("bulk", "list", "--json"))["operations"]
    assert (run["actor"], run["reason"], run["per_second"]) == ("alice", "fixed", 1000.0)
    assert run["which"]["fingerprint"] == WHY.fingerprint
    heading, row = [line.split("\t") for line in shop.ok("bulk", "list").splitlines()]
    assert heading[:6] == ["ID", "VERB", "STATE", "DONE", "REFUSED", "OF"]
    assert row[:6] == ["1", "retry", "ended", "3", "0", "3"]
    assert "no failed job fits" in shop("dead-letters", "replay", GROUP, "--yes").stderr


def test_jobs_that_fit_are_purged(sqlite_shop: Shop) -> None:
    shop = sqlite_shop
    ids = fail(shop, 2)
    assert shop("dead-letters", "purge", "--yes").exit_code == 2
    started = json.loads(shop.ok("dead-letters", "purge", "--kind", "send_email", "--yes", "--json"))
    assert (started["verb"], started["expected"]["jobs"]) == ("delete", 2)
    assert shop.ok("bulk", "pause", "1") == "bulk operation 1: delete paused, 0 of 2 done\n"
    work(shop)
    assert state(shop, ids[0]) == "failed"
    shop.ok("bulk", "resume", "1")
    work(shop)
    assert shop("jobs", "show", ids[0]).exit_code == 3
    assert shop("bulk", "cancel", "1").exit_code == 4
    assert shop("bulk", "show", "2").exit_code == 3
    (gone,) = json.loads(shop.ok("dead-letters", "list", "--all", "--json"))["groups"]
    assert (gone["seen"], gone["left"]["jobs"]) == (2, 0)


def test_a_run_that_meets_errors_says_so(sqlite_shop: Shop) -> None:
    shop = sqlite_shop
    fail(shop, 2)
    run = json.loads(shop.ok("dead-letters", "purge", "--kind", "send_email", "--yes", "--json"))
    assert (run["errors"], run["error"]) == (0, None)

    async def meet_error(store: Store) -> None:
        (found,) = await store.list_bulk(1)
        await store.fail_bulk(found, "DataRefused: no room", 60_000)

    shop.on_store(meet_error)
    told = "bulk operation 1: delete running, 0 of 2 done; errors in a row: 1, the last: DataRefused: no room\n"
    assert shop.ok("bulk", "show", "1") == told
    (run,) = json.loads(shop.ok("bulk", "list", "--json"))["operations"]
    assert (run["errors"], run["error"]) == (1, "DataRefused: no room")
    assert shop.ok("bulk", "list").splitlines()[1].endswith("\tDataRefused: no room")


def test_named_jobs_are_changed_at_once(sqlite_shop: Shop) -> None:
    shop = sqlite_shop
    first, second, third = fail(shop, 3)
    assert shop.ok("dead-letters", "replay", first) == f"{first} queued\n"
    assert shop.ok("dead-letters", "purge", second) == f"{second} deleted\n"
    assert shop("dead-letters", "purge", first).exit_code == 4
    assert shop("dead-letters", "replay", third, GROUP).exit_code == 2
    made = shop.ok("dead-letters", "replay", third, "--set", "to=b@example.org", "--set", "subject=again").strip()
    shown = json.loads(shop.ok("jobs", "show", made, "--json"))
    assert (shown["args"], shown["state"]) == ({"to": "b@example.org", "subject": "again"}, "queued")
    assert f"job {third}, of which it is a changed copy" in shop.ok("jobs", "show", made)
    assert state(shop, third) == "failed"
    wrong = shop("dead-letters", "replay", third, "--set", "too=b")
    assert wrong.exit_code == 2
    assert "too" in wrong.stderr
    assert shop("dead-letters", "replay", GROUP, "--set", "to=b").exit_code == 2


def test_an_unknown_group_is_not_found(sqlite_shop: Shop) -> None:
    fail(sqlite_shop)
    assert sqlite_shop("dead-letters", "show", "000000000000").exit_code == 3
    assert sqlite_shop("dead-letters", "replay", "000000000000", "--yes").exit_code == 3
    assert sqlite_shop("dead-letters", "list", "--after", "x").exit_code == 2


def test_export_is_one_object_a_line(shop: Shop, tmp_path: Path) -> None:
    ids = fail(shop, 3)
    result = shop("dead-letters", "export", "dead.jsonl", "--group", GROUP)
    assert (result.exit_code, result.stdout) == (0, "")
    assert "3 jobs written" in result.stderr
    text = (tmp_path / "dead.jsonl").read_text(encoding="utf-8")
    lines = [json.loads(line) for line in text.splitlines()]
    assert {line["id"] for line in lines} == set(ids)
    assert {line["group"] for line in lines} == {GROUP}
    assert lines[0]["args"] == {"to": "a@example.org"}
    assert "hunter2" not in text
    assert len(shop.ok("dead-letters", "export", "-", "--kind", "send_email").splitlines()) == 3
    assert shop.ok("dead-letters", "export", "-", "--kind", "resize") == ""


@pytest.mark.parametrize(
    "args", [("dead-letters", "replay", "--all", "--rate", "fast", "--yes"), ("bulk", "show", "x")]
)
def test_wrong_words_are_refused(sqlite_shop: Shop, args: tuple[str, ...]) -> None:
    fail(sqlite_shop)
    assert sqlite_shop(*args).exit_code == 2
