"""An idempotency key stands for one request for 24 hours, whatever becomes of its job."""

from holdfast.job import Answer, JobState
from holdfast.stores.store import Store
from holdfast.stores.values import Inserted, Insertion
from holdfast.transitions import completed
from tests.support.builders import (
    claim,
    claim_one,
    enqueue,
    finished,
    insert,
    new_jobs,
    read,
    register,
    retry,
    running,
    settle,
)
from tests.support.clock import Clock


async def test_the_same_request_is_answered_with_its_job(store: Store) -> None:
    job_id = await enqueue(store, key="k", payload='{"a": 1}')
    assert await insert(store, key="k", payload='{"a": 1}') == Inserted(Insertion.EXISTING, job_id)
    assert len(await claim(store, await register(store))) == 1


async def test_another_kind_under_the_key_is_a_conflict(store: Store) -> None:
    job_id = await enqueue(store, key="k")
    assert await insert(store, key="k", kind="other") == Inserted(Insertion.CONFLICT, job_id)


async def test_another_payload_under_the_key_is_a_conflict_and_stores_nothing(store: Store) -> None:
    job_id = await enqueue(store, key="k", payload='{"a": 1}')
    assert await insert(store, key="k", payload='{"a": 2}') == Inserted(Insertion.CONFLICT, job_id)
    assert [job.id for job in await claim(store, await register(store))] == [job_id]


async def test_one_key_counts_in_the_whole_store(store: Store) -> None:
    job_id = await enqueue(store, key="k", queue="one")
    assert await insert(store, key="k", queue="two", priority=0) == Inserted(Insertion.EXISTING, job_id)


SAME = [
    ('{"a": 1, "b": 2.0}', '{"b":2,"a":1}'),
    ('{"a": 100}', '{"a": 1e2}'),
    ('{"a": 0.5}', '{"a": 5e-1}'),
    ('{"a": -0.0}', '{"a": 0}'),
    ('{"a": "é"}', '{"a": "\\u00e9"}'),
    ('{"a": {"b": [1, {"c": null, "d": true}]}}', '{"a":{"b":[1.0,{"d":true,"c":null}]}}'),
]
DIFFERENT = [
    ('{"a": 1}', '{"a": true}'),
    ('{"a": 0}', '{"a": false}'),
    ('{"a": 1}', '{"a": "1"}'),
    ('{"a": null}', "{}"),
    ('{"a": [1, 2]}', '{"a": [2, 1]}'),
    ('{"a": 9007199254740992}', '{"a": 9007199254740993}'),
    ('{"a": 0.1}', '{"a": 0.10000000000000002}'),
    ('{"a": ""}', '{"a": null}'),
    ('{"a": []}', '{"a": {}}'),
    ('{"a": "é"}', '{"a": "e\\u0301"}'),
]


async def test_payloads_equal_as_json_values_are_the_same_request(store: Store) -> None:
    for one, other in SAME:
        job_id = await enqueue(store, key=one, payload=one)
        assert await insert(store, key=one, payload=other) == Inserted(Insertion.EXISTING, job_id), other


async def test_payloads_that_differ_as_json_values_are_a_conflict(store: Store) -> None:
    for one, other in DIFFERENT:
        job_id = await enqueue(store, key=other, payload=one)
        assert await insert(store, key=other, payload=other) == Inserted(Insertion.CONFLICT, job_id), other


async def test_a_job_that_finished_before_the_callers_retry_stays_one_job(store: Store) -> None:
    job_id = await enqueue(store, key="k")
    worker = await register(store)
    job = await claim_one(store, worker)
    await settle(store, completed(job.id, job.claim, "1"))
    assert await insert(store, key="k") == Inserted(Insertion.EXISTING, job_id)
    assert await claim(store, worker) == []


async def test_the_key_of_a_deleted_job_still_stands_for_it(store: Store) -> None:
    ended = await finished(store, JobState.COMPLETED, key="k")
    (answered,) = await store.delete_jobs([ended.id])
    assert answered.answer is Answer.DONE
    assert await insert(store, key="k") == Inserted(Insertion.EXISTING, ended.id)
    assert await insert(store, key="k", kind="other") == Inserted(Insertion.CONFLICT, ended.id)


async def test_a_key_expires_after_24_hours(store: Store, clock: Clock) -> None:
    first = await enqueue(store, key="k", payload='{"a": 1}')
    await clock.advance(hours=23, minutes=59, seconds=59)
    assert await insert(store, key="k", payload='{"a": 1}') == Inserted(Insertion.EXISTING, first)
    await clock.advance(seconds=1)
    second = await enqueue(store, key="k", payload='{"a": 2}')
    assert await insert(store, key="k", payload='{"a": 2}') == Inserted(Insertion.EXISTING, second)


async def test_asking_again_does_not_prolong_a_key(store: Store, clock: Clock) -> None:
    await enqueue(store, key="k")
    await clock.advance(hours=20)
    assert (await insert(store, key="k")).outcome is Insertion.EXISTING
    await clock.advance(hours=4)
    await enqueue(store, key="k")


async def test_within_one_call_the_first_of_a_key_is_created(store: Store) -> None:
    one, two = await new_jobs(store, 2, key="k")
    (other,) = await new_jobs(store, 1, key="k", kind="other")
    answers = await store.insert_jobs([one, two, other])
    assert answers == [
        Inserted(Insertion.CREATED, one.id),
        Inserted(Insertion.EXISTING, one.id),
        Inserted(Insertion.CONFLICT, one.id),
    ]
    assert [job.id for job in await claim(store, await register(store))] == [one.id]


async def test_one_conflict_does_not_disturb_the_others_of_its_call(store: Store) -> None:
    await enqueue(store, key="taken")
    (free,) = await new_jobs(store, 1, key="free")
    (conflicting,) = await new_jobs(store, 1, key="taken", kind="other")
    (plain,) = await new_jobs(store, 1)
    answers = await store.insert_jobs([free, conflicting, plain])
    assert [answer.outcome for answer in answers] == [Insertion.CREATED, Insertion.CONFLICT, Insertion.CREATED]
    assert await store.get_jobs([conflicting.id]) == []


async def test_a_key_that_met_a_unique_live_job_points_to_it_and_stays_so(store: Store) -> None:
    live = await running(store, unique="u")
    assert await insert(store, key="k", unique="u") == Inserted(Insertion.EXISTING, live.id)
    await settle(store, completed(live.id, live.claim))
    assert await insert(store, key="k", unique="u") == Inserted(Insertion.EXISTING, live.id)


async def test_a_key_that_met_unique_for_points_to_its_job(store: Store) -> None:
    first = await finished(store, JobState.COMPLETED, unique="u", unique_for_ms=60_000)
    options = {"key": "k", "unique": "u", "unique_for_ms": 60_000}
    assert await insert(store, **options) == Inserted(Insertion.EXISTING, first.id)
    assert await insert(store, **options) == Inserted(Insertion.EXISTING, first.id)


async def test_a_conflict_leaves_the_unique_key_free(store: Store) -> None:
    await enqueue(store, key="k")
    assert (await insert(store, key="k", kind="other", unique="u", unique_for_ms=1_000)).outcome is Insertion.CONFLICT
    await enqueue(store, kind="other", unique="u", unique_for_ms=1_000)


async def test_sent_again_the_own_request_counts_as_created_live_or_finished(store: Store) -> None:
    (given,) = await new_jobs(store, 1, key="k")
    created = [Inserted(Insertion.CREATED, given.id)]
    assert await store.insert_jobs([given]) == created
    assert await store.insert_jobs([given], again=True) == created
    worker = await register(store)
    job = await claim_one(store, worker)
    await settle(store, completed(job.id, job.claim))
    assert await store.insert_jobs([given], again=True) == created
    assert await claim(store, worker) == []
    assert (await read(store, given.id)).state is JobState.COMPLETED


async def test_sent_again_but_never_arrived_a_keyed_request_is_created(store: Store) -> None:
    (given,) = await new_jobs(store, 1, key="k")
    assert await store.insert_jobs([given], again=True) == [Inserted(Insertion.CREATED, given.id)]
    assert await insert(store, key="k") == Inserted(Insertion.EXISTING, given.id)


async def test_sent_again_a_request_whose_key_belongs_to_another_is_answered_with_that_one(store: Store) -> None:
    first = await enqueue(store, key="k")
    (late,) = await new_jobs(store, 1, key="k")
    assert await store.insert_jobs([late], again=True) == [Inserted(Insertion.EXISTING, first)]
    assert await store.get_jobs([late.id]) == []


async def test_a_new_life_keeps_the_key(store: Store) -> None:
    ended = await finished(store, JobState.FAILED, key="k")
    assert await retry(store, ended.id) is Answer.DONE
    assert await insert(store, key="k") == Inserted(Insertion.EXISTING, ended.id)
    assert (await read(store, ended.id)).idempotency_key == "k"
