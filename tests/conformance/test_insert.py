"""A job that was inserted is there, as it was given."""

from datetime import timedelta

import pytest

from holdfast import public_id
from holdfast.job import JobState
from holdfast.stores.store import Store
from holdfast.stores.values import Inserted, Insertion
from holdfast.transitions import completed
from tests.support.builders import (
    claim,
    enqueue,
    enqueue_many,
    new_job,
    new_jobs,
    read,
    register,
    running,
    settle,
    state_of,
)
from tests.support.clock import Clock

LARGE = 642_217_140_806_455_563  # htcx-2s16-z48b-09: above 2^53, where a float would round


async def test_a_new_job_is_queued_and_unclaimed(store: Store, clock: Clock) -> None:
    job = await read(store, await enqueue(store))
    assert job.state is JobState.QUEUED
    assert (job.claim, job.life, job.attempt, job.crashes) == (0, 1, 0, 0)
    assert (job.run_at, job.enqueued_at) == (clock.now, clock.now)
    assert (job.worker, job.claimed_at, job.started_at, job.finished_at, job.result_json) == (None,) * 5
    assert job.attempts == []
    assert job.progress is None


async def test_every_field_is_kept(store: Store) -> None:
    tags = {"customer": "a b", "env": "prod"}
    (given,) = await new_jobs(
        store,
        1,
        kind="send_email",
        queue="high",
        priority=0,
        payload='{"to": "a@example.org", "n": [1, 2.5, null, true]}',
        unique="u",
        key="k",
        max_attempts=7,
        max_crashes=9,
        timeout_ms=1_234,
        tags=tags,
        actor="alice",
    )
    await store.insert_jobs([given])
    job = await read(store, given.id)
    assert (job.kind, job.queue, job.priority) == ("send_email", "high", 0)
    assert job.payload == {"to": "a@example.org", "n": [1, 2.5, None, True]}
    assert (job.unique_key, job.idempotency_key) == ("u", "k")
    assert (job.max_attempts, job.max_crashes, job.timeout_ms) == (7, 9, 1_234)
    assert (job.tags, job.actor) == (tags, "alice")


async def test_no_timeout_no_tags_and_no_actor_are_kept_as_nothing(store: Store) -> None:
    job = await read(store, await enqueue(store, timeout_ms=None, tags=None, actor=None))
    assert (job.timeout_ms, job.tags_json, job.actor) == (None, None, None)


async def test_the_limits_of_each_column_are_kept(store: Store) -> None:
    longest = "ü" * 256  # 512 bytes
    limits = {"kind": "k" * 64, "queue": "q" * 64, "priority": 10, "unique": longest, "actor": "é" * 128}
    (given,) = await new_jobs(store, 1, **limits, key=longest, payload='{"text": "' + "x" * 250_000 + '"}')
    await store.insert_jobs([given])
    job = await read(store, given.id)
    assert (job.kind, job.queue, job.priority) == ("k" * 64, "q" * 64, 10)
    assert (job.unique_key, job.idempotency_key, job.actor) == (longest, longest, "é" * 128)
    assert job.payload == {"text": "x" * 250_000}


async def test_jobs_queue_up_in_the_order_given(store: Store) -> None:
    (first,) = await enqueue_many(store, 1)
    ids = await store.take_ids(20)
    ids.reverse()  # nothing orders by id
    await store.insert_jobs([new_job(job_id) for job_id in ids])
    claimed = await claim(store, await register(store))
    assert [job.id for job in claimed] == [first, *ids]
    positions = [job.position or 0 for job in claimed]
    assert positions == sorted(set(positions))


async def test_jobs_with_and_without_keys_queue_up_in_the_order_given(store: Store) -> None:
    ids = await store.take_ids(6)
    keys: tuple[dict[str, str], ...] = (
        {"key": "z"},
        {},
        {"unique": "b", "kind": "z"},
        {"unique": "a"},
        {"key": "a"},
        {},
    )
    given = [new_job(job_id, **key) for job_id, key in zip(ids, keys, strict=True)]
    await store.insert_jobs(given)
    assert [job.id for job in await claim(store, await register(store))] == ids


async def test_a_job_due_later_is_scheduled_and_has_no_place_yet(store: Store, clock: Clock) -> None:
    at = clock.now + timedelta(milliseconds=1)
    job = await read(store, await enqueue(store, run_at=at))
    assert (job.state, job.position, job.run_at) == (JobState.SCHEDULED, None, at)


async def test_a_job_due_now_or_earlier_is_queued(store: Store, clock: Clock) -> None:
    for early in (timedelta(0), timedelta(milliseconds=1), timedelta(days=400)):
        job = await read(store, await enqueue(store, run_at=clock.now - early))
        assert (job.state, job.run_at) == (JobState.QUEUED, clock.now - early)


async def test_a_delay_counts_by_the_clock_of_the_store(store: Store, clock: Clock) -> None:
    await clock.advance(days=3)
    job = await read(store, await enqueue(store, delay_ms=90_000))
    assert (job.state, job.run_at) == (JobState.SCHEDULED, clock.now + timedelta(seconds=90))
    assert await state_of(store, await enqueue(store, delay_ms=0)) is JobState.QUEUED


async def test_ids_above_2_to_the_53_survive_every_step(store: Store) -> None:
    worker = await register(store)
    for job_id in (LARGE, public_id.LARGEST, 2**53 + 1):
        assert await store.insert_jobs([new_job(job_id, tags={"a": "b"})]) == [Inserted(Insertion.CREATED, job_id)]
        (job,) = await claim(store, worker)
        assert job.id == job_id
        done = await settle(store, completed(job_id, job.claim))
        assert done is not None
        assert (done.id, public_id.decode(done.public_id)) == (job_id, job_id)


async def test_whole_numbers_above_2_to_the_53_survive_in_a_payload(store: Store) -> None:
    job = await read(store, await enqueue(store, payload='{"id": 9007199254740993, "max": 18446744073709551615}'))
    assert job.payload == {"id": 2**53 + 1, "max": 2**64 - 1}


async def test_ids_are_drawn_once(store: Store) -> None:
    drawn = [*await store.take_ids(100), *await store.take_ids(1), *await store.take_ids(64), *await store.take_ids(1)]
    assert len(set(drawn)) == len(drawn) == 166
    assert all(0 <= job_id <= public_id.LARGEST for job_id in drawn)
    assert len({job_id >> public_id.SEQUENCE_BITS for job_id in drawn}) == 1  # one store, one tag


async def test_20_000_answers_map_one_to_one(store: Store) -> None:
    holder = await enqueue(store, unique="taken")
    ids = await store.take_ids(20_000)
    clashing = set(ids[::5_000])
    jobs = [new_job(job_id, unique="taken" if job_id in clashing else None) for job_id in ids]
    answers = await store.insert_jobs(jobs)
    expected = [
        Inserted(Insertion.EXISTING, holder) if job_id in clashing else Inserted(Insertion.CREATED, job_id)
        for job_id in ids
    ]
    assert answers == expected
    claimed = await claim(store, await register(store), limit=4)
    assert [job.id for job in claimed] == [holder, *ids[1:4]]


async def test_inserting_nothing_answers_nothing(store: Store) -> None:
    assert await store.insert_jobs([]) == []
    assert await store.insert_jobs([], again=True) == []


@pytest.mark.guards("repeated-insert")
async def test_sent_again_while_live_a_job_counts_as_created_and_stays_one(store: Store) -> None:
    jobs = await new_jobs(store, 2)
    await store.insert_jobs(jobs)
    assert await store.insert_jobs(jobs, again=True) == [Inserted(Insertion.CREATED, job.id) for job in jobs]
    assert len(await claim(store, await register(store))) == 2


async def test_sent_again_a_job_that_never_arrived_is_created(store: Store) -> None:
    first, second = await new_jobs(store, 2)
    await store.insert_jobs([first])
    answers = await store.insert_jobs([first, second], again=True)
    assert answers == [Inserted(Insertion.CREATED, first.id), Inserted(Insertion.CREATED, second.id)]
    assert [job.id for job in await claim(store, await register(store))] == [first.id, second.id]


@pytest.mark.guards("repeated-insert")
async def test_sent_again_after_it_finished_a_job_counts_as_created_and_does_not_come_back(store: Store) -> None:
    (given,) = await new_jobs(store, 1)
    await store.insert_jobs([given])
    worker = await register(store)
    (job,) = await claim(store, worker)
    await settle(store, completed(job.id, job.claim, '"done"'))
    assert await store.insert_jobs([given], again=True) == [Inserted(Insertion.CREATED, given.id)]
    assert await claim(store, worker) == []
    kept = await read(store, given.id)
    assert (kept.state, kept.result) == (JobState.COMPLETED, "done")


@pytest.mark.guards("repeated-insert")
async def test_sent_again_while_running_a_job_goes_on_running(store: Store) -> None:
    job = await running(store)
    assert await store.insert_jobs([new_job(job.id)], again=True) == [Inserted(Insertion.CREATED, job.id)]
    assert await read(store, job.id) == job


async def test_reading_leaves_missing_jobs_out_and_takes_each_once(store: Store) -> None:
    one, other = await enqueue_many(store, 2)
    (unused,) = await store.take_ids(1)
    found = await store.get_jobs([other, unused, one, other])
    assert sorted(job.id for job in found) == sorted([one, other])
    assert await store.get_jobs([]) == []


async def test_only_jobs_that_have_ended_are_given_as_finished(store: Store) -> None:
    done = await running(store)
    await settle(store, completed(done.id, done.claim, "7"))
    going = await running(store)
    waiting = await enqueue(store)
    found = await store.finished_jobs([waiting, going.id, done.id])
    assert [(job.id, job.result) for job in found] == [(done.id, 7)]
