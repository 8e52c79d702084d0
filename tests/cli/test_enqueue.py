"""`enqueue`: arguments, options, what is printed, what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from holdfast.cli import arguments
from tests.cli.conftest import Shop


def stored(shop: Shop, job_id: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(shop.ok("jobs", "show", job_id, "--json"))
    return found


def test_prints_the_public_id(shop: Shop) -> None:
    job_id = shop.enqueue("send_email", "to=a@example.org")
    job = stored(shop, job_id)
    assert (job["id"], job["kind"], job["queue"]) == (job_id, "send_email", "high")
    assert job["args"] == {"to": "a@example.org"}


@pytest.mark.parametrize(
    "pair, expected",
    [
        ("value=5", "5"),
        ("loose=5", "5"),
        ("value=", ""),
        ("value=a=b", "a=b"),
        ("value:=5", 5),
        ("value:=[1, null]", [1, None]),
        ("value:=null", None),
        ("either=5", "5"),
        ("either:=5", 5),
        ("sizes=[1, 2]", [1, 2]),
        ("at=2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z"),
        ("at=null", None),
        ("flag=true", True),
        ("mode=fast", "fast"),
        ("maybe=null", None),
        ("maybe=-7", -7),
        ("ratio=0.5", 0.5),
    ],
)
def test_text_stays_text_where_the_task_takes_it(sqlite_shop: Shop, pair: str, expected: Any) -> None:
    task = sqlite_shop.load().tasks.get("resize")
    payload = task.call_json(arguments.read_pairs(task, ["path=7", "width=300", pair])).args_json
    name = pair.partition("=")[0].removesuffix(":")
    assert json.loads(payload) == {"path": "7", "width": 300, name: expected}


@pytest.mark.parametrize(
    "pairs, said",
    [
        (["path=a", "width=wide"], "argument width: expected `int`, got `str`"),
        (["path=a", "width=1.5"], "argument width"),
        (["path=a"], "width"),
        (["path=a", "width=1", "colour=red"], "colour"),
        (["path:=5", "width=1"], "argument path: expected `str`, got `int`"),
        (["path=a", "width:=wide"], "expected JSON after width:=, got 'wide'; text is written width=wide"),
        (["path=a", "path=b", "width=1"], "argument path is given twice"),
        (["path"], "expected key=value or key:=JSON, got 'path'"),
        (["=a"], "expected key=value"),
        (["path=a", "width=1", "mode=slow"], "argument mode"),
        (["path=a\x00", "width=1"], "NUL"),
        (["path=\udcff", "width=1"], "UTF-8"),
    ],
)
def test_wrong_arguments_are_refused_with_2(sqlite_shop: Shop, pairs: list[str], said: str) -> None:
    result = sqlite_shop("enqueue", "resize", *pairs)
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr
    assert "Traceback" not in result.stderr
    assert result.stderr.count("\n") == 1
    assert not (sqlite_shop.folder / "jobs.db").exists(), "nothing is opened for arguments that are wrong"


def test_a_pipeline_takes_its_fields(sqlite_shop: Shop) -> None:
    job = stored(sqlite_shop, sqlite_shop.enqueue("transcode", "url=5", "bitrate=5"))
    assert (job["kind"], job["args"]) == ("transcode", {"url": "5", "bitrate": 5})


def test_payload_from_the_option_stdin_and_a_file(shop: Shop, tmp_path: Path) -> None:
    text = json.dumps({"to": "ä@example.org"})
    (tmp_path / "mail.json").write_text(text, encoding="utf-8")
    ids = [
        shop.enqueue("send_email", "--args", text),
        shop.ok("enqueue", "send_email", "--args", "-", stdin=text.encode()).strip(),
        shop.enqueue("send_email", "--args", "@mail.json"),
    ]
    assert [stored(shop, job_id)["args"] for job_id in ids] == [{"to": "ä@example.org"}] * 3


@pytest.mark.parametrize(
    "args, said",
    [
        (["--args", "{nonsense"], "malformed"),
        (["--args", "[1]"], "expected `object`, got `array`"),
        (["--args", '{"to": 5}'], "argument to: expected `str`, got `int`"),
        (["--args", "@missing.json"], "@missing.json: cannot be read: No such file"),
        (["--args", "{}", "to=a"], "exclude each other"),
        (["to=a", "--delay", "soon"], "delay: expected seconds"),
        (["to=a", "--at", "2026-01-01T10:00"], "--at: expected a time"),
        (["to=a", "--at", "tomorrow"], "--at: expected a time"),
        (["to=a", "--delay", "5m", "--at", "2026-01-01T10:00Z"], "exclude each other"),
        (["to=a", "--priority", "11"], "priority: expected a whole number from 0"),
        (["to=a", "--unique-for", "5m"], "unique_for: expected with unique"),
        (["to=a", "--tag", "red"], "--tag: expected name=value, got 'red'"),
        (["to=a", "--tag", "a=1", "--tag", "a=2"], "given twice"),
        (["to=a", "--max-attempts", "0"], "max_attempts: expected a whole number from 1"),
        (["to=a", "--timeout", "0s"], "timeout: expected more than 0"),
    ],
)
def test_wrong_options_are_refused_with_2(sqlite_shop: Shop, args: list[str], said: str) -> None:
    result = sqlite_shop("enqueue", "send_email", *args)
    assert result.exit_code == 2, result.output
    assert said in result.stderr


def test_payload_that_is_no_utf8(sqlite_shop: Shop) -> None:
    result = sqlite_shop("enqueue", "send_email", "--args", "-", stdin=b'{"to": "\xff"}')
    assert result.exit_code == 2
    assert "expected JSON in UTF-8" in result.stderr


def test_all_options_reach_the_job(shop: Shop) -> None:
    job = stored(
        shop,
        shop.enqueue(
            *("send_email", "to=a", "--at", "2099-01-01T12:00:00+02:00", "--priority", "0", "--unique", "u"),
            *("--unique-for", "1h", "--key", "k", "--tag", "customer=17", "--tag", "plan=a=b", "--actor", "alice"),
            *("--max-attempts", "2", "--timeout", "none"),
        ),
    )
    assert job["state"] == "scheduled"
    assert job["run_at"] == "2099-01-01T10:00:00Z"
    assert (job["priority"], job["max_attempts"], job["timeout_ms"]) == (0, 2, None)
    assert (job["unique_key"], job["key"], job["actor"]) == ("u", "k", "alice")
    assert job["tags"] == {"customer": "17", "plan": "a=b"}


def test_in_counts_from_now(shop: Shop) -> None:
    assert stored(shop, shop.enqueue("send_email", "to=a", "--delay", "1h 30m"))["state"] == "scheduled"


def test_an_existing_job_is_told_on_stderr(shop: Shop) -> None:
    first = shop.enqueue("send_email", "to=a", "--unique", "u")
    again = shop("enqueue", "send_email", "to=b", "--unique", "u")
    assert (again.exit_code, again.stdout.strip()) == (0, first)
    assert again.stderr.startswith("existing: ")
    told = json.loads(shop.ok("enqueue", "send_email", "to=b", "--unique", "u", "--json"))
    assert (told["id"], told["created"]) == (first, False)
    assert told == json.loads(shop.ok("jobs", "show", first, "--json")) | {"created": False}


def test_the_same_key_for_another_request_is_a_conflict(shop: Shop) -> None:
    shop.enqueue("send_email", "to=a", "--key", "k")
    result = shop("enqueue", "send_email", "to=b", "--key", "k")
    assert result.exit_code == 4
    assert "one key stands for one request" in result.stderr


def test_an_unknown_kind_is_not_found(sqlite_shop: Shop) -> None:
    result = sqlite_shop("enqueue", "send_emial", "to=a")
    assert result.exit_code == 3
    assert result.stderr == "Error: no task is registered under the kind 'send_emial'; did you mean send_email?\n"
