"""What a database refuses is a typed error, harms nothing else, and leaves the store usable."""

from typing import Any

import pytest

from holdfast.errors import DataRefused, HoldfastError, StoreError
from holdfast.failure import Failure
from holdfast.job import JobState, NewJob
from holdfast.stores.store import Store
from holdfast.stores.values import JobFilter, ProgressReport
from holdfast.transitions import completed, failed
from tests.support.builders import claim, enqueue, find, new_job, new_jobs, read, register, running

REFUSED: dict[str, dict[str, Any]] = {
    "lone surrogate in an actor": {"actor": "\ud800"},
    "lone surrogate in a unique key": {"unique": "\udfff"},
    "lone surrogate in an idempotency key": {"key": "\udfff"},
    "lone surrogate in a tag": {"tags": {"t": "\udfff"}},
    "broken payload": {"payload": '{"a":'},
    "payload that is no object": {"payload": "[1]"},
    "payload NaN": {"payload": '{"a": NaN}'},
    "empty payload": {"payload": ""},
    "kind with a space": {"kind": "a b"},
    "kind with a capital": {"kind": "Work"},
    "empty queue": {"queue": ""},
    "long queue": {"queue": "q" * 65},
    "priority below": {"priority": -1},
    "priority above": {"priority": 11},
    "id below": {"job_id": -1},
    "id of 61 bits": {"job_id": 2**60},
    "long unique key": {"unique": "ü" * 257},
    "long idempotency key": {"key": "k" * 513},
    "long actor": {"actor": "a" * 257},
    "no attempts": {"max_attempts": 0},
    "no crashes": {"max_crashes": 0},
    "no time at all": {"timeout_ms": 0},
    "due after the year 9998": {"delay_ms": 8_000 * 366 * 86_400_000},
}
WITH_NUL: dict[str, dict[str, Any]] = {
    "a tag": {"tags": {"t": "a\x00b"}},
    "the name of a tag": {"tags": {"a\x00b": "t"}},
    "an actor": {"actor": "a\x00b"},
    "a unique key": {"unique": "a\x00b"},
    "an idempotency key": {"key": "a\x00b"},
}


async def outcome(store: Store, jobs: list[NewJob]) -> str:
    """What an insert does: it should end in DataRefused."""
    try:
        await store.insert_jobs(jobs)
    except Exception as error:  # noqa: BLE001 - every other error is what the test is about
        return type(error).__name__
    return "accepted"


async def outcomes(store: Store, changes: dict[str, dict[str, Any]], **others: Any) -> dict[str, str]:
    found = {}
    for name, change in changes.items():
        good, base = await new_jobs(store, 2)
        found[name] = await outcome(store, [good, new_job(**({"job_id": base.id} | others | change))])
        if found[name] == "DataRefused":
            assert await find(store, good.id) is None  # one commit: all or nothing
    return found


async def test_a_job_that_cannot_be_stored_is_refused_with_its_whole_call(store: Store) -> None:
    assert await outcomes(store, REFUSED) == dict.fromkeys(REFUSED, "DataRefused")
    job_id = await enqueue(store)  # and the store goes on
    assert [job.id for job in await claim(store, await register(store))] == [job_id]


async def test_a_job_with_keys_that_cannot_be_stored_is_refused_and_takes_no_key(store: Store) -> None:
    keys = {"key": "k", "unique": "u", "unique_for_ms": 60_000}
    assert await outcomes(store, REFUSED, **keys) == dict.fromkeys(REFUSED, "DataRefused")
    await enqueue(store, **keys)


async def test_a_job_sent_again_that_cannot_be_stored_is_refused(store: Store) -> None:
    (bad,) = await new_jobs(store, 1, priority=11)
    with pytest.raises(DataRefused):
        await store.insert_jobs([bad], again=True)


async def test_text_with_nul_is_refused(store: Store) -> None:
    assert await outcomes(store, WITH_NUL) == dict.fromkeys(WITH_NUL, "DataRefused")


async def test_a_payload_with_nul_or_a_lone_surrogate_is_refused_or_kept_as_it_is(store: Store) -> None:
    for payload in ('{"a": "\\u0000"}', '{"\\u0000": 1}', '{"a": "\\ud800"}'):
        (job,) = await new_jobs(store, 1, payload=payload)
        if await outcome(store, [job]) == "accepted":
            assert (await read(store, job.id)).payload_json == payload


def test_a_refusal_is_an_error_of_the_store() -> None:
    assert issubclass(DataRefused, StoreError)
    assert issubclass(StoreError, HoldfastError)


async def test_a_result_that_cannot_be_stored_is_refused_and_its_batch_runs_on(store: Store) -> None:
    worker = await register(store)
    job, neighbour = await running(store, worker), await running(store, worker)
    for result in ("{", "", "NaN", "'a'"):
        batch = [completed(neighbour.id, neighbour.claim, "1"), completed(job.id, job.claim, result)]
        with pytest.raises(DataRefused):
            await store.finish_jobs(batch)
    assert await read(store, job.id) == job
    assert await read(store, neighbour.id) == neighbour
    worked = await store.finish_jobs([completed(job.id, job.claim, "1")])
    assert worked.finishes[0].state is JobState.COMPLETED


@pytest.mark.parametrize("text", ["a\x00b", "\ud800"], ids=["NUL", "surrogate"])
async def test_a_failure_with_text_that_was_not_cleaned_is_refused(store: Store, text: str) -> None:
    job = await running(store)
    with pytest.raises(DataRefused):
        await store.finish_jobs([failed(job.id, job.claim, Failure("E", text, None, "E"))])
    assert await read(store, job.id) == job


@pytest.mark.parametrize(
    "change",
    [{"message": "a\x00b"}, {"message": "\ud800"}, {"data": "{"}],
    ids=["NUL", "surrogate", "broken-data"],
)
async def test_progress_that_cannot_be_stored_is_refused(store: Store, change: dict[str, Any]) -> None:
    job = await running(store)
    with pytest.raises(DataRefused):
        await store.save_progress([ProgressReport(job.id, job.claim, **change)])
    assert (await read(store, job.id)).progress is None


async def test_words_of_an_operator_with_nul_are_refused(store: Store) -> None:
    job_id = await enqueue(store)
    with pytest.raises(DataRefused):
        await store.cancel_jobs([job_id], actor="a\x00b", reason=None)
    with pytest.raises(DataRefused):
        await store.pause_queue("default", actor=None, reason="a\x00b")
    assert (await read(store, job_id)).state is JobState.QUEUED
    assert [row.paused_at for row in await store.list_queues()] == [None]


async def test_a_priority_outside_its_limits_is_refused(store: Store) -> None:
    job_id = await enqueue(store)
    with pytest.raises(DataRefused):
        await store.reprioritise_jobs([job_id], 11)
    assert (await read(store, job_id)).priority == 5


async def test_a_queue_with_a_bad_name_is_refused(store: Store) -> None:
    for name in ("", "A", "a b", "q" * 65, "a\n"):
        with pytest.raises(DataRefused):
            await store.pause_queue(name, actor=None, reason=None)
    assert await store.list_queues() == []


@pytest.mark.parametrize("text", ["a\x00b", "\ud800"], ids=["NUL", "surrogate"])
async def test_a_filter_with_text_that_no_job_can_have_is_refused_or_finds_nothing(store: Store, text: str) -> None:
    await enqueue(store, actor="a", tags={"t": "a"})
    for which in (JobFilter(actor=text), JobFilter(tags=(("t", text),)), JobFilter(unique=text)):
        try:
            page = await store.list_jobs(which, limit=10)
        except DataRefused:
            continue
        assert page.jobs == []
