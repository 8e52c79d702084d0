"""Jobs that are held for a limit move like all others, and go on where they come to."""

import pytest

from holdfast.job import JobState
from holdfast.moving.move import move
from holdfast.moving.sides import Side
from holdfast.stores.limits import LimitRow
from holdfast.stores.postgres.store import PostgresStore
from holdfast.stores.sqlite.store import SqliteStore
from tests.move.test_move import TO, quiet
from tests.support import limits as limiting
from tests.support.builders import claim, enqueue, register, state_of


@pytest.fixture(params=["to-postgres", "to-sqlite"])
def sides(request: pytest.FixtureRequest, postgres: PostgresStore, sqlite_file: SqliteStore) -> tuple[Side, Side]:
    """The store that jobs leave and the one that they come to, both ways."""
    return (sqlite_file, postgres) if request.param == "to-postgres" else (postgres, sqlite_file)


async def test_held_jobs_go_on_where_they_come_to(sides: tuple[Side, Side]) -> None:
    source, target = sides
    limit = LimitRow(name="one", queue="default", concurrency=1)
    await source.define_limits([limit], ["default"])
    ids = [await enqueue(source) for _ in range(3)]
    await limiting.complete(source, *await claim(source, await register(source)))
    assert await limiting.states(source, ids) == [JobState.COMPLETED, JobState.QUEUED, JobState.HELD]
    await move(source, target, TO, quiet)
    await target.define_limits([limit], ["default"])
    worker = await register(target)
    for job_id in ids[1:]:
        await target.promote_jobs(10)
        (job,) = await claim(target, worker)
        assert job.id == job_id
        await limiting.complete(target, job)
        assert await state_of(target, job_id) is JobState.COMPLETED
