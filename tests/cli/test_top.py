"""`top`: once for a pipe, as JSON, and drawn for a person who presses keys."""

import json
import os
import pty
import select
import subprocess
import sys
import time
from datetime import UTC, datetime
from typing import Any

import pytest
from rich.console import Console

from holdfast.cli.top_view import Drawing, Seen, sparkline
from tests.cli import working
from tests.cli.conftest import Shop
from tests.cli.test_output import ACTING, STYLE
from tests.cli.working import HOSTILE
from tests.support.wait import PATIENCE_S


async def busy(store: Any) -> None:
    """Let one job run and say much, and another fail."""
    await working.talk(store, "bulk")
    await working.fail(store, "high", 1)


@pytest.fixture
def at_work(shop: Shop) -> Shop:
    """A shop with jobs in all places."""
    for number in range(3):
        shop.enqueue("send_email", f"to={number}")
        shop.enqueue("transcode", f"url={number}")
    shop.on_store(busy)
    return shop


def test_a_pipe_gets_it_once(at_work: Shop) -> None:
    for args in ((), ("--once",)):
        queues, running, failed = at_work.ok("top", *args).split("\n\n")
        titles, *rows = [line.split("\t") for line in queues.splitlines()]
        assert titles == ["QUEUE", "QUEUED", "SCHEDULED", "RUNNING", "HELD", "STATUS"]
        assert {row[0]: row[1:5] for row in rows} == {"bulk": ["2", "0", "1", "0"], "high": ["2", "0", "0", "0"]}
        assert running.splitlines()[1].split("\t")[1:3] == ["transcode", "75 %"]
        assert "ValueError" in failed
        assert not ACTING.search(f"{queues}{running}{failed}".replace("\t", "").replace("\n", ""))


def test_as_json(at_work: Shop) -> None:
    shown = json.loads(at_work.ok("top", "--json"))
    assert list(shown) == ["at", "workers", "slots", "queues", "running", "failures"]
    (job,) = shown["running"]
    assert (job["kind"], job["progress"]["percent"], job["progress"]["phase"]) == ("transcode", 75, "encode")
    (failure,) = shown["failures"]
    assert (failure["kind"], failure["left"]["jobs"]) == ("send_email", 1)
    assert {queue["name"]: queue["counts"]["queued"]["jobs"] for queue in shown["queues"]} == {"bulk": 2, "high": 2}


def test_numbers_become_bars() -> None:
    assert sparkline([]) == ""
    assert sparkline([0, 0]) == "▁▁"
    assert sparkline([0, 5, 10]) == "▁▅█"


def test_keys_choose_what_is_seen() -> None:
    drawing = Drawing()
    drawing.take(Seen(datetime(2026, 1, 1, tzinfo=UTC), [], [], [], []))
    drawing.problem = HOSTILE
    console = Console(width=80, height=24, color_system=None)

    def drawn() -> str:
        with console.capture() as captured:
            console.print(drawing.draw(24))
        return captured.get()

    assert "running" in drawn()
    assert not ACTING.search(STYLE.sub("", drawn()).replace("\n", ""))
    drawing.obey("f")
    assert "running" not in drawn()
    assert "failures" in drawn()
    drawing.obey("p")
    assert drawing.is_paused
    assert "paused" in drawn()


def test_a_person_sees_it_and_leaves_with_a_key(sqlite_shop: Shop) -> None:
    sqlite_shop.enqueue("send_email", "to=a")
    main, other = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "holdfast", "top", "-A", "shop:app", "--every", "200ms"],
        cwd=sqlite_shop.folder,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "100", "LINES": "30"},
        stdin=other,
        stdout=other,
        stderr=other,
    )
    os.close(other)
    seen, is_asked, end = b"", False, time.monotonic() + PATIENCE_S
    try:
        while process.poll() is None and time.monotonic() < end:
            if select.select([main], [], [], 0.1)[0]:
                try:
                    seen += os.read(main, 65_536)
                except OSError:  # it has left
                    break
            if b"failures" in seen and b"high" in seen and not is_asked:
                is_asked = True
                os.write(main, b"q")
        assert process.wait(PATIENCE_S) == 0
    finally:
        process.kill()
        os.close(main)
    assert b"q leave" in seen
