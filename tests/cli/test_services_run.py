"""`services run`: the services as a process of their own, how it leaves, and what it refuses."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.cli.conftest import Shop
from tests.support.moments import MomentsFile
from tests.support.wait import PATIENCE_S, wait_until

SOURCE = """
from holdfast import Holdfast
from holdfast.cadence import Service

app = Holdfast({url!r}, schema={schema!r}, synchronous="normal", services={{"rollups": Service(interval="100ms")}})

@app.schedule(every="1s", args={{"to": "a"}}, overlap="queue")
@app.task
async def send_email(to: str) -> None: ...
"""
PROMISING = """
from holdfast import Holdfast, Queue
from holdfast.cadence import Service

often = Service(interval="50ms")
services = {{"sla": often, "lane_counts": often}}
app = Holdfast({url!r}, schema={schema!r}, queues=[Queue("high", sla="30s")], services=services)

@app.task(queue="high")
async def send_email(to: str) -> None: ...
"""


class Desk:
    """An app with a schedule, and `holdfast services run` on it."""

    def __init__(self, shop: Shop, source: str = SOURCE) -> None:
        self.shop = shop
        self.folder = shop.folder
        (self.folder / "desk.py").write_text(source.format(url=shop.url, schema=shop.schema), encoding="utf-8")
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self, **env: str) -> Path:
        """Start one, and give the file that it writes to."""
        log = self.folder / f"services-{len(self.processes)}.log"
        command = [sys.executable, "-m", "holdfast", "-A", "desk:app", "services", "run"]
        with log.open("wb") as output:
            environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **env}
            self.processes.append(
                subprocess.Popen(command, cwd=self.folder, env=environment, stdout=output, stderr=output)
            )
        return log

    def leave(self, number: int, signum: int = signal.SIGTERM) -> int:
        """Tell one to leave; its exit code."""
        self.processes[number].send_signal(signum)
        return self.processes[number].wait(PATIENCE_S)

    def fires(self) -> int:
        """How often the schedule has fired."""
        result = self.shop("schedules", "fires", "send_email", "--json")
        return len(json.loads(result.stdout)["fires"]) if result.exit_code == 0 else 0

    def close(self) -> None:
        """End those that the test has left."""
        for process in self.processes:
            process.kill()
            process.wait()


@pytest.fixture
def desk(shop: Shop) -> Iterator[Desk]:
    """Give the app on each store."""
    found = Desk(shop)
    yield found
    found.close()


@pytest.mark.real_time
def test_it_fires_publishes_and_leaves_with_a_report(desk: Desk) -> None:
    log = desk.start()
    wait_until(lambda: desk.fires() >= 2, "the schedule has fired")
    (leader,) = json.loads(desk.shop.ok("services", "list", "--json"))["leaders"]
    assert f"/{desk.processes[0].pid}/" in leader["holder"]
    assert desk.leave(0) == 0
    said = log.read_text()
    assert f"services of {desk.shop.url.partition(':')[0]}" in said
    assert f"{leader['holder']} leads (term 1)" in said
    for name in ("promotion", "schedules", "rescue", "retention", "rollups", "lane_counts"):
        assert f"INFO holdfast: {name}: " in said
    assert "0 failures" in said
    assert "Traceback" not in said
    assert json.loads(desk.shop.ok("services", "list", "--json"))["leaders"] == []


@pytest.mark.real_time
def test_who_stands_by_takes_over_at_once_when_the_leader_leaves(desk: Desk) -> None:
    first = desk.start()
    wait_until(lambda: " leads (term" in first.read_text(), "one leads")
    second = desk.start()
    wait_until(lambda: "services of " in second.read_text(), "another stands by")
    assert " leads " not in second.read_text()
    assert desk.leave(0, signal.SIGINT) == 0
    left_at = time.monotonic()
    wait_until(lambda: " leads (term 2)" in second.read_text(), "the other leads")
    assert time.monotonic() - left_at < 8  # it does not wait for the lease of ten seconds
    before = desk.fires()
    wait_until(lambda: desk.fires() > before, "the schedule goes on")
    assert desk.leave(1) == 0


@pytest.mark.parametrize("url, expected", [("sqlite://", "memory"), ("sqlite:///none.db", "migrate up")])
def test_a_store_without_anything_to_keep_is_refused(sqlite_shop: Shop, url: str, expected: str) -> None:
    (sqlite_shop.folder / "desk.py").write_text(SOURCE.format(url=url, schema="holdfast"), encoding="utf-8")
    result = sqlite_shop("-A", "desk:app", "services", "run", app=False)
    assert result.exit_code != 0
    assert expected in result.stderr


def test_alone_it_finds_that_a_queue_without_workers_breaks_its_promise(
    postgres_shop: Shop, moments_file: MomentsFile
) -> None:
    """The clock of the store is in the hands of the test, for the other process too."""
    shop = postgres_shop
    desk = Desk(shop, PROMISING)
    try:
        shop.enqueue("send_email", "to=a")
        now = datetime.now(UTC)
        log = desk.start(**moments_file.env)
        wait_until(lambda: " leads (term" in log.read_text(), "it leads")

        def looks() -> int:
            return len(moments_file.read("served", service="sla"))

        def is_late() -> bool:
            nonlocal now
            now += timedelta(seconds=10)
            shop.on_store(lambda store: store.set_time(now))
            before = looks()
            wait_until(lambda: looks() >= before + 2, "it has looked since")  # one may have begun before
            return json.loads(shop.ok("queues", "show", "high", "--json"))["late_since"] is not None

        wait_until(is_late, "the promise is broken")
        assert "queue high: jobs wait for longer than 30 s (the oldest waits for " in log.read_text()
        assert "\tlate 20" in shop.ok("queues", "list")
        (high,) = (row for row in shop.ok("queues", "list", "--wide").splitlines() if row.startswith("high\t"))
        assert "\t30s\t" in high
    finally:
        desk.close()
