"""Where a token of one queue may put jobs: into its own queue, whatever kind or queue the request names."""

from collections.abc import AsyncIterator

import pytest

from holdfast import Holdfast, Queue
from holdfast.client.definitions import read_definitions
from holdfast.client.settling import publish
from holdfast.server.settings import ServerSettings
from holdfast.stores.values import JobFilter
from tests.server.asking import asking
from tests.support.workers import MakeApp

MINE, THEIRS = "mine", "xtheirsx"


@pytest.fixture
async def shop(make_sqlite_memory: MakeApp) -> AsyncIterator[Holdfast]:
    """Make an app with kinds that may and may not leave their queue, known to workers and published by them."""
    app = make_sqlite_memory(queues=[Queue(MINE), Queue(THEIRS)])
    for kind, queue, is_free in (("own", MINE, True), ("foreign", THEIRS, True), ("bound", THEIRS, False)):

        @app.task(kind=kind, queue=queue, queue_override=is_free)
        async def work() -> None: ...

    async with app:
        await publish(app.store, app.config, read_definitions(app.config, app.tasks, []))
        yield app


OUTSIDE: list[tuple[dict[str, str], int]] = [
    ({"kind": "own", "queue": THEIRS}, 404),
    ({"kind": "own", "queue": THEIRS.upper()}, 404),
    ({"kind": "foreign"}, 422),
    ({"kind": "foreign", "queue": THEIRS}, 422),
    ({"kind": "bound"}, 422),
    ({"kind": "bound", "queue": MINE}, 422),
    ({"kind": "unheard-of", "queue": THEIRS}, 404),
    ({"kind": "unheard-of"}, 404),
]
"""What a token of the other queue must not enqueue; the last two are kinds that no worker knows: taken here."""


@pytest.mark.guards("scope-enqueue-home", "scope-enqueue-queue")
@pytest.mark.parametrize("knows_tasks", [True, False])
async def test_a_token_enqueues_into_its_own_queue_only(shop: Holdfast, *, knows_tasks: bool) -> None:
    settings = ServerSettings(allow_unknown=True)
    async with asking(shop, "operator", (MINE,), settings=settings, knows_tasks=knows_tasks) as web:
        for body, status in OUTSIDE:
            answer = await web.post("/api/v1/jobs", json=body)
            assert answer.status_code == status, (body, answer.text)
            if body.get("queue", "").lower() != THEIRS:
                assert THEIRS not in answer.text, (body, answer.text)
            (one,) = (await web.post("/api/v1/jobs/batch", json={"jobs": [body]})).json()["jobs"]
            assert one["status"] == status, (body, one)
        assert (await shop.jobs.list(JobFilter())).jobs == []
        for body in ({"kind": "own"}, {"kind": "foreign", "queue": MINE}, {"kind": "unheard-of", "queue": MINE}):
            assert (await web.post("/api/v1/jobs", json=body)).status_code == 201, body
        assert {job.queue for job in (await shop.jobs.list(JobFilter())).jobs} == {MINE}


@pytest.mark.guards("scope-keys")
async def test_a_token_learns_nothing_of_a_job_elsewhere_that_holds_a_unique_key(shop: Holdfast) -> None:
    theirs = await shop.enqueue(shop.tasks.get("foreign").using(unique="taken").call())
    words = []
    async with asking(shop, "operator", (MINE,)) as web:
        for priority in (None, 3):
            body = {"kind": "foreign", "queue": MINE, "unique": "taken", "priority": priority}
            answer = await web.post("/api/v1/jobs", json=body)
            assert (answer.status_code, answer.json()["type"]) == (409, "urn:holdfast:unique-conflict"), answer.text
            words.append(answer.json()["detail"])
            (one,) = (await web.post("/api/v1/jobs/batch", json={"jobs": [body]})).json()["jobs"]
            assert (one["status"], one["error"]["detail"]) == (409, words[0])
    assert words[0] == words[1]
    assert theirs.id not in words[0]


@pytest.mark.guards("scope-key-queue")
async def test_a_token_neither_takes_nor_meets_idempotency_keys_of_other_queues(shop: Holdfast) -> None:
    theirs = shop.tasks.get("foreign").using(key="order-17").call()
    body = {"kind": "foreign", "queue": MINE, "key": "order-17"}
    async with asking(shop, "operator", (MINE,)) as web:
        mine = await web.post("/api/v1/jobs", json=body)
        again = await web.post("/api/v1/jobs", json=body)
        assert (mine.status_code, again.status_code) == (201, 200)
        assert mine.json()["id"] == again.json()["id"]
        assert mine.json()["key"] == f"{MINE}/order-17"
        assert (await shop.enqueue(theirs)).created, "it had been taken by a token of another queue"
        conflict = await web.post("/api/v1/jobs", json=body | {"kind": "own"})
        assert (conflict.status_code, conflict.json()["type"]) == (409, "urn:holdfast:key-conflict")
        assert "key 'order-17'" in conflict.json()["detail"]
        long = await web.post("/api/v1/jobs", json=body | {"key": "k" * 512})
        assert long.status_code == 422
        assert "queue and key" in long.json()["detail"]


@pytest.mark.guards("scope-enqueue-home")
async def test_a_token_schedules_kinds_of_its_own_queue_only(shop: Holdfast) -> None:
    async with asking(shop, "operator", (MINE,)) as web:
        for kind, status in (("foreign", 422), ("bound", 422), ("own", 201)):
            asked = {"name": f"s-{kind}", "kind": kind, "cron": "0 3 * * *"}
            assert (await web.post("/api/v1/schedules", json=asked)).status_code == status, kind
            page = await web.post("/schedules", data=asked | {"name": f"p-{kind}"})
            assert page.status_code == (303 if status == 201 else 422), kind
        assert [state.name for state in await shop.client.schedules.list()] == ["p-own", "s-own"]
