"""Hints by way of the store: coalesced, after the commit, and never in anybody's way."""

import asyncio
import logging
from collections.abc import Sequence
from typing import cast

import pytest

from holdfast.delivery import in_store
from holdfast.delivery.in_store import InStore
from holdfast.errors import StoreUnavailable
from holdfast.stores.store import WakeStore
from tests.support.wait import PATIENCE_S, until


class FakeStore:
    """Remembers each announcement and when it came; `gate` holds them up, `fault` is raised."""

    def __init__(self) -> None:
        self.announced: list[list[str]] = []
        self.times: list[float] = []
        self.fault: Exception | None = None
        self.gate = asyncio.Event()
        self.gate.set()

    async def announce(self, queues: Sequence[str]) -> None:
        self.announced.append(list(queues))
        self.times.append(asyncio.get_running_loop().time())
        await self.gate.wait()
        if self.fault is not None:
            raise self.fault


async def sent(store: FakeStore, hints: int) -> None:
    await until(lambda: len(store.announced) == hints, f"hint {hints} left")


@pytest.fixture
def store() -> FakeStore:
    return FakeStore()


@pytest.fixture
def delivery(store: FakeStore) -> InStore:
    return InStore(cast("WakeStore", store))


async def test_the_first_hint_leaves_at_once_and_later_ones_gather(
    store: FakeStore, delivery: InStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(in_store, "SPACING_S", 0.05)
    delivery.hint(["a"])
    assert store.announced == []  # nobody waits for it
    await sent(store, 1)
    delivery.hint(["a"])
    await asyncio.sleep(0)  # in which the sender begins to wait; it goes on when this test lets it, however late
    for _ in range(100):
        delivery.hint(["b", "a"])
        delivery.hint(["b"])
    await sent(store, 2)
    await delivery.close()
    assert store.announced == [["a"], ["a", "b"]]
    assert store.times[1] - store.times[0] >= 0.05


async def test_hints_that_follow_one_by_one_are_spaced_too(store: FakeStore, delivery: InStore) -> None:
    for number in range(1, 4):
        delivery.hint(["a"])
        await sent(store, number)
    gaps = [later - earlier for earlier, later in zip(store.times, store.times[1:], strict=False)]
    assert min(gaps) >= in_store.SPACING_S
    await delivery.close()


async def test_announcing_nothing_sends_nothing(store: FakeStore, delivery: InStore) -> None:
    delivery.hint([])
    await delivery.close()
    assert store.announced == []


async def test_a_hint_that_fails_is_dropped_and_the_next_one_goes_out(
    store: FakeStore, delivery: InStore, caplog: pytest.LogCaptureFixture
) -> None:
    store.fault = StoreUnavailable("down")
    with caplog.at_level(logging.DEBUG, "holdfast"):
        delivery.hint(["a"])
        await until(lambda: bool(caplog.records), "it was noted")
    store.fault = None
    delivery.hint(["b"])
    await delivery.close()
    assert store.announced == [["a"], ["b"]]
    assert [record.levelname for record in caplog.records] == ["DEBUG"]


async def test_closing_lets_the_last_hint_go_out_and_takes_no_more(store: FakeStore, delivery: InStore) -> None:
    delivery.hint(["a"])
    await delivery.close()
    delivery.hint(["b"])
    await delivery.close()
    assert store.announced == [["a"]]


async def test_closing_does_not_wait_for_a_store_that_hangs(
    store: FakeStore, delivery: InStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(in_store, "_FAREWELL_S", 0.01)
    store.gate.clear()
    delivery.hint(["a"])
    async with asyncio.timeout(PATIENCE_S):
        await delivery.close()
    assert [task for task in asyncio.all_tasks() if task.get_name() == "holdfast announces"] == []


def test_announcing_outside_of_an_event_loop_does_not_raise(delivery: InStore) -> None:
    delivery.hint(["a"])
