"""A worker that is open while its store is moved away leaves, and says where the jobs are."""

import asyncio
import logging
from pathlib import Path

import pytest

from holdfast import Holdfast, WorkerSettings
from holdfast.moving.move import Wishes, move
from holdfast.stores.sqlite.store import SqliteStore

NEW = "sqlite:///new.db"


async def test_a_worker_leaves_a_store_that_was_moved(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    old, target = SqliteStore(str(tmp_path / "old.db")), SqliteStore(str(tmp_path / "new.db"))
    app = Holdfast(f"sqlite:///{tmp_path}/old.db", worker=WorkerSettings(embedded_lease="10s"))
    begun = asyncio.Event()

    @app.task
    async def work() -> None:
        begun.set()

    async with app:
        await work.enqueue()
        running = asyncio.create_task(app.run_worker())
        await asyncio.wait_for(begun.wait(), 10)
        await old.open()
        await target.open()
        try:
            with caplog.at_level(logging.ERROR, "holdfast"):
                await move(old, target, Wishes(NEW, wait_s=10), lambda _step, _rows: None)
                await asyncio.wait_for(running, 20)
        finally:
            await old.close()
            await target.close()
    assert any(NEW in record.getMessage() for record in caplog.records), caplog.text
