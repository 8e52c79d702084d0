"""What is said while a database server is away: plain words, once, and nothing of the driver's own states."""

import asyncio
import logging
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from holdfast import Holdfast
from holdfast.delivery.in_store import InStore
from holdfast.errors import OutcomeUnknown, StoreUnavailable
from holdfast.services import runner
from holdfast.services.runner import ServiceRunner
from holdfast.stores.postgres.store import PostgresStore
from holdfast.stores.sqlite.store import SqliteStore
from tests.support.moments import Moments, MomentsFile
from tests.support.wait import until

INNER = [
    asyncpg.InternalClientError("cannot switch to state 12; another operation (2) is in progress"),
    asyncpg.InternalClientError("got result for unknown protocol state 3"),
    asyncpg.InterfaceError("cannot perform operation: another operation is in progress"),
    ConnectionError("unexpected connection_lost() call"),
]


@pytest.mark.parametrize("error", INNER, ids=str)
async def test_a_broken_link_is_told_without_states_of_the_driver(postgres: PostgresStore, error: Exception) -> None:
    async def breaks(_: object) -> None:
        raise error

    with pytest.raises(OutcomeUnknown) as raised:
        await postgres.pool.call(breaks)
    assert "broke: the server has closed the connection; the change may have happened" in str(raised.value)
    for word in ("state", "operation", "()"):
        assert word not in str(raised.value)


class Away:
    """A store that cannot be reached for a while."""

    def __init__(self, store: SqliteStore) -> None:
        self.is_away = False
        self.asked = 0
        self._store = store

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self._store, name)
        return self._unless_away(verb) if asyncio.iscoroutinefunction(verb) else verb

    def _unless_away(self, verb: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def asked(*args: Any, **options: Any) -> Any:
            if self.is_away:
                self.asked += 1
                message = "cannot connect to the database"
                raise StoreUnavailable(message)
            return await verb(*args, **options)

        return asked


class Leads:
    """Leads always."""

    holder = "the test"
    is_leader = True

    async def serve(self) -> None:
        await asyncio.Event().wait()

    async def resign(self) -> None:
        pass


async def test_services_say_once_that_the_store_is_away_and_once_that_it_is_back(
    sqlite_memory: SqliteStore,
    moments: Moments,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(runner, "_AFTER_ERROR_S", 0.01)
    caplog.set_level(logging.INFO, "holdfast")
    store: Any = Away(sqlite_memory)
    async with ServiceRunner(store, InStore(sqlite_memory), Holdfast("sqlite://").config, Leads()).open():
        await moments.wait("served", service="promotion")
        store.is_away = True
        await until(lambda: store.asked > 50, "the services have tried again and again")
        store.is_away = False
        await moments.next("served", service="promotion")
    lines = [record.message for record in caplog.records if "service" in record.message]
    assert lines == ["the services wait for the store: cannot connect to the database", "the services run again"]


async def test_a_worker_that_waits_for_its_server_says_it_once(tmp_path: Path, moments_file: MomentsFile) -> None:
    (tmp_path / "shop.py").write_text(
        f"from holdfast import Holdfast\napp = Holdfast('postgresql://a@/b?host={tmp_path}')\n"
        "@app.task\nasync def work() -> None: ...\n"
    )
    worker = subprocess.Popen(
        [sys.executable, "-m", "holdfast", "-A", "shop:app", "worker"],
        cwd=tmp_path,
        env={**os.environ, **moments_file.env},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        await moments_file.wait("store_missed", times=4)
        worker.terminate()
        _, said = await asyncio.to_thread(worker.communicate)
    finally:
        worker.kill()
    assert said.count("the store is not available yet: cannot connect") == 1, said
