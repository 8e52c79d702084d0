"""A job as it is read: its states, and what its columns hold."""

from datetime import UTC, datetime
from typing import Any

import pytest

from holdfast.job import LIVE, RETRYABLE, TERMINAL, WAITING, AttemptRow, JobRow, JobState, NewJob, ProgressRow

AT = datetime(2030, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)


def job(**changes: Any) -> JobRow:
    fields: dict[str, Any] = dict.fromkeys(JobRow.__struct_fields__)
    fields |= {
        "id": 642_217_140_806_455_563,
        "kind": "work",
        "queue": "default",
        "priority": 5,
        "state": JobState.QUEUED,
        "payload_json": "{}",
        "run_at": AT,
        "enqueued_at": AT,
        "claim": 0,
        "life": 1,
        "attempt": 0,
        "max_attempts": 5,
        "crashes": 0,
        "max_crashes": 3,
    }
    return JobRow(**(fields | changes))


def test_every_state_is_waiting_running_or_terminal() -> None:
    assert frozenset(JobState) == WAITING | {JobState.RUNNING} | TERMINAL
    assert WAITING | {JobState.RUNNING} == LIVE
    assert not LIVE & TERMINAL


def test_all_that_ended_except_completed_may_be_retried() -> None:
    assert {JobState.COMPLETED_WITH_ERRORS, JobState.FAILED, JobState.CANCELLED} == RETRYABLE


@pytest.mark.parametrize("state", JobState)
def test_a_job_is_finished_exactly_in_a_terminal_state(state: JobState) -> None:
    assert job(state=state).is_finished == (state in TERMINAL)


def test_the_public_id_is_what_people_see() -> None:
    assert job().public_id == "htcx-2s16-z48b-09"


def test_what_is_missing_reads_as_nothing() -> None:
    bare = job()
    assert (bare.payload, bare.result, bare.tags, bare.extra, bare.progress, bare.attempts) == (
        {},
        None,
        {},
        {},
        None,
        [],
    )


def test_json_columns_read_as_plain_values() -> None:
    full = job(
        payload_json='{"n": 9007199254740993}',
        result_json="[1, null]",
        tags_json='{"a": "b"}',
        extra_json='{"traceback": "t"}',
    )
    assert (full.payload, full.result) == ({"n": 2**53 + 1}, [1, None])
    assert (full.tags, full.extra) == ({"a": "b"}, {"traceback": "t"})


def test_a_result_of_null_is_not_the_same_as_none_in_its_column() -> None:
    assert job(result_json="null").result is None
    assert job(result_json="null").result_json == "null"


def test_progress_is_read_with_its_time() -> None:
    text = '{"percent": 12.5, "message": "m", "data": {"a": [1]}, "updated_at": "2030-01-02T03:04:05.678Z"}'
    assert job(progress_json=text).progress == ProgressRow(12.5, "m", {"a": [1]}, AT)


def test_attempts_are_read_in_order_and_may_lack_what_did_not_happen() -> None:
    text = (
        '[{"claim": 1, "attempt": 1, "worker": 7, "claimed_at": "2030-01-02T03:04:05.678+00:00", "started_at": null,'
        ' "ended_at": "2030-01-02T03:04:05.678Z", "outcome": "retry", "error_class": "E", "error": "e"},'
        ' {"claim": 2, "attempt": 2, "worker": null, "claimed_at": null, "started_at": null,'
        ' "ended_at": "2030-01-02T03:04:05.678Z", "outcome": "crash", "traceback": null}]'
    )
    assert job(attempts_json=text).attempts == [
        AttemptRow(1, 1, 7, AT, None, AT, "retry", "E", "e", None),
        AttemptRow(2, 2, None, None, None, AT, "crash"),
    ]


def test_a_job_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        job().state = JobState.RUNNING  # type: ignore[misc] # wrong on purpose


def test_every_field_of_a_new_job_has_a_place_in_a_job() -> None:
    columns = {
        "payload": "payload_json",
        "unique": "unique_key",
        "key": "idempotency_key",
        "tags": "tags_json",
        "extra": "extra_json",
    }
    only_for_the_insert = {"delay_ms", "unique_for_ms"}
    for field in set(NewJob.__struct_fields__) - only_for_the_insert:
        assert columns.get(field, field) in JobRow.__struct_fields__
