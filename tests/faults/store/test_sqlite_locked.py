"""Foreign programs that hold SQLite's lock: callers wait, and beyond their deadline they are told so in time."""

import ast
import asyncio
import functools
import re
import sqlite3
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import HoldfastError, OutcomeUnknown, StoreUnavailable
from holdfast.stores.sqlite.statements import split
from tests.faults.store.apps import make_app, timed
from tests.support.figures import show
from tests.support.programs import Program
from tests.support.sizes import size

pytestmark = pytest.mark.real_time

THREADS = 8


# ---- row C11 ---------------------------------------------------------------------------------------------------------


def test_callers_wait_while_a_foreign_program_holds_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    app, keep = make_app(f"sqlite:///{path}")
    seconds, times = size(15, 30) / 10, size(2, 10)
    is_over, errors, ids = threading.Event(), list[BaseException](), list[int]()

    def enqueue_on() -> None:
        with app.blocking() as queue:
            while not is_over.is_set():
                try:
                    ids.append(queue.enqueue(keep.call(1)).number or 0)
                except BaseException as error:  # noqa: BLE001 - none may come
                    errors.append(error)

    with app.blocking() as queue:
        with Program("tests.support.sqlite_neighbour", "hold", path, seconds, times) as holder:
            assert holder.hear(str) == "ready"
            threads = [threading.Thread(target=enqueue_on) for _ in range(THREADS)]
            for thread in threads:
                thread.start()
            holder.say()
            assert holder.hear(str) == "done"
            is_over.set()
            for thread in threads:
                thread.join()
        assert errors == []
        assert len(set(ids)) == len(ids) >= THREADS
        assert {job.number for job in queue.jobs.iterate()} == set(ids)


@pytest.mark.guards("immediate-begin")
def test_writes_never_begin_deferred() -> None:
    """A deferred transaction that turns to writing meets SQLITE_BUSY at once, whatever the timeout (row C11)."""
    folder = resources.files("holdfast.stores.sqlite")
    begun: list[tuple[str, str]] = []
    for file in folder.iterdir():
        if file.name.endswith(".py"):
            strings = [
                node.value
                for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
                if isinstance(node, ast.Constant) and isinstance(node.value, str)
            ]
            begun += [(file.name, text) for text in strings if _begins(text)]
        elif file.name in {"queries", "migrations"}:
            scripts = [script.read_text(encoding="utf-8") for script in file.iterdir()]
            begun += [(file.name, text) for script in scripts for text in split(script) if _begins(text)]
    assert ("writer.py", "BEGIN IMMEDIATE") in begun
    deferred = [(name, text) for name, text in begun if not text.strip().startswith("BEGIN IMMEDIATE")]
    assert deferred == [("reader.py", "BEGIN")]  # on a connection that is query_only


def _begins(statement: str) -> bool:
    return re.match(r"(\s*--.*\n)*\s*BEGIN\b", statement) is not None


def test_python_begins_no_transactions_of_its_own() -> None:
    """Unless `isolation_level` is None, Python's module begins deferred ones."""
    connects: list[ast.Call] = []
    for file in resources.files("holdfast.stores.sqlite").iterdir():
        if file.name.endswith(".py"):
            tree = ast.parse(file.read_text(encoding="utf-8"))
            calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
            connects += [call for call in calls if ast.unparse(call.func) == "sqlite3.connect"]
    assert connects
    for call in connects:
        assert any(word.arg == "isolation_level" and ast.unparse(word.value) == "None" for word in call.keywords)


# ---- beyond the deadline ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lock", ["BEGIN IMMEDIATE", "BEGIN EXCLUSIVE"])
async def test_nobody_waits_beyond_the_deadline(tmp_path: Path, lock: str) -> None:
    path = tmp_path / "jobs.db"
    app, keep = make_app(f"sqlite:///{path}", deadline="400ms")
    async with app:
        known = await keep.enqueue(0)
        with closing(sqlite3.connect(path, isolation_level=None)) as foreign:
            foreign.execute(lock)
            verbs: dict[int, Callable[[], Awaitable[Any]]] = {
                n: functools.partial(keep.enqueue, n) for n in range(1, 21)
            }
            verbs[21] = functools.partial(keep.using(key="k").enqueue, 21)
            verbs[22] = functools.partial(app.enqueue_many, [keep.call(22), keep.call(22)])
            verbs[23] = functools.partial(app.jobs.cancel, known.number or 0)
            verbs[24] = functools.partial(app.queues.pause, "default")
            begun = time.monotonic()
            answers = await asyncio.gather(*(timed(verb) for verb in verbs.values()))
            took = time.monotonic() - begun
            assert await app.jobs.get(known.number or 0) is not None  # readers are not disturbed
            foreign.execute("ROLLBACK")
        for error, seconds in answers:
            assert isinstance(error, StoreUnavailable | OutcomeUnknown)
            assert 0.3 < seconds < 2.4
        show(f"{lock}: {len(answers)} callers were told after {took * 1_000:.0f} ms (deadline 400 ms)")
        begun = time.monotonic()
        after = await keep.enqueue(25)
        assert time.monotonic() - begun < 2.4
        assert after.created
        # Who was told "nothing was changed" finds nothing; "unknown" may be either.
        unchanged = {n for n, (error, _) in zip(verbs, answers, strict=True) if isinstance(error, StoreUnavailable)}
        assert not unchanged & {job.args["n"] async for job in app.jobs.iterate()}


async def test_the_app_closes_while_the_file_is_held(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    app, keep = make_app(f"sqlite:///{path}", deadline="400ms")
    with closing(sqlite3.connect(path, isolation_level=None)) as foreign:
        async with app:
            await keep.enqueue(1)
            foreign.execute("BEGIN IMMEDIATE")
            waiting = asyncio.create_task(timed(lambda: keep.enqueue(2)))
            await asyncio.sleep(0)  # it waits for the lock now
            begun = time.monotonic()
        assert time.monotonic() - begun < 4
        error, seconds = await waiting
        assert isinstance(error, HoldfastError)
        assert seconds < 2.4
        foreign.execute("ROLLBACK")


async def test_a_held_file_cannot_be_opened_and_says_so_in_time(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as foreign:
        foreign.execute("CREATE TABLE theirs (n INTEGER)")
        foreign.execute("BEGIN EXCLUSIVE")
        app, keep = make_app(f"sqlite:///{path}", deadline="400ms")
        begun = time.monotonic()
        with pytest.raises((StoreUnavailable, OutcomeUnknown), match=re.escape(str(path))):
            async with app:
                pass
        assert time.monotonic() - begun < 4
        foreign.execute("ROLLBACK")
        app, keep = make_app(f"sqlite:///{path}")
        async with app:
            assert (await keep.enqueue(1)).created
