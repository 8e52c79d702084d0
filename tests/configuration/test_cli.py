"""`holdfast config check|show|schema`, and commands that find their store in the configuration."""

import asyncio
import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from holdfast import Holdfast
from holdfast.cli.main import standalone
from tests.configuration.conftest import Write
from tests.configuration.test_errors import TEN

SECRETS = """
store: "sqlite:///{0}/jobs.db"
queues: {{preset: five, high: {{workers: 30}}}}
channels:
  pager: {{type: pagerduty, key: "${{PAGER}}"}}
  chat: {{type: slack, url: "https://hooks.example.org/hunter2"}}
  mail: {{type: email, to: a@b.c, sender: d@e.f, username: u, password: hunter2}}
webhooks: {{secret: whsec_aHVudGVyMmh1bnRlcjJodW50ZXIyaHVudGVyMg==}}
"""


def run(*args: str) -> Result:
    result = CliRunner().invoke(standalone, args)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_check(write: Write, tmp_path: Path) -> None:
    assert run("config", "check").exit_code == 1, "there is none"
    file = write("store: sqlite:///jobs.db\n")
    assert run("config", "check").stdout == "holdfast.yaml: no errors\n"
    assert run("config", "check", str(file)).exit_code == 0
    write(TEN)
    wrong = run("config", "check")
    assert (wrong.exit_code, wrong.stderr) == (2, "10 errors\n")
    assert len(wrong.stdout.splitlines()) == 10
    assert wrong.stdout.startswith("holdfast.yaml:2:1: workr: unknown key; did you mean worker?\n")
    as_json = run("config", "check", "--json")
    assert as_json.exit_code == 2
    read = json.loads(as_json.stdout)
    assert read["file"] == str(file)
    assert read["errors"][0] == {
        "path": "workr",
        "message": "unknown key; did you mean worker?",
        "place": "holdfast.yaml:2:1",
    }


def test_any_command_says_all_errors(write: Write) -> None:
    write(TEN)
    result = run("jobs", "list")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.splitlines()[0] == "Error: holdfast.yaml: 10 errors"
    assert len(result.stderr.splitlines()) == 11


def test_show(write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAGER", "hunter2")
    monkeypatch.setenv("HOLDFAST_QUEUES__LOW__WORKERS", "6")
    write(SECRETS.format(tmp_path))
    assert run("migrate", "up").exit_code == 0, "the store of the file is found"

    async def override() -> None:
        async with Holdfast.from_config() as app:
            await app.client.store.set_override("queues.bulk.max_workers", "40", actor="ann", reason=None)

    asyncio.run(override())
    shown = json.loads(run("config", "show", "--json").stdout)
    assert shown["file"] == str(tmp_path / "holdfast.yaml")
    settings = {row["path"]: (row["value"], row["origin"]) for row in shown["settings"]}
    assert {row["path"]: row["changed_by"] for row in shown["settings"]}["queues.bulk.workers.max"] == "ann"
    assert settings["worker.concurrency"] == (10, "default")
    assert settings["queues.high.workers"] == (30, "file holdfast.yaml")
    assert settings["queues.high.sla"] == ("30s", "preset five")
    assert settings["queues.high.ageing.share"] == (8, "default")
    assert settings["queues.low.workers"] == (6, "environment HOLDFAST_QUEUES__LOW__WORKERS")
    assert settings["queues.bulk.workers.max"] == (40, "override")
    assert settings["channels.pager.key"] == ("***", "file holdfast.yaml")
    assert settings["channels.mail.username"] == ("u", "file holdfast.yaml")
    for args in (["--json"], [], ["channels"], ["--changed"]):
        printed = run("config", "show", *args)
        assert printed.exit_code == 0
        assert "hunter2" not in printed.output
        assert "aHVudGVy" not in printed.output
    lines = run("config", "show", "queues.high", "--changed").stdout.splitlines()
    assert "queues.high.workers\t30\tfile holdfast.yaml" in lines
    assert not [line for line in lines if line.endswith("\tdefault")]
    assert run("config", "show", "queues.hgih").exit_code == 2


def test_show_of_an_app(write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    write("queues: {high: {priority: 2}}\nkinds: {nobody: {}}\nschedules: {part: {enabled: false}}\n")
    write(
        "from holdfast import Holdfast, Queue\n"
        "queues = [Queue('high', workers=4)]\n"
        "app = Holdfast('sqlite:///jobs.db', config='holdfast.yaml', max_attempts=9, queues=queues)\n",
        "configured_shop.py",
    )
    shown = run("config", "show", "-A", "configured_shop:app", "--changed")
    sys.modules.pop("configured_shop", None)
    assert shown.exit_code == 0
    assert "what is set in the store is not shown: there is no SQLite file" in shown.stderr
    assert shown.stdout.splitlines()[1:] == [
        "store.url\tsqlite:///jobs.db\tcode",
        "defaults.max_attempts\t9\tcode",
        "queues.high.priority\t2\tfile holdfast.yaml",
        "queues.high.workers\t4\tcode",
    ]
    checked = run("config", "check", "-A", "configured_shop:app")
    sys.modules.pop("configured_shop", None)
    assert (checked.exit_code, checked.stdout) == (0, "holdfast.yaml: no errors\n")
    assert checked.stderr == "kinds.nobody: the app has no such task\nschedules.part: the app has no such task\n"
    write("queues: {high: {priorty: 2}}\n")
    assert run("config", "check", "-A", "configured_shop:app").exit_code == 2
    sys.modules.pop("configured_shop", None)


def test_schema() -> None:
    result = run("config", "schema")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["$schema"] == "https://json-schema.org/draft/2020-12/schema"


@pytest.mark.parametrize("name", ["holdfast.yaml", "pyproject.toml"])
def test_the_app_and_the_store_of_a_file(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    write("from holdfast import Holdfast\napp = Holdfast('sqlite:///jobs.db')\n", "named_shop.py")
    inner = tmp_path / "inner"
    inner.mkdir()
    yaml = name.endswith("yaml")
    write("store: sqlite:///jobs.db\n" if yaml else "[tool.holdfast.store]\nurl = 'sqlite:///jobs.db'\n", name)
    assert run("migrate", "up").exit_code == 0
    assert run("jobs", "list").exit_code == 0
    alone = run("enqueue", "x")
    assert "needs the tasks of an app, and" in alone.stderr
    write("app: named_shop:app\n" if yaml else "[tool.holdfast]\napp = 'named_shop:app'\n", name)
    monkeypatch.chdir(inner)
    missing = run("enqueue", "x")
    sys.modules.pop("named_shop", None)
    assert "no task is registered under the kind 'x'" in missing.stderr
