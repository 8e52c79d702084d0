"""Workers die between the end of a job and the answer of its receiver: every message arrives, repeats are the same."""

import random
from collections import defaultdict

import msgspec
import pytest

from holdfast import public_id
from holdfast.job import TERMINAL, JobRow, JobState
from tests.support import raw
from tests.support.figures import show
from tests.support.groups import Group
from tests.support.oracle import all_ended
from tests.support.place import Place
from tests.support.sizes import size
from tests.support.wait import until
from tests.support.webhook_receiver import SECRET, Receiver, receiving

pytestmark = [pytest.mark.real_time, pytest.mark.sample]

APP = "tests.faults.workers.hooked:app"
ROUNDS = size(4, 50)  # each way once
JOBS = 6  # in a round: as many as are posted at once, less some of earlier rounds
WAYS = ("blocked", "committed", "answered", "a call of the store")


class Trial:
    """Rounds of a few jobs each, in which the workers die."""

    def __init__(self, place: Place, receiver: Receiver, chance: random.Random) -> None:
        self.ids: list[int] = []
        self._place = place
        self._receiver = receiver
        self._chance = chance

    async def round(self, number: int, way: str) -> None:
        """Let jobs end, and kill every process around the time of the first message."""
        before = len(self._receiver.requests)
        if way == "answered":
            self._receiver.open.set()
        else:
            self._receiver.open.clear()
        ids = await self._enqueue(number)
        points: dict[str, str] = {}
        if way == "a call of the store":
            call = self._chance.randint(4, 20)
            fired = self._place.folder / f"fired-{number}"
            points = {
                "HOLDFAST_FAILPOINTS": f"child.after_store_call:kill@{call}",
                "HOLDFAST_FAILPOINTS_FIRED": str(fired),
            }
            group = self._start(**points)
            await until(fired.exists, f"a child has died at its call {call}")
        else:
            group = self._start()
            if way == "committed":
                await self._first_ended(ids)
            else:
                await until(lambda: len(self._receiver.requests) > before, "a message is under way")
        group.kill_all()

    async def survivors(self) -> list[JobRow]:
        """Let the last workers do the rest, as they would when every lease has ended."""
        self._receiver.open.set()
        group = self._start()
        await all_ended(self._place.store, self.ids)
        await raw.execute(self._place.store, "UPDATE holdfast.deliveries SET next_at = at WHERE state = 'pending'")

        async def all_sent() -> bool:
            return all(job.webhook_sent for job in await self._place.store.get_jobs(self.ids))

        await until(all_sent, "every message is delivered")
        group.close()
        return await self._place.store.get_jobs(self.ids)

    def _start(self, **env: str) -> Group:
        return self._place.start(app=APP, CHAOS_SECRET=SECRET, **env)

    async def _enqueue(self, number: int) -> list[int]:
        extra = msgspec.json.encode({"webhook": {"url": self._receiver.url}}).decode()
        made = await self._place.make_jobs("told", "default", [f'{{"number": {number}}}'] * JOBS)
        jobs = [msgspec.structs.replace(job, extra=extra, max_crashes=100) for job in made]
        await self._place.store.insert_jobs(jobs)
        self.ids += [job.id for job in jobs]
        return [job.id for job in jobs]

    async def _first_ended(self, ids: list[int]) -> None:
        async def has_ended() -> bool:
            return bool(await self._place.store.finished_jobs(ids))

        await until(has_ended, "a job has ended")


@pytest.mark.timeout(size(120, 900))
async def test_a_crash_around_a_message_loses_none_and_repeats_are_the_same(
    place: Place, chance: random.Random
) -> None:
    async with receiving() as receiver:
        trial = Trial(place, receiver, chance)
        for number in range(ROUNDS):
            await trial.round(number, WAYS[number % len(WAYS)])
        jobs = await trial.survivors()
    assert {job.state for job in jobs} == {JobState.COMPLETED} <= TERMINAL
    arrived: dict[str, list[tuple[str, bytes]]] = defaultdict(list)
    for request in receiver.requests:
        arrived[request.verified()["data"]["id"]].append((request.id, request.body))
    assert arrived.keys() == {public_id.encode(job_id) for job_id in trial.ids}
    assert [came for came in arrived.values() if len({*came}) > 1] == []
    assert len({came[0][0] for came in arrived.values()}) == len(trial.ids)
    repeats = sum(len(came) - 1 for came in arrived.values())
    show(f"{ROUNDS} rounds, {len(trial.ids)} messages, {repeats} repeats")
    assert repeats > 0
