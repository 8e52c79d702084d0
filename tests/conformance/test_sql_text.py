"""Whatever a caller gives is a parameter: no name, key, tag or reason ever becomes part of a statement's text."""

import functools
import sqlite3
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import pytest

from holdfast.failure import Failure
from holdfast.rollup import Rollup
from holdfast.stores.postgres.connection import Pool
from holdfast.stores.store import Store
from holdfast.stores.values import JobFilter, ProgressReport, WorkerProcess
from holdfast.transitions import failed
from tests.support.builders import claim_of, keeping, lane, new_jobs

NAME = "canary.name:1-2"
TEXT = "canary'\"; DROP TABLE jobs; --\\ %s $1 :id {0} ?"
TAGS = {"canary": TEXT}


class RecordingCursor(sqlite3.Cursor):
    sent: list[str]

    def execute(self, sql: str, parameters: Any = (), /) -> "RecordingCursor":
        self.sent.append(sql)
        super().execute(sql, parameters)
        return self

    def executemany(self, sql: str, parameters: Iterable[Any], /) -> "RecordingCursor":
        self.sent.append(sql)
        super().executemany(sql, parameters)
        return self


class RecordingConnection(sqlite3.Connection):
    def cursor(self, *_: Any) -> Any:
        return super().cursor(RecordingCursor)

    def execute(self, sql: str, parameters: Any = (), /) -> Any:
        return self.cursor().execute(sql, parameters)


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record the text of every statement that a store sends from here on."""
    texts: list[str] = []
    fetch = Pool.fetch

    async def recording(self: Pool, sql: str, *args: object) -> Any:
        texts.append(sql)
        return await fetch(self, sql, *args)

    monkeypatch.setattr(Pool, "fetch", recording)
    monkeypatch.setattr(RecordingCursor, "sent", texts, raising=False)
    monkeypatch.setattr(sqlite3, "connect", functools.partial(sqlite3.connect, factory=RecordingConnection))
    return texts


async def test_no_value_becomes_part_of_a_statement(sent: list[str], store: Store) -> None:
    given: dict[str, Any] = {"kind": NAME, "queue": NAME, "tags": TAGS, "actor": TEXT, "payload": '{"a": "canary"}'}
    jobs = await new_jobs(store, 3, **given)
    await store.insert_jobs(jobs)
    (keyed,) = await new_jobs(store, 1, **given, key=TEXT, unique=TEXT, unique_for_ms=1_000)
    await store.insert_jobs([keyed])
    await store.insert_jobs([keyed], again=True)

    worker = await store.register_worker(
        WorkerProcess(TEXT, TEXT, 1, boot_id=TEXT, version=TEXT, queues=(NAME,)), 60_000
    )
    claimed = await store.claim_jobs(claim_of(worker, lane(NAME)))
    assert len(claimed) == 4
    await store.save_progress([ProgressReport(claimed[0].id, 1, 50.0, TEXT, '{"a": "canary"}')])
    failure = Failure(TEXT, TEXT, TEXT, TEXT)
    rollup = Rollup(NAME, NAME, claimed[0].state, 1, {1: 1}, {})
    await store.finish_jobs([failed(job.id, 1, failure) for job in claimed], rollups=[rollup])
    await store.retry_jobs([claimed[0].id])
    await store.cancel_jobs([claimed[0].id], actor=TEXT, reason=TEXT)

    await store.pause_queue(NAME, actor=TEXT, reason=TEXT)
    await store.resume_queue(NAME)
    await store.define_queues({NAME: keeping(1_000, 1_000, 1_000, 1_000)})
    which = JobFilter(
        kinds=(NAME, TEXT), queues=(NAME, TEXT), tags=(("canary", TEXT), (TEXT, TEXT)), actor=TEXT, unique=TEXT,
        fingerprint=TEXT, enqueued_from=datetime(2020, 1, 1, tzinfo=UTC),
    )  # fmt: skip
    await store.list_jobs(which, limit=10)
    assert len((await store.list_jobs(JobFilter(tags=(("canary", TEXT),), actor=TEXT), limit=10)).jobs) == 4

    assert sent
    assert [text for text in sent if "canary" in text.lower()] == []
