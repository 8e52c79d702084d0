"""`kinds list`, and `config apply|set|reset`: what is published, what is changed, and what then holds."""

import json
import sys
from typing import Any

from holdfast.client.definitions import fingerprint
from holdfast.stores.limits import LimitRow
from holdfast.stores.values import WorkerProcess
from tests.cli.conftest import Shop


def with_policies(shop: Shop) -> None:
    """Give the program a limit and a schedule."""
    source = (shop.folder / "shop.py").read_text(encoding="utf-8")
    source = source.replace("deadline=", 'limits=[Limit(name="mails", concurrency=3)], deadline=')
    source = source.replace("import Context", "import Limit, Context")
    often = '@app.schedule(every="5m", args={"to": "a"})\n'
    source = source.replace('@app.task(queue="high")', f'{often}@app.task(queue="high", limits="mails")')
    rewrite(shop, source)


def rewrite(shop: Shop, source: str) -> None:
    """Change the program, as if the next command were another process."""
    (shop.folder / "shop.py").write_text(source, encoding="utf-8")
    sys.modules.pop("shop", None)


def limits(shop: Shop) -> list[LimitRow]:
    """The limits in force."""

    async def read(store: Any) -> list[LimitRow]:
        found: list[LimitRow] = await store.list_limits()
        return found

    return shop.on_store(read)


def test_tasks_come_from_code_without_a_look_at_the_store(sqlite_shop: Shop) -> None:
    with_policies(sqlite_shop)
    heading, *rows = [line.split("\t") for line in sqlite_shop.ok("kinds", "list").splitlines()]
    assert heading == ["KIND", "QUEUE", "CADENCE", "HANDLER", "POLICY"]
    assert [row[:2] for row in rows] == [["resize", "default"], ["send_email", "high"], ["transcode", "bulk"]]
    assert rows[1][2].startswith("every 5 min")
    assert rows[1][3:] == ["shop.send_email", "5 attempts, timeout 3600 s, limits mails"]
    assert not (sqlite_shop.folder / "jobs.db").exists()


def test_apply_publishes_and_tasks_are_read_from_the_store(shop: Shop) -> None:
    with_policies(shop)
    assert shop.ok("config", "apply") == "published: 1 queues, 1 limits, 0 budgets, 3 kinds\n"
    own = json.loads(shop.ok("kinds", "list", "--json"))["kinds"]
    stored = json.loads(shop.ok("kinds", "list", "--stored", "--json"))["kinds"]
    assert own == stored
    (email,) = [kind for kind in stored if kind["name"] == "send_email"]
    assert (email["queue"], email["limits"], email["priority"]) == ("high", ["mails"], 1)
    assert [(row.name, row.kinds, row.concurrency) for row in limits(shop)] == [("mails", ("send_email",), 3)]


def test_set_and_reset(shop: Shop) -> None:
    with_policies(shop)
    shop.ok("config", "apply")
    path = "limits.mails.concurrency"
    assert shop.ok("config", "set", path, "5", "--reason", "slow", "--actor", "anna") == f"{path} is set\n"
    assert limits(shop)[0].concurrency == 5
    shown = json.loads(shop.ok("config", "show", path, "--json"))["settings"]
    assert [(row["value"], row["origin"].partition(" ")[0].rstrip(":,")) for row in shown] == [(5, "override")]
    assert shop.ok("config", "reset", path) == f"{path} is reset\n"
    assert limits(shop)[0].concurrency == 3
    assert shop.ok("config", "reset", path) == f"{path} was not changed\n"


def test_what_makes_no_sense_is_refused_with_2(sqlite_shop: Shop) -> None:
    with_policies(sqlite_shop)
    sqlite_shop.on_store(lambda _: _nothing())
    sqlite_shop.ok("config", "apply")
    for path, value, words in (
        ("limits.mail.concurrency", "5", "did you mean 'mails'?"),
        ("limits.mails.concurrency", "none", "concurrency: expected"),
        ("worker.concurrency", "5", "expected one like limits.tenant.concurrency"),
    ):
        result = sqlite_shop("config", "set", path, value)
        assert result.exit_code == 2
        assert words in result.stderr


def test_moved_kinds_take_their_jobs_along(shop: Shop) -> None:
    shop.ok("config", "apply")
    job = shop.enqueue("send_email", "to=a")
    source = (shop.folder / "shop.py").read_text(encoding="utf-8")
    rewrite(shop, source.replace('@app.task(queue="high")', '@app.task(queue="low")'))
    assert "waiting jobs have moved to low\n" in shop.ok("config", "apply")
    assert json.loads(shop.ok("jobs", "show", job, "--json"))["queue"] == "low"


def test_doctor_names_a_worker_that_was_started_with_other_definitions(shop: Shop) -> None:
    shop.ok("config", "apply")

    async def started(store: Any) -> None:
        known = {f"kinds.{kind.name}": fingerprint(kind.definition) for kind in await store.list_kinds()}
        for pid, changed in ((5, {}), (6, {"kinds.resize": "other", "limits.gone": "other"})):
            worker = await store.register_worker(WorkerProcess(instance="i", host="web-1", pid=pid), 60_000)
            await store.note_policies(worker, json.dumps(known | changed))

    shop.on_store(started)
    (line,) = [line for line in shop.ok("doctor").splitlines() if " policies " in line]
    assert (
        "(web-1, process 6) was started with other definitions than those published: kinds.resize, limits.gone" in line
    )


async def _nothing() -> None:
    """Only open the store, which makes its file."""
