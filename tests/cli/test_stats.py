"""`stats`: the six questions of seed 000's operators, on both stores."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from holdfast import public_id, transitions
from holdfast.cli import stats as printed
from holdfast.client import stats
from holdfast.stores.values import Started
from tests.cli import working
from tests.cli.conftest import Shop

MINUTES = 60_000
OTHER_TAGS = ("--org-tag", "tenant", "--project-tag", "site")


async def start_long_ago(store: Any, queue: str, minutes: int) -> int:
    """Let a job have been running for so long."""
    (job,) = await working.claim(store, queue)
    await store.start_jobs([Started(job.id, job.claim, minutes * MINUTES)])
    return int(job.id)


async def end_in_part(store: Any, queue: str) -> None:
    """Let a job end with errors."""
    (job,) = await working.claim(store, queue)
    await store.finish_jobs([transitions.completed(job.id, job.claim, with_errors=True)])


def section(text: str, title: str) -> list[list[str]]:
    """Cut the lines below a title, as a pipe gets them."""
    (part,) = (part for part in text.split("\n\n") if part.startswith(title))
    return [line.split("\t") for line in part.strip().splitlines()]


def test_nothing_yet(shop: Shop) -> None:
    assert shop.ok("stats").splitlines() == [
        "backlog: 0 jobs wait",
        "",
        "active work: 0 jobs run",
        "",
        "items: 0 jobs work on them",
        "",
        "errors in the last hour: 0 of 0 jobs that finished",
        "",
        "throughput in the last hour: 0 jobs completed",
        "",
        "slow jobs: 0 jobs have been running for more than 10m",
    ]


def test_backlog_by_kind(shop: Shop) -> None:
    for number in range(3):
        shop.enqueue("transcode", f"url={number}")
    shop.enqueue("send_email", "to=a", "--delay", "1h")
    assert section(shop.ok("stats"), "backlog") == [
        ["backlog: 4 jobs wait"],
        ["KIND", "JOBS"],
        ["transcode", "3"],
        ["send_email", "1"],
    ]
    cut = section(shop.ok("stats", "--limit", "1"), "backlog")
    assert cut[2:] == [["transcode", "3"], ["and 1 more: give a higher --limit, or --json"]]


def test_active_work_and_items(shop: Shop) -> None:
    shop.enqueue("transcode", "url=a", "--tag", "project_id=7", "--tag", "org_id=1")
    job = shop.on_store(lambda store: working.talk(store, "bulk"))
    written = public_id.encode(job.id)
    text = shop.ok("stats")
    (title, heading, row) = section(text, "active work")
    assert (title, heading[0]) == (["active work: 1 job runs"], "ID")
    assert row[:6] == [written, "transcode", "bulk", "web-1", "encode", "75 %"]
    assert timedelta(0) <= datetime.now(UTC) - datetime.fromisoformat(row[6]) < timedelta(minutes=5)
    items = [
        ["items: 1 job works on them"],
        ["ID", "KIND", "PROJECT", "PHASE", "ITEMS", "COMPLETED", "SKIPPED", "FAILED", "IN_PROGRESS"],
        [written, "transcode", "7", "encode", "pages", "1", "1", "1", "1"],
    ]
    assert section(text, "items") == items
    assert section(shop.ok("stats", "--project", "7", "--phase", "encode"), "items") == items
    for other in (("--project", "8"), ("--phase", "download"), ("--project-tag", "site", "--project", "7")):
        assert section(shop.ok("stats", *other), "items") == [["items: 0 jobs work on them"]]


def test_errors_and_throughput_of_the_last_hour(shop: Shop) -> None:
    for tag in ("org_id=1", "org_id=1", "org_id=2", "tenant=x", "org_id=1", "org_id=1"):
        shop.enqueue("transcode", "url=a", "--tag", tag)
    for _ in range(4):
        shop.on_store(lambda store: working.complete(store, "bulk"))
    shop.on_store(lambda store: working.fail(store, "bulk"))
    shop.on_store(lambda store: end_in_part(store, "bulk"))
    text = shop.ok("stats")
    assert section(text, "errors") == [["errors in the last hour: 2 of 6 jobs that finished (33.3%)"]]
    (title, heading, first, *others) = section(text, "throughput")
    assert (title, heading) == (["throughput in the last hour: 4 jobs completed"], ["ORG_ID", "JOBS"])
    assert first == ["1", "2"]
    assert sorted(others) == [["", "1"], ["2", "1"]]
    assert ["x", "1"] in section(shop.ok("stats", *OTHER_TAGS), "throughput")


def test_slow_jobs(shop: Shop) -> None:
    for number in range(3):
        shop.enqueue("transcode", f"url={number}")
    slowest = shop.on_store(lambda store: start_long_ago(store, "bulk", 90))
    slow = shop.on_store(lambda store: start_long_ago(store, "bulk", 11))
    shop.on_store(lambda store: start_long_ago(store, "bulk", 9))
    text = shop.ok("stats", "--limit", "5")
    assert section(text, "slow jobs")[0] == ["slow jobs: 2 jobs have been running for more than 10m"]
    assert [row[0] for row in section(text, "slow jobs")[2:]] == [public_id.encode(slowest), public_id.encode(slow)]
    assert section(text, "active work")[0] == ["active work: 3 jobs run"]
    short = section(shop.ok("stats", "--limit", "1"), "slow jobs")
    assert short[2][0] == public_id.encode(slowest)
    assert short[3] == ["and 1 more: give a higher --limit, or --json"]


def test_as_json(shop: Shop) -> None:
    shop.enqueue("send_email", "to=a", "--delay", "1h")
    shop.enqueue("transcode", "url=a", "--tag", "org_id=1")
    shop.on_store(lambda store: working.complete(store, "bulk"))
    shop.enqueue("transcode", "url=b", "--tag", "project_id=7")
    slow = shop.on_store(lambda store: start_long_ago(store, "bulk", 11))
    found = json.loads(shop.ok("stats", "--json"))
    assert found["at"].endswith("Z")
    assert found["backlog"] == [{"kind": "send_email", "jobs": 1}]
    (job,) = found["active"]["jobs"]
    assert (job["id"], job["project"]) == (public_id.encode(slow), "7")
    assert found["slow"] == found["active"] == {"count": 1, "jobs": [job]}
    assert found["items"] == []
    assert found["errors"] == {"jobs": 0, "finished": 1, "by_state": {"completed": 1}}
    assert found["throughput"] == [{"org": "1", "jobs": 1}]


def test_what_may_be_more_ends_in_a_plus(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(4):
        shop.enqueue("transcode", f"url={number}", "--tag", "org_id=1")
    for _ in range(2):
        shop.on_store(lambda store: working.complete(store, "bulk"))
    for module in (stats, printed):
        monkeypatch.setattr(module, "LISTED", 1)
    text = shop.ok("stats")
    assert section(text, "backlog") == [["backlog: 1+ jobs wait"], ["KIND", "JOBS"], ["transcode", "2+"]]
    assert section(text, "active work") == [["active work: 0 jobs run"]]
    assert ["1", "2+"] in section(text, "throughput")
    found = json.loads(shop.ok("stats", "--json"))
    assert found["capped"] == ["backlog", "throughput"]
    monkeypatch.setattr(stats, "LISTED", 10)
    assert json.loads(shop.ok("stats", "--json"))["capped"] == []


def test_what_takes_too_long_says_what_to_do(postgres_shop: Shop, dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stats, "WITHIN_S", 0.2)
    with psycopg.connect(dsn) as connection:
        connection.execute(f'LOCK TABLE "{postgres_shop.schema}".jobs IN ACCESS EXCLUSIVE MODE')
        result = postgres_shop("stats", "--json")
    assert (result.exit_code, result.stdout) == (1, "")
    error = json.loads(result.stderr)["error"]
    assert error["type"] == "StoreUnavailable"
    assert "within 0.2 s, and nothing was changed" in error["message"]
    assert "holdfast queues list" in error["message"]
    assert postgres_shop.ok("stats").startswith("backlog: 0 jobs wait")


def test_on_sqlite_too(sqlite_shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    sqlite_shop.ok("migrate", "up")
    monkeypatch.setattr(stats, "WITHIN_S", 0.0)
    result = sqlite_shop("stats")
    assert result.exit_code == 1
    assert "within 0 s, and nothing was changed" in result.stderr
