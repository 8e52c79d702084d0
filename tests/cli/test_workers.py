"""`workers list|drain`: who is alive, who is not, what to do when there is nobody, and who is asked to leave."""

import json
import os
import subprocess
import sys
from datetime import datetime
from typing import Any

import pytest

from holdfast.stores.values import WorkerProcess
from tests.cli import working
from tests.cli.conftest import Shop
from tests.cli.test_output import ACTING, STYLE, in_terminal
from tests.cli.working import HOSTILE
from tests.support.wait import PATIENCE_S, wait_until

INSTANCE = "619c2b4f665145a0a888ac0f6a99ff84"


SLOW = """
import asyncio, pathlib
from holdfast import Holdfast, WorkerSettings

app = Holdfast({url!r}, synchronous="normal", worker=WorkerSettings(lease="3s", transaction_budget="300ms"))

@app.task
async def wait() -> None:
    pathlib.Path("begun").touch()
    while not pathlib.Path("go").exists():
        await asyncio.sleep(0.01)
"""


async def arrive(store: Any, lease_ms: int = 60_000, host: str = "web-1") -> int:
    """Enter a worker that knows everything about itself."""
    info = WorkerProcess(
        instance=INSTANCE, host=host, pid=4194303, version="1.2.3", queues=("high", "default"), concurrency=8
    )
    worker: int = await store.register_worker(info, lease_ms)
    return worker


async def populate(store: Any) -> list[int]:
    """Let one live, one stay away past its lease, and one die."""
    alive, late, dead = await arrive(store), await arrive(store, lease_ms=1), await arrive(store)
    await store.renew_workers([alive], 60_000, {alive: 48_234_496})
    await store.release_worker(dead, [])
    return [alive, late, dead]


def rows(shop: Shop, *args: str) -> list[list[str]]:
    return [line.split("\t") for line in shop.ok("workers", "list", *args).splitlines()]


def test_living_workers_are_listed(shop: Shop) -> None:
    alive, late, dead = shop.on_store(populate)
    titles, first, second = rows(shop)
    assert titles == [
        "ID",
        "HOST",
        "PID",
        "INSTANCE",
        "VERSION",
        "QUEUES",
        "SLOTS",
        "JOBS",
        "STATE",
        "SEEN",
        "MEMORY",
    ]
    assert first[:9] == [str(alive), "web-1", "4194303", INSTANCE, "1.2.3", "high, default", "8", "0", "alive"]
    assert datetime.fromisoformat(first[9]).utcoffset() is not None
    assert (first[10], second[10]) == ("48234496", "-"), "the other one has not told it"
    assert (second[0], second[8]) == (str(late), "lease ended")
    assert [(row[0], row[8]) for row in rows(shop, "--all")[1:]] == [
        (str(alive), "alive"),
        (str(late), "lease ended"),
        (str(dead), "dead"),
    ]
    assert shop("workers", "list").stderr == "1 dead not shown: --all\n"
    assert shop("workers", "list", "--all").stderr == ""


def test_what_they_run_is_counted(shop: Shop) -> None:
    for number in range(3):
        shop.enqueue("transcode", f"url={number}")
    shop.on_store(lambda store: working.claim(store, "bulk", limit=2))
    (row,) = rows(shop)[1:]
    assert (row[5], row[7]) == ("bulk", "2")


def test_as_json(shop: Shop) -> None:
    alive, late, dead = shop.on_store(populate)
    first, second = json.loads(shop.ok("workers", "list", "--json"))["workers"]
    times = {name: first.pop(name) for name in ("registered_at", "seen_at", "lease_until")}
    assert all(moment.endswith("Z") for moment in times.values())
    expected = {"id": str(alive), "host": "web-1", "pid": 4194303, "instance": INSTANCE, "version": "1.2.3"}
    expected |= {"queues": ["high", "default"], "slots": 8, "running": 0, "state": "alive", "dead_at": None}
    expected |= {"drain_at": None, "drain_by": None, "memory_bytes": 48_234_496}
    assert first == expected
    assert (second["id"], second["state"]) == (str(late), "lease ended")
    third = json.loads(shop.ok("workers", "list", "--all", "--json"))["workers"][2]
    assert (third["id"], third["state"]) == (str(dead), "dead")
    assert third["dead_at"] is not None


def test_nobody_is_there(shop: Shop) -> None:
    result = shop("workers", "list")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.startswith("no worker is alive; start one with `")
    assert result.stderr.endswith(" worker`\n")
    assert json.loads(shop.ok("workers", "list", "--json")) == {"workers": []}


def test_a_store_alone_is_enough(sqlite_shop: Shop) -> None:
    sqlite_shop.on_store(arrive)
    result = sqlite_shop("workers", "list", "--store", sqlite_shop.url, app=False)
    assert result.exit_code == 0
    assert "alive" in result.stdout


@pytest.mark.parametrize("columns", [80, 120])
def test_the_table_fits_the_terminal(sqlite_shop: Shop, columns: int) -> None:
    sqlite_shop.on_store(lambda store: arrive(store, host=f"web-1.{HOSTILE}.example.org"))
    sqlite_shop.on_store(populate)
    code, text = in_terminal(sqlite_shop, columns, "workers", "list")
    plain = STYLE.sub("", text)
    assert code == 0
    assert not ACTING.search(plain)
    assert all(len(line) <= columns for line in plain.splitlines()), plain
    assert INSTANCE[:5] in plain
    assert ("48.2 MB" in plain) == (columns > 80), "where there is room for it"
    assert INSTANCE not in plain


# ---- drain ---------------------------------------------------------------------------------------------------------


def test_an_instance_is_asked_to_leave(shop: Shop) -> None:
    alive, _late, _dead = shop.on_store(populate)
    said = shop.ok("workers", "drain", INSTANCE[:6], "--actor", "alice")
    assert f"{alive} (web-1, process 4194303) shuts down; it runs 0 jobs\n" in said
    assert {(row[0], row[8]) for row in rows(shop)[1:]} >= {(str(alive), "shutting down")}
    first = json.loads(shop.ok("workers", "drain", str(alive), "--json"))["workers"][0]
    assert (first["id"], first["state"], first["drain_by"]) == (str(alive), "shutting down", "alice"), (
        "the first one is kept"
    )


@pytest.mark.parametrize("named", ["4711", INSTANCE[:3], "ffff", "0"])
def test_who_is_not_there_is_not_asked(sqlite_shop: Shop, named: str) -> None:
    sqlite_shop.on_store(arrive)
    result = sqlite_shop("workers", "drain", named, "--json")
    assert (result.exit_code, json.loads(result.stderr)["error"]["type"]) == (3, "WorkerNotFound")
    assert rows(sqlite_shop)[1][8] == "alive"


def test_a_name_that_two_instances_begin_with_is_refused(sqlite_shop: Shop) -> None:
    async def two(store: Any) -> None:
        for instance in ("abcd1", "abcd2"):
            await store.register_worker(WorkerProcess(instance=instance, host="h", pid=1), 60_000)

    sqlite_shop.on_store(two)
    result = sqlite_shop("workers", "drain", "abcd")
    assert result.exit_code == 2
    assert "abcd1, abcd2" in result.stderr
    assert sqlite_shop("workers", "drain", "abcd2").exit_code == 0


@pytest.mark.real_time
def test_a_real_worker_leaves_when_it_is_asked(sqlite_shop: Shop) -> None:
    (sqlite_shop.folder / "shop.py").write_text(SLOW.format(url=sqlite_shop.url), encoding="utf-8")
    sqlite_shop.ok("migrate", "up")
    first = sqlite_shop.enqueue("wait")
    environment = {**os.environ, "HOLDFAST_APP": "shop:app"}
    with (sqlite_shop.folder / "log").open("wb") as log:
        worker = subprocess.Popen(
            [sys.executable, "-m", "holdfast", "worker", "--processes", "2"],
            cwd=sqlite_shop.folder,
            env=environment,
            stderr=log,
        )
    try:
        wait_until((sqlite_shop.folder / "begun").exists, "the job runs")
        (named, *_) = [row[3] for row in rows(sqlite_shop)[1:]]
        if sys.platform == "linux":
            wait_until(lambda: all(row[10] != "-" for row in rows(sqlite_shop)[1:]), "both have told their memory")
            assert {int(row[10]) > 5_000_000 for row in rows(sqlite_shop)[1:]} == {True}
        sqlite_shop.ok("workers", "drain", named)
        wait_until(lambda: b"asked to leave" in (sqlite_shop.folder / "log").read_bytes(), "it heard of it")
        later = sqlite_shop.enqueue("wait")
        (sqlite_shop.folder / "go").touch()
        assert worker.wait(PATIENCE_S) == 0
    finally:
        worker.kill()
        worker.wait()
    states = {job: json.loads(sqlite_shop.ok("jobs", "show", job, "--json"))["state"] for job in (first, later)}
    assert states == {first: "completed", later: "queued"}, "what ran has ended, and nothing more was claimed"
    assert rows(sqlite_shop) == [], "and nobody has taken its place"
