"""Debounce: while a job of a kind and key waits, the next call replaces its payload and pushes its time."""

from datetime import timedelta
from typing import Any

import pytest

from holdfast.job import JobRow, JobState
from holdfast.stores.policies import KindRow
from holdfast.stores.store import Store
from holdfast.stores.values import Inserted, Insertion
from holdfast.transitions import retried
from tests.support.builders import FAILURE, claim_one, end, enqueue, insert, new_jobs, read
from tests.support.clock import Clock

WAIT = timedelta(seconds=5)


@pytest.fixture(autouse=True)
async def _debounced(store: Store) -> None:
    kind = KindRow(name="work", queue="default", definition="{}", debounce_ms=5_000, debounce_path=("payload", "doc"))
    await store.define_kinds([kind])
    await store.define_queue_policies({}, ["default"])


def doc(name: str, version: int = 1) -> str:
    """The arguments of a job for a document."""
    return f'{{"doc": "{name}", "version": {version}}}'


async def due(store: Store, clock: Clock, **options: Any) -> JobRow:
    """Enqueue a job and let its time come."""
    job_id = await enqueue(store, **options)
    await clock.advance(WAIT)
    assert (await store.promote_jobs(10)).jobs == 1
    return await read(store, job_id)


async def test_the_first_call_waits(store: Store, clock: Clock) -> None:
    job = await read(store, await enqueue(store, payload=doc("a")))
    assert (job.state, job.run_at, job.debounce_key) == (JobState.SCHEDULED, clock.now + WAIT, "a")


async def test_the_next_call_replaces_the_payload_and_pushes_the_time(store: Store, clock: Clock) -> None:
    first = await enqueue(store, payload=doc("a"), actor="anna")
    await clock.advance(seconds=3)
    answer = await insert(store, payload=doc("a", 2), actor="bert", extra='{"note": 1}')
    assert answer == Inserted(Insertion.EXISTING, first)
    job = await read(store, first)
    assert (job.payload["version"], job.run_at, job.actor, job.extra) == (2, clock.now + WAIT, "bert", {"note": 1})


async def test_other_keys_and_kinds_are_jobs_of_their_own(store: Store, clock: Clock) -> None:
    await enqueue(store, payload=doc("a"))
    await enqueue(store, payload=doc("b"))
    await enqueue(store)
    other = await read(store, await enqueue(store, kind="other", payload=doc("a")))
    assert (other.state, other.debounce_key) == (JobState.QUEUED, None)


async def test_calls_of_one_insert_are_merged_in_their_order(store: Store, clock: Clock) -> None:
    one, other = await new_jobs(store, 2, payload=doc("a"))
    (last,) = await new_jobs(store, 1, payload=doc("a", 3))
    answers = await store.insert_jobs([one, other, last])
    existing = Inserted(Insertion.EXISTING, one.id)
    assert answers == [Inserted(Insertion.CREATED, one.id), existing, existing]
    assert (await read(store, one.id)).payload["version"] == 3


async def test_once_it_is_due_the_next_call_is_another_job(store: Store, clock: Clock) -> None:
    first = await due(store, clock, payload=doc("a"))
    assert first.state is JobState.QUEUED
    second = await enqueue(store, payload=doc("a", 2))
    assert (await read(store, first.id)).payload["version"] == 1
    assert (await read(store, second)).state is JobState.SCHEDULED


async def test_one_that_waits_for_its_retry_takes_no_calls_and_hinders_none(store: Store, clock: Clock) -> None:
    first = await due(store, clock, payload=doc("a"))
    claimed = await claim_one(store)
    second = await enqueue(store, payload=doc("a", 2))
    await end(store, retried(claimed.id, claimed.claim, FAILURE, 60_000))  # both are scheduled under one key now
    assert (await read(store, first.id)).state is JobState.SCHEDULED
    assert await insert(store, payload=doc("a", 3)) == Inserted(Insertion.EXISTING, second)
    assert (await read(store, first.id)).payload["version"] == 1


async def test_a_call_with_its_own_time_is_not_debounced(store: Store, clock: Clock) -> None:
    first = await enqueue(store, payload=doc("a"))
    later = await read(store, await enqueue(store, payload=doc("a", 2), delay_ms=60_000))
    assert (later.debounce_key, later.run_at) == (None, clock.now + timedelta(minutes=1))
    assert (await read(store, first)).payload["version"] == 1


async def test_what_somebody_reschedules_is_pushed_no_more(store: Store, clock: Clock) -> None:
    first = await enqueue(store, payload=doc("a"))
    await store.reschedule_jobs([first], run_at=None, delay_ms=60_000)
    second = await enqueue(store, payload=doc("a", 2))
    job = await read(store, first)
    assert (job.run_at, job.payload["version"]) == (clock.now + timedelta(minutes=1), 1)
    # Nor can the two come into each other's way.
    await store.reschedule_jobs([second], run_at=None, delay_ms=0)
    await store.reschedule_jobs([second], run_at=None, delay_ms=60_000)


async def test_a_key_stands_for_the_job_that_was_met(store: Store, clock: Clock) -> None:
    first = await enqueue(store, payload=doc("a"))
    assert await insert(store, payload=doc("a", 2), key="k") == Inserted(Insertion.EXISTING, first)
    await clock.advance(seconds=3)
    assert await insert(store, payload=doc("a", 2), key="k") == Inserted(Insertion.EXISTING, first)
    assert (await read(store, first)).run_at == clock.now + timedelta(seconds=2)  # a repetition pushes nothing


async def test_what_is_sent_again_is_there(store: Store, clock: Clock) -> None:
    jobs = await new_jobs(store, 1, payload=doc("a"))
    for again in (False, True):
        assert await store.insert_jobs(jobs, again=again) == [Inserted(Insertion.CREATED, jobs[0].id)]
