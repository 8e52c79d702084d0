"""What operators ask: no answer looks at more jobs than it may, and each says so."""

from collections.abc import Sequence

import pytest

from holdfast.job import JobState
from holdfast.rollup import Rollup
from holdfast.stores.answers import OperatorAnswers
from holdfast.stores.sql import load_queries
from holdfast.stores.store import Store
from holdfast.transitions import completed, failed
from tests.support.builders import FAILURE, claim, enqueue_many, lane, register
from tests.support.statements import unbounded


async def asked(store: Store, most: int, queues: Sequence[str] = ()) -> OperatorAnswers:
    return await store.operator_answers(
        org_tag="org_id", project_tag="project_id", within_s=30.0, most=most, queues=queues
    )


WHOLE = (4, set[str](), {JobState.COMPLETED: 3, JobState.FAILED: 1})
CUT = (3, {"backlog", "running", "completed"}, {JobState.COMPLETED: 30, JobState.FAILED: 10})


@pytest.mark.parametrize("most, capped, finished", [WHOLE, CUT], ids=["whole", "cut"])
async def test_what_is_more_than_was_looked_at_says_so(
    store: Store, most: int, capped: set[str], finished: dict[JobState, int]
) -> None:
    worker = await register(store)
    await enqueue_many(store, 4, tags={"org_id": "1"})
    taken = await claim(store, worker)
    counted = ((JobState.COMPLETED, 30), (JobState.FAILED, 10), (JobState.SCHEDULED, 5))  # the last were tried again
    await store.finish_jobs(
        [*(completed(job.id, job.claim) for job in taken[:3]), failed(taken[3].id, taken[3].claim, FAILURE)],
        rollups=[Rollup("default", "work", state, jobs, {}, {}) for state, jobs in counted],
    )
    await enqueue_many(store, 4)
    assert len(await claim(store, worker)) == 4
    await enqueue_many(store, 4)
    found = await asked(store, most)
    assert found.capped == capped
    assert (found.running, len(found.active), found.slow) == (most, most, 0)
    assert sum(found.backlog.values()) == 4  # one more than the most is looked at
    assert found.finished == finished, "as it was found, or as workers have counted it"
    assert sum(found.completed.values()) in (2, 3)


async def test_only_jobs_of_the_named_queues_are_counted(store: Store) -> None:
    worker = await register(store)
    for queue, jobs in (("high", 3), ("low", 4)):
        await enqueue_many(store, jobs, queue=queue, kind=queue, tags={"org_id": queue})
        first, _ = await claim(store, worker, lane(queue, limit=2))
        end = completed(first.id, first.claim)
        await store.finish_jobs([end], rollups=[Rollup(queue, "work", JobState.COMPLETED, 1, {}, {})])
    cut, whole = [await asked(store, most, ["high"]) for most in (1, 100)]
    for found in (cut, whole):
        assert {job.queue for job in found.active} <= {"high"}
        assert set(found.backlog) <= {"high"}
        assert set(found.completed) <= {"high"}
        assert found.finished == {JobState.COMPLETED: 1}
    assert (whole.running, whole.backlog, whole.completed) == (1, {"high": 1}, {"high": 1})


@pytest.mark.parametrize("package", ["holdfast.stores.postgres", "holdfast.stores.sqlite"])
def test_nothing_counts_without_an_end(package: str) -> None:
    assert not unbounded(load_queries(package)["operator_answers"])
