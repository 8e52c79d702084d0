"""`jobs tail`: what happens from now on, and what handlers log meanwhile."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tests.cli import working
from tests.cli.conftest import Shop


@contextmanager
def tailing(shop: Shop, *args: str) -> Iterator["subprocess.Popen[str]"]:
    """Follow in another process; it has begun to listen when the block is entered."""
    process = subprocess.Popen(
        [sys.executable, "-m", "holdfast", "jobs", "tail", "-A", "shop:app", "--timeout", "20s", *args],
        cwd=shop.folder,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        while process.poll() is None and not watched(shop):
            pass
        yield process
    finally:
        process.kill()
        process.communicate()


def watched(shop: Shop) -> bool:
    """Whether somebody watches."""

    async def look(store: object) -> bool:
        from tests.conformance import raw

        return bool((await raw.column(store, "SELECT count(*) FROM holdfast.watchers"))[0])  # type: ignore[arg-type] # a store

    return shop.on_store(look)


def test_events_come_as_they_happen(shop: Shop) -> None:
    with tailing(shop, "--queue", "high") as process:
        assert process.stdout is not None
        shop.enqueue("transcode", "url=a")
        job = shop.enqueue("send_email", "to=a")
        shop.on_store(lambda store: working.fail(store, "high", 1))
        first = process.stdout.readline().rstrip("\n").split("\t")
        assert first[1:4] == [job, "send_email", "job:enqueued"], "that of another queue is left out"
        seen = [process.stdout.readline().split("\t")[3] for _ in range(2)]
        assert seen == ["job:started", "job:failed"]


def test_json_lines_of_some_events_with_what_is_logged(sqlite_shop: Shop) -> None:
    sqlite_shop.ok("migrate", "up")
    with tailing(sqlite_shop, "--json", "--logs", "--event", "job:started") as process:
        assert process.stdout is not None
        sqlite_shop.enqueue("transcode", "url=a")
        sqlite_shop.on_store(lambda store: working.talk(store, "bulk"))
        lines = [json.loads(process.stdout.readline()) for _ in range(3)]
        assert [line["event"] for line in lines] == ["job:started", "log", "log"]
        assert next(line["text"] for line in lines[1:]) == "began"


def test_no_such_event(sqlite_shop: Shop) -> None:
    result = sqlite_shop("jobs", "tail", "--event", "job:nonsense")
    assert result.exit_code == 2
    assert "job:failed" in result.stderr
