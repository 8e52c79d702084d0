"""Every page and every list answers at once beside a full history, while a worker elsewhere drains at full speed.

`make chaos` fills the stores as large as they get and asserts the figures; otherwise they are only printed. What is
asked of the store is looked at either way: nothing counts jobs without an end.
"""

import asyncio
import json
import sys
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

import asyncpg
import httpx2
import pytest

from holdfast import Holdfast
from holdfast.client.cursors import cursor_text
from holdfast.job import JobState
from holdfast.public_id import encode
from holdfast.server.settings import ServerSettings
from holdfast.stores.postgres.links import Link, Links
from holdfast.stores.postgres.store import PostgresStore
from holdfast.stores.sql import quoted
from holdfast.stores.sqlite import opening
from holdfast.stores.sqlite.store import SqliteStore
from holdfast.stores.values import Cursor
from tests.server.draining import NAME, make_app
from tests.server.filling import FIRST, GROUP, fill_postgres, fill_sqlite
from tests.server.reaching import Reached, reached
from tests.server.test_core import made_token
from tests.support.connections import show
from tests.support.sizes import CHAOS, size
from tests.support.statements import unbounded
from tests.support.wait import until

P95_MS = 200.0
SHOWN_MS = size(25, 100)
ROUNDS = size(1, 20)
FINISHED, LIVE = size(3_000, 1_000_000), size(600, 200_000)
ON_SQLITE, LIVE_ON_SQLITE = size(3_000, 200_000), size(600, 20_000)
ROOT = Path(__file__).parents[2]
FILTERS = (
    "",
    "kind:work_7",
    "kind:nothing",
    "queue:default",
    "queue:nothing",
    "state:failed",
    "state:cancelled",
    "state:queued",
    "state:running",
    "state:scheduled",
    "state:completed",
    "state:completed_with_errors",
    "state:held,blocked",
    "kind:work_10 state:failed",
    "tag:tenant=t4",
    "tag:tenant=none",
    "tag:file=f2",
    "error:E3",
    "error:app.E3@f",
    "actor:actor50",
    "actor:nobody",
    "since:1h",
    "until:1d",
    "args.n=77",
    "args.to=nobody",
    "nosuchword",
    "z48b-09",
)
TABS = ("", "kind:work_7", "queue:mail", "tag:tenant=t4", "actor:actor50", "error:E3", "since:1h")
FILES = {"export_dead_letters", "export_dead_letters_here"}  # all that fits, for whoever waits for it
CLOSED = {"login_page"}
ASKED = {
    "/jobs/bulk": ({"verb": "retry", "all": "1", "q": "state:failed"}, {"verb": "cancel", "all": "1", "q": ""}),
    "/": tuple({"within": within} for within in ("1h", "24h", "7d")),
    "/queues/{queue}": tuple({"within": within} for within in ("1h", "24h", "7d")),
    "/failures": ({}, {"within": "1h"}, {"within": "7d"}, {"kind": "work_10"}),
    "/failures/{verb}": ({"kind": "work_0", "fingerprint": "app.E0@f"},),
    "/escalations": ({}, {"show": "open"}, {"before": str(FIRST + 50)}),
    "/system/audit": ({}, {"actor": "actor3"}, {"actor": "nobody"}, {"before": "100"}),
    "/dead-letters/replay": ({"group": GROUP}, {"kind": "work_0"}),
    "/dead-letters/purge": ({"group": GROUP}, {"kind": "work_0"}),
    "/api/v1/dead-letters/preview": ({"group": GROUP}, {"kind": "work_0"}),
}


class Question(NamedTuple):
    """What is asked: a word for it, its address, and the part of the page, if it is one."""

    word: str
    address: str
    part: str | None = None


@pytest.fixture(params=["in a file", "on a server"])  # both, every time: their statements are looked at
async def place(request: pytest.FixtureRequest, dsn: str, tmp_path: Path) -> AsyncIterator[tuple[str, str]]:
    """Give the address and the schema of a full store."""
    if request.param == "in a file":
        path = tmp_path / "jobs.db"
        store = SqliteStore(str(path))
        await store.open()
        await store.close()
        await fill_sqlite(path, ON_SQLITE, LIVE_ON_SQLITE)
        yield f"sqlite:///{path}", "holdfast"
        return
    schema = f"hf_{uuid.uuid4().hex[:12]}"
    await PostgresStore(dsn, schema=schema, deadline=60).migrator.up()
    await fill_postgres(dsn, schema, FINISHED, LIVE)
    yield dsn, schema
    connection = await asyncpg.connect(dsn)
    await connection.execute(f"DROP SCHEMA {quoted(schema)} CASCADE")
    await connection.close()


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Keep every statement that this process asks of a store; not where time is measured."""
    found: set[str] = set()
    if CHAOS:
        return found
    connect, open_for_reading = Links.connect, opening.open_for_reading

    async def traced(links: Links, dsn: str, **options: Any) -> Link:
        link = await connect(links, dsn, **options)
        link.connection.add_query_logger(lambda asked: found.add(asked.query))
        return link

    def opened(path: str) -> Any:
        database = open_for_reading(path)
        database.set_trace_callback(found.add)
        return database

    monkeypatch.setattr(Links, "connect", traced)
    monkeypatch.setattr(opening, "open_for_reading", opened)
    return found


@asynccontextmanager
async def draining(place: tuple[str, str]) -> AsyncIterator[None]:
    """Work in a process of its own, which must not end before it is told to."""
    command = (sys.executable, "-m", "tests.server.draining", *place)
    process = await asyncio.create_subprocess_exec(*command, cwd=ROOT)
    try:
        yield
        assert process.returncode is None
    finally:
        if process.returncode is None:
            process.kill()  # or it would wait for the job that never ends
        await process.wait()


async def rich_jobs(app: Holdfast) -> tuple[str, str]:
    """Let jobs with phases, items and lines run elsewhere: one has ended, one never does."""
    rich = app.tasks.get("rich")
    ended, endless = [await rich.enqueue(host=str(is_endless), is_endless=is_endless) for is_endless in (False, True)]

    async def is_there() -> bool:
        job = await endless.get()
        return (await ended.get()).is_finished and job.state is JobState.RUNNING and bool(await app.locks.list())

    await until(is_there, "the jobs are as far")
    return ended.id, endless.id


async def worked_off(app: Holdfast) -> int:
    """How many jobs the worker has counted."""
    counted = await app.store.read_rollups(datetime.now(UTC) - timedelta(hours=1))
    return sum(rollup.jobs for rollup in counted if rollup.kind == "work")


def questions(asgi: Any, jobs: tuple[str, ...]) -> Iterator[Question]:
    """Ask for all that can be looked at: every route, with all that makes a difference."""
    number = str(FIRST)
    known = {"queue": NAME, "name": NAME, "kind": "work", "number": number, "operation": number, "group": GROUP}
    for route in reached(asgi):
        if route.method == "GET" and not route.is_stream and route.name not in FILES | CLOSED:
            for job in _jobs_of(route, jobs):
                address = route.address(**known, resource="jobs", verb="retry", id=job, job=job)
                for query in ASKED.get(route.path, ({},)):
                    yield Question(f"{route.path} {' '.join(query.values())}", f"{address}?{urlencode(query)}")
    deep = cursor_text(Cursor(datetime.now(UTC) - timedelta(days=9), 1 << 40))
    for address in ("/jobs", "/api/v1/jobs"):
        for text in FILTERS:
            yield Question(f"{address} {text!r}", f"{address}?{urlencode({'q': text})}")
        for text in ("", "kind:work_7", "state:failed", "actor:actor50"):
            yield Question(f"{address} {text!r} deep", f"{address}?{urlencode({'q': text, 'after': deep})}")
    for text in TABS:
        yield Question(f"tabs {text!r}", f"/jobs?{urlencode({'q': text})}", "tabs")


def _jobs_of(route: Reached, jobs: tuple[str, ...]) -> tuple[str, ...]:
    if route.path == "/dead-letters/{group}/{job}":
        return (encode(700),)  # one of the group
    return jobs if "{id}" in route.path or "{job}" in route.path else jobs[:1]


@pytest.mark.real_time
@pytest.mark.timeout(1_500)
async def test_every_page_and_list_answers_at_once_while_a_worker_drains(
    place: tuple[str, str], statements: set[str]
) -> None:
    took: dict[str, list[float]] = {}
    app = make_app(*place)
    asgi = app.asgi(ServerSettings())
    transport = httpx2.ASGITransport(app=asgi)
    async with draining(place), app, httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as web:
        token = {"authorization": f"Bearer {await made_token(app, 'admin')}"}
        asked = list(questions(asgi, await rich_jobs(app)))
        started_at, before = time.monotonic(), await worked_off(app)
        for _ in range(ROUNDS):
            for question in asked:
                part = {} if question.part is None else {"x-part": question.part}
                began = time.perf_counter()
                answer = await web.get(question.address, headers=token | part)
                took.setdefault(question.word, []).append((time.perf_counter() - began) * 1_000)
                assert answer.status_code == 200, (question, answer.text)
        rate = (await worked_off(app) - before) / (time.monotonic() - started_at)
    show(f"{rate:,.0f} jobs a second were worked off meanwhile")
    assert rate > 0
    slow = {}
    for word, times in sorted(took.items(), key=lambda item: -max(item[1])):
        p95 = sorted(times)[max(0, round(len(times) * 0.95) - 1)]
        if p95 > SHOWN_MS:
            show(f"{word}: median {sorted(times)[len(times) // 2]:.0f} ms, p95 {p95:.0f} ms")
        if p95 > P95_MS:
            slow[word] = round(p95)
    show(f"{len(took)} questions; the longest p95 are above, those below {SHOWN_MS} ms left out")
    assert not CHAOS or not slow, json.dumps(slow)
    assert CHAOS or len(statements) > 50
    assert not [sql for sql in statements if unbounded(sql)]


@pytest.mark.parametrize(
    "sql, is_unbounded",
    [
        ("SELECT count(*) FROM holdfast.jobs WHERE state = 'queued'", True),
        ('SELECT queue, count(*) FROM "hf_1".history GROUP BY queue LIMIT 10', True),
        ("SELECT (SELECT count(*) FROM holdfast_history AS job WHERE kind = 'a (b')", True),
        ("WITH found AS (SELECT id FROM holdfast_jobs) SELECT count(*) FROM found", True),
        ("WITH found AS MATERIALIZED (SELECT id FROM holdfast_jobs) SELECT count(*) FROM found", True),
        ("SELECT count(*) FROM (SELECT 1 FROM holdfast_jobs LIMIT 5)", False),
        ("WITH found (id) AS (SELECT id FROM holdfast_jobs LIMIT 5) SELECT count(*) FROM found", False),
        ("SELECT count(*) FROM holdfast.queues", False),
        ("SELECT id FROM holdfast.jobs -- count(*)", False),
    ],
)
def test_a_count_without_an_end_is_seen(sql: str, is_unbounded: bool) -> None:
    assert unbounded(sql) is is_unbounded
