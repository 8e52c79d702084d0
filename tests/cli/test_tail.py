"""`jobs tail`: what happens from now on, and what handlers log meanwhile."""

import json
import os
import select
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO

from tests.cli import working
from tests.cli.conftest import Shop


@contextmanager
def tailing(shop: Shop, happen: Callable[[], str], *args: str) -> Iterator[IO[str]]:
    """Follow in another process, and give what it writes; it listens when the block is entered.

    Only what it has heard of tells so: its entry in the store comes before it has read from where on it listens.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", "holdfast", "jobs", "tail", "-A", "shop:app", "--timeout", "60s", *args],
        cwd=shop.folder,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        while not select.select([process.stdout], [], [], 0.5)[0]:
            happen()
        yield process.stdout
    finally:
        process.kill()
        process.communicate()


def test_events_come_as_they_happen(shop: Shop) -> None:
    def happen() -> str:
        shop.enqueue("transcode", "url=a")
        job = shop.enqueue("send_email", "to=a")
        shop.on_store(lambda store: working.fail(store, "high", 1))
        return job

    with tailing(shop, happen, "--queue", "high") as lines:
        job = happen()
        told: list[list[str]] = []
        while sum(row[1] == job for row in told) < 3:
            told.append(lines.readline().rstrip("\n").split("\t"))
    assert [row[3] for row in told if row[1] == job] == ["job:enqueued", "job:started", "job:failed"]
    assert {row[2] for row in told} == {"send_email"}, "that of another queue is left out"


def test_json_lines_of_some_events_with_what_is_logged(sqlite_shop: Shop) -> None:
    sqlite_shop.ok("migrate", "up")

    def happen() -> str:
        job = sqlite_shop.enqueue("transcode", "url=a")
        sqlite_shop.on_store(lambda store: working.talk(store, "bulk"))
        return job

    with tailing(sqlite_shop, happen, "--json", "--logs", "--type", "job:started") as lines:
        job = happen()
        told: list[dict[str, str]] = []
        while sum(line["id"] == job for line in told) < 3:
            told.append(json.loads(lines.readline()))
    own = [line for line in told if line["id"] == job]
    assert [line["type"] for line in own] == ["job:started", "log", "log"]
    assert own[1]["text"] == "began"


def test_no_such_event(sqlite_shop: Shop) -> None:
    result = sqlite_shop("jobs", "tail", "--type", "job:nonsense")
    assert result.exit_code == 2
    assert "job:failed" in result.stderr
