"""Many processes spend from one budget while processes are killed: the ledger is exact, and no ceiling is passed."""

import asyncio
import contextlib
import functools
import random
import signal
from collections import Counter

import pytest

from holdfast.job import JobState
from holdfast.stores.budgets import PeriodRow
from tests.support.budgets import periods, titles
from tests.support.figures import show
from tests.support.groups import send
from tests.support.oracle import all_ended
from tests.support.pace import every, lasts
from tests.support.place import Place
from tests.support.sizes import size
from tests.support.wait import until

pytestmark = [pytest.mark.real_time, pytest.mark.sample]

APP = "tests.faults.workers.spending:app"
PROCESSES = size(2, 8)
JOBS = size(60, 1_200)
KILLS = size(2, 25)
CEILING = size(100, 2_000)  # dollars, of which all jobs together would like more
CENT = 10_000


async def watch(place: Place, seen: list[PeriodRow]) -> None:
    """Look at the budget all the time."""
    async for _ in every(0.02, lambda: True):
        seen += await periods(place.store)


async def kill(place: Place, chance: random.Random) -> int:
    """Kill processes that are in the midst of it; how many."""
    (group,) = place.groups
    killed = 0
    for many in range(40, 40 * KILLS + 1, 40):
        await until(functools.partial(flows, place, many), "jobs flow")
        begun = {note.pid for note in place.notes()}
        if children := [pid for pid in group.children if pid in begun]:
            killed += send(chance.choice(children), signal.SIGKILL)
        await lasts(chance.uniform(0.05, 0.3))
    return killed


def flows(place: Place, many: int) -> bool:
    """Whether so many lines were written, or half of the jobs have ended."""
    notes = place.notes()
    return len(notes) > many or sum(note.what == "end" for note in notes) * 2 > JOBS


@pytest.mark.timeout(240)
@pytest.mark.guards("budget-refusal")
async def test_the_ledger_is_exact_whoever_is_killed(place: Place, chance: random.Random) -> None:
    payloads = [f'{{"cents": [{chance.randrange(1, 99)}, {chance.randrange(1, 99)}, 98]}}' for _ in range(JOBS)]
    place.max_crashes = 100  # a kill from outside costs one
    ids = await place.enqueue("pay", "default", payloads)
    options = ("--processes", str(PROCESSES), "--concurrency", str(2 * PROCESSES))
    place.start(*options, app=APP, CHAOS_BUDGET=f"${CEILING}", CHAOS_LEASE="2")
    seen: list[PeriodRow] = []
    watching = asyncio.create_task(watch(place, seen))
    killed = await kill(place, chance)
    jobs = await all_ended(place.store, ids, 180)
    watching.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await watching

    notes = [(note, note.what.split(":")) for note in place.notes()]
    asked = {(note.job, note.claim, int(what[1])): int(what[2]) for note, what in notes if what[0] == "asked"}
    paid = {(note.job, note.claim, int(what[1])): int(what[2]) for note, what in notes if what[0] == "paid"}
    entries = await place.store.read_ledger("ai", 1_000_000)
    spent = sorted((entry.job_id, entry.claim, entry.amount // CENT) for entry in entries)
    assert not Counter(spent) - Counter((job, claim, cents) for (job, claim, _), cents in asked.items())
    assert not Counter((job, claim, cents) for (job, claim, _), cents in paid.items()) - Counter(spent)

    (row,) = await periods(place.store)
    lost = await place.store.list_lost("ai", 1_000_000)
    assert row.spent == sum(entry.amount for entry in entries)
    assert (row.reserved, row.lost) == (0, sum(one.amount - one.spent for one in lost))
    most = max(found.spent + found.reserved + found.lost for found in seen)
    assert most <= CEILING * 100 * CENT
    failed = [job for job in jobs.values() if job.state is JobState.FAILED]
    assert {job.error_class for job in failed} == {"holdfast.outcomes.BudgetExceeded"}
    assert {job.attempt for job in failed} == {1}
    told = await titles(place.store)
    assert told.count("budget ai has reached 80 %") == 1
    # The last cents may be too few for any job: then the budget keeps jobs out before all of it is spent.
    assert any(title.endswith(("has reached 100 %", "do not fit below 100 %")) for title in told)
    assert len(set(told)) == len(told)
    assert killed > 0
    show(f"{killed} kills: {len(paid)} spends acknowledged, {len(spent)} in the ledger, {len(failed)} jobs refused")
