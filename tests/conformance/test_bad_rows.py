"""Rows that another program writes: a bad one is refused by the database, a hostile one is only text."""

from typing import Any

from holdfast.errors import DataRefused
from holdfast.job import Answer, JobState
from holdfast.stores.postgres.store import PostgresStore
from holdfast.stores.store import Store
from holdfast.stores.values import Inserted, Insertion
from holdfast.transitions import completed
from tests.support import raw
from tests.support.builders import (
    claim,
    enqueue,
    enqueue_many,
    finished,
    insert,
    read,
    register,
    retry,
    running,
    settle,
)
from tests.support.clock import Clock

HOSTILE = [
    "'\";--",
    'a"; drop table holdfast.jobs; --',
    "%",
    "%s %(a)s {0} $1 ?1 :a",
    "🎉👩‍👩‍👧",
    "\u202eright to left\u202c ערב",
    "line\nbreak\r\n\ttab",
    "../../etc/passwd",
    "\\",
    " ",
    "null",
    "\x01\x1b[31m\x7f",
    "\ufeff\uffff",
]

# One row each, of which exactly one column is wrong. Times are spelled for either database.
GOOD = {
    "id": "1",
    "kind": "'work'",
    "queue": "'default'",
    "priority": "5",
    "state": "'queued'",
    "position": "1000000",
    "payload": "'{}'",
    "run_at": "NOW",
    "enqueued_at": "NOW",
    "max_attempts": "5",
    "max_crashes": "3",
}
BAD = {
    "unknown state": {"state": "'doing'"},
    "finished state": {"state": "'completed'"},
    "no state": {"state": "NULL"},
    "no kind": {"kind": "NULL"},
    "empty kind": {"kind": "''"},
    "capital kind": {"kind": "'Work'"},
    "kind with a quote": {"kind": "'a;b'"},
    "kind of many lines": {"kind": "'work' || NEWLINE"},
    "long queue": {"queue": "'" + "q" * 65 + "'"},
    "no queue": {"queue": "NULL"},
    "broken payload": {"payload": "'{\"a\": '"},
    "payload that is no object": {"payload": "'[1]'"},
    "no payload": {"payload": "NULL"},
    "priority below": {"priority": "-1"},
    "priority above": {"priority": "11"},
    "no place": {"position": "NULL"},
    "id below": {"id": "-1"},
    "id of 61 bits": {"id": "1152921504606846976"},
    "no run_at": {"run_at": "NULL"},
    "infinite run_at": {"run_at": "INFINITY"},
    "run_at minus infinity": {"run_at": "MINUS_INFINITY"},
    "run_at in year 294276": {"run_at": "LAST_YEAR"},
    "run_at before 1970": {"run_at": "BEFORE_1970"},
    "infinite enqueued_at": {"enqueued_at": "INFINITY"},
    "no attempts": {"max_attempts": "0"},
    "no crashes": {"max_crashes": "0"},
    "negative claim": {"claim": "-1"},
    "no life": {"life": "0"},
    "no time at all": {"timeout_ms": "0"},
    "tags that are a list": {"tags": "'[1]'"},
    "broken tags": {"tags": "'{'"},
    "long unique key": {"unique_key": "'" + "k" * 513 + "'"},
    "long actor": {"actor": "'" + "a" * 257 + "'"},
}
SPELLED = {
    "postgres": {
        "NOW": "now()",
        "MINUS_INFINITY": "'-infinity'",
        "INFINITY": "'infinity'",
        "LAST_YEAR": "'294276-12-31Z'",
        "BEFORE_1970": "'1969-12-31Z'",
        "NEWLINE": "chr(10)",
    },
    "sqlite": {
        "NOW": "1700000000000",
        "MINUS_INFINITY": "-9e999",
        "INFINITY": "9e999",
        "LAST_YEAR": "9224318015999999",
        "BEFORE_1970": "-1",
        "NEWLINE": "char(10)",
    },
}


def row(store: Store, changes: dict[str, str]) -> str:
    columns = GOOD | changes
    values = ", ".join(columns.values())
    for word, spelled in SPELLED["postgres" if isinstance(store, PostgresStore) else "sqlite"].items():
        values = values.replace(word, spelled)
    return f"INSERT INTO holdfast.jobs ({', '.join(columns)}) VALUES ({values})"


async def test_a_good_row_written_by_another_program_is_a_job_like_any_other(store: Store) -> None:
    await raw.execute(store, row(store, {}))
    (job,) = await claim(store, await register(store))
    assert (job.id, job.kind, job.payload) == (1, "work", {})
    done = await settle(store, completed(job.id, job.claim))
    assert done is not None
    assert done.state is JobState.COMPLETED


async def test_bad_rows_are_refused_by_the_database_and_the_good_ones_flow(store: Store) -> None:
    ids = await enqueue_many(store, 999)
    accepted = [name for name, changes in BAD.items() if await is_accepted(store, row(store, changes))]
    assert accepted == []
    worker = await register(store)
    done = 0
    while jobs := await claim(store, worker, limit=100):
        worked = await store.finish_jobs([completed(job.id, job.claim) for job in jobs])
        done += sum(finish.state is JobState.COMPLETED for finish in worked.finishes)
    assert done == len(ids)


async def is_accepted(store: Store, sql: str) -> bool:
    try:
        await raw.execute(store, sql)
    except DataRefused:
        return False
    return True


async def test_a_bad_queue_cannot_be_defined_past_the_verbs(store: Store) -> None:
    for name in ("''", "'A'", "'a b'", "NULL"):
        assert not await is_accepted(store, f"INSERT INTO holdfast.queues (name) VALUES ({name})")


async def test_a_finished_job_cannot_be_written_into_an_unknown_state(store: Store) -> None:
    ended = await finished(store, JobState.COMPLETED)
    for change in ("state = 'queued'", "state = 'running'", "state = NULL", "finished_at = NULL"):
        assert not await is_accepted(store, f"UPDATE holdfast.history SET {change}")
    assert await read(store, ended.id) == ended


# ---- hostile text --------------------------------------------------------------------------------------------------


async def test_hostile_text_comes_back_as_it_went_in(store: Store) -> None:
    worker = await register(store)
    for text in HOSTILE:
        options: dict[str, Any] = {"unique": text, "key": text, "actor": text, "tags": {"t": text}}
        job_id = await enqueue(store, **options)
        assert await insert(store, **options) == Inserted(Insertion.EXISTING, job_id)
        (job,) = await claim(store, worker)
        kept = await settle(store, completed(job.id, job.claim))
        for found in (job, kept):
            assert found is not None
            assert (found.unique_key, found.idempotency_key, found.actor) == (text, text, text)
            assert found.tags == {"t": text}


async def test_hostile_words_of_an_operator_are_kept(store: Store) -> None:
    job = await running(store)
    for text in HOSTILE:
        await store.cancel_jobs([job.id], actor=text, reason=text)
        assert (await read(store, job.id)).extra == {"cancelled_by": text, "cancel_reason": text}
        row = await store.pause_queue("q", actor=text, reason=text)
        assert (row.paused_by, row.paused_reason) == (text, text)


async def test_keys_that_differ_in_case_spaces_or_form_are_different_keys(store: Store) -> None:
    keys = ["k", "K", "k ", " k", "k\n", "é", "e\u0301", "ﬁ", "fi", "%", "_"]
    ids = [await enqueue(store, unique=key, key=key) for key in keys]
    assert len(set(ids)) == len(keys)


async def test_a_hostile_unique_key_clashes_with_itself_on_retry(store: Store, clock: Clock) -> None:
    ended = await finished(store, JobState.FAILED, unique=HOSTILE[1])
    await enqueue(store, unique=HOSTILE[1])
    assert await retry(store, ended.id) is Answer.UNIQUE_CLASH
