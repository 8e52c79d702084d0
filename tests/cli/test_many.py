"""Doing one thing to many jobs, changing one job's place and arguments, taking jobs out, and the forms of lists."""

import csv
import io
import json
import os
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from click.shell_completion import BashComplete

from holdfast import payload, public_id
from holdfast.cli import listing
from holdfast.cli.main import standalone
from holdfast.delivery.in_store import InStore
from holdfast.services.bulk import BulkService
from tests.cli import working
from tests.cli.conftest import Shop


def states(shop: Shop) -> dict[str, str]:
    return {job["id"]: job["state"] for job in json.loads(shop.ok("jobs", "list", "--json"))["jobs"]}


def work(shop: Shop) -> None:
    """Do what whoever leads does."""

    async def run(store: Any) -> None:
        service = BulkService(store, InStore(store))
        while (await service.run(2)).has_more:
            pass

    shop.on_store(run)


def test_a_run_is_previewed_asked_for_and_does_all_that_fit(shop: Shop) -> None:
    mails = [shop.enqueue("send_email", f"to={number}") for number in range(3)]
    video = shop.enqueue("transcode", "url=u")
    chosen = ("--filter", "kind:send_email")
    assert shop.ok("jobs", "reschedule", *chosen, "--delay", "1h", "--dry-run") == "this would reschedule 3 jobs\n"
    preview = json.loads(shop.ok("jobs", "cancel", mails[0], video, "--dry-run", "--json"))
    assert preview == {"jobs": 2, "capped": False}
    asked = shop("jobs", "reschedule", *chosen, "--delay", "1h")
    assert (asked.exit_code, "say --yes" in asked.stderr) == (2, True)
    assert json.loads(shop.ok("bulk", "list", "--json"))["operations"] == [], "nothing was started"
    run = json.loads(shop.ok("jobs", "reschedule", *chosen, "--delay", "1h", "--yes", "--json"))
    assert (run["verb"], run["delay_ms"], run["expected"]["jobs"]) == ("reschedule", 3_600_000, 3)
    work(shop)
    assert states(shop) == {**dict.fromkeys(mails, "scheduled"), video: "queued"}
    started = shop("jobs", "priority", *chosen, "0", "--yes")
    assert (started.stdout, "--wait" in started.stderr) == (
        "bulk operation 2: reprioritise running, 0 of 3 done\n",
        True,
    )
    work(shop)
    assert {job["priority"] for job in json.loads(shop.ok("jobs", "list", *chosen[1:], "--json"))["jobs"]} == {0}
    shop.ok("jobs", "cancel", *chosen, "--reason", "enough", "--yes")
    work(shop)
    assert shop.ok("bulk", "show", "3", "--wait") == "bulk operation 3: cancel ended, 3 of 3 done\n"
    assert json.loads(shop.ok("jobs", "show", mails[0], "--json"))["cancel_reason"] == "enough"
    shop.ok("jobs", "retry", *chosen, "--rate", "1000/s", "--yes")
    work(shop)
    shop.ok("queues", "purge", "high", "--yes")
    work(shop)
    assert states(shop) == {**dict.fromkeys(mails, "cancelled"), video: "queued"}
    shop.ok("jobs", "delete", "--filter", "state:cancelled", "--yes")
    work(shop)
    assert states(shop) == {video: "queued"}
    nothing = shop("jobs", "cancel", *chosen, "--yes")
    assert (nothing.exit_code, nothing.stdout, "no job fits" in nothing.stderr) == (0, "", True)


def test_one_job_is_put_off_hurried_and_moved(sqlite_shop: Shop) -> None:
    shop = sqlite_shop
    shop.ok("migrate", "up")
    job = shop.enqueue("send_email", "to=a")
    assert shop.ok("jobs", "reschedule", job, "--at", "2090-01-15T09:00:00Z") == f"{job} scheduled\n"
    assert json.loads(shop.ok("jobs", "show", job, "--json"))["run_at"] == "2090-01-15T09:00:00Z"
    assert shop.ok("jobs", "reschedule", job, "--now") == f"{job} queued\n"
    assert shop.ok("jobs", "priority", job, "1") == f"{job} priority 1\n"
    assert shop("jobs", "priority", job, public_id.encode(7), "1").exit_code == 3
    other = shop.enqueue("send_email", "to=b")
    assert shop.ok("jobs", "priority", job[10:], other, "2") == f"{job} priority 2\n{other} priority 2\n"
    assert json.loads(shop.ok("jobs", "show", job[5:], "--json"))["id"] == job
    both, none = shop("jobs", "cancel", job[:11]), shop("jobs", "cancel", public_id.encode(7)[10:])
    assert (both.exit_code, job in both.stderr and other in both.stderr) == (2, True)
    assert (none.exit_code, states(shop)) == (3, {job: "queued", other: "queued"})
    for wrong in (
        ["jobs", "reschedule", job],
        ["jobs", "reschedule", job, "--now", "--delay", "1h"],
        ["jobs", "reschedule", job, "--at", "2090-01-15T09:00:00"],
        ["jobs", "priority", job, "11"],
        ["jobs", "cancel"],
        ["jobs", "cancel", job, "--filter", ""],
        ["jobs", "cancel", job, "--wait"],
        ["jobs", "delete", job, "--reason", "none is kept"],
        ["jobs", "cancel", "--filter", "colour:red", "--yes"],
        ["jobs", "cancel", "--filter", "state:failed", "--yes"],
        ["jobs", "retry", "--filter", "", "--from-phase", "encode"],
        ["jobs", "clone", job],
        ["jobs", "clone", job, "to=b", "--args", "{}"],
        ["queues", "limit", "high"],
        ["queues", "limit", "high", "3", "--reset"],
        ["queues", "limit", "high", "0"],
    ):
        assert shop(*wrong).exit_code == 2, wrong
    assert shop("queues", "purge", "nobody", "--yes").exit_code == 3


def test_a_person_is_asked_and_has_to_type_what_cannot_be_undone(
    sqlite_shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = sqlite_shop
    shop.ok("migrate", "up")
    shop.ok("jobs", "cancel", shop.enqueue("send_email", "to=a"))
    monkeypatch.setattr("holdfast.cli.many.sys", SimpleNamespace(stdin=SimpleNamespace(isatty=lambda: True)))
    for verb, said, code in (("delete", "y", 1), ("delete", "", 1), ("retry", "n", 1), ("retry", "y", 0)):
        asked = shop("jobs", verb, "--filter", "kind:send_email", stdin=f"{said}\n")
        assert (asked.exit_code, f"{verb} 1 job?" in asked.stderr) == (code, True), (verb, said)
    assert shop("jobs", "delete", "--filter", "kind:send_email", stdin="delete\n").exit_code == 0
    assert [run["verb"] for run in json.loads(shop.ok("bulk", "list", "--json"))["operations"]] == ["delete", "retry"]


def test_a_job_is_replayed_with_other_arguments(sqlite_shop: Shop) -> None:
    shop = sqlite_shop
    shop.ok("migrate", "up")
    secret = json.dumps({payload.SECRET: "hunter2"})
    old = shop.enqueue("resize", "path=a", "width=80", f"value:={secret}")
    assert shop("jobs", "clone", old, "width=90").exit_code == 4, "it has not ended"
    shop.ok("jobs", "cancel", old)
    new = shop.ok("jobs", "clone", old, "width=90").strip()
    shown = json.loads(shop.ok("jobs", "show", new, "--json"))
    assert {name: shown["args"][name] for name in ("path", "width")} == {"path": "a", "width": 90}
    covered = json.loads(shop.ok("jobs", "show", old, "--json"))["args"]
    copy = shop.ok("jobs", "clone", old, "--args", "-", stdin=json.dumps(covered | {"path": "b"})).strip()

    async def read(store: Any) -> Any:
        return (await store.get_jobs([public_id.decode(copy)]))[0].payload

    kept = shop.on_store(read)
    assert (kept["path"], kept["value"]) == ("b", {payload.SECRET: "hunter2"}), "what is covered stays what it was"
    assert shop("jobs", "clone", old, "width=wide").exit_code == 2
    assert shop("jobs", "clone", old, "--args", "[]").exit_code == 2


def test_jobs_are_taken_out_page_by_page_and_secrets_are_covered(
    sqlite_shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = sqlite_shop
    shop.ok("migrate", "up")
    monkeypatch.setattr("holdfast.cli.exporting._PAGE", 2)
    secret = json.dumps({payload.SECRET: "no codec"})  # which the error will quote
    told = shop.enqueue("resize", "path=postgresql://me:s3cret@db/x", "width=80", f"value:={secret}")
    shop.on_store(lambda store: working.fail(store, "default"))
    mails = [shop.enqueue("send_email", f"to={number}") for number in range(3)]
    exported = shop("jobs", "export")
    lines = [json.loads(line) for line in exported.stdout.splitlines()]
    assert [line["id"] for line in lines] == [*mails[::-1], told]
    assert lines[0] == json.loads(shop.ok("jobs", "show", mails[-1], "--json"))
    assert (exported.exit_code, exported.stderr) == (0, "4 jobs written\n")
    assert "no codec" not in exported.stdout
    assert "s3cret" not in exported.stdout
    assert shop.ok("dead-letters", "purge", told, "--dry-run") == "this would delete 1 failed job\n"
    assert shop("dead-letters", "replay", told, "--set", "width=1", "--dry-run").exit_code == 2
    one = shop("jobs", "export", "state:failed", "--output", "failed.jsonl", "--json")
    assert (one.stdout, json.loads(one.stderr)) == ("", {"exported": 1})
    assert json.loads((shop.folder / "failed.jsonl").read_text(encoding="utf-8"))["id"] == told


@pytest.mark.parametrize("command", [("jobs", "export"), ("dead-letters", "export", "-")], ids=" ".join)
def test_an_export_keeps_addresses_with_a_port(sqlite_shop: Shop, command: tuple[str, ...]) -> None:
    told = {"to": "http://example.org:8080/from", "subject": 'ada@example.org "and" x://me:s3cret@db'}
    sqlite_shop.enqueue("send_email", *(f"{name}={value}" for name, value in told.items()))
    sqlite_shop.on_store(lambda store: working.fail(store, "high", 1))
    (line,) = sqlite_shop.ok(*command).splitlines()
    assert json.loads(line)[
        "args" if command[0] == "dead-letters" else "args" if command[0] == "jobs" else "payload"
    ] == {
        **told,
        "subject": 'ada@example.org "and" x://me:***@db',
    }


@pytest.mark.guards("export-mode")
@pytest.mark.parametrize("command", [("jobs", "export", "--output"), ("dead-letters", "export")], ids=" ".join)
def test_an_export_is_for_its_user_alone(sqlite_shop: Shop, command: tuple[str, ...]) -> None:
    sqlite_shop.ok("migrate", "up")
    (sqlite_shop.folder / "old.jsonl").touch()
    (sqlite_shop.folder / "old.jsonl").chmod(0o644)
    umask = os.umask(0o022)
    try:
        for name in ("new.jsonl", "old.jsonl"):
            sqlite_shop.ok(*command, name)
    finally:
        os.umask(umask)
    modes = [oct((sqlite_shop.folder / name).stat().st_mode & 0o777) for name in ("new.jsonl", "old.jsonl")]
    assert modes == ["0o600", "0o644"], "one that was there keeps its mode"
    assert sqlite_shop(*command, "missing/new.jsonl").exit_code == 1


def test_what_a_queue_runs_at_once_is_bounded_and_let_go(sqlite_shop: Shop) -> None:
    shop = sqlite_shop
    shop.ok("migrate", "up")
    shop.ok("config", "apply")
    assert shop.ok("queues", "limit", "high", "3") == "high: each instance runs at most 3 jobs at once\n"
    assert json.loads(shop.ok("queues", "show", "high", "--json"))["workers"] == 3
    assert json.loads(shop.ok("queues", "limit", "high", "--reset", "--json"))["workers"] is None


# ---- forms of lists ------------------------------------------------------------------------------------------------

LISTS = (
    *(("jobs", "list"), ("queues", "list"), ("queues", "list", "--wide"), ("workers", "list"), ("bulk", "list")),
    *(
        ("dead-letters", "list"),
        ("failures",),
        ("limits", "list"),
        ("locks", "list"),
        ("budgets", "list"),
        ("kinds", "list"),
    ),
    *(("budgets", "ledger"), ("escalations", "list"), ("schedules", "list"), ("webhooks", "list")),
    *(("tokens", "list"), ("services", "list")),
)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _cells(entry: dict[str, Any]) -> dict[str, str]:
    """What a line of CSV has of an entry: text as it is, all else as JSON, nothing for null."""
    texts = {name: value if isinstance(value, str) else _json(value) for name, value in entry.items()}
    return {name: "" if entry[name] is None else listing.harmless(text) for name, text in texts.items()}


def test_every_list_has_every_form(sqlite_shop: Shop) -> None:
    shop = sqlite_shop
    shop.ok("migrate", "up")
    shop.ok("config", "apply")
    shop.enqueue("send_email", "to=a,b")
    shop.ok("jobs", "cancel", "--filter", "", "--yes")
    shop.ok("tokens", "create", "--name", "=1+2", "--role", "admin")
    for args in LISTS:
        whole = json.loads(shop.ok(*args, "--json"))
        assert json.loads(shop.ok(*args, "-o", "json")).keys() == whole.keys()
        (entries, *_) = (value for value in whole.values() if isinstance(value, list))
        lines = [json.loads(line) for line in shop.ok(*args, "-o", "jsonl").splitlines()]
        titles, *rows = csv.reader(io.StringIO(shop.ok(*args, "-o", "csv")))
        ids = shop.ok(*args, "-o", "id").splitlines()
        assert len(lines) == len(rows) == len(ids) == len(entries), args
        assert [line.keys() for line in lines] == [entry.keys() for entry in entries], args
        assert all(dict(zip(titles, row, strict=True)) == _cells(line) for row, line in zip(rows, lines, strict=True))
        assert shop(*args, "--json", "-o", "csv").exit_code == 2, args
    assert ",'=1+2," in shop.ok("tokens", "list", "-o", "csv"), "for a spreadsheet it is text"
    assert listing.harmless("-1.5") == "-1.5"
    assert [listing.harmless(text)[0] for text in ("=x", "+x", "-x", "@x", "\tx")] == ["'"] * 5
    (job,) = shop.ok("jobs", "list", "-o", "id").split()
    assert shop.ok("jobs", "list", "--quiet") == shop.ok("jobs", "list", "-oid") == f"{job}\n"
    for form in (("-o", "jsonl"), ("-ojson",), ("--format=json",)):
        assert json.loads(shop("jobs", "list", "colour:red", *form).stderr)["error"]["type"] == "InvalidFilter"


# ---- completion ----------------------------------------------------------------------------------------------------


def test_names_are_completed_from_what_is_chosen_and_nothing_is_said_when_it_cannot_be(
    sqlite_shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    shop = sqlite_shop
    shop.ok("migrate", "up")
    shop.ok("config", "apply")
    shop.enqueue("send_email", "to=a")
    source = (shop.folder / "shop.py").read_text(encoding="utf-8")
    (shop.folder / "noisy.py").write_text(f"{source}\nprint('noise')\n", encoding="utf-8")

    def complete(*words: str, begun: str = "") -> list[str]:
        shell = BashComplete(standalone, {}, "holdfast", "_HOLDFAST_COMPLETE")
        return [item.value for item in shell.get_completions(list(words), begun)]

    assert complete("enqueue", "--store", shop.url, begun="s") == ["send_email"]
    assert complete("queues", "pause", "--store", shop.url, begun="h") == ["high"]
    assert complete("limits", "show", "--store", shop.url) == []
    assert complete("-A", "noisy:app", "enqueue", begun="s") == []
    assert "noisy" not in sys.modules, "pressing Tab imports no app"
    assert complete("-A", "nonsense:app", "queues", "show") == []
    assert complete("--server", "http://127.0.0.1:1", "queues", "show") == []
    assert complete("queues", "show") == []
    config = f"app: noisy:app\nstore: {shop.url}\nqueues: {{low: {{workers: 1}}}}\n"
    (shop.folder / "holdfast.yaml").write_text(config, encoding="utf-8")
    assert complete("queues", "show") == ["high", "low"]
    assert "noisy" not in sys.modules, "pressing Tab imports no app"
    assert capsys.readouterr() == ("", "")
