"""Every command with `--json` prints what the API answers for the same thing, and the same when it asks a server.

Three copies of one store get the same: the first from the commands on the database, the second from requests to the
API of its server, the third from the commands with `--server`.
"""

import asyncio
import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import click
import httpx2
import pytest
from click.testing import CliRunner

from holdfast.cli.main import standalone
from tests.server.conforming import require_conforming
from tests.server.running import program
from tests.support.web import bearing, made_token
from tests.surface.answers import COMMANDS, Shop, commands_with_json, documents

pytestmark = pytest.mark.xdist_group("every command")

ACTOR = "ada"  # the name of the token, and of the actor on the database


class Call(NamedTuple):
    """A request to the API: its method, its path with words as in COMMANDS, and its body."""

    method: str
    path: str
    body: dict[str, Any] | None = None


def get(path: str) -> Call:
    return Call("GET", path)


def post(path: str, **body: Any) -> Call:
    return Call("POST", path, body)


CALLS = {
    "budgets list": get("budgets"),
    "budgets show ai": get("budgets/ai"),
    "budgets spend ai": get("budgets/ai/spend"),
    "budgets lost ai": get("budgets/ai/lost"),
    "budgets ledger ai": get("budgets/ai/ledger"),
    "config show": get("settings"),
    "dead-letters list": get("dead-letters?limit=50"),
    "dead-letters show GROUP": get("dead-letters/GROUP"),
    "failures": get("dead-letters?limit=50"),
    "escalations list": get("escalations"),
    "escalations show ESCALATION": get("escalations/ESCALATION"),
    "jobs list": get("jobs?whole=true"),
    "jobs items PIPELINE": get("jobs/PIPELINE/items"),
    "jobs logs PIPELINE": get("jobs/PIPELINE/logs"),
    "jobs show PIPELINE": get("jobs/PIPELINE"),
    "jobs show FAILED": get("jobs/FAILED"),
    "jobs why WAITS": get("jobs/WAITS/why"),
    "limits list": get("limits"),
    "limits show hosts": get("limits/hosts"),
    "locks list": get("locks"),
    "queues list": get("queues"),
    "queues list --wide": get("queues"),
    "queues show high": get("queues/high"),
    "schedules list": get("schedules"),
    "schedules next nightly": get("schedules/nightly/next"),
    "schedules fires nightly": get("schedules/nightly/fires"),
    "schedules maintenance list": get("maintenance"),
    "schedules maintenance start release --days sun": Call("PUT", "maintenance/release", {"days": "sun"}),
    "services list": get("services"),
    "stats": get("stats"),
    "kinds list": get("kinds"),
    "webhooks list": get("webhooks"),
    "workers list": get("workers"),
    "enqueue shoot": post("jobs", kind="shoot"),
    "dead-letters replay GROUP --yes": post("dead-letters/GROUP/replay"),
    "dead-letters purge GROUP --yes": post("dead-letters/GROUP/purge"),
    "bulk list": get("bulk"),
    "bulk show 1": get("bulk/1"),
    "bulk pause 1": post("bulk/1/pause"),
    "bulk resume 1": post("bulk/1/resume"),
    "bulk cancel 1": post("bulk/1/cancel"),
    "escalations snooze ESCALATION --for 1h": post("escalations/ESCALATION/snooze", lasts="1h"),
    "escalations ack ESCALATION": post("escalations/ESCALATION/ack"),
    "escalations test ops": post("escalations/test", policy="ops"),
    "jobs clone FAILED token=x": post("jobs/FAILED/clone", args={"token": "x"}),
    "jobs priority WAITS 3": post("jobs/WAITS/reprioritise", priority=3),
    "jobs reschedule WAITS --delay 1h": post("jobs/WAITS/reschedule", delay="1h"),
    "jobs cancel WAITS": post("jobs/WAITS/cancel"),
    "jobs retry FAILED": post("jobs/FAILED/retry"),
    "jobs delete PIPELINE": Call("DELETE", "jobs/PIPELINE"),
    "locks release edition --yes": post("locks/release", name="edition", token=1),
    "config set limits.hosts.concurrency 5 --reason slow": Call(
        "PUT", "settings/limits.hosts.concurrency", {"value": 5, "reason": "slow"}
    ),
    "config reset limits.hosts.concurrency": Call("DELETE", "settings/limits.hosts.concurrency"),
    "queues limit high 3": Call("PUT", "queues/high/settings/workers", {"value": 3}),
    "queues pause high": post("queues/high/pause"),
    "queues resume high": post("queues/high/resume"),
    "queues purge high --yes": post("queues/high/purge"),
    "tokens create --name ci --role viewer --queue high": post("tokens", name="ci", role="viewer", queues=["high"]),
    "tokens list": get("tokens"),
    "tokens revoke TOKEN": Call("DELETE", "tokens/TOKEN"),
    "webhooks enable ENDPOINT": post("webhooks/enable", url="ENDPOINT"),
    "workers drain inst-1": post("workers/inst-1/drain"),
}

_EACH = "an answer for each job that is named, with its id and state; the API answers with the one job"
_SCHEMA = "the schema of the database, which a server cannot be asked to change"
_FILE = "how many lines went to a file; the lines are those of"
# Commands that answer with no resource of the API: why, and whether a server can be asked for them.
ELSEWHERE = {
    "bench": "a measurement of this machine",
    "config check": "errors of a file on this machine",
    "dead-letters export": f"{_FILE} GET dead-letters/export, see tests/server/test_alike.py",
    "doctor": "the API's health, but for sizes that grow, see tests/cli/test_remote.py",
    "jobs cancel": _EACH,
    "jobs delete": _EACH,
    "jobs export": f"{_FILE} `jobs list`",
    "jobs priority": _EACH,
    "jobs reschedule": _EACH,
    "jobs retry": _EACH,
    "jobs tail": "events as they happen, see tests/cli/test_remote.py",
    "jobs wait": "jobs as `jobs show` prints them, once they have finished",
    "jobs watch": "events as they happen, see tests/cli/test_remote.py",
    "migrate plan": _SCHEMA,
    "migrate status": _SCHEMA,
    "migrate up": _SCHEMA,
    "move": "a copy between two databases",
    "prune": "a number of rows",
    "top": "queues, jobs, failures and workers at once, of which the API has each",
    "version": "what is installed on this machine",
}
EACH = [line for line in CALLS if ELSEWHERE.get(" ".join(line.split()[:2])) == _EACH]
ALIKE = [line for line in CALLS if line not in EACH]
LINES = COMMANDS.strip().splitlines()
# Of those elsewhere, jobs can be asked of a server too, which gives the same as the database.
COMPARED = [line for line in LINES if line in CALLS or line.startswith(("jobs ", "top"))]
MADE = ("secret", "hint", "used_at")
MOMENT = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"
ROOT = Path(__file__).parents[2]
SOURCE = """
from pathlib import Path

from tests.surface.answers import film_app

app = film_app(Path(__file__).parent)
"""


def test_every_command_is_compared_or_says_why_not() -> None:
    commands = {" ".join(path) for path in commands_with_json(standalone)}
    compared = {command for command in commands if any(f"{line} ".startswith(f"{command} ") for line in ALIKE)}
    assert set(CALLS) <= set(LINES), "every call belongs to a line that is run"
    assert compared | set(ELSEWHERE) == commands
    assert not compared & set(ELSEWHERE)


class Answers(NamedTuple):
    """What came of every line: on the database, from the API, and over a server."""

    local: dict[str, str]
    api: dict[str, str]
    remote: dict[str, str]


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Answers:
    local, api, remote = (tmp_path_factory.mktemp(name) for name in ("local", "api", "remote"))
    found = Answers({}, {}, {})
    with chdir(local):
        shop = Shop(local)
        secret = asyncio.run(_token(shop))
        shop.words["TOKEN"] = "2"  # the first one is the test's own
        for folder in (api, remote):
            shutil.copy(local / "jobs.db", folder)
        began = datetime.now(UTC)
        with _served(api) as address, _served(remote) as server, httpx2.Client(headers=bearing(secret)) as web:
            web.base_url = httpx2.URL(f"{address}/api/v1/")
            for line in LINES:
                words = line.split()
                found.local[line] = shop.ask(*words, *_actor(line), "--json")
                if line in CALLS:
                    found.api[line] = _request(web, CALLS[line], shop.words)
                if line in COMPARED:
                    found.remote[line] = _over(server, secret, [shop.words.get(word, word) for word in words])
    for part in found:
        for line, text in part.items():
            part[line] = _steady(text, began).replace(str(api), str(local)).replace(str(remote), str(local))
    return found


@pytest.mark.parametrize("line", ALIKE)
def test_a_command_prints_what_the_api_answers(answers: Answers, line: str) -> None:
    assert _read(answers.local[line]) == _read(answers.api[line])


@pytest.mark.parametrize("line", EACH)
def test_a_verb_names_the_state_that_the_api_answers(answers: Answers, line: str) -> None:
    (answer,) = json.loads(answers.local[line])["jobs"]
    job = json.loads(answers.api[line] or "null")
    assert (answer["answer"], answer["error"]) == ("done", None)
    assert job is None or {name: job[name] for name in ("id", "state")} == {
        name: answer[name] for name in ("id", "state")
    }


@pytest.mark.parametrize("line", COMPARED)
def test_a_command_prints_the_same_over_a_server(answers: Answers, line: str) -> None:
    assert _read(answers.remote[line]) == _read(answers.local[line])


async def _token(shop: Shop) -> str:
    async with shop.app:
        return await made_token(shop.app, name=ACTOR)


@contextmanager
def _served(folder: Path) -> Iterator[str]:
    """Serve the store of a folder; the address."""
    (folder / "shop.py").write_text(SOURCE, encoding="utf-8")
    path = os.pathsep.join((str(ROOT), str(folder)))
    with program(folder, "serve", "-A", "shop:app", "--port", "0", PYTHONPATH=path) as server:
        yield server.address()


def _actor(line: str) -> tuple[str, ...]:
    """Name the actor of a change on the database; a server knows it from the token."""
    if line not in ALIKE or CALLS[line].method == "GET":  # where an actor is a filter, or goes with one
        return ()
    command: Any = standalone
    for word in line.split():
        if isinstance(command, click.Group):
            command = command.commands[word]
    return ("--actor", ACTOR) if any("--actor" in param.opts for param in command.params) else ()


def _request(web: httpx2.Client, call: Call, words: dict[str, str]) -> str:
    path = re.sub(r"[A-Z]{2,}", lambda found: words[found[0]], call.path)
    body = None if call.body is None else {name: words.get(str(value), value) for name, value in call.body.items()}
    answer = web.request(call.method, path, json=body)
    require_conforming(answer)
    return answer.text


def _over(server: str, secret: str, words: list[str]) -> str:
    env = {**dict.fromkeys(name for name in os.environ if name.startswith("HOLDFAST_")), "HOLDFAST_TOKEN": secret}
    result = CliRunner(env=env).invoke(standalone, ["--server", server, *words, "--json"])
    return result.stdout or result.stderr


def _read(text: str) -> str:
    """Write what was printed, with the order of its keys, so that any two can be compared line by line."""
    read = [json.loads(document, object_hook=_common) for document in documents(text)]
    return json.dumps(read, indent=1)


def _common(found: dict[str, Any]) -> dict[str, Any]:
    """Leave out of an object what every call makes by itself, and the port, which is an option of `serve`."""
    if found.get("path") == "server.port":
        return {"path": "server.port"}
    return {name: "..." if name in MADE else value for name, value in found.items()}


def _steady(text: str, began: datetime) -> str:
    """Leave out the moments since the lines are run, and what is counted from them."""
    text = re.sub(r'paused [^"]+? ago', "paused", text)
    return re.sub(MOMENT, lambda found: "now" if datetime.fromisoformat(found[0]) >= began else found[0], text)
