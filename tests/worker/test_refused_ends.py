"""An end that the store refuses takes no neighbour with it: each ends once, and only the refused one fails."""

from collections.abc import Sequence
from typing import Any

import pytest

from holdfast import Context, Holdfast, JobState
from holdfast.errors import DataRefused
from holdfast.stores.postgres.store import PostgresStore
from holdfast.stores.values import DONE, Finish, Verdict, Worked
from holdfast.transitions import Transition, Verb, completed
from holdfast.worker.finisher import Ending, Finisher
from holdfast.worker.tally import Tally
from tests.support import raw
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


class Stubborn(Particular):
    """A store that takes no end of a job, or only that it is tried again."""

    def __init__(self, poison: int, *verbs: Verb) -> None:
        super().__init__(poison)
        self.verbs = verbs
        self.bare: list[int] = []

    async def finish_jobs(self, transitions: Sequence[Transition], **_: object) -> Worked:
        """Take all or none."""
        if any(end.id in self.poison and end.verb not in self.verbs for end in transitions):
            message = "a value is refused"
            raise DataRefused(message)
        self.ended += [(end.id, end.verb) for end in transitions]
        return Worked([DONE[end.state] for end in transitions], [])

    async def fail_refused(self, transition: Transition) -> Finish:
        """Refuse the last form too."""
        self.bare.append(transition.id)
        message = "a value is refused"
        raise DataRefused(message)


async def test_a_job_that_cannot_be_ended_is_tried_again_later() -> None:
    store = Stubborn(2, Verb.RETRY)
    known = await written(store, 4)
    assert sorted(store.ended) == [(job, Verb.RETRY if job == 2 else Verb.COMPLETE) for job in range(4)]
    assert store.bare == [2]
    assert len(known) == 4


async def test_a_claim_that_cannot_be_ended_at_all_is_given_up() -> None:
    store = Stubborn(2)
    known = await written(store, 4)
    assert sorted(store.ended) == [(job, Verb.COMPLETE) for job in range(4) if job != 2]
    assert known.count(Finish(Verdict.LOST, None)) == 1


RULES = {
    "postgres": (
        "ALTER TABLE holdfast.history ADD CONSTRAINT history_rule CHECK (NOT extra ? 'poison')",
        "ALTER TABLE holdfast.history DROP CONSTRAINT history_rule",
    ),
    "sqlite": (
        """
        CREATE TRIGGER holdfast.rule BEFORE INSERT ON holdfast.history WHEN json_extract(new.extra, '$.poison')
        BEGIN SELECT RAISE(ABORT, 'history_rule'); END
        """,
        "DROP TRIGGER holdfast.rule",
    ),
}


async def test_a_job_whose_every_end_is_refused_runs_once_and_fails(make_app: MakeApp) -> None:
    app: Holdfast = make_app()
    ran: list[int] = []

    @app.task
    async def answer(number: int) -> None:
        ran.append(number)

    async with app:
        made, gone = RULES["postgres" if isinstance(app.store, PostgresStore) else "sqlite"]
        await raw.execute(app.store, made)
        try:
            handles = [await answer.enqueue(number) for number in range(5)]
            await raw.execute(
                app.store, f"""UPDATE holdfast.jobs SET extra = '{{"poison": true}}' WHERE id = {handles[2].number}"""
            )
            await drained(app)
        finally:
            await raw.execute(app.store, gone)
        jobs = [await handle.get() for handle in handles]
    assert sorted(ran) == list(range(5))
    assert [job.state for job in jobs] == [
        JobState.FAILED if number == 2 else JobState.COMPLETED for number in range(5)
    ]
    assert jobs[2].error_class == "holdfast.errors.DataRefused"
    assert "history_rule" in (jobs[2].error or "")


@pytest.mark.parametrize(
    "webhook",
    ["{}", '""', "[]", '{"url": null}', '{"url": 5}', '{"events": 5}', '{"url": "https://x.org", "events": 5}'],
)
async def test_a_job_with_a_webhook_that_nobody_can_read_ends_as_its_handler_does(
    make_app: MakeApp, webhook: str
) -> None:
    app: Holdfast = make_app()

    @app.task
    async def answer() -> str:
        return "fine"

    async with app:
        handle = await answer.enqueue()
        await raw.execute(
            app.store, f"""UPDATE holdfast.jobs SET extra = '{{"webhook": {webhook}}}' WHERE id = {handle.number}"""
        )
        await drained(app)
        job = await handle.get()
    assert (job.state, job.result, job.claim) == (JobState.COMPLETED, "fine", 1)
