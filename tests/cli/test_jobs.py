"""`jobs`: lists and their filters, one job whole, and verbs on one and on several."""

import json
import re
from typing import Any

import pytest

from holdfast import public_id
from holdfast.ages import iso
from holdfast.job import Answer
from holdfast.resources.catalogue import describe
from holdfast.resources.job import Job
from tests.cli import working
from tests.cli.conftest import Shop
from tests.support import raw
from tests.support.builders import enqueue_many

UNKNOWN = public_id.encode(7)


def listed(shop: Shop, *args: str) -> list[str]:
    return shop.ok("jobs", "list", "--quiet", *args).split()


# ---- list ----------------------------------------------------------------------------------------------------------


def test_filters(shop: Shop) -> None:
    mail = shop.enqueue("send_email", "to=a", "--tag", "customer=17", "--tag", "plan=b", "--actor", "alice")
    later = shop.enqueue("send_email", "to=b", "--delay", "1h", "--tag", "customer=17")
    video = shop.enqueue("transcode", "url=u")
    assert listed(shop) == [video, later, mail]
    assert listed(shop, "--state", "queued", "--state", "failed") == [video, mail]
    assert listed(shop, "--kind", "Send_Email") == [later, mail]
    assert listed(shop, "--queue", "BULK", "--queue", "nobody") == [video]
    assert listed(shop, "--tag", "customer=17") == [later, mail]
    assert listed(shop, "--tag", "customer=17", "--tag", "plan=b") == [mail]
    assert listed(shop, "--actor", "alice", "--kind", "send_email") == [mail]
    assert listed(shop, "--since", "1h") == [video, later, mail]
    assert listed(shop, "--since", "2000-01-01", "--until", "2001-01-01T00:00:00+02:00") == []
    assert listed(shop, "--until", "1h") == []


def test_pages_follow_each_other(shop: Shop) -> None:
    ids = [shop.enqueue("send_email", f"to={number}") for number in range(5)]
    found: list[str] = []
    after: list[str] = []
    while True:
        page = json.loads(shop.ok("jobs", "list", "--limit", "2", "--json", *after))
        found += [job["id"] for job in page["jobs"]]
        if page["next"] is None:
            break
        after = ["--after", page["next"]]
    assert found == ids[::-1]
    text = shop("jobs", "list", "--limit", "2")
    assert text.stderr.startswith("more: --after ")
    assert listed(shop, "--after", text.stderr.split()[-1]) == ids[2::-1]


def test_one_filter_says_the_same_as_options_and_joins_them(shop: Shop) -> None:
    mail = shop.enqueue("send_email", "to=anna", "--tag", "customer=17", "--tag", "plan=b")
    later = shop.enqueue("send_email", "to=b", "--tag", "customer=17", "--delay", "1h")
    video = shop.enqueue("transcode", "url=u")
    assert listed(shop, "kind:send_email tag:customer=17 since:1h") == [later, mail]
    assert listed(shop, "state:queued") == [video, mail]
    assert listed(shop, "args.to=anna") == [mail]
    assert listed(shop, "ANNA") == [mail]
    assert listed(shop, mail) == [mail]
    assert listed(shop, mail[5:]) == [mail]
    assert listed(shop, "tag:plan=b", "--tag", "customer=17", "--kind", "send_email") == [mail]
    assert listed(shop, "kind:send_email", "--state", "scheduled") == [later]
    assert listed(shop, "kind:none") == []


@pytest.mark.parametrize(
    "args, said",
    [
        (["--state", "dead"], "'dead' is not one of"),
        (["--limit", "0"], "0 is not in the range"),
        (["--limit", "1001"], "1001 is not in the range"),
        (["--after", "x"], "--after: expected the cursor that a page gave, got 'x'"),
        (["--after", f"2026-01-01T00:00:00/{UNKNOWN}"], "--after: expected the cursor"),
        (["--since", "yesterday"], "--since: expected how long ago"),
        (["--tag", "red"], "--tag: expected name=value"),
        (["--kind", "a b"], "kind: expected 1 to 64 letters"),
        (["stat:failed since:x"], "did you mean state?"),
        (["stat:failed since:x"], "since: expected how long ago"),
        (["actor:a", "--actor", "b"], "actor: expected it once, got it in the filter and as an option"),
    ],
)
def test_wrong_filters_are_refused_with_2(sqlite_shop: Shop, args: list[str], said: str) -> None:
    sqlite_shop.ok("migrate", "up")
    result = sqlite_shop("jobs", "list", *args)
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr


def test_a_pipe_gets_whole_lines_separated_by_tabs(shop: Shop) -> None:
    shop.enqueue("transcode", "url=u")
    shop.on_store(lambda store: working.fail(store, "bulk"))
    due = json.loads(shop.ok("jobs", "show", shop.enqueue("send_email", "to=b", "--delay", "1h"), "--json"))["run_at"]
    head, scheduled, failed = (line.split("\t") for line in shop.ok("jobs", "list").splitlines())
    assert head == ["ID", "STATE", "KIND", "QUEUE", "TRY", "ENQUEUED", "DETAIL"]
    assert scheduled[1:5] == ["scheduled", "send_email", "high", "0/5"]
    assert scheduled[6] == f"due {due}"
    assert failed[1:5] == ["failed", "transcode", "bulk", "1/5"]
    assert failed[5].endswith("Z")
    assert failed[6].startswith("ValueError: no codec ")


def test_no_job_fits(shop: Shop) -> None:
    result = shop("jobs", "list", "--state", "failed")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "no job fits\n")
    assert json.loads(shop.ok("jobs", "list", "--json")) == {"jobs": [], "next": None, "searched_to": None}


# ---- show ----------------------------------------------------------------------------------------------------------


def test_what_cannot_be_read_of_a_job_is_named(shop: Shop) -> None:
    good, bad = shop.enqueue("transcode", "url=u"), shop.enqueue("transcode", "url=v")
    extra = """'{"phases": 5}'"""
    sql = f"UPDATE holdfast.jobs SET extra = {extra} WHERE id = {public_id.decode(bad)}"
    shop.on_store(lambda store: raw.execute(store, sql))
    mistake = "extra.phases: Expected `array`, got `int`"
    assert f"  unreadable  {mistake}" in shop.ok("jobs", "show", bad).splitlines()
    found = {job["id"]: job["unreadable"] for job in json.loads(shop.ok("jobs", "list", "--json"))["jobs"]}
    assert found == {good: [], bad: [mistake]}
    assert f"cannot be read: {mistake}" in shop.ok("jobs", "list")


def test_a_failed_job_says_why(shop: Shop) -> None:
    job_id = shop.enqueue("transcode", "url=u", "--tag", "customer=17", "--actor", "alice", "--unique", "x")
    shop.on_store(lambda store: working.fail(store, "bulk"))
    page = shop.ok("jobs", "show", job_id)
    first, *_ = page.splitlines()
    assert first == f"{job_id}  transcode  failed"
    for expected in (
        "  why         ValueError: no codec",
        "(attempt 1 of 5, 0 crashes)",
        "  queue       bulk, priority 5",
        "  attempts    1 of 5, crashes 0 of 3, run 1, claim 1",
        "UTC (just now) by alice",
        "  finished    ",
        "  kept until  ",
        "  timeout     1h",
        "  tags        customer=17",
        "  unique      x",
        'args\n  {"url": "u"',
        "traceback\n",
        "working.py",
    ):
        assert expected in page


def test_what_came_of_a_job_is_counted_and_named(shop: Shop) -> None:
    job_id = shop.enqueue("transcode", "url=u")
    shop.on_store(lambda store: working.fail(store, "bulk"))
    job = public_id.decode(job_id)
    for label in ("parent", "origin", "children", "cloned as"):
        assert f"  {label:<11} " not in shop.ok("jobs", "show", job_id)
    shop.on_store(lambda store: enqueue_many(store, 2, parent=job))
    child = shop.on_store(lambda store: enqueue_many(store, 1, parent=job, queue="bulk"))[0]
    shop.on_store(lambda store: working.complete(store, "bulk"))
    edited = shop.ok("jobs", "clone", job_id, "url=v").strip()
    page = shop.ok("jobs", "show", job_id)
    assert f"  children    3 (2 queued, 1 completed); see jobs list parent:{job_id}\n" in page
    assert f"  cloned as   job {edited} (queued)\n" in page
    assert len(shop.ok("jobs", "list", f"parent:{job_id}", "--quiet").split()) == 3
    assert f"  origin      job {job_id}, of which it is a changed copy\n" in shop.ok("jobs", "show", edited)
    parented = public_id.encode(child)
    assert f"  parent      job {job_id}, whose handler enqueued it\n" in shop.ok("jobs", "show", parented)
    shown = json.loads(shop.ok("jobs", "show", parented, "--json"))
    assert (shown["parent"], shown["origin"]) == (job_id, None)
    shop.on_store(lambda store: enqueue_many(store, 18, parent=job))
    assert "  children    20+ (of the newest: 19 queued, 1 completed); see" in shop.ok("jobs", "show", job_id)


def test_an_attempt_that_failed_is_listed_with_its_traceback(shop: Shop) -> None:
    job_id = shop.enqueue("transcode", "url=u")
    shop.on_store(lambda store: working.retry_later(store, "bulk"))
    page = shop.ok("jobs", "show", job_id)
    assert "  why         is due in " in page
    assert "after attempt 1 ended with ValueError: no codec" in page
    assert "attempts\n  1. retry  " in page
    assert ", claim 1\n     ValueError: no codec" in page
    assert 'working.py", line' in page


def test_every_state_says_why(shop: Shop) -> None:
    def why(job_id: str) -> str:
        return shop.ok("jobs", "show", job_id).splitlines()[1].removeprefix("  why").strip()

    done = shop.enqueue("transcode", "url=a")
    assert why(done) == "may run, but no living worker takes jobs of queue bulk"
    shop.on_store(lambda store: working.complete(store, "bulk"))
    assert why(done) == "finished just now on attempt 1"
    running = shop.enqueue("transcode", "url=b")
    shop.on_store(lambda store: working.report(store, "bulk"))
    assert re.fullmatch(
        r"worker \d+ \(web-1, process 4711\) took it \d+ m?s ago and has not started it yet", why(running)
    )
    assert "  progress    50 % half way " in shop.ok("jobs", "show", running)
    assert (
        shop.ok("jobs", "cancel", running, "--actor", "bob", "--reason", "late")
        == f"{running} running, asked to stop\n"
    )
    assert "; it was asked to stop " in why(running)
    assert why(running).endswith(" by bob: late")
    waiting = shop.enqueue("transcode", "url=c")
    assert why(waiting) == "it may run, first in its lane; 1 slots of the 2 worker processes of queue bulk are busy"
    shop.ok("queues", "pause", "bulk", "--actor", "eve", "--reason", "disk full")
    assert re.fullmatch(r"its queue bulk was paused \d+ m?s ago by eve: disk full", why(waiting))
    assert shop.ok("jobs", "why", waiting).startswith("its queue bulk was paused ")
    asked = json.loads(shop.ok("jobs", "why", waiting, "--json"))
    assert list(asked) == ["reason", "sentence", "details"]
    assert (asked["reason"], asked["details"]) == ("paused", {"queue": "bulk", "by": "eve", "why": "disk full"})
    shop.ok("jobs", "cancel", waiting, "--actor", "bob", "--reason", "late")
    assert why(waiting) == "cancelled by bob: late"
    assert why(shop.enqueue("send_email", "to=a", "--delay", "2h")) == "is due in 1 h 59 min"


def test_a_job_as_json(shop: Shop) -> None:
    job_id = shop.enqueue("transcode", "url=u")
    shop.on_store(lambda store: working.fail(store, "bulk"))
    shown = json.loads(shop.ok("jobs", "show", job_id, "--json"))
    assert list(shown) == [field.name for field in describe(Job)]
    assert shown["id"] == job_id
    assert (shown["state"], shown["error_class"], shown["result"]) == ("failed", "ValueError", None)
    assert all(shown[name].endswith("Z") for name in ("enqueued_at", "run_at", "finished_at", "delete_at"))
    (entry,) = json.loads(shop.ok("jobs", "list", "--json"))["jobs"]
    assert entry == shown


def test_attempts_as_json(shop: Shop) -> None:
    job_id = shop.enqueue("transcode", "url=u")
    shop.on_store(lambda store: working.retry_later(store, "bulk"))
    (attempt,) = json.loads(shop.ok("jobs", "show", job_id, "--json"))["attempts"]
    assert (attempt["attempt"], attempt["outcome"], attempt["error_class"]) == (1, "retry", "ValueError")


def test_an_id_is_forgiven_case_and_hyphens(shop: Shop) -> None:
    job_id = shop.enqueue("send_email", "to=a")
    assert shop.ok("jobs", "show", job_id.upper().replace("-", "")).startswith(job_id)


@pytest.mark.parametrize("wrong", ["x", "htcx-2s16-z48b-08", "1"])
def test_a_wrong_id_is_refused_with_2(sqlite_shop: Shop, wrong: str) -> None:
    for verb in ("show", "cancel", "retry", "delete"):
        result = sqlite_shop("jobs", verb, wrong)
        assert (result.exit_code, result.stdout) == (2, ""), verb
        assert result.stderr.startswith("Error: job id: ")


def test_not_found_is_3(shop: Shop) -> None:
    for verb in ("show", "cancel", "retry", "delete"):
        result = shop("jobs", verb, UNKNOWN)
        assert result.exit_code == 3, verb
        assert "there is no such job" in result.stderr
        assert result.stderr.count("\n") == 1


# ---- cancel, retry, delete -----------------------------------------------------------------------------------------


def test_cancel_retry_delete(shop: Shop) -> None:
    job_id = shop.enqueue("send_email", "to=a")
    assert shop("jobs", "delete", job_id).exit_code == 4
    assert shop("jobs", "retry", job_id).exit_code == 4
    assert shop.ok("jobs", "cancel", job_id, "--reason", "wrong") == f"{job_id} cancelled\n"
    assert shop.ok("jobs", "cancel", job_id) == f"{job_id} cancelled\n"
    assert shop.ok("jobs", "retry", job_id) == f"{job_id} queued\n"
    shop.ok("jobs", "cancel", job_id)
    assert shop.ok("jobs", "delete", job_id) == f"{job_id} deleted\n"
    assert shop("jobs", "show", job_id).exit_code == 3


def test_a_conflict_says_what_to_do(shop: Shop) -> None:
    job_id = shop.enqueue("send_email", "to=a")
    result = shop("jobs", "delete", job_id)
    assert result.stderr == f"Error: delete {job_id}: it is queued; cancel it first, then delete it\n"


def test_several_ids_end_with_the_worst(shop: Shop) -> None:
    live, finished = shop.enqueue("send_email", "to=a"), shop.enqueue("send_email", "to=b")
    shop.ok("jobs", "cancel", finished)
    result = shop("jobs", "delete", UNKNOWN, finished)
    assert (result.exit_code, result.stdout) == (3, f"{finished} deleted\n")
    result = shop("jobs", "delete", live, UNKNOWN)
    assert (result.exit_code, result.stdout, result.stderr.count("Error: ")) == (4, "", 2)
    assert shop("jobs", "cancel", live, "nonsense").exit_code == 2
    assert listed(shop, "--state", "queued") == [live], "a wrong id among them changes nothing"
    assert shop("jobs", "cancel").exit_code == 2


def test_answers_as_json(shop: Shop) -> None:
    live = shop.enqueue("send_email", "to=a")
    result = shop("jobs", "cancel", live, UNKNOWN, "--json")
    assert result.exit_code == 3
    good, bad = json.loads(result.stdout)["jobs"]
    assert good == {
        "id": live,
        "answer": Answer.DONE,
        "state": "cancelled",
        "error": None,
        "other": None,
    }
    assert (bad["answer"], bad["state"]) == ("not_found", None)
    error: dict[str, Any] = json.loads(result.stderr)["error"]
    assert (error["type"], error["message"], error["exit_code"]) == ("JobNotFound", bad["error"], 3)


def test_a_unique_clash_on_retry_is_a_conflict(shop: Shop) -> None:
    first = shop.enqueue("send_email", "to=a", "--unique", "u")
    shop.ok("jobs", "cancel", first)
    second = shop.enqueue("send_email", "to=a", "--unique", "u")
    result = shop("jobs", "retry", first)
    assert result.exit_code == 4
    assert f"job {second} is live and holds its unique key" in result.stderr


def test_times_are_iso(shop: Shop) -> None:
    job_id = shop.enqueue("send_email", "to=a")
    shown = json.loads(shop.ok("jobs", "show", job_id, "--json"))

    async def read(store: Any) -> str:
        (job,) = await store.get_jobs([public_id.decode(job_id)])
        return iso(job.enqueued_at)

    assert shown["enqueued_at"] == shop.on_store(read)
