"""A worker and the waits of its queues: aged lanes, pauses, and workers that change at run time."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from holdfast import Holdfast, Queue
from holdfast.rollup import bucket
from holdfast.stores.sla import LaneHead, QueuePolicy
from holdfast.worker import ageing, tuning
from holdfast.worker.ageing import Ageing, Rule
from holdfast.worker.instance import Instance
from holdfast.worker.orders import Bounds, Start, hello_of, read_order, write
from holdfast.worker.rules import Rules
from holdfast.worker.tally import Tally
from tests.support.clock import Clock
from tests.support.sizes import size
from tests.support.wait import until
from tests.support.workers import Family, MakeApp, drained, ended, working

HIGH = size(400, 5_000)
LOW = HIGH // 10
SLOTS = 4
LEAST_URGENT = 9


async def test_under_endless_load_of_high_priority_the_aged_lane_gets_its_share_and_no_more(
    make_app: MakeApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ageing, "_LOOK_S", 0.01)
    order: list[str] = []
    is_seen = asyncio.Event()  # that the lane waits: the worker looks beside the jobs, which may all be done by then
    see = Ageing.see

    def looked(self: Ageing, heads: list[LaneHead]) -> None:
        see(self, heads)
        if any(head.priority == LEAST_URGENT for head in heads):
            is_seen.set()

    monkeypatch.setattr(Ageing, "see", looked)
    async with make_app(queues=[Queue("default", age_after="1ms")]) as app:

        @app.task
        async def work(which: str) -> None:
            await is_seen.wait()
            order.append(which)

        await app.enqueue_many(work.using(priority=LEAST_URGENT).call(which="low") for _ in range(LOW))
        await app.enqueue_many(work.using(priority=0).call(which="high") for _ in range(HIGH))
        await drained(app, concurrency=SLOTS)
    lows = [index for index, which in enumerate(order) if which == "low"]
    first = lows[0]
    assert first < HIGH // 4, "its turn came long before the others had ended"
    for number, index in enumerate(lows):
        assert index >= first + 8 * (number - SLOTS), "the others lose no more than the share"
    served = order[first : first + 8 * LOW // 2].count("low")
    assert served >= LOW // 2 - SLOTS, "one in eight, and not less"


@pytest.mark.parametrize("minutes, is_aged", [(9, False), (11, True)])
async def test_a_lane_is_aged_after_ten_minutes_of_the_store_and_starts_within_eight_turns(
    memory_app: Holdfast, monkeypatch: pytest.MonkeyPatch, minutes: int, is_aged: bool
) -> None:
    monkeypatch.setattr(ageing, "_LOOK_S", 0.005)
    order: list[str] = []
    seen: list[int] = []  # how many had started when the lane was seen
    see = Ageing.see

    def looked(self: Ageing, heads: list[LaneHead]) -> None:
        seen.append(len(order))
        see(self, heads)

    monkeypatch.setattr(Ageing, "see", looked)

    @memory_app.task
    async def work(which: str) -> None:
        order.append(which)
        await until(lambda: seen, "the worker has looked at the lanes")

    clock = Clock(memory_app.store)
    await clock.stop()
    await work.using(priority=9).enqueue(which="low")
    await clock.advance(minutes=minutes)
    await memory_app.enqueue_many(work.using(priority=0).call(which="high") for _ in range(40))
    await drained(memory_app, concurrency=1)
    if is_aged:
        assert order.index("low") <= seen[0] + 8 + 3, "eight turns, and what was claimed ahead"
    else:
        assert order.index("low") == 40


async def test_the_aged_lane_may_be_that_of_another_queue(make_app: MakeApp, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ageing, "_LOOK_S", 0.01)
    order: list[str] = []
    queues = [Queue("high", priority=0), Queue("low", priority=9, age_after="1ms", age_share=4)]
    async with make_app(queues=queues) as app:

        @app.task(queue="low")
        async def patient() -> None:
            order.append("low")

        @app.task(queue="high")
        async def urgent() -> None:
            order.append("high")

        await app.enqueue_many(patient.call() for _ in range(20))
        await app.enqueue_many(urgent.call() for _ in range(300))
        await drained(app, concurrency=2)
    assert order.index("low") < 150
    assert order[:250].count("low") == 20


async def test_a_pause_does_not_count_as_waiting(make_app: MakeApp) -> None:
    async with make_app() as app:
        clock = Clock(app.store)
        await clock.stop()

        @app.task
        async def work() -> None: ...

        await work.enqueue()
        await app.queues.pause("default")
        await clock.advance(seconds=100)
        await app.queues.resume("default")
        await clock.advance(seconds=3)
        await work.enqueue()
        await drained(app)
        waits: dict[int, int] = {}
        for rollup in await app.store.read_rollups(clock.now - timedelta(hours=1)):
            waits |= rollup.wait
        assert max(waits) == bucket(3_000), "since it was let go on"


async def test_a_wait_counts_since_the_queue_was_let_go_on(memory_app: Holdfast) -> None:
    @memory_app.task
    async def work() -> None: ...

    clock = Clock(memory_app.store)
    await clock.stop()
    await work.enqueue()
    await clock.advance(seconds=100)
    await memory_app.queues.pause("default")
    await memory_app.queues.resume("default")
    await drained(memory_app)
    waits: dict[int, int] = {}
    for rollup in await memory_app.store.read_rollups(clock.now - timedelta(hours=1)):
        waits |= rollup.wait
    assert waits == {bucket(0): 1}


class Published:
    """A store of which the rules of two queues are read."""

    async def queue_policies(self) -> list[QueuePolicy]:
        """Give what is published of them."""
        published = QueuePolicy(queue="a", is_published=True, age_after_ms=60_000, age_share=5, poll_ms=7_000)
        return [published, QueuePolicy(queue="b")]


async def test_rules_that_are_published_replace_those_of_the_program() -> None:
    aged, polls = Ageing({"a": Rule(1, 2), "b": Rule(3, 4)}), dict[str, int]()
    serving = asyncio.create_task(Rules(Published(), aged, Tally(), polls.update).serve())
    await until(lambda: aged.rules == {"a": Rule(60_000, 5), "b": Rule(3, 4)}, "they are followed")
    serving.cancel()
    assert polls == {"a": 7_000}


async def test_a_poll_that_somebody_sets_takes_effect_at_run_time(make_app: MakeApp) -> None:
    async with make_app(queues=[Queue("default", poll="60s")]) as app:

        @app.task
        async def work() -> None: ...

        stop = asyncio.Event()
        running = asyncio.create_task(app.run_worker(stop=stop))
        await ended(await work.enqueue())
        await app.settings.set("queues.default.poll", "2s")
        (policy,) = [policy for policy in await app.store.queue_policies() if policy.queue == "default"]
        assert policy.poll_ms == 2_000
        stop.set()
        await running


async def test_workers_of_a_queue_that_somebody_sets_take_effect_at_run_time(
    make_app: MakeApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tuning, "LOOK_S", 0.02)
    most, now = [0], [0]
    gate = asyncio.Event()
    async with make_app(queues=[Queue("default", workers=1)]) as app:

        @app.task
        async def work() -> None:
            now[0] += 1
            most[0] = max(most[0], now[0])
            await gate.wait()
            now[0] -= 1

        await app.enqueue_many(work.call() for _ in range(6))
        async with working(app) as running:
            await until(lambda: now[0] == 1, "one runs")
            await until(lambda: _is_published(app), "its definition is published")
            await app.settings.set("queues.default.workers", 3)
            await until(lambda: now[0] == 3, "three run")
            gate.set()
            await running.moments.wait("finished", times=6)
        assert most[0] == 3


def test_the_bounds_of_a_child_travel_over_its_line() -> None:
    order = Bounds({"default": 3})
    assert read_order(write(order)) == order


async def _is_published(app: Holdfast) -> bool:
    return any(policy.is_published for policy in await app.store.queue_policies())


class Listener:
    """A child of an instance that keeps what it is told."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.told: list[Bounds] = []

    def send(self, order: Bounds) -> None:
        """Keep it."""
        self.told.append(order)


async def test_the_children_of_an_instance_get_their_shares_when_a_number_changes(make_sqlite_memory: MakeApp) -> None:
    async with make_sqlite_memory(queues=[Queue("default", workers=2)]) as app:
        hello = hello_of(app.parts, Start(app="x", processes=2, concurrency=8))
        given: Any = object()  # the parent, and the way to leases, which are not asked
        instance = Instance(given, app.store, given, settings=app.config, hello=hello, start=Start(app="x"))
        children: Any = [Listener(0), Listener(1)]
        family = Family(instance, children)
        assert family.bounds() == [{"default": 1}, {"default": 1}]
        await app.store.define_queue_policies({"default": '{"workers": 5}'}, [])
        await family.tune()
        await family.tune()
        assert [child.told for child in children] == [[Bounds({"default": 3})], [Bounds({"default": 2})]]
        assert family.bounds() == [{"default": 3}, {"default": 2}], "a child that starts later begins with it"
