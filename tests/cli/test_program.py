"""The program: bare names, version, as a process, and mounted under another name."""

import json
import os
import subprocess
import sys

import click
import pytest
from click.shell_completion import BashComplete
from click.testing import CliRunner

from holdfast import Holdfast, __version__, public_id
from holdfast.cli import command
from holdfast.cli.main import standalone
from tests.cli.conftest import Shop


def test_bare_names_print_help(sqlite_shop: Shop) -> None:
    for args in ([], ["jobs"], ["queues"], ["workers"], ["migrate"]):
        result = sqlite_shop(*args, app=False)
        assert result.exit_code == 0
        assert result.stdout.startswith("Usage: ")
        assert result.stderr == ""


def test_version(sqlite_shop: Shop) -> None:
    assert sqlite_shop("version", app=False).stdout.startswith(f"holdfast {__version__}, Python 3.")
    shown = json.loads(sqlite_shop("version", "--json", app=False).stdout)
    assert list(shown) == ["holdfast", "python", "platform"]


def test_unknown_commands_are_refused_with_2(sqlite_shop: Shop) -> None:
    for args in (["nonsense"], ["jobs", "nonsense"], ["jobs", "list", "--nonsense"], ["jobs", "show"]):
        assert sqlite_shop(*args).exit_code == 2


JOBS = ["list", "show", "why", "logs", "items", "wait", "watch", "tail", "cancel", "retry"]
JOBS += ["reschedule", "priority", "clone", "delete", "export"]


def test_every_command_ends_its_help_with_examples() -> None:
    nouns = {"jobs": JOBS, "failures": [], "webhooks": ["list", "enable"], "prune": []}
    nouns |= {"queues": ["list", "show", "pause", "resume", "limit", "purge"]}
    nouns |= {"migrate": ["up", "status", "plan", "sql", "grants"], "enqueue": [], "doctor": [], "version": []}
    nouns |= {"worker": [], "workers": ["list", "drain"], "demo": [], "bench": [], "stats": []}
    nouns |= {"top": [], "completion": [], "serve": [], "dev": [], "tokens": ["create", "list", "revoke"]}
    nouns |= {
        "deploy": ["kubernetes"],
        "move": [],
        "locks": ["list", "release"],
        "limits": ["list", "show"],
    }
    nouns |= {
        "services": ["list", "set", "reset", "run"],
        "config": ["check", "show", "schema", "apply", "set", "reset"],
    }
    nouns |= {"kinds": ["list"], "budgets": ["list", "show", "spend", "lost", "ledger", "set", "settle"]}
    nouns |= {
        "dead-letters": ["list", "show", "replay", "purge", "export"],
        "bulk": ["list", "show", "pause", "resume", "cancel"],
    }
    nouns |= {"escalations": ["list", "show", "ack", "snooze", "test"]}
    nouns |= {"schedules": ["list", "next", "fires", "run", "enable", "disable", "reset", "delete", "maintenance"]}
    nouns |= {"dlq": nouns["dead-letters"]}
    assert set(nouns) == set(standalone.commands)
    paths = [[], *([noun] for noun in nouns), *([noun, verb] for noun, verbs in nouns.items() for verb in verbs)]
    for path in paths:
        result = CliRunner().invoke(standalone, [*path, "--help"], prog_name="holdfast")
        assert result.exit_code == 0
        assert "\nExamples:\n" in result.output, path
        assert result.output.rpartition("Examples:\n")[2].startswith(f"  {' '.join(['holdfast', *path])}")
        named = result.output.partition("\nCommands:\n")[2].partition("\nExamples:\n")[0]
        assert "..." not in named, f"{path}: what a command does is cut off at 80 columns"


# ---- as a process --------------------------------------------------------------------------------------------------


def run(shop: Shop, *args: str, stdin: bytes = b"", **env: str) -> subprocess.CompletedProcess[bytes]:
    environment = {**os.environ, "HOLDFAST_APP": "shop:app", **env}
    return subprocess.run(
        [sys.executable, "-m", "holdfast", *args],
        cwd=shop.folder,
        env=environment,
        input=stdin,
        capture_output=True,
        check=False,
    )


def test_a_real_process(shop: Shop) -> None:
    enqueued = run(shop, "enqueue", "send_email", "--args", "-", stdin='{"to": "ä漢"}'.encode())
    assert (enqueued.returncode, enqueued.stderr) == (0, b"")
    job_id = enqueued.stdout.decode().strip()
    shown = run(shop, "jobs", "show", job_id, PYTHONIOENCODING="latin-1")
    assert shown.returncode == 0, shown.stderr
    assert b"\xe4\\u6f22" in shown.stdout, "a terminal that cannot show a letter gets it escaped"
    assert run(shop, "jobs", "cancel", job_id, public_id.encode(7)).returncode == 3


def test_a_reader_that_leaves_early(sqlite_shop: Shop) -> None:
    for number in range(3):
        sqlite_shop.enqueue("send_email", f"to={number}")
    line = f"{sys.executable} -m holdfast jobs list --json | head -c 1"
    done = subprocess.run(
        ["bash", "-c", line],
        check=False,
        cwd=sqlite_shop.folder,
        env={**os.environ, "HOLDFAST_APP": "shop:app"},
        capture_output=True,
    )
    assert (done.stdout, done.stderr) == (b"{", b"")


def test_completion_knows_the_commands() -> None:
    completing = BashComplete(standalone, {}, "holdfast", "_HOLDFAST_COMPLETE")
    assert [item.value for item in completing.get_completions(["jobs"], "")] == JOBS
    assert [item.value for item in completing.get_completions(["jobs", "list"], "--st")] == ["--state", "--store"]
    assert "failed" in [item.value for item in completing.get_completions(["jobs", "list", "--state"], "f")]


@pytest.mark.parametrize("shell, mark", [("bash", "complete -o"), ("zsh", "#compdef holdfast"), ("fish", "complete ")])
def test_completion_is_printed_for_each_shell(shell: str, mark: str) -> None:
    result = CliRunner().invoke(standalone, ["completion", shell], prog_name="holdfast")
    assert result.exit_code == 0
    assert mark in result.stdout
    assert "_HOLDFAST_COMPLETE" in result.stdout
    assert CliRunner().invoke(standalone, ["completion", "tcsh"]).exit_code == 2


# ---- mounted -------------------------------------------------------------------------------------------------------


@pytest.fixture
def docverse(sqlite_shop: Shop) -> click.Group:
    """A program of somebody else's, with an object of its own and our commands below it."""

    @click.group("docverse")
    @click.pass_context
    def program(ctx: click.Context) -> None:
        ctx.obj = "its own"

    @program.command("hello")
    @click.pass_obj
    def hello(obj: str) -> None:
        click.echo(obj)

    app = Holdfast(sqlite_shop.url)

    @app.task(queue="docs")
    async def build(name: str) -> None: ...

    program.add_command(command(app, name="queue"))
    return program


def test_mounted_under_another_program(docverse: click.Group) -> None:
    runner = CliRunner()
    job_id = runner.invoke(docverse, ["queue", "enqueue", "build", "name=5"]).stdout.strip()
    shown = json.loads(runner.invoke(docverse, ["queue", "jobs", "show", job_id, "--json"]).stdout)
    assert (shown["kind"], shown["args"]) == ("build", {"name": "5"})
    assert runner.invoke(docverse, ["queue", "jobs", "delete", job_id]).exit_code == 4
    missing = runner.invoke(docverse, ["queue", "enqueue", "nobody", "--json"])
    assert (missing.exit_code, json.loads(missing.stderr)["error"]["type"]) == (3, "UnknownKind")
    assert runner.invoke(docverse, ["queue", "doctor"]).exit_code == 0
    assert (
        "`docverse queue worker`" in runner.invoke(docverse, ["queue", "workers", "list"], prog_name="docverse").stderr
    )
    assert runner.invoke(docverse, ["queue", "demo"]).exit_code == 2, "it is about no app"
    assert runner.invoke(docverse, ["hello"]).stdout == "its own\n"


def test_mounted_it_takes_no_other_app(docverse: click.Group, monkeypatch: pytest.MonkeyPatch) -> None:
    runner = CliRunner()
    monkeypatch.setenv("HOLDFAST_APP", "nonsense")
    assert runner.invoke(docverse, ["queue", "migrate", "up"]).exit_code == 0
    for args in (["queue", "-A", "shop:app", "jobs", "list"], ["queue", "jobs", "list", "--store", "sqlite:///x.db"]):
        result = runner.invoke(docverse, args)
        assert result.exit_code == 2
        assert "No such option" in result.stderr
    text = runner.invoke(docverse, ["queue", "jobs", "list", "--help"], prog_name="docverse").output
    assert "MODULE:APP" not in text
    assert "  docverse queue jobs list --state failed --quiet | xargs docverse queue jobs retry\n" in text


def test_alone_under_its_own_name(sqlite_shop: Shop) -> None:
    program = command(Holdfast(sqlite_shop.url), name="docverse")
    assert program.name == "docverse"
    assert CliRunner().invoke(program, ["migrate", "up"]).exit_code == 0
    assert CliRunner().invoke(program, []).output.startswith("Usage: docverse ")
