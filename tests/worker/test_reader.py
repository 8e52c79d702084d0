"""The one who reads events for all survives what nobody foresaw, and says so once."""

import asyncio
import logging
from collections.abc import Sequence

import pytest

from holdfast import Holdfast
from holdfast.events import EventRow, EventType
from tests.support.wait import PATIENCE_S


async def test_an_error_that_nobody_foresaw_ends_no_watch(
    memory_app: Holdfast, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    @memory_app.task
    async def work() -> None: ...

    read, looks = memory_app.store.read_events, 0

    async def read_or_fail(after: int, missing: Sequence[int], limit: int) -> list[EventRow]:
        nonlocal looks
        looks += 1
        if looks <= 3:
            raise RuntimeError
        return await read(after, missing, limit)

    monkeypatch.setattr(memory_app.store, "read_events", read_or_fail)
    with caplog.at_level(logging.ERROR, "holdfast"):
        async with memory_app.events() as events, asyncio.timeout(PATIENCE_S):
            await work.enqueue()
            assert (await anext(events)).type is EventType.ENQUEUED
    assert looks > 3
    assert len([record for record in caplog.records if "events could not be read" in record.message]) == 1
