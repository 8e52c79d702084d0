"""Secrets that a worker of another make has left in the store: in an error, its traceback and its fingerprint."""

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from pydantic import SecretStr

from holdfast import Holdfast
from holdfast.failure import Failure
from holdfast.job import JobState
from holdfast.stores.values import JobFilter, WorkerProcess
from holdfast.telemetry import redaction
from holdfast.transitions import failed as ended_failed
from tests.support.builders import claim, lane
from tests.support.web import PAGE, bearing, filled, made_token, routes_of, visit
from tests.support.workers import MakeApp

CARD = "4711-0815-cafe"
FAILED = JobFilter(states=(JobState.FAILED,))
EXPORTS = ("/api/v1/dead-letters/export", "/dead-letters/export")


@pytest.fixture
async def told(make_sqlite_memory: MakeApp, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Holdfast]:
    """Make a job that failed with an error that quotes its secret everywhere, in a process that knows none."""
    monkeypatch.setattr(redaction, "_known", set())
    monkeypatch.setattr(redaction, "_pattern", None)
    app = make_sqlite_memory()

    @app.task(queue="high", max_attempts=1)
    async def pay(card: SecretStr) -> None: ...

    async with app:
        await pay.enqueue(SecretStr(CARD))
        info = WorkerProcess(instance="i", host="h", pid=1, queues=("high",), concurrency=1)
        (taken,) = await claim(app.store, await app.store.register_worker(info, 600_000), lane("high"))
        why = Failure("ValueError", f"cannot charge {CARD}", f'raise ValueError("{CARD}")', f"ValueError:no {CARD}")
        await app.store.finish_jobs([ended_failed(taken.id, taken.claim, why)])
        await app.store.fold_failures(100)
        yield app


@pytest.mark.guards("exported-payload", "exported-error", "exported-fingerprint", "exported-traceback")
async def test_an_export_covers_every_field(told: Holdfast) -> None:
    async with visit(told) as web:
        who = bearing(await made_token(told))
        lines: list[dict[str, Any]] = [msgspec.json.decode((await web.get(path, headers=who)).text) for path in EXPORTS]
    lines += [msgspec.json.decode(msgspec.json.encode(line)) async for line in told.dead_letters.export()]
    for line in lines:
        assert line["args"] == {"card": redaction.COVER}
        assert line["error"] == f"cannot charge {redaction.COVER}"
        assert line["error_fingerprint"] == f"ValueError:no {redaction.COVER}"
        assert line["traceback"] == f'raise ValueError("{redaction.COVER}")'
        assert CARD not in str(line)


async def test_no_page_and_no_answer_shows_what_the_server_knows_to_be_secret(told: Holdfast) -> None:
    redaction.keep([CARD])
    (group,) = (await told.dead_letters.list()).groups
    (job,) = (await told.jobs.search()).jobs
    places = {"name": "high", "queue": "high", "kind": "pay", "group": group.id, "id": job.id}
    looks = [route.path for route in routes_of(told) if route.method == "GET" and not route.is_stream]
    shown = []
    async with visit(told) as web:
        who = bearing(await made_token(told))
        for path in looks:
            for headers in (who, who | PAGE):
                answer = await web.get(filled(path, **places, job=job.id), headers=headers)
                shown += [path] * (CARD in answer.text)
    assert not shown, " ".join(sorted(set(shown)))


@pytest.mark.guards("store-password")
def test_no_setting_shows_the_password_of_the_store() -> None:
    app = Holdfast("postgresql://me:s3cr3t-word@db.example/jobs", listen_dsn="postgresql://me:s3cr3t-word@db2/jobs")
    shown = {setting.path: setting.value for setting in app.describe_settings().settings}
    assert shown["store.url"].startswith("postgresql://me:")
    assert "s3cr3t" not in str(shown)
