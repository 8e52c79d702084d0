"""`escalations`: what went wrong, who answered, and a test of who is told."""

import asyncio
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from holdfast.stores.alarms import Alarm
from tests.cli.conftest import Shop
from tests.support import raw
from tests.support.notice_receiver import Receiver
from tests.support.ports import free_port

TWO = [
    Alarm(source="failed", policy="ops", queue="high", kind="resize", fingerprint=cause, title="it failed", job_id=1)
    for cause in ("a", "a", "b")
]
POLICIES = """
from holdfast import Escalation, PagerDuty, Slack
app = Holdfast(
    {url!r}, schema={schema!r}, escalations=[Escalation(name="ops", channels=["pager", "chat"])],
    channels={{"pager": PagerDuty(key="0123hush", url="{hook}/v2"), "chat": Slack(url="{dead}/T0/hushhush")}},
)
"""


async def escalated(store: Any) -> None:
    """Let two kinds of things have gone wrong."""
    for alarm in TWO:
        await raw.raise_alarm(store, alarm)
    await store.fold_alarms({"ops": ["failed"]}, 10)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """Listen on a thread of its own: a command has the event loop of its own thread."""
    receiver, stop, ready = Receiver(), asyncio.Event(), threading.Event()
    loop = asyncio.new_event_loop()

    async def listen() -> None:
        async with receiver.listening():
            ready.set()
            await stop.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(listen()))
    thread.start()
    ready.wait(10)
    yield receiver
    loop.call_soon_threadsafe(stop.set)
    thread.join(10)
    loop.close()


def test_they_are_listed_shown_and_answered(shop: Shop) -> None:
    assert "nothing went wrong" in shop("escalations", "list").stderr
    shop.on_store(escalated)
    found = json.loads(shop.ok("escalations", "list", "--open", "--json"))["escalations"]
    by_print = {one["fingerprint"]: one for one in found}
    number = by_print["a"]["id"]
    assert (by_print["a"]["count"], by_print["a"]["state"], by_print["a"]["policy"]) == (2, "open", "ops")
    heading, *rows = [line.split("\t") for line in shop.ok("escalations", "list", "--policy", "ops").splitlines()]
    assert heading == ["ID", "STATE", "TITLE", "QUEUE", "COUNT", "LAST", "POLICY"]
    assert len(rows) == 2
    assert "acknowledged by ann" in shop.ok("escalations", "ack", number, "--actor", "ann", "--note", "disk full")
    shown = shop.ok("escalations", "show", number)
    assert "disk full" in shown
    assert "by ann" in shown
    state = json.loads(shop.ok("escalations", "show", number, "--json"))
    assert (state["escalation"]["state"], state["notices"]) == ("acknowledged", [])
    assert json.loads(shop.ok("escalations", "ack", number, "--actor", "bob", "--json"))["acked_by"] == "ann"


def test_snoozing(shop: Shop) -> None:
    shop.on_store(escalated)
    first, second = (one["id"] for one in json.loads(shop.ok("escalations", "list", "--json"))["escalations"])
    assert "is snoozed until 20" in shop.ok("escalations", "snooze", first, "--for", "2h")
    until = json.loads(shop.ok("escalations", "snooze", first, "--until", "2030-01-01T09:00:00Z", "--json"))
    assert (until["state"], until["snoozed_until"]) == ("snoozed", "2030-01-01T09:00:00Z")
    shop.ok("escalations", "ack", second)
    assert shop("escalations", "snooze", second, "--for", "1h").exit_code == 4
    assert shop("escalations", "snooze", first).exit_code == 2
    for verb in ("show", "ack"):
        result = shop("escalations", verb, "99")
        assert (result.exit_code, "there is no escalation 99" in result.stderr) == (3, True)


def test_a_test_says_what_came_back_and_no_secret(sqlite_shop: Shop, receiver: Receiver) -> None:
    source = (sqlite_shop.folder / "shop.py").read_text(encoding="utf-8")
    dead = f"http://127.0.0.1:{free_port()}"
    policies = POLICIES.format(url=sqlite_shop.url, schema="holdfast", hook=receiver.url()[:-1], dead=dead)
    (sqlite_shop.folder / "shop.py").write_text(source + policies, encoding="utf-8")
    sqlite_shop.ok("migrate", "up")
    result = sqlite_shop("escalations", "test", "ops")
    assert result.exit_code == 1
    assert result.stdout.splitlines()[0] == "pager: sent"
    assert result.stdout.splitlines()[1].startswith("chat: could not connect")
    assert "hush" not in result.output
    (event,) = receiver.bodies
    assert (event["event_action"], event["payload"]["severity"]) == ("trigger", "info")
    told = json.loads(sqlite_shop("escalations", "test", "OPS", "--json").stdout)
    assert [(one["channel"], one["sent"]) for one in told["channels"]] == [("pager", True), ("chat", False)]
    unknown = sqlite_shop("escalations", "test", "opps")
    assert (unknown.exit_code, "known are ops" in unknown.stderr) == (3, True)
