"""Webhooks through an app: what a receiver gets, how it can tell that it is ours, and who may not be posted to."""

import base64
import hashlib
import hmac
from datetime import datetime
from typing import Any

import pytest
from standardwebhooks import WebhookVerificationError

from holdfast import Context, Fatal, Holdfast, InvalidValue, JobState, Queue, backoff
from holdfast.errors import ConfigError
from holdfast.webhooks.settings import WebhookSettings
from holdfast.webhooks.signature import new_secret
from tests.support.hostile_receiver import LOCAL_URLS, Trap
from tests.support.webhook_receiver import HERE, SECRET, answer, make_due, posting, receiving
from tests.support.workers import MakeApp, drained

OTHER, THIRD = new_secret(), new_secret()


def register(app: Holdfast) -> Any:
    """Register a task that ends as it is told to."""

    @app.task(queue_override=True)
    async def work(how: str = "well", size: int = 0) -> dict[str, Any]:
        if how == "badly":
            message = "no such luck"
            raise Fatal(message)
        return {"n": 1, "text": "x" * size}

    return work


# ---- the message -----------------------------------------------------------------------------------------------------


async def test_a_message_says_how_the_job_ended_and_is_signed(make_shared_app: MakeApp) -> None:
    async with posting(make_shared_app) as app, receiving() as receiver:
        work = register(app)
        handle = await work.using(webhook=f"{receiver.url}?token=t", tags={"tenant": "a"}).enqueue()
        await drained(app)
        job = await handle.get()
        (request,) = receiver.requests
        said = request.verified()
        assert (request.path, request.headers["content-type"]) == ("/in?token=t", "application/json")
        assert said.keys() == {"type", "timestamp", "data"}
        assert said["type"] == "job.completed"
        assert abs((datetime.fromisoformat(said["timestamp"]) - job.finished_at).total_seconds()) < 0.001
        assert said["data"] == {
            "id": job.id,
            "kind": job.kind,
            "queue": "default",
            "state": "completed",
            "run": 1,
            "attempt": 1,
            "tags": {"tenant": "a"},
            "error": None,
            "result": {"n": 1, "text": ""},
        }
        (delivery,) = job.webhooks
        assert (delivery.state, delivery.tries, delivery.event) == ("delivered", 1, "job:completed")
        assert [(one.status, one.error) for one in delivery.log] == [(200, None)]
        assert job.webhook_sent


async def test_the_bytes_that_are_sent_are_the_bytes_that_are_signed(make_sqlite_memory: MakeApp) -> None:
    async with posting(make_sqlite_memory) as app, receiving() as receiver:
        await register(app).using(webhook=receiver.url).enqueue()
        await drained(app)
        (request,) = receiver.requests
        head = f"{request.id}.{request.headers['webhook-timestamp']}.".encode()
        key = base64.b64decode(SECRET.removeprefix("whsec_"))
        mac = base64.b64encode(hmac.digest(key, head + request.body, hashlib.sha256)).decode()
        assert request.headers["webhook-signature"] == f"v1,{mac}"
        assert int(request.headers["content-length"]) == len(request.body)
        request.body += b" "
        with pytest.raises(WebhookVerificationError):
            request.verified()


@pytest.mark.parametrize("how", ["badly", "cancelled"])
async def test_a_message_says_why_a_job_did_not_complete(make_shared_app: MakeApp, how: str) -> None:
    async with posting(make_shared_app) as app, receiving() as receiver:
        handle = await register(app).using(webhook=receiver.url).enqueue(how)
        if how == "cancelled":
            await handle.cancel()
        await drained(app)
        said = receiver.requests[0].verified()
        job = await handle.get()
        expected = {
            "badly": ("job.failed", "failed", 1, "holdfast.outcomes.Fatal: no such luck"),
            "cancelled": ("job.cancelled", "cancelled", 0, None),
        }[how]
        data = said["data"]
        assert (said["type"], data["state"], data["attempt"], data["error"]) == expected
        assert (data["result"], data["tags"], job.webhook_sent) == (None, {}, True)


async def test_a_result_that_is_too_long_is_left_out_and_the_message_says_so(make_sqlite_memory: MakeApp) -> None:
    async with posting(make_sqlite_memory) as app, receiving() as receiver:
        await register(app).using(webhook=receiver.url).enqueue(size=20_000)
        await drained(app)
        data = receiver.requests[0].verified()["data"]
        assert (data["result_omitted"], "result" in data) == (True, False)


async def test_every_try_has_the_same_id_and_every_life_another(make_shared_app: MakeApp) -> None:
    async with posting(make_shared_app) as app, receiving([answer(500), answer(500)]) as receiver:
        handle = await register(app).using(webhook=receiver.url).enqueue("badly")
        for _ in range(3):
            await drained(app)
            await make_due(app)
        await handle.retry()
        await drained(app)
        first, again, third, second_life = (request.id for request in receiver.requests)
        assert first == again == third != second_life
        assert [request.verified()["data"]["run"] for request in receiver.requests] == [1, 1, 1, 2]
        bodies = [request.body for request in receiver.requests[:3]]
        assert bodies == bodies[:1] * 3
        assert [(one.run, one.state, one.tries) for one in (await handle.get()).webhooks] == [
            (1, "delivered", 3),
            (2, "delivered", 1),
        ]


async def test_two_jobs_have_two_ids(make_sqlite_memory: MakeApp) -> None:
    async with posting(make_sqlite_memory) as app, receiving() as receiver:
        work = register(app)
        handles = [await work.using(webhook=receiver.url).enqueue() for _ in range(12)]
        await drained(app)
        assert len({request.id for request in receiver.requests}) == len(receiver.requests) == len(handles)


async def test_retries_of_a_job_are_not_told_of(make_sqlite_memory: MakeApp) -> None:
    async with posting(make_sqlite_memory, retry=backoff("fixed", 0, jitter=0)) as app, receiving() as receiver:

        @app.task
        async def thrice(ctx: Context) -> int:
            if ctx.job.attempt < 3:
                raise RuntimeError
            return ctx.job.attempt

        await thrice.using(webhook=receiver.url).enqueue()
        await drained(app)
        (said,) = [request.verified() for request in receiver.requests]
        assert (said["data"]["attempt"], said["data"]["result"]) == (3, 3)


# ---- secrets ---------------------------------------------------------------------------------------------------------


async def test_while_one_secret_takes_the_place_of_another_both_fit(make_sqlite_memory: MakeApp) -> None:
    webhooks = WebhookSettings(secret=[SECRET, OTHER], allow=HERE)
    async with posting(make_sqlite_memory, webhooks=webhooks) as app, receiving() as receiver:
        await register(app).using(webhook=receiver.url).enqueue()
        await drained(app)
        (request,) = receiver.requests
        assert request.verified(SECRET) == request.verified(OTHER)
        with pytest.raises(WebhookVerificationError):
            request.verified(THIRD)


async def test_a_place_may_have_a_secret_of_its_own_and_a_queue_too(make_sqlite_memory: MakeApp) -> None:
    async with receiving() as receiver:
        place = f"http://127.0.0.1:{receiver.port}"
        webhooks = WebhookSettings(
            secret=SECRET, endpoints={f"{place}/own": OTHER, f"{place}/own/deep": THIRD}, allow=HERE
        )
        queue_secret = new_secret()
        queues = [Queue("plain"), Queue("secretive", webhook=f"{place}/q", webhook_secret=queue_secret)]
        async with posting(make_sqlite_memory, webhooks=webhooks, queues=queues) as app:
            work = register(app)
            expected = {
                "/own": OTHER,
                "/own/x": OTHER,
                "/own?x": OTHER,
                "/owner": SECRET,
                "/own/deep": THIRD,
                "/own/deep/x": THIRD,
                "/own/deeper": OTHER,
                "/": SECRET,
            }
            for path in expected:
                await work.using(webhook=f"{place}{path}", queue="plain").enqueue()
            await work.using(queue="secretive").enqueue()
            await work.using(queue="secretive", webhook=f"{place}/own/q").enqueue()
            await drained(app)
        for request in receiver.requests:
            request.verified((expected | {"/q": queue_secret, "/own/q": OTHER})[request.path])
        assert len(receiver.requests) == len(expected) + 2


@pytest.mark.parametrize(
    "url, fits",
    [
        ("https://a.org", True),
        ("https://a.org/x", True),
        ("https://a.org/?x", True),
        ("https://A.org/x", True),
        ("https://a.org.uk/x", False),
        ("https://a.organic/x", False),
        ("http://a.org/x", False),
        ("https://b.a.org/x", False),
    ],
)
def test_a_secret_is_for_the_host_it_names_and_no_other(url: str, *, fits: bool) -> None:
    settings = WebhookSettings(endpoints={"https://a.org": SECRET})
    if fits:
        assert settings.checked(url, ()).scheme == "https"
        return
    with pytest.raises(InvalidValue, match="there is no secret"):
        settings.checked(url, ())


@pytest.mark.parametrize("make", [{"secret": "secret"}, {"endpoints": {"https://a.org": "whsec_short"}}], ids=str)
def test_a_wrong_secret_is_refused_and_not_shown(make: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="webhook secret: expected") as refused:
        WebhookSettings(**make)
    assert "short" not in str(refused.value)
    assert SECRET not in repr(WebhookSettings(secret=SECRET))


# ---- refused where it is registered ----------------------------------------------------------------------------------


async def test_without_a_secret_nothing_is_registered(make_sqlite_memory: MakeApp) -> None:
    async with posting(make_sqlite_memory, webhooks=WebhookSettings(allow=HERE)) as app:
        work = register(app)
        with pytest.raises(InvalidValue, match="there is no secret to sign messages"):
            await work.using(webhook="https://hooks.example.org/in").enqueue()
        with pytest.raises(InvalidValue, match="there is no secret to sign messages"):
            await app.enqueue_many([work.call(), work.using(webhook="https://hooks.example.org/in").call()])
        assert (await app.jobs.list()).jobs == []
    with pytest.raises(ConfigError, match="there is no secret to sign messages"):
        make_sqlite_memory(queues=[Queue("q", webhook="https://hooks.example.org/in")])


async def test_no_local_address_is_registered(make_sqlite_memory: MakeApp) -> None:
    webhooks = WebhookSettings(secret=SECRET)
    async with posting(make_sqlite_memory, webhooks=webhooks) as app:
        work = register(app)
        for url in LOCAL_URLS:
            with pytest.raises(InvalidValue, match="webhook"):
                await work.using(webhook=url.format(port=8080)).enqueue()
            with pytest.raises(ConfigError, match="webhook"):
                make_sqlite_memory(webhooks=webhooks, queues=[Queue("q", webhook=url.format(port=8080))])
        assert (await app.jobs.list()).jobs == []


@pytest.mark.parametrize("events", [(), ("job:started",), ("job:completed", "job:started"), "job:failed"], ids=str)
def test_unknown_events_are_refused(events: Any) -> None:
    with pytest.raises(ConfigError, match="webhook_events: expected some of"):
        Queue("q", webhook="https://hooks.example.org/in", webhook_events=events)


async def test_a_queue_posts_the_events_it_chose(make_shared_app: MakeApp) -> None:
    async with receiving() as receiver:
        queues = [Queue("default", webhook=receiver.url, webhook_events=["job:failed"])]
        async with posting(make_shared_app, queues=queues) as app:
            work = register(app)
            done, dead = await work.enqueue(), await work.enqueue("badly")
            await drained(app)
            assert [request.verified()["type"] for request in receiver.requests] == ["job.failed"]
            assert ((await done.get()).webhooks, (await dead.get()).webhook_sent) == ([], True)


async def test_what_is_no_longer_allowed_is_not_posted(make_sqlite_file: MakeApp) -> None:
    async with Trap().listening() as trap:
        async with posting(make_sqlite_file) as app:
            handle = await register(app).using(webhook=f"http://127.0.0.1:{trap.port}/").enqueue()
        stricter = make_sqlite_file(webhooks=WebhookSettings(secret=SECRET))
        register(stricter)
        async with stricter:
            await drained(stricter)
            job = await stricter.jobs.get(handle.number or 0)
        (delivery,) = job.webhooks
        assert (job.state, delivery.state, trap.hits) == (JobState.COMPLETED, "pending", 0)
        assert delivery.log[0].error is not None
        assert delivery.log[0].error.startswith("webhook URL: expected")


async def test_a_secret_that_was_taken_away_is_missed_and_nothing_is_sent_unsigned(make_sqlite_file: MakeApp) -> None:
    async with receiving() as receiver:
        async with posting(make_sqlite_file) as app:
            handle = await register(app).using(webhook=receiver.url).enqueue()
        other = WebhookSettings(endpoints={"https://a.org": SECRET}, allow=HERE)
        async with make_sqlite_file(webhooks=other) as without:
            register(without)
            await drained(without)
            delivery = (await without.jobs.get(handle.number or 0)).webhooks[0]
        assert receiver.requests == []
        assert [one.error for one in delivery.log] == [
            "there is no secret any more to sign messages to this endpoint with"
        ]
