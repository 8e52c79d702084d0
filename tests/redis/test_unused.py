"""Ids that are lost, strange, or of no use to the worker that took them: none of them holds up a job."""

import dataclasses
import logging
import time
from collections import Counter

import pytest

from holdfast import Holdfast, Snooze
from holdfast.shards import RedisDelivery
from holdfast.worker.pump import Pump
from holdfast.worker.slots import Slots
from tests.redis.prompt import Gate, carried, known, promptly, working_alone
from tests.support.moments import Moments
from tests.support.ready import ids, ready
from tests.support.valkey import Valkey
from tests.support.wait import until
from tests.support.workers import BRISK, MakeApp, working


async def test_ids_of_jobs_that_are_not_there_are_passed_over(
    app: Holdfast, delivery: RedisDelivery, valkey: Valkey, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "holdfast")

    @app.task
    async def work() -> None:
        pass

    async with working(app):
        done = await work.using(priority=0).enqueue()
        await promptly(done)
        strange = [part for identifier in range(1, 101) for part in (0, identifier)]
        valkey.ask("ZADD", delivery.key("default", 0), *strange, 0, known(done), 0, 2**63 - 1, 0, "junk")
        await promptly(await work.using(priority=0).enqueue())
        await until(lambda: valkey.ask("ZCARD", delivery.key("default", 0)) == 0, "all of them were taken")
    assert (await done.get()).claim == 1
    assert not caplog.records


async def test_a_worker_that_leaves_puts_its_ids_back(
    app: Holdfast, delivery: RedisDelivery, other_valkey: Valkey, moments: Moments
) -> None:
    gate = Gate()

    @app.task
    async def work() -> None:
        pass

    async with working_alone(app, gate, concurrency=4) as busy:
        ids_of_jobs = [known(handle) for handle in await app.enqueue_many(work.call() for _ in range(3))]
        for job in ids_of_jobs:
            await moments.wait("pushed", jobs=job)
        busy.embedded.drain()
        gate.opened.set()
    lane = delivery.key("default", 5)
    for job in ids_of_jobs:
        await until(lambda it=job: other_valkey.ask("ZSCORE", lane, it) is not None, "others can take it")


async def test_a_worker_that_may_not_claim_keeps_no_ids_from_others(make: MakeApp) -> None:
    gate, ran = Gate(), Counter[str]()
    async with make() as first, make() as second:

        @first.task(kind="work")
        async def work() -> None:
            ran["first"] += 1

        @second.task(kind="work")
        async def other() -> None:
            ran["second"] += 1

        async with working_alone(first, gate, concurrency=4), working(second, concurrency=4):
            for _ in range(10):
                await promptly(await work.enqueue())
            gate.opened.set()
    assert ran == {"second": 10}


async def test_jobs_whose_ids_were_lost_are_not_held_up_by_those_whose_ids_come(
    make: MakeApp, delivery: RedisDelivery, other_valkey: Valkey
) -> None:
    """They are found in their lane; while others trickle in by Redis, it is read on until it is empty."""
    gate, backlog, ran = Gate(), 400, Counter[str]()
    # Of which each poll would find a few: together they would take longer than a test waits.
    async with make(worker=dataclasses.replace(BRISK, poll="1s")) as app:

        @app.task
        async def block() -> None:
            await gate.pass_()

        @app.task
        async def work(name: str) -> None:
            ran[name] += 1

        async with working(app, concurrency=2):
            await app.enqueue_many(block.call() for _ in range(2))
            await until(lambda: gate.began == 2, "the slots are taken")
            await app.enqueue_many(work.call("lost") for _ in range(backlog))
            await until(lambda: carried(app).pushed == backlog + 2, "the ids lie in Redis")
            other_valkey.ask("FLUSHALL")
            gate.opened.set()

            async def all_ran() -> bool:
                await work.enqueue("comes")
                return ran["lost"] == backlog

            await until(all_ran, "the jobs whose ids were lost have run")


def test_ids_of_a_claim_that_nobody_answered_take_no_room() -> None:
    pump = Pump(1, ["mail"], Slots(2, {}), lambda _: None)
    first = pump.next_claim()
    assert first is not None
    pump.took(first, [])
    pump.offer([ready(1), ready(2)], abound=True)
    assert pump.next_claim() is not None
    assert pump.room == 0
    assert pump.next_claim() is None  # the worker was declared dead, and nobody has told of that claim
    assert pump.room == 2


@pytest.mark.guards("room-for-ids")
def test_ids_of_a_queue_without_room_are_left_to_others_and_hold_up_no_other_queue() -> None:
    pump = Pump(1, ["mail", "tight"], Slots(4, {"tight": 1}), lambda _: None)
    first = pump.next_claim()
    assert first is not None
    pump.took(first, [])
    pump.offer([ready(1, queue="tight"), ready(2, queue="tight"), ready(3)], abound=False)
    claim = pump.next_claim()
    assert claim is not None
    assert claim.ids == (1, 3)
    assert pump.rooms().keys() == {"mail"}
    assert ids(pump.excess()) == [2]
    assert pump.excess() == []


def test_an_id_that_was_not_claimed_is_named_once_more_and_then_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    now, settled = [0.0], list[int]()
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    pump = Pump(1, ["mail"], Slots(2, {}), settled.append)
    read = pump.next_claim()
    assert read is not None
    pump.took(read, [])
    pump.offer([ready(1)], abound=False)
    for _ in range(2):
        claim = pump.next_claim()
        assert claim is not None
        assert claim.ids == (1,)
        assert settled == []
        pump.took(claim, [])
        assert pump.next_claim() is None  # not at once
        now[0] += 1.0
    assert settled == [1]
    assert pump.next_claim() is None
    assert pump.names_again_in_s is None
    pump.offer([ready(2)], abound=False)
    claim = pump.next_claim()
    assert claim is not None
    pump.took(claim, [])
    assert pump.has_ids
    assert [job.id for job in pump.withdraw()] == [2]  # others may name it meanwhile
    assert not pump.has_ids


def test_hints_that_never_end_do_not_keep_ids_waiting_that_abound(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on SQLite, where every commit is one while there is work; ids are dealt by weights, and lanes are not."""
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    pump = Pump(1, ["mail"], Slots(1, {}), lambda _: None)
    claims = []
    for number in range(1, 41):
        pump.hint()
        pump.offer([ready(number)], abound=True)
        claim = pump.next_claim()
        assert claim is not None
        claims.append(claim)
        pump.took(claim, [])
        now[0] += 0.01
    assert 3 <= sum(not claim.ids for claim in claims) <= 5  # in 0.4 s


async def test_the_lanes_are_read_once_in_each_poll_whoever_looks_for_due_jobs_in_between(
    make: MakeApp, moments: Moments
) -> None:
    async with make(worker=dataclasses.replace(BRISK, poll="100ms")) as app:
        is_over = False

        @app.task
        async def restless() -> None:
            if not is_over:
                raise Snooze("10ms")

        async with working(app):
            await until(lambda: carried(app).is_live, "both servers have answered")
            await restless.enqueue()
            await moments.next("lanes_looked_at")
            began = time.monotonic()
            await moments.next("lanes_looked_at", times=9)
            assert time.monotonic() - began >= 7 * 0.1  # each may be a little early
            is_over = True
