"""What a job's page, its JSON and `jobs logs` tell of phases, items, log lines and webhooks; retries from a phase."""

import json
from typing import Any

from holdfast import public_id, transitions
from holdfast.stores.values import ProgressReport
from tests.cli import working
from tests.cli.conftest import Shop
from tests.cli.test_output import ACTING, STYLE, in_terminal


def told(shop: Shop) -> str:
    """Enqueue a job that has said something of everything."""
    job_id = shop.enqueue("transcode", "url=u")
    shop.on_store(lambda store: working.talk(store, "bulk"))
    return job_id


def lines(page: str, title: str) -> list[str]:
    """Cut one part of a page."""
    return page.partition(f"\n{title}\n")[2].partition("\n\n")[0].splitlines()


# ---- show ----------------------------------------------------------------------------------------------------------


def test_phases_on_a_page(shop: Shop) -> None:
    download, encode = lines(shop.ok("jobs", "show", told(shop)), "phases")
    assert download == f"  download  completed  [{'#' * 20}] 100 %  10s"
    assert encode.startswith(f"  encode    running    [{'#' * 10}{'.' * 10}]  50 %  since 1m 30s \\x1b]0;owned")


def test_a_phase_that_has_not_begun(shop: Shop) -> None:
    assert lines(shop.ok("jobs", "show", shop.enqueue("transcode", "url=u")), "phases") == ["  encode  pending"]


def test_the_error_of_a_phase_has_a_line_of_its_own(shop: Shop) -> None:
    job_id = shop.enqueue("transcode", "url=u")

    async def fail(store: Any) -> None:
        (job,) = await working.claim(store, "bulk")
        phase = {"name": "encode", "ordinal": 0, "weight": 1, "state": "failed", "percent": None, "message": None}
        phase |= {"data": None, "error": "ValueError: no codec", "result": None, "started_ago": 2_000, "ended_ago": 0}
        report = ProgressReport(job.id, job.claim, changes=json.dumps({"phases": [phase]}))
        await store.save_progress([report])

    shop.on_store(fail)
    shown = lines(shop.ok("jobs", "show", job_id), "phases")
    assert [line.split() for line in shown] == [["encode", "failed", "2.0s"], ["ValueError:", "no", "codec"]]


def test_items_on_a_page(shop: Shop) -> None:
    total, failed, skipped = lines(shop.ok("jobs", "show", told(shop)), "items")
    assert total == "  pages  4 in all: 1 completed, 1 skipped, 1 failed, 1 left"
    assert failed.startswith("    failed   c (ValueError: \\x1b]0;owned")
    assert skipped == "    skipped  b (empty)"


def test_progress_is_told_in_whole_percent_as_everywhere(sqlite_shop: Shop) -> None:
    job_id = sqlite_shop.enqueue("transcode", "url=u")

    async def report(store: Any) -> None:
        (job,) = await working.claim(store, "bulk")
        await store.save_progress([ProgressReport(job.id, job.claim, 200 / 3, "two of three")])

    sqlite_shop.on_store(report)
    assert "  progress    67 % two of three, " in sqlite_shop.ok("jobs", "show", job_id)


def test_of_many_failed_items_the_first_are_shown(shop: Shop) -> None:
    job_id = shop.enqueue("transcode", "url=u")

    async def fail(store: Any) -> None:
        (job,) = await working.claim(store, "bulk")
        keys = [f"k{number:02}" for number in range(15)]
        sets = [{"name": "pages", "word": "slug", "phase": None, "keys": keys}]
        changes = {"sets": sets, "items": [["pages", key, "failed", "no"] for key in keys]}
        await store.save_progress([ProgressReport(job.id, job.claim, changes=json.dumps(changes))])

    shop.on_store(fail)
    shown = lines(shop.ok("jobs", "show", job_id), "items")
    assert shown[0] == "  pages  15 in all: 15 failed"
    assert shown[1:11] == [f"    failed   k{number:02} (no)" for number in range(10)]
    assert shown[11].strip() == "and 5 more; `jobs items` has all"


def test_the_last_log_lines_on_a_page(shop: Shop) -> None:
    job_id = shop.enqueue("transcode", "url=u")

    async def log(store: Any) -> None:
        (job,) = await working.claim(store, "bulk")
        logs = [[number, 0, "INFO", f"line {number}"] for number in range(1, 13)]
        changes = json.dumps({"bare": True, "logs": logs})
        await store.save_progress([ProgressReport(job.id, job.claim, changes=changes)])

    shop.on_store(log)
    shown = lines(shop.ok("jobs", "show", job_id), "log, the last 10 of 12 lines; see jobs logs")
    assert [line.partition("INFO")[2].strip() for line in shown] == [f"line {number}" for number in range(3, 13)]


def test_no_part_acts_on_a_terminal(sqlite_shop: Shop) -> None:
    job_id = told(sqlite_shop)
    for args in (["jobs", "show", job_id], ["jobs", "show", job_id, "--json"], ["jobs", "logs", job_id]):
        assert not ACTING.search(sqlite_shop.ok(*args)), args
    for verb in ("show", "logs"):
        code, text = in_terminal(sqlite_shop, 80, "jobs", verb, job_id)
        assert code == 0
        assert STYLE.search(text), "in colour"
        assert not ACTING.search(STYLE.sub("", text)), verb


def test_a_list_says_how_many_items_failed(shop: Shop) -> None:
    shop.enqueue("transcode", "url=u")

    async def complete(store: Any) -> None:
        job = await working.talk(store, "bulk")
        await store.finish_jobs([transitions.completed(job.id, job.claim, "3", with_errors=True)])

    shop.on_store(complete)
    _, row = (line.split("\t") for line in shop.ok("jobs", "list").splitlines())
    assert (row[1], row[6]) == ("completed_with_errors", "pages: 1 of 4 failed")


# ---- as JSON -------------------------------------------------------------------------------------------------------


def test_parts_as_json(shop: Shop) -> None:
    job_id = told(shop)
    shown = json.loads(shop.ok("jobs", "show", job_id, "--json"))
    download, encode = shown["phases"]
    assert (download["name"], download["state"], download["result"]) == ("download", "completed", {"path": "a"})
    assert (encode["state"], encode["percent"], encode["message"]) == ("running", 50, working.HOSTILE)
    assert shown["items"] == {"pages": {"total": 4, "completed": 1, "skipped": 1, "failed": 1, "in_progress": 1}}
    items = json.loads(shop.ok("jobs", "items", job_id, "--json"))["items"]
    assert [(item["key"], item["state"], item["note"]) for item in items] == [
        ("c", "failed", f"ValueError: {working.HOSTILE}"),
        ("b", "skipped", "empty"),
        ("d", "in_progress", None),
        ("a", "completed", None),
    ]
    assert (shown["webhooks"], shown["webhook_sent"], shown["stale_at"]) == ([], False, None)
    (entry,) = json.loads(shop.ok("jobs", "list", "--json"))["jobs"]
    assert entry == shown


# ---- logs ----------------------------------------------------------------------------------------------------------


def test_logs_for_a_pipe(shop: Shop) -> None:
    first, second = (line.split("\t") for line in shop.ok("jobs", "logs", told(shop)).splitlines())
    assert first[1:] == ["1", "INFO", "began"]
    assert first[0].endswith("Z")
    assert second[1:3] == ["1", "WARNING"]
    assert second[3].startswith("slow \\x1b]0;owned")


def test_logs_as_json(shop: Shop) -> None:
    job_id = told(shop)
    shown = json.loads(shop.ok("jobs", "logs", job_id, "--json"))
    assert [(line["level"], line["line"], line["claim"]) for line in shown["logs"]] == [
        ("INFO", 1, 1),
        ("WARNING", 2, 1),
    ]
    assert [line["text"] for line in shown["logs"]] == ["began", f"slow {working.HOSTILE}"]


def test_a_job_without_lines(shop: Shop) -> None:
    result = shop("jobs", "logs", shop.enqueue("transcode", "url=u"))
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "no line is kept with this job\n")
    assert shop("jobs", "logs", public_id.encode(7)).exit_code == 3
    assert shop("jobs", "logs", "x").exit_code == 2


def test_claims_are_told_apart_in_a_terminal(sqlite_shop: Shop) -> None:
    job_id = sqlite_shop.enqueue("transcode", "url=u")

    async def log(store: Any) -> None:
        for number in (1, 2):
            (job,) = await working.claim(store, "bulk")
            changes = json.dumps({"bare": True, "logs": [[1, 0, "INFO", f"run {number}"]]})
            await store.save_progress([ProgressReport(job.id, job.claim, changes=changes)])
            await store.give_back_batch(job.worker, 1)

    sqlite_shop.on_store(log)
    code, text = in_terminal(sqlite_shop, 80, "jobs", "logs", job_id)
    shown = STYLE.sub("", text).splitlines()
    assert (code, len(shown)) == (0, 4)
    assert (shown[0], shown[2]) == ("claim 1", "claim 2")
    assert shown[1].endswith("UTC  INFO     run 1")


# ---- retry from a phase --------------------------------------------------------------------------------------------


def test_retry_from_a_phase(shop: Shop) -> None:
    job_id = told(shop)

    async def fail(store: Any) -> None:
        (job,) = await store.get_jobs([public_id.decode(job_id)])
        await store.finish_jobs([transitions.failed(job.id, job.claim, working.broken())])

    shop.on_store(fail)
    refused = shop("jobs", "retry", job_id, "--from-phase", "nope")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert f"expected a phase of job {job_id} (download, encode), got 'nope'" in refused.stderr
    assert shop.ok("jobs", "retry", job_id, "--from-phase", "download") == f"{job_id} queued\n"
    shown = json.loads(shop.ok("jobs", "show", job_id, "--json"))
    assert [phase["state"] for phase in shown["phases"]] == ["pending"], "both run anew; only one is planned"
