"""A worker is killed in the second phase of a pipeline: the next one goes on there, with what the first phase left."""

import signal
from collections import Counter

import pytest

from holdfast.job import JobRow, JobState
from holdfast.phases import PhaseState
from tests.support.groups import send
from tests.support.oracle import all_ended
from tests.support.place import Place
from tests.support.wait import until

pytestmark = [pytest.mark.real_time, pytest.mark.sample]

APP = "tests.faults.workers.pipeline_work:app"


def went(place: Place) -> Counter[tuple[str, int]]:
    """What the phases wrote down: what began, in which claim, how often."""
    return Counter((note.what, note.claim) for note in place.notes())


async def half_way(place: Place, job_id: int) -> JobRow:
    """Wait until the second phase is in its last item, and the store knows of the others."""
    found: list[JobRow] = []

    async def is_stored() -> bool:
        found[:] = await place.store.get_jobs([job_id])
        items = found[0].items
        return bool(items) and items["parts"]["parts_completed"] == ["first", "second"]

    await until(lambda: ("item-last", 1) in went(place), "the second phase is in its last item")
    await until(is_stored, "the store knows of the items before")
    return found[0]


async def killed_and_gone_on(place: Place, kind: str, who: str, **env: str) -> tuple[JobRow, JobRow]:
    """Kill a worker in the second phase, let another one go on; the job as it was before the kill and at the end."""
    group = place.start("--processes", "1", app=APP, **env)
    (job_id,) = await place.enqueue(kind, "default", ["{}"])
    before = await half_way(place, job_id)
    if who == "everybody":
        group.kill_all()
        place.start("--processes", "1", app=APP, **env)
    else:
        pid = place.notes()[-1].pid
        assert pid not in (group.pid, *group.children)
        assert send(pid, signal.SIGKILL)
    await until(lambda: any(what == "item-last" and claim > 1 for what, claim in went(place)), "it goes on")
    place.ledger.with_name(f"{place.ledger.name}.go").touch()
    return before, (await all_ended(place.store, [job_id]))[job_id]


@pytest.mark.timeout(90)
@pytest.mark.parametrize("kind, who", [("work", "everybody"), ("away", "its own process")])
async def test_a_pipeline_goes_on_in_the_phase_in_which_it_was_killed(place: Place, kind: str, who: str) -> None:
    before, job = await killed_and_gone_on(place, kind, who)
    assert (before.state, before.phase) == (JobState.RUNNING, "hold")
    assert [(phase.name, phase.state) for phase in before.phases] == [
        ("draw", PhaseState.COMPLETED),
        ("hold", PhaseState.RUNNING),
    ]
    drawn = before.phases[0].result
    assert (job.state, job.claim, job.crashes) == (JobState.COMPLETED, 2, 1)
    assert job.result == {"draw": drawn, "hold": [2, drawn]}
    assert [(phase.name, phase.state, phase.claim) for phase in job.phases] == [
        ("draw", PhaseState.COMPLETED, 1),
        ("hold", PhaseState.COMPLETED, 2),
        ("give", PhaseState.COMPLETED, 2),
    ]
    assert job.phases[0] == before.phases[0]
    assert job.items["parts"]["parts_completed"] == ["first", "second", "last"]
    expected = [("draw", 1), ("hold", 1), ("item-first", 1), ("item-second", 1), ("item-last", 1)]
    assert went(place) == Counter([*expected, ("hold", 2), ("item-last", 2), ("give", 2)])


@pytest.mark.timeout(90)
@pytest.mark.chaos
async def test_a_pipeline_that_forgets_its_first_phase_is_noticed(sqlite_place: Place) -> None:
    before, job = await killed_and_gone_on(sqlite_place, "work", "everybody", CHAOS_FORGETS="1")
    assert job.state is JobState.COMPLETED
    assert {claim for what, claim in went(sqlite_place) if what == "draw"} == {1, 2}, "it has not begun anew"
    assert job.phases[0].result != before.phases[0].result
