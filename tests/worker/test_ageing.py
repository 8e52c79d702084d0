"""Lanes that have waited for too long get their share of the claims, and no more."""

from collections import Counter

import pytest

from holdfast import Holdfast, Queue
from holdfast.job import JobRow
from holdfast.stores.sla import LaneHead
from holdfast.stores.values import Claim, Ready
from holdfast.worker.ageing import Ageing, Rule, rules_of
from holdfast.worker.slots import Slots
from tests.worker.test_parts import OpenPump, copy

LATE = 600_001


@pytest.fixture
async def job(memory_app: Holdfast) -> JobRow:
    """Give a job to make others of."""

    @memory_app.task
    async def work() -> None: ...

    handle = await work.enqueue()
    return (await memory_app.store.get_jobs([handle.number or 0]))[0]


class Endless:
    """Lanes that never end, or hold so many jobs; a claim is answered as a store does."""

    def __init__(self, job: JobRow, **lanes: int | None) -> None:
        self._job = job
        self._left = {name: lanes[name] for name in lanes}
        self.taken: list[str] = []

    def answer(self, claim: Claim) -> list[JobRow]:
        """Take from the lanes in order."""
        jobs: list[JobRow] = []
        for lane in claim.lanes:
            name = f"{lane.queue}{lane.priority}"
            left = self._left.get(name, 0)
            most = min(lane.limit, claim.limit - len(jobs))
            count = most if left is None else min(most, left)
            if left is not None:
                self._left[name] = left - count
            jobs += [copy(self._job, 1, queue=lane.queue, priority=lane.priority) for _ in range(count)]
        self.taken += [f"{job.queue}{job.priority}" for job in jobs]
        return jobs


def work(pump: OpenPump, lanes: Endless, claims: int) -> None:
    """Claim, and end everything at once."""
    for _ in range(claims):
        claim = pump.next_claim()
        if claim is None:
            return
        pump.took(claim, lanes.answer(claim))
        while (run := pump.next_run()) is not None:
            pump.slots.give(run.job.queue)


def aged_pump(slots: int, *heads: LaneHead, share: int = 8, queues: tuple[str, ...] = ("q",)) -> OpenPump:
    """A pump that was told of lanes."""
    pump = OpenPump(1, queues, Slots(slots, {}), None, Ageing({queue: Rule(600_000, share) for queue in queues}))
    pump.ageing.see(heads)
    return pump


@pytest.mark.parametrize("slots", [1, 3, 8, 16, 30])
async def test_one_claimed_job_in_eight_is_of_the_aged_lane(job: JobRow, slots: int) -> None:
    lanes = Endless(job, q0=None, q5=None)
    work(aged_pump(slots, LaneHead("q", 0, 5), LaneHead("q", 5, LATE)), lanes, 4 + 800 // slots)
    counted = Counter(lanes.taken)
    assert counted["q5"] == pytest.approx(len(lanes.taken) / 8, abs=slots / 8 + 1)
    assert counted["q5"] <= len(lanes.taken) / 8 + 1, "the others lose no more than the share"
    assert "q5" in lanes.taken[: 2 * max(slots, 8)], "its turn comes at once"


async def test_one_slot_gives_every_eighth_job_to_the_aged_lane(job: JobRow) -> None:
    lanes = Endless(job, q0=None, q5=None)
    work(aged_pump(1, LaneHead("q", 5, LATE)), lanes, 33)
    assert [index for index, name in enumerate(lanes.taken) if name == "q5"] == [7, 15, 23, 31]


async def test_no_lane_is_aged_before_its_time(job: JobRow, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    lanes, pump = Endless(job, q0=None, q5=None), aged_pump(1, LaneHead("q", 5, 599_000))
    work(pump, lanes, 50)
    assert "q5" not in lanes.taken
    now[0] += 1.5  # its first job waits on, and nobody needs to ask for that
    work(pump, lanes, 9)
    assert "q5" in lanes.taken


async def test_of_aged_lanes_the_one_that_waits_longest_has_the_turn(job: JobRow) -> None:
    lanes = Endless(job, high0=None, q5=None, low9=None)
    heads = (LaneHead("q", 5, LATE), LaneHead("low", 9, LATE + 1))
    work(aged_pump(1, *heads, queues=("high", "q", "low")), lanes, 17)
    assert Counter(lanes.taken) == {"high0": 15, "low9": 2}


async def test_a_lane_that_is_served_anyway_is_not_held_back_by_its_share(job: JobRow) -> None:
    """When the others have nothing more, an aged lane gets whole claims again."""
    lanes, pump = Endless(job, q0=40, q5=None), aged_pump(10, LaneHead("q", 5, LATE))
    work(pump, lanes, 12)
    assert lanes.taken.count("q0") == 40
    assert len(lanes.taken) > 90, "claims were filled"


async def test_an_aged_lane_that_is_empty_after_all_costs_nothing(job: JobRow) -> None:
    lanes, pump = Endless(job, q0=None, q5=1), aged_pump(1, LaneHead("q", 5, LATE))
    work(pump, lanes, 60)
    assert len(lanes.taken) == 60
    assert Counter(lanes.taken)["q5"] == 1


async def test_where_ids_are_delivered_the_aged_lane_is_read_between_them(job: JobRow) -> None:
    pump = OpenPump(1, ["q"], Slots(1, {}), lambda _: None, Ageing())
    pump.ageing.see([LaneHead("q", 5, LATE)])
    lanes, taken = Endless(job, q5=None), []
    for number in range(40):
        pump.offer([Ready(number, "q", 0, 0)], abound=True)
        claim = pump.next_claim()
        assert claim is not None
        jobs = [copy(job, 1, queue="q", priority=0)] if claim.ids else lanes.answer(claim)
        taken += [job.priority for job in jobs]
        pump.took(claim, jobs)
        while (run := pump.next_run()) is not None:
            pump.slots.give(run.job.queue)
    assert taken.count(5) == pytest.approx(40 / 8, abs=1)


def test_the_rules_of_queues_are_what_the_app_says() -> None:
    queues = {"a": Queue("a", age_after="1m", age_share=4), "b": Queue("b")}
    assert rules_of(queues) == {"a": Rule(60_000, 4), "b": Rule(600_000, 8)}
