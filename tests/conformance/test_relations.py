"""Jobs name the one whose handler enqueued them and the one that they replay; both are found from the other side."""

from typing import Any

import pytest

from holdfast.job import Answer, JobState
from holdfast.stores.store import Store
from holdfast.stores.values import Insertion, JobFilter
from tests.conformance.test_searching import AGES_MS, found
from tests.support.builders import (
    enqueue,
    enqueue_many,
    finished,
    insert,
    keeping,
    new_job,
    new_jobs,
    read,
    retry,
)
from tests.support.clock import Clock

LARGE = 642_217_140_806_455_563  # above 2^53, where a float would round
WAYS: dict[str, dict[str, Any]] = {
    "plain": {},
    "scheduled": {"delay_ms": 60_000},
    "unique": {"unique": "u"},
    "unique for a while": {"unique": "u", "unique_for_ms": 60_000},
    "keyed": {"key": "k"},
}


@pytest.mark.parametrize("way", WAYS)
async def test_a_parent_is_kept_however_a_job_is_stored(store: Store, way: str) -> None:
    assert (await read(store, await enqueue(store, parent=LARGE, **WAYS[way]))).parent == LARGE
    (again,) = await new_jobs(store, 1, parent=LARGE + 1)
    await store.insert_jobs([again], again=True)
    assert (await read(store, again.id)).parent == LARGE + 1


async def test_each_job_of_a_call_has_its_own_parent(store: Store) -> None:
    same = await enqueue_many(store, 3, parent=LARGE)
    parents = [LARGE, None, LARGE + 1]
    jobs = [new_job(job_id, parent=parent) for job_id, parent in zip(await store.take_ids(3), parents, strict=True)]
    await store.insert_jobs(jobs)
    none = await enqueue_many(store, 2)
    kept = {job.id: job.parent for job in await store.get_jobs([*same, *(job.id for job in jobs), *none])}
    assert [kept[job_id] for job_id in same] == [LARGE] * 3
    assert [kept[job.id] for job in jobs] == parents
    assert [kept[job_id] for job_id in none] == [None] * 2


async def test_a_job_that_was_there_before_keeps_its_parent(store: Store) -> None:
    first = await enqueue(store, unique="u", parent=LARGE)
    met = await insert(store, unique="u", parent=LARGE + 1)
    assert (met.outcome, met.id) == (Insertion.EXISTING, first)
    assert (await read(store, first)).parent == LARGE
    assert await found(store, parent=LARGE + 1) == []


async def test_children_are_found_live_and_finished_and_page_by_page(store: Store, clock: Clock) -> None:
    children = []
    for state in (JobState.COMPLETED, JobState.FAILED, JobState.CANCELLED):
        children.append((await finished(store, state, parent=LARGE)).id)
        await clock.advance(seconds=1)
    await finished(store, JobState.COMPLETED, parent=LARGE + 1)
    await enqueue(store)
    children += await enqueue_many(store, 3, queue="low", parent=LARGE)
    newest = children[::-1]
    assert await found(store, parent=LARGE) == newest
    assert await found(store, parent=LARGE, queues=("low",)) == newest[:3]
    assert await found(store, parent=LARGE, states=(JobState.FAILED,)) == [children[1]]
    assert await found(store, parent=LARGE, states=(JobState.QUEUED,)) == newest[:3]
    assert await found(store, parent=LARGE, kinds=("other",)) == []
    assert await found(store, parent=LARGE + 2) == []
    seen, after = [], None
    while True:
        page = await store.search_jobs(JobFilter(parent=LARGE), limit=2, after=after, budget_ms=AGES_MS)
        seen += [job.id for job in page.jobs]
        if (after := page.next) is None:
            break
    assert seen == newest


async def test_a_new_life_has_the_same_parent(store: Store) -> None:
    job = await finished(store, JobState.FAILED, parent=LARGE)
    assert job.parent == LARGE
    assert await retry(store, job.id) is Answer.DONE
    assert await found(store, parent=LARGE, states=(JobState.QUEUED,)) == [job.id]


async def test_replays_are_found_from_what_they_replay_even_when_that_is_gone(store: Store, clock: Clock) -> None:
    await store.define_queues({"default": keeping(60_000, 60_000, 60_000, 60_000)})
    old = await finished(store, JobState.FAILED)
    await clock.advance(seconds=50)
    first, second = await new_jobs(store, 2)
    await store.insert_replay(first, old.id)
    assert await found(store, origin=old.id) == [first.id]
    await store.cancel_jobs([first.id], actor=None, reason=None)
    await store.insert_replay(second, old.id)
    assert sorted(await found(store, origin=old.id)) == sorted([first.id, second.id])
    assert await found(store, origin=old.id, states=(JobState.CANCELLED,)) == [first.id]
    assert await found(store, origin=first.id) == []
    await clock.advance(seconds=20)
    assert await store.get_jobs([old.id]) == []
    assert sorted(await found(store, origin=old.id)) == sorted([first.id, second.id])
    assert (await read(store, second.id)).origin == old.id
