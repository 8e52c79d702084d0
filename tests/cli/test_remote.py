"""Commands asked of a server: the same output and the same exit codes as with the database."""

import asyncio
import contextlib
import json
import os
import re
import select
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest
from click.testing import CliRunner, Result

from holdfast import Holdfast, public_id
from holdfast.cli.main import standalone
from holdfast.client import secrets
from holdfast.errors import InvalidValue, LimitNotFound, ScheduleNotFound
from holdfast.remote.client import RemoteClient
from holdfast.remote.link import Link
from holdfast.stores.access import NewToken
from holdfast.stores.cluster import LockRequest
from holdfast.stores.values import WorkerProcess
from tests.cli import working
from tests.support.budgets import reserve
from tests.support.builders import crash, enqueue_many, running

pytestmark = pytest.mark.xdist_group("remote")  # one server for all of them

SOURCE = """
from holdfast import Budget, Context, Escalation, Holdfast, Pipeline, Queue, Slack, phase
from holdfast.policies.limits import Limit

app = Holdfast(
    {url!r}, synchronous="normal", queues=[Queue("high", priority=1, sla="10s", description="first")],
    limits=[Limit(name="mail", queue="high", concurrency=3)],
    budgets=[Budget(name="ai", amount="$5", period="day", kinds=("send_email",))],
    escalations=[Escalation(name="ops", channels=["chat"])],
    channels={{"chat": Slack(url="http://127.0.0.1:1/T0/hush")}},
)

@app.task(queue="high")
async def send_email(to: str, n: int = 0) -> str: ...

@app.task(queue="bulk")
class Transcode(Pipeline):
    url: str

    @phase
    async def encode(self, ctx: Context) -> dict: ...
"""


class Place:
    """A program, its server, and commands that ask the one or the other."""

    def __init__(self, folder: Path, address: str, tokens: dict[str, str]) -> None:
        self.folder = folder
        self.address = address
        self.tokens = tokens

    def here(self, *args: str) -> Result:
        """Run a command on the database."""
        return _run("-A", "shop:app", *args)

    def there(self, *args: str, role: str = "admin") -> Result:
        """Ask the server."""
        return _run("--server", self.address, *args, token=self.tokens[role])

    def api(self, path: str) -> str:
        """Ask the HTTP API itself."""
        headers = {"authorization": f"Bearer {self.tokens['admin']}"}
        return httpx2.get(f"{self.address.rstrip('/')}/api/v1/{path}", headers=headers).raise_for_status().text

    def read(self, path: str) -> Any:
        """Read what the HTTP API answers."""
        return json.loads(self.api(path))

    def enqueue(self, *args: str) -> str:
        """Enqueue a job over the server."""
        result = self.there("enqueue", *args)
        assert result.exit_code == 0, result.output
        return result.stdout.strip()


def _run(*args: str, token: str | None = None) -> Result:
    environment = {"HOLDFAST_TOKEN": token, "HOLDFAST_APP": None, "HOLDFAST_SERVER": None, "HOLDFAST_STORE": None}
    result = CliRunner(env=environment).invoke(standalone, list(args))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A real server on a SQLite file with jobs in many states."""
    folder = tmp_path_factory.mktemp("served")
    url = f"sqlite:///{folder}/jobs.db"
    (folder / "shop.py").write_text(SOURCE.format(url=url), encoding="utf-8")
    with contextlib.chdir(folder):
        for args in (("migrate", "up"), ("config", "apply")):
            assert _run("-A", "shop:app", *args).exit_code == 0
    sys.modules.pop("shop", None)
    tokens = asyncio.run(_populate(url, folder))
    command = [sys.executable, "-m", "holdfast", "serve", "-A", "shop:app", "--port", "0"]
    process = subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env={**os.environ}
    )
    try:
        assert process.stdout is not None
        address = re.findall(r"http://\S+", process.stdout.readline())[0]
        yield Place(folder, address, tokens)
    finally:
        process.terminate()
        process.communicate(timeout=20)


async def _populate(url: str, folder: Path) -> dict[str, str]:
    sys.path.insert(0, str(folder))
    names: dict[str, Any] = {"__name__": "shop"}
    exec(compile(SOURCE.format(url=url), "shop.py", "exec"), names)  # noqa: S102 - the text above
    sys.path.remove(str(folder))
    app: Holdfast = names["app"]
    async with app:
        store: Any = app.store
        await names["Transcode"](url="a").using(tags={"customer": "17"}, actor="ann").enqueue()
        await working.talk(store, "bulk")
        for number in range(3):
            await names["send_email"].enqueue(to="a@example.org", n=number)
        await working.fail(store, "high", 1)
        await app.schedules.create("nightly", names["send_email"].call(to="ops"), cron="0 3 * * *", actor="ann")
        await app.queues.pause("low", actor="bob", reason="nobody works it")
        await store.take_lock(LockRequest("edition:42", "a", "a", "here/7"), lasts_ms=600_000, waits_ms=60_000)
        info = WorkerProcess(instance="619c2b4f665145a0", host="web-1", pid=12, queues=("high",), concurrency=8)
        await store.register_worker(info, 600_000)
        lost = await running(store)
        await reserve(store, lost, 1_500_000)
        await crash(store, lost)
        await store.renew_workers([row.id for row in await store.list_workers()], 600_000)  # beyond the last test
        await store.measure_lanes()  # as the leader does every few seconds
        return {
            role: await _token(store, role, queues)
            for role, queues in (("admin", None), ("viewer", None), ("narrow", ("high",)))
        }


async def _token(store: Any, role: str, queues: tuple[str, ...] | None) -> str:
    secret = secrets.new_secret()
    kept: dict[str, Any] = {"digest": secrets.digest_of(secret), "hint": secrets.hint_of(secret)}
    word = "operator" if role == "narrow" else role
    token = NewToken(kind="token", name=role, role=word, queues=queues, created_by="test", lasts_ms=None, **kept)
    await store.add_token(token)
    return secret


@pytest.fixture(autouse=True)
def _in_its_folder(served: Place, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(served.folder)
    yield
    sys.modules.pop("shop", None)  # that of another test is another one


# ---- looking -------------------------------------------------------------------------------------------------------

LOOKS = (
    ("jobs", "list"),
    ("jobs", "list", "--state", "failed", "--kind", "send_email"),
    ("jobs", "list", "--tag", "customer=17", "--since", "1h"),
    ("queues", "list"),
    ("queues", "list", "--wide"),
    ("queues", "show", "high"),
    ("workers", "list", "--all"),
    ("locks", "list"),
    ("limits", "list"),
    ("limits", "show", "mail"),
    ("schedules", "list"),
    ("schedules", "next", "nightly", "--count", "3"),
    ("schedules", "fires", "nightly"),
    ("dead-letters", "list"),
    ("bulk", "list"),
    ("budgets", "list"),
    ("budgets", "show", "ai"),
    ("budgets", "spend", "ai"),
    ("budgets", "lost", "ai"),
    ("budgets", "ledger", "ai"),
    ("escalations", "list"),
    ("webhooks", "list"),
    ("top", "--once"),
    ("failures", "--since", "1h"),
    ("services", "list"),
    ("config", "show", "queues"),
    ("jobs", "list", "state:failed", "-o", "csv"),
    ("jobs", "export", "queue:high"),
    ("jobs", "cancel", "--filter", "queue:high", "--dry-run"),
    ("queues", "purge", "high", "--dry-run"),
)


@pytest.mark.parametrize("args", LOOKS, ids=" ".join)
def test_what_is_seen_is_the_same(served: Place, args: tuple[str, ...]) -> None:
    here, there = served.here(*args), served.there(*args, role="viewer")
    assert (there.exit_code, _without_ages(there.stdout)) == (here.exit_code, _without_ages(here.stdout)), there.stderr
    assert here.exit_code == 0, here.stderr


DOCUMENTS = (
    (("locks", "list"), "locks"),
    (("budgets", "list"), "budgets"),
    (("budgets", "show", "ai"), "budgets/ai"),
    (("budgets", "show", "ai", "--key", "x"), "budgets/ai?key=x"),
    (("budgets", "spend", "ai", "--by", "actor"), "budgets/ai/spend?by=actor"),
    (("budgets", "lost", "ai"), "budgets/ai/lost"),
    (("budgets", "ledger", "ai"), "budgets/ai/ledger"),
    (("schedules", "list"), "schedules"),
    (("schedules", "next", "nightly", "--count", "3"), "schedules/nightly/next?count=3"),
    (("schedules", "fires", "nightly"), "schedules/nightly/fires"),
    (("limits", "list"), "limits"),
    (("limits", "show", "mail"), "limits/mail"),
    (("limits", "show", "mail", "--key", "x"), "limits/mail?key=x"),
)


@pytest.mark.parametrize("args, path", DOCUMENTS, ids=[" ".join(args) for args, _ in DOCUMENTS])
def test_json_of_a_command_is_what_the_api_answers(served: Place, args: tuple[str, ...], path: str) -> None:
    here, there, answer = served.here(*args, "--json"), served.there(*args, "--json"), served.read(path)
    assert json.dumps(json.loads(here.stdout)) == json.dumps(answer)  # the same keys in the same order
    assert there.stdout == here.stdout


API = (
    (("kinds", "list"), "kinds"),
    (("services", "list"), "services"),
    (("tokens", "list"), "tokens"),
    (("workers", "list"), "workers"),
    (("workers", "list", "--all"), "workers?dead=true"),
)


def test_the_settings_are_those_of_the_api(served: Place) -> None:
    here, there = (run("config", "show", "--json").stdout for run in (served.here, served.there))
    shown = [json.loads(text) for text in (served.api("settings"), here, there)]
    for found in shown:
        rows = found["settings"]
        found["settings"] = [list(row.items()) for row in rows if row["path"] != "server.port"]  # an option of `serve`
        assert len(found["settings"]) == len(rows) - 1
    assert shown[1] == shown[2] == shown[0]


def test_the_health_is_that_of_the_api(served: Place) -> None:
    printed, answer = json.loads(served.here("doctor", "--json").stdout), json.loads(served.api("health"))
    assert list(printed) == list(answer) == ["healthy", "store", "checks"]
    assert (printed["healthy"], printed["store"]) == (answer["healthy"], answer["store"])
    assert [list(check) for check in printed["checks"]] == [list(check) for check in answer["checks"]]
    named = [[(check["name"], check["level"]) for check in found["checks"]] for found in (printed, answer)]
    assert named[0] == named[1], "all but sizes and ages, which grow"


@pytest.mark.parametrize("args, path", API, ids=lambda value: value if isinstance(value, str) else "")
def test_the_json_of_a_command_is_that_of_the_api(served: Place, args: tuple[str, ...], path: str) -> None:
    texts = [run(*args, "--json").stdout for run in (served.here, served.there)]
    expected, *printed = [json.loads(text, object_pairs_hook=list) for text in (served.api(path), *texts)]
    assert printed == [expected, expected], "the same values under the same keys in the same order"


def _without_ages(text: str) -> str:
    """Leave out what grows while the two are compared."""
    return re.sub(r"\b\d+(\.\d+)? ?(ms|s|m|h)\b|oldest waits for \S+ \S+", "T", text)


def test_a_list_is_the_same_in_all_its_parts_and_goes_on(served: Place) -> None:
    args = ("jobs", "list", "queue:high", "--json", "--limit")
    here, there = (json.loads(run(*args, "3").stdout) for run in (served.here, served.there))
    assert there == here
    first, *_ = json.loads(served.there(*args, "1").stdout)["jobs"]
    following = json.loads(served.there(*args, "1").stdout)["next"]
    second, *_ = json.loads(served.there(*args, "1", "--after", following).stdout)["jobs"]
    assert [first, second] == here["jobs"][:2]


def test_one_job_is_the_same_in_all_its_parts(served: Place) -> None:
    for kind in ("send_email", "transcode"):
        jobs = json.loads(served.here("jobs", "list", "--kind", kind, "--json").stdout)["jobs"]
        for job in jobs:
            for args in (("jobs", "logs", job["id"]), ("jobs", "why", job["id"])):
                assert _without_ages(served.there(*args).stdout) == _without_ages(served.here(*args).stdout)
            shown = ("jobs", "show", job["id"], "--json")
            assert served.there(*shown).stdout == served.here(*shown).stdout
            items = ("jobs", "items", job["id"], "--json")
            assert served.there(*items).stdout == served.here(*items).stdout


def test_what_came_of_a_job_is_the_same(served: Place) -> None:
    parent = served.enqueue("send_email", "to=a")

    async def enqueue_children() -> None:
        async with Holdfast(f"sqlite:///{served.folder}/jobs.db") as app:
            await enqueue_many(app.store, 2, queue="low", parent=public_id.decode(parent))

    asyncio.run(enqueue_children())
    args = ("jobs", "list", f"parent:{parent} state:queued", "--json")
    here, there = (json.loads(run(*args).stdout)["jobs"] for run in (served.here, served.there))
    assert there == here
    assert [job["parent"] for job in there] == [parent] * 2
    for run in (served.here, served.there):
        assert f"children    2 (2 queued); see jobs list parent:{parent}\n" in run("jobs", "show", parent).stdout


# ---- acting --------------------------------------------------------------------------------------------------------


def test_a_job_is_enqueued_cancelled_retried_and_deleted(served: Place) -> None:
    job = served.enqueue("send_email", "to=123", "n=5", "--tag", "a=b", "--delay", "1h", "--priority", "3")
    shown = json.loads(served.here("jobs", "show", job, "--json").stdout)
    assert shown["args"] == {"to": "123", "n": 5}, "as the task takes them"
    assert (shown["tags"], shown["priority"], shown["state"], shown["actor"]) == ({"a": "b"}, 3, "scheduled", "admin")
    live = served.there("jobs", "delete", job)
    assert (live.exit_code, "cancel it first" in live.stderr) == (4, True)
    assert served.there("jobs", "cancel", job, "--reason", "wrong").stdout == f"{job} cancelled\n"
    assert json.loads(served.here("jobs", "show", job, "--json").stdout)["cancel_reason"] == "wrong"
    assert served.there("jobs", "retry", job).exit_code == 0
    assert served.there("jobs", "cancel", job, public_id.encode(7)).exit_code == 3, "the other one is done"
    assert served.there("jobs", "delete", job).stdout == f"{job} deleted\n"
    assert served.there("jobs", "show", job).exit_code == served.here("jobs", "show", job).exit_code == 3


def test_a_job_is_put_off_moved_and_replayed_with_other_arguments(served: Place) -> None:
    job = served.enqueue("send_email", "to=a", "n=1")
    assert served.there("jobs", "reschedule", job, "--delay", "1h").stdout == f"{job} scheduled\n"
    assert served.there("jobs", "reschedule", job, "--at", "2090-01-15T09:00:00Z").stdout == f"{job} scheduled\n"
    assert served.there("jobs", "reschedule", job, "--now").stdout == f"{job} queued\n"
    assert served.there("jobs", "priority", job, "7").stdout == f"{job} priority 7\n"
    assert served.there("jobs", "clone", job, "n=2").exit_code == 4
    run = served.there("jobs", "reschedule", "--filter", f"id:{job}", "--delay", "2h", "--yes", "--json")
    assert (json.loads(run.stdout)["verb"], json.loads(run.stdout)["delay_ms"]) == ("reschedule", 7_200_000), run.stderr
    assert served.there("bulk", "cancel", json.loads(run.stdout)["id"]).exit_code == 0
    assert served.there("jobs", "cancel", job).exit_code == 0
    assert served.there("jobs", "clone", job, "n=x").exit_code == 2
    made = served.there("jobs", "clone", job, "n=2").stdout.strip()
    assert json.loads(served.here("jobs", "show", made, "--json").stdout)["args"] == {"to": "a", "n": 2}
    assert f"cloned as   job {made} (queued)\n" in served.there("jobs", "show", job).stdout
    assert served.there("jobs", "list", f"origin:{job}", "-o", "id").stdout.split() == [made]
    for part in (made[:9], made[10:], made):
        found = [one("jobs", "list", f"id:{part}", "-o", "id").stdout for one in (served.here, served.there)]
        assert found[0] == found[1] != "", part
    assert served.there("jobs", "cancel", made).exit_code == 0


def test_settings_budgets_and_tokens(served: Place) -> None:
    assert served.there("queues", "limit", "high", "4").stdout == "high: each instance runs at most 4 jobs at once\n"
    assert "override" in served.there("config", "show", "queues.high.workers").stdout
    assert "as many jobs as it has slots" in served.there("queues", "limit", "high", "--reset").stdout
    assert served.there("budgets", "set", "ai", "$8", "--reason", "more").stdout == "ai has $8.00 a day\n"
    assert served.there("config", "reset", "budgets.ai.amount").stdout == "budgets.ai.amount is reset\n"
    assert served.there("budgets", "settle", public_id.encode(7), "1").exit_code == 3
    (lost,) = json.loads(served.there("budgets", "lost", "ai", "--json").stdout)["lost"]
    assert "is settled" in served.there("budgets", "settle", lost["job"], str(lost["claim"])).stdout
    assert json.loads(served.here("budgets", "lost", "ai", "--json").stdout) == {"lost": []}
    assert served.there("services", "set", "promotion", "--interval", "2s").exit_code == 0
    assert "2 s *" in served.here("services", "list").stdout
    assert served.there("services", "reset", "promotion").exit_code == 0
    tried = [one("escalations", "test", "Ops", "--json") for one in (served.here, served.there)]
    assert [(one.exit_code, json.loads(one.stdout)["policy"]) for one in tried] == [(1, "ops"), (1, "ops")]
    assert tried[0].stdout == tried[1].stdout
    assert served.there("escalations", "test", "nobody").exit_code == 3
    assert served.there("kinds", "list", "-o", "id").stdout.split() == ["send_email", "transcode"]
    made = json.loads(served.there("tokens", "create", "--name", "ci", "--role", "viewer", "--json").stdout)
    number = made["id"]
    assert served.there("queues", "list", role="admin").exit_code == 0
    assert _run("--server", served.address, "queues", "list", token=made["secret"]).exit_code == 0
    here, there = (json.loads(one("tokens", "list", "--json").stdout)["tokens"] for one in (served.here, served.there))
    assert [row["id"] for row in there] == [row["id"] for row in here]
    assert served.there("tokens", "revoke", number).stdout == f"token {number} of ci is revoked\n"
    assert served.there("tokens", "revoke", "4711").exit_code == 3


async def _asking(served: Place, ask: Callable[[RemoteClient], Awaitable[Any]]) -> Any:
    link = Link(served.address, served.tokens["admin"])
    try:
        return await ask(RemoteClient(link))
    finally:
        await link.close()


async def _shown(served: Place, *args: str) -> Any:
    """What a command prints, which has a loop of its own."""
    return json.loads((await asyncio.to_thread(served.here, *args, "--json")).stdout)


def test_a_limit_is_set_and_reset_over_http(served: Place) -> None:
    async def change(client: RemoteClient) -> None:
        before = await client.limits.get("mail")
        changed = await client.limits.set("mail", "concurrency", 7, reason="more mail")
        assert (before.concurrency, changed.concurrency) == (3, 7)
        assert msgspec.to_builtins(changed) == await _shown(served, "limits", "show", "mail")
        (setting,) = (await _shown(served, "config", "show", "limits.mail.concurrency"))["settings"]
        assert (setting["value"], setting["changed_by"], setting["changed_reason"]) == (7, "admin", "more mail")
        assert await client.limits.reset("mail", "concurrency") == before
        with pytest.raises(LimitNotFound):
            await client.limits.set("nonsense", "concurrency", 7)
        with pytest.raises(InvalidValue, match="expected"):
            await client.limits.set("mail", "concurrency", -1)

    asyncio.run(_asking(served, change))


def test_a_schedule_is_made_and_changed_over_http(served: Place) -> None:
    app = Holdfast("sqlite://")

    @app.task
    async def send_email(to: str, n: int = 0) -> None: ...

    async def change(client: RemoteClient) -> None:
        made = await client.schedules.create(
            "weekly",
            send_email.call(to="ops"),
            cron="0 3 * * mon",
            tz="Europe/Berlin",
            grace="5m",
            exclude=["2030-12-24"],
        )
        assert (made.kind, made.args, made.tz, made.grace_ms) == ("send_email", {"to": "ops"}, "Europe/Berlin", 300_000)
        assert [(day.first, day.last) for day in made.exclude] == [(date(2030, 12, 24), date(2030, 12, 24))]
        edited = await client.schedules.edit("weekly", call=send_email.call(to="all", n=2), every="2h", overlap="queue")
        assert (edited.cron, edited.every_ms, edited.overlap) == (None, 7_200_000, "queue")
        assert (edited.args, edited.changed_by) == ({"to": "all", "n": 2}, "admin")
        (listed,) = [row for row in (await _shown(served, "schedules", "list"))["schedules"] if row["name"] == "weekly"]
        assert msgspec.to_builtins(edited) == listed
        await client.schedules.delete("weekly")
        with pytest.raises(ScheduleNotFound):
            await client.schedules.edit("weekly", every="1h")

    asyncio.run(_asking(served, change))


def test_a_job_that_is_there_already(served: Place) -> None:
    first = served.enqueue("send_email", "to=a", "--key", "once")
    second = served.there("enqueue", "send_email", "to=a", "--key", "once")
    assert (second.stdout.strip(), "existing" in second.stderr) == (first, True)
    clash = served.there("enqueue", "send_email", "to=b", "--key", "once", "--json")
    assert (clash.exit_code, json.loads(clash.stderr)["error"]["type"]) == (4, "KeyConflict")


@pytest.mark.parametrize(
    "args, code, kind",
    [
        (("enqueue", "nonsense"), 3, "UnknownKind"),
        (("enqueue", "send_email", "to=a", "n=x"), 2, "ArgumentError"),
        (("enqueue", "send_email"), 2, "ArgumentError"),
        (("jobs", "show", public_id.encode(7)), 3, "JobNotFound"),
        (("limits", "show", "nonsense"), 3, "LimitNotFound"),
        (("budgets", "show", "nonsense"), 3, "BudgetNotFound"),
        (("schedules", "next", "nonsense"), 3, "ScheduleNotFound"),
        (("dead-letters", "show", "0123456789ab"), 3, "DeadLetterNotFound"),
        (("bulk", "show", "4711"), 3, "BulkNotFound"),
        (("escalations", "show", "4711"), 3, "EscalationNotFound"),
        (("workers", "drain", "4711"), 3, "WorkerNotFound"),
        (("queues", "show", "nonsense"), 3, "QueueNotFound"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_errors_have_the_same_codes(served: Place, args: tuple[str, ...], code: int, kind: str) -> None:
    there, here = served.there(*args, "--json"), served.here(*args, "--json")
    assert (there.exit_code, json.loads(there.stderr)["error"]["type"]) == (code, kind)
    assert (here.exit_code, json.loads(here.stderr)["error"]["type"]) == (code, kind)


def test_queues_schedules_locks_and_workers(served: Place) -> None:
    assert served.there("queues", "pause", "high", "--reason", "tea").stdout == "high paused\n"
    assert "paused" in served.here("queues", "list").stdout
    assert served.there("queues", "resume", "high").stdout == "high resumed\n"
    assert served.there("schedules", "disable", "nightly").exit_code == 0
    assert "disabled by admin" in served.here("schedules", "list").stdout
    assert "next at" in served.there("schedules", "enable", "nightly").stdout
    made = served.there("schedules", "run", "nightly").stdout.strip()
    assert served.here("jobs", "cancel", made).exit_code == 0
    assert served.there("schedules", "maintenance", "start", "tea", "--days", "sun").exit_code == 0
    maintenance = ("schedules", "maintenance", "list", "--json")
    windows = served.there(*maintenance).stdout
    assert windows == served.here(*maintenance).stdout
    assert json.loads(windows) == served.read("maintenance")
    assert served.there("schedules", "maintenance", "end", "tea").exit_code == 0
    assert served.there("schedules", "maintenance", "end", "tea").exit_code == 3
    assert "here/7" in served.there("locks", "release", "edition:42", "--yes").stdout
    assert served.there("locks", "release", "edition:42", "--yes").exit_code == 3
    (row,) = [row for row in json.loads(served.here("workers", "list", "--json").stdout)["workers"] if row["pid"] == 12]
    assert f"{row['id']} (web-1" in served.there("workers", "drain", "619c2b4f").stdout
    assert "shutting down" in served.here("workers", "list").stdout


def test_a_bulk_run_is_started_and_looked_at(served: Place) -> None:
    (group,) = json.loads(served.there("dead-letters", "list", "--json").stdout)["groups"]
    started = served.there("dead-letters", "replay", group["id"], "--yes", "--json")
    run = json.loads(started.stdout)
    assert (run["verb"], run["expected"]["jobs"]) == ("retry", 1)
    for verb, state in (("pause", "paused"), ("resume", "running"), ("cancel", "cancelled")):
        assert json.loads(served.there("bulk", verb, run["id"], "--json").stdout)["state"] == state
    here, there = (one("bulk", "show", run["id"], "--json").stdout for one in (served.here, served.there))
    assert json.loads(here) == json.loads(there)


def test_a_job_is_waited_for_and_watched(served: Place) -> None:
    job = served.enqueue("send_email", "to=a")
    assert served.there("jobs", "wait", job, "--timeout", "300ms").exit_code == 124
    assert served.there("jobs", "watch", job, "--timeout", "300ms").exit_code == 124
    assert served.here("jobs", "cancel", job).exit_code == 0
    waited = served.there("jobs", "wait", job, "--json")
    assert (waited.exit_code, json.loads(waited.stdout)["jobs"][0]["state"]) == (5, "cancelled")
    watched = served.there("jobs", "watch", job, "--json")
    assert (watched.exit_code, json.loads(watched.stdout)["type"]) == (5, "job:cancelled")


def test_events_come_over_the_stream(served: Place) -> None:
    command = [sys.executable, "-m", "holdfast", "jobs", "tail", "--server", served.address, "--timeout", "20s"]
    environment = {**os.environ, "HOLDFAST_TOKEN": served.tokens["viewer"], "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen([*command, "--json"], env=environment, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        is_heard = False
        while not is_heard and process.poll() is None:  # the first of them that it hears tells that it listens
            served.enqueue("send_email", "to=a")
            is_heard = bool(select.select([process.stdout], [], [], 0.5)[0])
        assert json.loads(process.stdout.readline())["type"] == "job:enqueued"
    finally:
        process.kill()
        process.communicate()


# ---- who may, and where --------------------------------------------------------------------------------------------


def test_the_token_decides(served: Place) -> None:
    refused = served.there("queues", "pause", "high", role="viewer")
    assert (refused.exit_code, "needs the role operator" in refused.stderr) == (1, True)
    nobody = _run("--server", served.address, "jobs", "list")
    assert (nobody.exit_code, "--token @FILE" in nobody.stderr, "HOLDFAST_TOKEN" in nobody.stderr) == (1, True, True)
    unknown = _run("--server", served.address, "jobs", "list", token="hf_nonsense")
    assert unknown.exit_code == 1
    assert "hf_nonsense" not in unknown.output
    assert {
        row["queue"] for row in json.loads(served.there("jobs", "list", "--json", role="narrow").stdout)["jobs"]
    } == {"high"}
    actor = served.there("queues", "pause", "high", "--actor", "mallory")
    assert (actor.exit_code, "--actor" in actor.stderr) == (2, True)


def test_a_token_from_a_file(served: Place, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(f"{served.tokens['viewer']}\n", encoding="utf-8")
    assert _run("queues", "list", "--server", served.address, "--token", f"@{tmp_path}/token").exit_code == 0
    missing = _run("queues", "list", "--server", served.address, "--token", f"@{tmp_path}/none")
    assert (missing.exit_code, "cannot be read" in missing.stderr) == (2, True)
    typed = _run("queues", "list", "--server", served.address, "--token", served.tokens["viewer"])
    assert (typed.exit_code, typed.stdout) == (2, "")
    assert "HOLDFAST_TOKEN" in typed.stderr
    assert "@FILE" in typed.stderr
    assert served.tokens["viewer"] not in typed.stderr


@pytest.mark.parametrize(
    "args",
    [("migrate", "status"), ("prune",), ("doctor",), ("config", "apply"), ("worker",), ("services", "run")],
)
def test_what_needs_the_database_says_so(served: Place, args: tuple[str, ...]) -> None:
    result = served.there(*args)
    assert result.exit_code == 2
    assert "needs the database" in result.stderr


def test_one_place_at_a_time(served: Place) -> None:
    both = _run("--server", served.address, "-A", "shop:app", "jobs", "list")
    assert (both.exit_code, "-A and --server exclude each other" in both.stderr) == (2, True)
    alone = _run("-A", "shop:app", "--token", "x", "jobs", "list")
    assert (alone.exit_code, "--token goes with --server" in alone.stderr) == (2, True)
    wrong = _run("--server", "jobs.example.org", "jobs", "list")
    assert (wrong.exit_code, "expected an address" in wrong.stderr) == (2, True)
    away = _run("--server", "http://127.0.0.1:1", "jobs", "list", "--json")
    assert (away.exit_code, json.loads(away.stderr)["error"]["type"]) == (1, "StoreUnavailable")
