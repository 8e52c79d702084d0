"""What a worker does with receivers that refuse, fail, hang or are gone: and that no job and no shutdown suffers."""

import asyncio
import dataclasses
import logging
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from holdfast import Holdfast, JobState, Queue
from holdfast.events import EventType
from holdfast.services.webhooks import AT_ONCE, WebhooksService
from holdfast.stores.deliveries import Message
from holdfast.webhooks.hosts import AT_ONCE_EACH
from holdfast.webhooks.settings import WebhookSettings
from tests.support.clock import set_time
from tests.support.hostile_receiver import Trap, dripping, dripping_body, serving, silent
from tests.support.moments import Moments
from tests.support.wait import PATIENCE_S, until
from tests.support.webhook_receiver import (
    HERE,
    SECRET,
    Receiver,
    answer,
    delivery_of,
    make_due,
    posting,
    receiving,
    tried,
)
from tests.support.workers import BRISK, MakeApp, drained, ended, working

SHORT_GRACE_S = 0.5
ATTEMPTS = 10
DELAYS_S = (5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400)


def register(app: Holdfast) -> Any:
    """Register a task that completes."""

    @app.task
    async def work() -> int:
        return 1

    return work


async def stop_clock(app: Holdfast, at: datetime | None = None) -> datetime:
    """Let the store's clock stand."""
    now = at or datetime.now(UTC).replace(microsecond=0)
    await set_time(app.store, now)
    return now


async def told(app: Holdfast) -> list[str]:
    """The events that were written about messages."""
    kinds = (EventType.WEBHOOK_DELIVERED, EventType.WEBHOOK_FAILED)
    return [event.type.value for event in await app.store.read_events(0, [], 1_000) if event.type in kinds]


# ---- tries -----------------------------------------------------------------------------------------------------------


async def test_a_message_is_given_up_after_ten_tries_over_three_days(make_shared_app: MakeApp) -> None:
    async with posting(make_shared_app) as app, receiving(last_word=answer(500)) as receiver:
        handle = await register(app).using(webhook=receiver.url).enqueue()
        now = await stop_clock(app)
        await app.store.watch("test", 30 * 86_400_000)
        for number, delay_s in enumerate(DELAYS_S, start=1):
            await drained(app)
            delivery = await delivery_of(handle)
            assert (delivery.state, delivery.tries, len(receiver.requests)) == ("pending", number, number)
            assert delivery.next_at is not None
            assert delay_s * 0.9 <= (delivery.next_at - now).total_seconds() <= delay_s * 1.1 + 1
            assert await told(app) == []
            now = await stop_clock(app, delivery.next_at)
        await drained(app)
        await stop_clock(app, now + timedelta(days=2))
        await drained(app)
        job, delivery = await handle.get(), await delivery_of(handle)
        assert (delivery.state, delivery.tries, len(receiver.requests)) == ("failed", ATTEMPTS, ATTEMPTS)
        assert [(one.status, one.error) for one in delivery.log] == [(500, "answered 500")] * ATTEMPTS
        assert await told(app) == ["job:webhook:failed"]
        assert (job.state, job.webhook_sent) == (JobState.COMPLETED, False)
        await set_time(app.store, None)


async def test_what_was_taken_when_a_worker_leaves_is_still_posted(
    make_shared_app: MakeApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its loop is cancelled while the store hands a message out: no try is lost, and nobody waits for its lease."""
    async with posting(make_shared_app) as app, receiving() as receiver:
        handle = await register(app).using(webhook=receiver.url).enqueue()
        store: Any = app.store
        claim, taken, answered = store.claim_deliveries, asyncio.Event(), asyncio.Event()

        async def nothing(*facts: Any) -> list[Message]:
            return []

        async def slowly(*facts: Any) -> list[Message]:
            messages: list[Message] = await claim(*facts)
            taken.set()
            await answered.wait()
            return messages

        monkeypatch.setattr(store, "claim_deliveries", nothing)
        await drained(app)
        monkeypatch.setattr(store, "claim_deliveries", slowly)
        sender = WebhooksService(app.store, app.config)
        serving = asyncio.create_task(sender.serve())
        await taken.wait()
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        closing = asyncio.create_task(sender.close(PATIENCE_S))
        await asyncio.sleep(0)
        answered.set()
        await closing
        delivery = await delivery_of(handle)
        assert (delivery.state, delivery.tries, len(receiver.requests)) == ("delivered", 1, 1)


@pytest.mark.parametrize(
    "header, lowest_s, highest_s",
    [("3600", 3_600, 3_600), ("1", 4.5, 5.5), ("999999", 86_400, 86_400), ("?", 4.5, 5.5)],
)
async def test_a_receiver_may_ask_for_more_time_and_not_for_less(
    make_sqlite_memory: MakeApp, header: str, lowest_s: float, highest_s: float
) -> None:
    async with posting(make_sqlite_memory) as app, receiving([answer(503, f"retry-after: {header}")]) as receiver:
        handle = await register(app).using(webhook=receiver.url).enqueue()
        now = await stop_clock(app)
        await drained(app)
        delivery = await delivery_of(handle)
        assert delivery.next_at is not None
        assert lowest_s <= (delivery.next_at - now).total_seconds() <= highest_s
        assert (delivery.state, [one.status for one in delivery.log]) == ("pending", [503])
        await set_time(app.store, None)


@pytest.mark.parametrize("status", [301, 302, 303, 304, 307, 308])
async def test_a_redirection_is_a_failure_and_not_followed(make_sqlite_memory: MakeApp, status: int) -> None:
    async with Trap().listening() as trap:
        elsewhere = answer(status, f"location: http://127.0.0.1:{trap.port}/")
        async with posting(make_sqlite_memory) as app, receiving([elsewhere]) as receiver:
            handle = await register(app).using(webhook=receiver.url).enqueue()
            await drained(app)
            delivery = await delivery_of(handle)
        assert (delivery.state, delivery.log[0].status, trap.hits) == ("pending", status, 0)


async def test_a_place_that_is_gone_gets_nothing_until_it_is_enabled(make_shared_app: MakeApp) -> None:
    async with posting(make_shared_app) as app, receiving([answer(410)]) as receiver:
        work = register(app)
        await app.store.watch("test", 60_000)
        first = await work.using(webhook=receiver.url).enqueue()
        await drained(app)
        second = await work.using(webhook=f"{receiver.url}?other").enqueue()
        await drained(app)
        assert len(receiver.requests) == 1
        (endpoint,) = await app.webhooks.list()
        assert (endpoint.url, endpoint.reason, endpoint.pending, endpoint.failed) == (
            receiver.url,
            "it answered 410 Gone",
            1,
            1,
        )
        assert endpoint.disabled_at is not None
        assert ((await delivery_of(first)).state, (await delivery_of(second)).tries) == ("failed", 0)
        assert await told(app) == ["job:webhook:failed"]
        enabled = await app.webhooks.enable(f"{receiver.url}?token")
        assert (enabled.url, enabled.enabled) == (receiver.url, True)
        assert await app.webhooks.enable(receiver.url) == enabled
        await drained(app)
        assert (await second.get()).webhook_sent
        (endpoint,) = await app.webhooks.list()
        assert (endpoint.disabled_at, endpoint.pending, endpoint.delivered, endpoint.failed) == (None, 0, 1, 1)


async def test_a_place_is_enabled_by_the_url_that_was_registered(make_sqlite_memory: MakeApp) -> None:
    async with posting(make_sqlite_memory) as app, receiving([answer(410)]) as receiver:
        url = f"HTTP://127.0.0.1:{receiver.port}"
        await register(app).using(webhook=url).enqueue()
        await drained(app)
        assert [endpoint.enabled for endpoint in await app.webhooks.list()] == [False]
        assert (await app.webhooks.enable(url)).enabled


async def test_a_place_that_fails_again_and_again_is_left_alone_at_no_cost(make_shared_app: MakeApp) -> None:
    async with posting(make_shared_app) as app, receiving(last_word=answer(500)) as receiver:
        work = register(app)
        async with working(app):
            for handle in [await work.using(webhook=receiver.url).enqueue() for _ in range(5)]:
                await tried(handle)
            spared = await work.using(webhook=receiver.url).enqueue()
            await ended(spared)

            async def is_postponed() -> bool:
                delivery = await delivery_of(spared)
                wait_s = 0.0 if delivery.next_at is None else (delivery.next_at - delivery.at).total_seconds()
                return delivery.tries == 0 and wait_s > 40

            await until(is_postponed, "it is put off")
        delivery = await delivery_of(spared)
        assert (delivery.state, delivery.log, len(receiver.requests)) == ("pending", [], 5)
        receiver.last_word = answer(204)
        await make_due(app)
        await drained(app)  # a worker that knows nothing of earlier failures
        assert (await spared.get()).webhook_sent


# ---- receivers that hang ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("behaviour", [silent, dripping_body])
async def test_a_receiver_that_hangs_keeps_no_job_and_no_shutdown(make_shared_app: MakeApp, behaviour: Any) -> None:
    settings = dataclasses.replace(BRISK, shutdown_grace=SHORT_GRACE_S)
    async with posting(make_shared_app, worker=settings) as app, serving(behaviour) as port:
        work, stop = register(app), asyncio.Event()
        hung = [await work.using(webhook=f"http://127.0.0.1:{port}/").enqueue() for _ in range(20)]
        worker = asyncio.create_task(app.run_worker(stop=stop, concurrency=4))

        async def are_hanging() -> bool:
            return sum([(await delivery_of(handle)).tries for handle in hung if await is_posted(handle)]) == 8

        async def is_posted(handle: Any) -> bool:
            return bool((await handle.get()).webhooks)

        await until(are_hanging, "as many hang as may be posted at once")
        for handle in [await work.enqueue() for _ in range(40)]:
            assert (await ended(handle)).state is JobState.COMPLETED
        stop.set()
        async with asyncio.timeout(PATIENCE_S):
            await worker
        assert {(await delivery_of(handle)).state for handle in hung} == {"pending"}


@pytest.mark.guards("webhook-host-places")
async def test_a_host_that_hangs_under_many_paths_leaves_room_for_others(make_shared_app: MakeApp) -> None:
    """Its messages are due first, and there are more of them than may be posted at once."""
    webhooks = WebhookSettings(secret=SECRET, allow=(*HERE, "localhost"), deadline="1m")
    async with posting(make_shared_app, webhooks=webhooks) as app, serving(silent) as port, receiving() as receiver:
        work = register(app)
        hung = [await work.using(webhook=f"http://127.0.0.1:{port}/{path}").enqueue() for path in range(100)]
        async with working(app):
            for handle in hung:
                await ended(handle)
            other = await work.using(webhook=f"http://localhost:{receiver.port}/").enqueue()
            await tried(other)
            assert (await other.get()).webhook_sent

            async def are_put_off() -> bool:
                found = [await delivery_of(handle) for handle in hung]
                return sum(delivery.tries == 0 for delivery in found) >= len(hung) - AT_ONCE_EACH - AT_ONCE

            await until(are_put_off, "those without a place wait, at no cost")
        assert {(await delivery_of(handle)).state for handle in hung} == {"pending"}


async def test_a_try_that_takes_too_long_is_a_failure(make_sqlite_memory: MakeApp) -> None:
    webhooks = WebhookSettings(secret=SECRET, allow=HERE, deadline="200ms")
    async with posting(make_sqlite_memory, webhooks=webhooks) as app, serving(dripping) as port:
        handle = await register(app).using(webhook=f"http://127.0.0.1:{port}/").enqueue()
        await drained(app)
        delivery = await delivery_of(handle)
        assert [(one.status, one.error) for one in delivery.log] == [(None, "no complete answer within 0.2 s")]
        assert (delivery.state, delivery.tries) == ("pending", 1)


# ---- C: the store was closed while a webhook had still to record that it was sent ------------------------------------


@pytest.mark.usefixtures("brisk")
async def test_what_is_under_way_is_sent_and_recorded_before_the_store_is_closed(
    make_sqlite_file: MakeApp, moments: Moments
) -> None:
    app = make_sqlite_file(webhooks=WebhookSettings(secret=SECRET, allow=HERE))
    work, stop = register(app), asyncio.Event()
    async with receiving() as receiver:
        receiver.open.clear()
        async with app:
            handle = await work.using(webhook=receiver.url).enqueue()
        worker = asyncio.create_task(app.run_worker(stop=stop))  # opens the store, and closes it
        await receiver.got(1)
        stop.set()
        await moments.wait("drain_begun")
        await moments.next("renewed", times=3)  # the worker is still there
        receiver.open.set()
        await worker
    async with app:
        assert (await app.jobs.get(handle.number or 0)).webhook_sent
    assert len(receiver.requests) == 1


@pytest.mark.usefixtures("brisk")
async def test_shutdown_waits_for_a_message_that_is_being_recorded(
    make_shared_app: MakeApp, monkeypatch: pytest.MonkeyPatch, moments: Moments
) -> None:
    async with posting(make_shared_app) as app, receiving() as receiver:
        recording, go_on, stop = asyncio.Event(), asyncio.Event(), asyncio.Event()
        store: Any = app.store
        really = store.end_delivery

        async def slowly(*facts: Any) -> bool:
            recording.set()
            await go_on.wait()
            return bool(await really(*facts))

        monkeypatch.setattr(store, "end_delivery", slowly)
        handle = await register(app).using(webhook=receiver.url).enqueue()
        worker = asyncio.create_task(app.run_worker(stop=stop))
        await recording.wait()
        stop.set()
        await moments.wait("drain_begun")
        await moments.next("renewed", times=3)  # the worker is still there
        go_on.set()
        await worker
        assert (await handle.get()).webhook_sent
        assert await store.list_workers() == []


# ---- F: retention deleted the job before its webhook was recorded ----------------------------------------------------


@pytest.mark.parametrize("how", ["deleted", "retried", "expired"])
async def test_a_job_that_is_gone_meanwhile_breaks_nothing(
    make_shared_app: MakeApp, caplog: pytest.LogCaptureFixture, how: str
) -> None:
    queues = [Queue("default", retention="1h"), Queue("brief", retention="10ms")]
    async with posting(make_shared_app, queues=queues) as app, receiving() as receiver:
        receiver.open.clear()
        work = register(app)

        @app.task(queue="brief")
        async def brief() -> None: ...

        handle = await (brief if how == "expired" else work).using(webhook=receiver.url).enqueue()
        if how == "retried":
            await handle.cancel()
        async with working(app):
            await receiver.got(1)
            await meanwhile(app, handle.number or 0, how)
            receiver.open.set()
            other = await work.using(webhook=receiver.url).enqueue()
            assert (await tried(other)).webhook_sent
            count = 3 if how == "retried" else 2

            async def are_recorded() -> bool:
                return [endpoint.pending for endpoint in await app.webhooks.list()] == [0]

            await until(are_recorded, "what was posted is recorded")
        assert_posted_once_each(receiver, count)
        assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


async def meanwhile(app: Holdfast, job_id: int, how: str) -> None:
    if how == "deleted":
        await app.jobs.delete(job_id)
    elif how == "retried":
        await app.jobs.retry(job_id)
    else:

        async def is_expired() -> bool:
            await app.store.keep_history(100)
            return await app.store.get_jobs([job_id]) == []

        await until(is_expired, "its retention has ended")


def assert_posted_once_each(receiver: Receiver, count: int) -> None:
    ids = [request.id for request in receiver.requests]
    assert len(ids) == len(set(ids)) == count
