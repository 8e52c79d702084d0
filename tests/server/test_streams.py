"""Streams over HTTP: what comes, for whom, how many, and how they end."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from starlette.requests import Request

from holdfast import Holdfast, JobHandle, JobState
from holdfast.server import live, shield
from holdfast.server.principal import Principal
from holdfast.server.roles import Role
from holdfast.server.settings import ServerSettings
from tests.server.following import Followed, followed, made_token
from tests.support.clock import set_time
from tests.support.wait import until
from tests.support.workers import MakeApp, working

Enqueue = Callable[[str], Awaitable[JobHandle[None]]]

ALL, MINE, OTHER = "/api/v1/stream", "/api/v1/queues/mine/stream", "/api/v1/queues/other/stream"


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let pings come often."""
    monkeypatch.setattr(live, "PING_S", 0.1)


def two_queues(app: Holdfast) -> Enqueue:
    """Give the app a task in each of two queues; what is given enqueues a job in one of them."""

    @app.task(queue="mine")
    async def in_mine() -> None: ...

    @app.task(queue="other")
    async def in_other() -> None: ...

    tasks = {"mine": in_mine, "other": in_other}
    return lambda queue: tasks[queue].enqueue()


def live_of(asgi: Any) -> live.Live:
    """The inside of a server: who follows what."""
    assert isinstance(asgi, shield.Shield)
    application: Any = asgi.app
    found: live.Live = application.state.live
    return found


# ---- what comes ------------------------------------------------------------------------------------------------------


async def test_a_job_a_queue_and_everything_can_be_followed(make_app: MakeApp) -> None:
    async with make_app() as app:
        enqueue, asgi = two_queues(app), app.asgi()
        token, _ = await made_token(app)
        job = await enqueue("mine")
        async with (
            followed(asgi, f"/api/v1/jobs/{job.id}/stream", token) as of_job,
            followed(asgi, f"{MINE}?types=job:completed", token) as of_queue,
            followed(asgi, f"{ALL}?snapshot=false&queues=other&types=job:enqueued,job:completed", token) as of_all,
        ):
            for page in (of_job, of_queue):
                first = await page.take()
                assert first is not None
                assert first["event"] == "snapshot"
                assert [shown["id"] for shown in first["data"]["jobs"]] == [job.id]
            other = await enqueue("other")
            async with working(app):
                seen = [await of_job.take(), await of_job.take()]
                assert [frame and frame["event"] for frame in seen] == ["job:started", "job:completed"]
                last = await of_queue.take()
                assert last is not None
                assert (last["event"], last["data"]["id"]) == ("job:completed", job.id)
                both = [await of_all.take(), await of_all.take()]
        assert [frame and (frame["event"], frame["data"]["id"]) for frame in both] == [
            ("job:enqueued", other.id),
            ("job:completed", other.id),
        ]
        assert of_all.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert of_all.headers["cache-control"] == "no-store"
        assert of_all.headers["content-security-policy"] == shield.CSP


async def test_who_comes_back_goes_on_behind_the_last_event(memory_app: Holdfast) -> None:
    enqueue, asgi = two_queues(memory_app), memory_app.asgi()
    token, _ = await made_token(memory_app)
    async with followed(asgi, ALL, token) as page:
        await page.take()
        await enqueue("mine")
        await page.taken("job:enqueued")
    missed = await enqueue("other")
    async with followed(asgi, ALL, token, last_event_id=page.last_id or "") as again:
        frame = await again.take()
        assert frame is not None
        assert frame["data"]["id"] == missed.id
    async with followed(asgi, ALL, token, last_event_id="of-another-server-7") as again:
        assert [(await again.taken(event))["event"] for event in ("reset", "snapshot")] == ["reset", "snapshot"]


async def test_what_cannot_be_followed_is_a_problem(memory_app: Holdfast) -> None:
    asgi, (token, _) = memory_app.asgi(), await made_token(memory_app)
    for target, status in (
        (f"{ALL}?types=job:sneezed", 422),
        (f"{ALL}?queues=no%20queue", 422),
        (f"{ALL}?snapshot=perhaps", 422),
        (f"{ALL}?queues={'a,' * 2_000}", 422),
        ("/api/v1/queues/no%20queue/stream", 422),
        ("/api/v1/jobs/nonsense/stream", 422),
        ("/api/v1/jobs/htcx-2s16-z48b-09/stream", 404),
    ):
        async with followed(asgi, target, token) as page:
            await page.end()
        assert (page.status, page.headers["content-type"]) == (status, "application/problem+json"), target
        assert live_of(asgi).open == 0


# ---- for whom --------------------------------------------------------------------------------------------------------


async def test_nothing_of_a_queue_that_is_not_theirs_leaves_the_server(make_app: MakeApp) -> None:
    async with make_app() as app:
        enqueue, asgi = two_queues(app), app.asgi()
        token, _ = await made_token(app, queues=("mine",))
        nowhere, _ = await made_token(app, queues=())
        foreign, own = await enqueue("other"), await enqueue("mine")
        for target in (OTHER, f"/api/v1/jobs/{foreign.id}/stream"):
            async with followed(asgi, target, token) as page:
                await page.end()
            assert page.status == 404
        async with (
            followed(asgi, ALL, token) as mine,
            followed(asgi, f"{ALL}?queues=other", token) as asked,
            followed(asgi, f"{ALL}?queues=other", token, last_event_id="garbage") as reset,
            followed(asgi, ALL, nowhere) as none,
            followed(asgi, f"/api/v1/jobs/{own.id}/stream", token) as job,
        ):
            last = [await enqueue("other"), await enqueue("mine")][-1]
            async with working(app):
                while (await mine.taken("job:completed"))["data"]["id"] != last.id:
                    pass
                await job.taken("job:completed")
            after = await enqueue("mine")  # what was committed before it was read before it
            while (await mine.taken("job:enqueued"))["data"]["id"] != after.id:
                pass
        for page in (mine, asked, reset, none, job):
            assert page.status == 200
            assert foreign.id.encode() not in page.body
            assert b"other" not in page.body
        for page in (asked, none):
            assert page.body.count(b'event: snapshot\ndata: {"jobs":[]}') == 1
            assert b"job:" not in page.body
        assert b"in_mine" in mine.body


async def test_nobody_follows_without_a_token_or_a_login(memory_app: Holdfast) -> None:
    asgi, (token, _) = memory_app.asgi(), await made_token(memory_app)
    session, _ = await made_token(memory_app, kind="session", lasts_ms=60_000)
    for target, headers in (
        (ALL, {}),
        (f"{ALL}?token={token}&access_token={token}&authorization=Bearer%20{token}", {}),
        (ALL, {"cookie": f"holdfast_session={token}"}),
    ):
        async with followed(asgi, target, **headers) as page:
            await page.end()
        assert page.status == 401
    async with followed(asgi, ALL, cookie=f"holdfast_session={session}") as page:
        assert page.status == 200
        await page.taken("snapshot")


@pytest.mark.guards("stream-origin")
async def test_a_page_of_another_site_holds_no_place(memory_app: Holdfast) -> None:
    """It could not read it, but a hundred windows or images of it would keep the owner out."""
    asgi, (session, _) = memory_app.asgi(), await made_token(memory_app, kind="session", lasts_ms=60_000)
    for headers in (
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
        {"sec_fetch_site": "cross-site", "accept": "image/*"},
        {"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate", "accept": "text/html"},
        {"origin": "http://evil.example"},
        {"origin": "null"},
    ):
        async with followed(asgi, ALL, cookie=f"holdfast_session={session}", **headers) as page:
            await page.end()
        assert (page.status, json.loads(page.body)["type"]) == (403, "urn:holdfast:origin"), headers


async def test_pages_of_this_server_may_follow(memory_app: Holdfast) -> None:
    asgi, (session, _) = memory_app.asgi(), await made_token(memory_app, kind="session", lasts_ms=60_000)
    own = {"sec_fetch_site": "same-origin", "origin": "http://127.0.0.1"}
    async with followed(asgi, ALL, cookie=f"holdfast_session={session}", **own) as page:
        assert page.status == 200


@pytest.mark.guards("stream-revoked")
@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("is_busy", [False, True])
async def test_a_revoked_token_ends_its_stream_with_the_next_ping(memory_app: Holdfast, is_busy: bool) -> None:
    enqueue, asgi = two_queues(memory_app), memory_app.asgi()
    (token, number), (other, _) = await made_token(memory_app), await made_token(memory_app)
    async with followed(asgi, ALL, token) as page, followed(asgi, ALL, other) as stays:
        await page.taken("snapshot")

        async def talk() -> None:
            while True:
                await enqueue("mine")
                await page.taken("job:enqueued")

        talking = asyncio.create_task(talk() if is_busy else asyncio.sleep(0))
        await until(lambda: b"event: ping" in page.body, "a ping has come")
        await memory_app.store.revoke_token(number, actor="test")
        async with asyncio.timeout(5):
            await page.answering
        await asyncio.wait([talking])
        assert page.body.endswith(b"\n\n")
        assert b"\nretry: " in page.body
        await enqueue("mine")
        await stays.taken("job:enqueued")
    async with followed(asgi, ALL, token) as page:
        assert page.status == 401


@pytest.mark.usefixtures("soon")
async def test_a_token_that_expires_ends_its_stream(memory_app: Holdfast) -> None:
    asgi, (token, _) = memory_app.asgi(), await made_token(memory_app, lasts_ms=60_000)
    async with followed(asgi, ALL, token) as page:
        assert page.status == 200
        await page.taken("snapshot")
        await set_time(memory_app.store, datetime.now(UTC) + timedelta(minutes=2))
        await page.end()


@pytest.mark.usefixtures("soon")
async def test_rights_that_change_end_the_stream_so_that_it_begins_anew_with_them(memory_app: Holdfast) -> None:
    rights = [Principal("ann", Role.VIEWER, None), Principal("ann", Role.VIEWER, frozenset({"mine"}))]
    asgi = memory_app.asgi(ServerSettings(authorize=lambda _: rights[0]))
    async with followed(asgi, ALL) as page:
        await page.taken("snapshot")
        await until(lambda: page.body.count(b"event: ping") > 1, "it goes on as long as nothing changes")
        rights.pop(0)
        await page.end()


@pytest.mark.usefixtures("soon")
async def test_a_check_that_fails_ends_the_stream(memory_app: Holdfast) -> None:
    is_broken = False

    def authorize(_: Request) -> Role:
        if is_broken:
            message = "the directory of people is away"
            raise OSError(message)
        return Role.VIEWER

    asgi = memory_app.asgi(ServerSettings(authorize=authorize))
    async with followed(asgi, ALL) as page:
        await page.taken("snapshot")
        is_broken = True
        await page.end()
        assert page.retry_ms is not None


# ---- how many, and how they end --------------------------------------------------------------------------------------


@pytest.mark.guards("streams-each", "streams-all")
async def test_one_may_have_so_many_streams_and_all_so_many(memory_app: Holdfast) -> None:
    asgi = memory_app.asgi(ServerSettings(max_streams=3, max_streams_each=2))
    tokens = [(await made_token(memory_app))[0] for _ in range(3)]
    pages = [Followed(asgi, ALL, {"authorization": f"Bearer {token}"}) for token in (*tokens[:2], tokens[0])]
    for page in pages:
        assert (await page.begun()).status == 200
    for token, status in ((tokens[0], 429), (tokens[2], 503)):
        async with followed(asgi, ALL, token) as refused:
            await refused.end()
        problem = json.loads(refused.body)
        assert (refused.status, problem["type"]) == (status, "urn:holdfast:too-many-streams")
        assert "max_streams" in problem["detail"]
        assert int(refused.headers["retry-after"]) > 0
    assert live_of(asgi).open == 3
    await pages[0].leave()
    async with followed(asgi, ALL, tokens[2]) as page:
        assert page.status == 200
    for page in pages[1:]:
        await page.leave()
    assert live_of(asgi).open == 0


async def test_stopping_ends_every_stream_and_says_when_to_come_back(memory_app: Holdfast) -> None:
    asgi, (token, _) = memory_app.asgi(), await made_token(memory_app)
    async with followed(asgi, ALL, token) as one, followed(asgi, MINE, token) as two:
        await one.taken("snapshot")
        await two.taken("snapshot")
        live_of(asgi).stop()
        for page in (one, two):
            await page.end()
            assert page.retry_ms is not None
            assert 500 <= page.retry_ms <= 3_000
    async with followed(asgi, ALL, token) as page:  # a stop is no end for ever: the next server of a test begins anew
        await page.taken("snapshot")


async def test_closing_the_app_ends_every_stream(make_sqlite_memory: MakeApp) -> None:
    app = make_sqlite_memory()
    asgi = app.asgi()
    async with app:
        token, _ = await made_token(app)
        page = await Followed(asgi, ALL, {"authorization": f"Bearer {token}"}).begun()
        await page.taken("snapshot")
    await page.end()
    assert live_of(asgi).open == 0


async def test_events_of_jobs_that_ended_stay_readable(memory_app: Holdfast) -> None:
    """A job that has ended can be followed: it may be given another life."""
    enqueue, asgi = two_queues(memory_app), memory_app.asgi()
    token, _ = await made_token(memory_app)
    job = await enqueue("mine")
    await job.cancel()
    async with followed(asgi, f"/api/v1/jobs/{job.id}/stream", token) as page:
        shown = (await page.taken("snapshot"))["data"]["jobs"][0]
        assert shown["state"] == JobState.CANCELLED
        await job.retry()
        assert (await page.taken("job:enqueued"))["data"]["run"] == 2
