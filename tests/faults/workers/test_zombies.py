"""Processes that stand still past their lease and then go on: what they still write is refused, others took over."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from holdfast.job import JobState
from tests.faults.workers import holes
from tests.faults.workers.looking import running
from tests.faults.workers.stopping import go_on, leases_ended, stop
from tests.support.connections import connected, replace_function
from tests.support.figures import show
from tests.support.groups import Group
from tests.support.oracle import Oracle, all_ended
from tests.support.pace import lasts
from tests.support.place import Place
from tests.support.sizes import size
from tests.support.wait import until

pytestmark = [pytest.mark.real_time, pytest.mark.sample]

LEASE_S = 2  # not less: who is late by half of it, on a busy machine, may not judge others
ROUNDS = size(1, 4)
REFUSED = "was taken from this worker"
LONG_MS = 2_500 * LEASE_S


class Pair:
    """A group that is going to be stopped, and another one that may take over."""

    def __init__(self, place: Place, **env: str) -> None:
        given = {"CHAOS_LEASE": str(LEASE_S), **env}
        app = "tests.faults.workers.holed:app"
        self.place = place
        self.victim = place.start("--concurrency", "4", app=app, **given)
        self._given = given
        self.other: Group | None = None

    async def arrive(self) -> None:
        """Wait until handlers of the one group have begun, then start the other."""
        await until(lambda: len(self.begun) >= 4, "the first group works")
        self.other = self.place.start("--concurrency", "4", app="tests.support.ledger_app:app", **self._given)
        await self.place.arrived(2)

    async def seen_to_stand_still(self) -> None:
        """Wait until the supervisor of the first group says of its child that it stands still."""
        seen = self._seen
        await until(lambda: self._seen > seen, "the supervisor sees that its child stands still")

    @property
    def _seen(self) -> int:
        return self.victim.said().count("worker:unresponsive")

    @property
    def begun(self) -> set[int]:
        """The jobs that have begun in the children of the first group, whether or not they have ended."""
        children = self.victim.children
        return {note.job for note in self.place.notes() if note.pid in children}

    @property
    def at_work(self) -> dict[int, int]:
        """The claims whose handlers run in the children of the first group now."""
        return running(self.place.notes(), self.victim.children)

    @property
    def taken_over(self) -> set[int]:
        """The jobs that have begun under a later claim than that of a handler which has not ended."""
        notes = self.place.notes()
        ended = {(note.job, note.claim) for note in notes if note.what == "end"}
        claims: dict[int, list[int]] = {}
        for note in notes:
            if note.what == "begin":
                claims.setdefault(note.job, []).append(note.claim)
        return {job for job, begun in claims.items() if len(begun) > 1 and (job, max(begun)) not in ended}

    @property
    def refused(self) -> int:
        """How many writes were refused to workers that had lost their claims."""
        return sum(group.said().count(REFUSED) for group in self.place.groups)


async def still_held(place: Place, claims: Mapping[int, int]) -> dict[int, int]:
    """The claims under which jobs are still running."""
    jobs = await place.store.get_jobs(list(claims))
    return {job.id: job.claim for job in jobs if job.state is JobState.RUNNING and job.claim == claims[job.id]}


async def taken_away(place: Place, claims: Mapping[int, int]) -> None:
    """Wait until others have taken over."""

    async def are_taken() -> bool:
        return not await still_held(place, claims)

    await until(are_taken, "others have taken the jobs over")


async def stopped_at_work(pair: Pair, who: str) -> tuple[list[int], dict[int, int]]:
    """Stop processes that hold jobs: which they are, and what they hold."""
    pids: list[int] = []
    held: dict[int, int] = {}

    async def are_stopped() -> bool:
        children = pair.victim.children
        pids[:] = {"child": children, "supervisor": [pair.victim.pid], "both": [pair.victim.pid, *children]}[who]
        if children and await still_held(pair.place, pair.at_work):
            await stop(pair.place, pids)
            # Not what it had begun too late, after an earlier stop: that has long been another's.
            held.update(await still_held(pair.place, pair.at_work))
            if held:
                return True
            go_on(pids)
        return False

    await until(are_stopped, "processes that are at work stand still")
    return pids, held


@pytest.mark.timeout(120)
@pytest.mark.parametrize("who", ["child", "supervisor", "both"])
async def test_a_stopped_process_changes_nothing_when_it_goes_on(place: Place, who: str) -> None:
    pair = Pair(place)
    ids = await place.enqueue("effect", "effects", ['{"ms": 300}'] * 8)
    ids += await place.enqueue("plain", "default", ['{"ms": 300}'] * 8)
    await pair.arrive()
    for _ in range(ROUNDS):
        ids += await place.enqueue("effect", "effects", [f'{{"ms": {LONG_MS // 2}}}'] * 4)
        ids += await place.enqueue("plain", "default", ['{"ms": 50}'] * 40)
        pids, held = await stopped_at_work(pair, who)
        if who == "child":
            await pair.seen_to_stand_still()
            await lasts(LEASE_S)  # in which the claims would have been taken, had the lease not been renewed
            assert await still_held(place, held) == held, "taken away although the supervisor lives"
        else:
            await leases_ended(place, pair.victim.children)
            await taken_away(place, held)
        go_on(pids)
    jobs = await all_ended(place.store, ids)
    oracle = Oracle(jobs, place.notes(), await place.effects())
    oracle.check(ids)
    assert all(job.state is JobState.COMPLETED for job in jobs.values())
    assert pair.victim.process.poll() is None, "the supervisor died"
    show(f"{pair.refused} writes refused, {oracle.lease_ends} leases ended, {oracle.overlaps} runs overlapped")
    if who == "both":
        assert oracle.lease_ends, "no lease ended: the fault did not happen"


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    "is_fenced", [True, pytest.param(False, marks=pytest.mark.chaos)], ids=["guarded", "without the fence"]
)
@pytest.mark.guards("finish-fence")
async def test_the_fence_alone_keeps_out_a_worker_that_does_not_know(place: Place, is_fenced: bool) -> None:
    """Its children do not look at their lease and hear nothing: all that is left is what the store compares."""
    if not is_fenced and not place.is_sqlite:
        async with connected(place.url) as own:
            await replace_function(own, place.schema, "finish_jobs", holes.FENCE)
    pair, gate = Pair(place, CHAOS_HOLES="deaf" if is_fenced else "deaf unfenced"), place.folder / "gate"
    ids = await place.enqueue("gated_effect", "effects", [json.dumps({"gate": str(gate)})] * 4)
    await pair.arrive()
    pids = [pair.victim.pid, *pair.victim.children]
    await stop(place, pids)
    await until(lambda: len(pair.taken_over) >= 2, "the other group runs what the stopped one had begun")
    await leases_ended(place, pids)
    Path(f"{gate}-1").touch()
    go_on(pids)
    if is_fenced:
        await until(lambda: pair.refused >= 4, "what the stopped handlers write is refused")
    else:
        await until(lambda: any(note.what == "end" for note in place.notes()), "one of them has had its way")
    for claim in range(2, 6):
        Path(f"{gate}-{claim}").touch()
    jobs = await all_ended(place.store, ids)
    oracle = Oracle(jobs, place.notes(), await place.effects())
    show(f"{pair.refused} writes refused, {oracle.overlaps} runs overlapped")
    assert oracle.lease_ends >= 2
    if is_fenced:
        oracle.check(ids)
        assert all(job.state is JobState.COMPLETED for job in jobs.values())
    else:
        with pytest.raises(AssertionError, match="the effect of claim"):
            oracle.check(ids)
