"""Searches through large arguments: a viewer who sends many of them keeps nobody else waiting for an answer."""

import asyncio
import time

import httpx2
import pytest

from holdfast import Holdfast
from tests.server.asking import asking
from tests.support.workers import MakeApp

pytestmark = pytest.mark.real_time

JOBS = "/api/v1/jobs"
LARGE, MANY = 250_000, 60
# It nearly fits at each place of the arguments.
WORST = "a" * 199 + "b"


async def attack(web: httpx2.AsyncClient) -> int:
    return (await web.get(JOBS, params={"q": WORST})).status_code


@pytest.mark.guards("search-reader")
async def test_searches_through_large_arguments_stop_nothing_else(make_shared_app: MakeApp) -> None:
    app: Holdfast = make_shared_app(deadline="10s")

    @app.task
    async def keep(text: str) -> None: ...

    async with app:
        for _ in range(MANY):
            await keep.enqueue("a" * LARGE)
        async with asking(app, "viewer") as viewer, asking(app, "operator") as operator:
            searches = [asyncio.create_task(attack(viewer)) for _ in range(8)]
            answered = 0
            while not all(search.done() for search in searches):
                async with asyncio.timeout(10):
                    health = await operator.get("/healthz")
                    job = await operator.post(JOBS, json={"kind": "keep", "args": {"text": "x"}})
                    read = await operator.get(f"{JOBS}/{job.json()['id']}")
                assert (health.status_code, job.status_code, read.status_code) == (200, 201, 200)
                answered += 1
            assert [await search for search in searches] == [200] * len(searches)
    assert answered > 1


@pytest.mark.parametrize("kind", ["sqlite_file", "sqlite_memory"])
async def test_a_search_costs_little_however_large_the_arguments_are(request: pytest.FixtureRequest, kind: str) -> None:
    make_app: MakeApp = request.getfixturevalue(f"make_{kind}")
    app: Holdfast = make_app()

    @app.task
    async def keep(text: str) -> None: ...

    async with app:
        for _ in range(MANY):
            await keep.enqueue("a" * LARGE)
        began = time.process_time()
        found = await app.jobs.search(WORST)
        took = time.process_time() - began
    assert found.jobs == []
    assert took < 1, f"{took:.1f} s of processor time"
