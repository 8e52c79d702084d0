"""An end that the store refuses takes no neighbour with it: each ends once, and only the refused one fails."""

from collections.abc import Sequence
from typing import Any

import pytest

from holdfast import Context, Holdfast, JobState
from holdfast.errors import DataRefused
from holdfast.stores.values import DONE, Finish, Worked
from holdfast.transitions import Transition, Verb, completed
from holdfast.worker.finisher import Ending, Finisher
from holdfast.worker.tally import Tally
from tests.support.workers import MakeApp, drained


class Particular:
    """A store that refuses a batch with a value that it will not take."""

    def __init__(self, *poison: int) -> None:
        self.poison = poison
        self.ended: list[tuple[int, Verb]] = []

    async def finish_jobs(self, transitions: Sequence[Transition], **_: object) -> Worked:
        """Take all or none."""
        if any(end.id in self.poison and end.verb is Verb.COMPLETE for end in transitions):
            message = "a value is refused"
            raise DataRefused(message)
        self.ended += [(end.id, end.verb) for end in transitions]
        return Worked([DONE[end.state] for end in transitions], [])


async def written(store: Any, count: int) -> list[Finish]:
    """Write the ends of as many jobs until nothing is left."""
    known: list[Finish] = []

    async def no_reports(runs: Sequence[object]) -> None:
        pass

    finisher = Finisher(store, Tally(), lambda ending, finish: known.append(finish), no_reports)
    for job in range(count):
        finisher.add(Ending(completed(job, 1)))
    for _ in range(10 * count):
        if finisher.is_idle:
            break
        await finisher.write(None)
        finisher.tell()
    assert finisher.is_idle
    return known


@pytest.mark.guards("refused-neighbour")
@pytest.mark.parametrize("poison", [(0,), (6,), (2, 3), (0, 1, 2, 3, 4, 5, 6)])
async def test_each_neighbour_of_a_refused_end_is_written_once(poison: tuple[int, ...]) -> None:
    store = Particular(*poison)
    known = await written(store, 7)
    assert sorted(store.ended) == [(job, Verb.FAIL if job in poison else Verb.COMPLETE) for job in range(7)]
    assert len(known) == 7


@pytest.mark.guards("refused-neighbour")
async def test_the_neighbours_of_a_result_that_cannot_be_stored_run_once(make_app: MakeApp) -> None:
    app: Holdfast = make_app()
    ran: list[int] = []

    @app.task(max_attempts=1)
    async def answer(ctx: Context, number: int) -> str:
        ran.append(number)
        return "\ud800" if number == 3 else "fine"  # half a character, which no database takes

    async with app:
        handles = [await answer.enqueue(number) for number in range(8)]
        await drained(app)
        states = [(await handle.get()).state for handle in handles]
    assert sorted(ran) == list(range(8))
    assert [state is JobState.COMPLETED for state in states] == [number != 3 for number in range(8)]
