"""Taking messages from the outbox: each is one taker's until its lease ends, and its end is told once."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from holdfast.events import EventRow, EventType
from holdfast.job import DeliveryRow, JobState
from holdfast.stores.deliveries import EndpointRow, Message
from holdfast.stores.store import Store
from tests.conformance.test_deliveries import ENTRY, LEASE, OTHER_URL, OWN, URL, heard, posting, take, take_one
from tests.support import raw
from tests.support.builders import finished, keeping, read
from tests.support.clock import Clock
from tests.support.outbox import forget

PLACE = URL.partition("?")[0]
DAY_MS = 86_400_000


@pytest.fixture(autouse=True)
async def alone(store: Store) -> AsyncIterator[None]:
    """Leave no message to this test, and none to the next."""
    await forget(store)
    yield
    await forget(store)


async def message_of(store: Store) -> Message:
    """Let a job end, and take the message about it."""
    await finished(store, JobState.COMPLETED, **OWN)
    return await take_one(store)


async def delivery_of(store: Store, message: Message) -> DeliveryRow:
    (delivery,) = (await read(store, message.job_id)).deliveries
    return delivery


async def watched(store: Store) -> None:
    await store.watch("test", 30_000)


def facts(event: EventRow) -> tuple[str, int, str, str, JobState | None, int, object]:
    return event.type, event.job_id, event.kind, event.queue, event.state, event.run, event.data


# ---- one taker -------------------------------------------------------------------------------------------------------


@pytest.mark.guards("delivery-lease")
async def test_what_is_taken_is_nobody_elses_until_its_lease_ends(store: Store, clock: Clock) -> None:
    first = await message_of(store)
    assert (first.tries, await take(store), await store.next_delivery_ms()) == (1, [], LEASE)
    await clock.advance(milliseconds=LEASE - 1)
    assert await take(store) == []
    await clock.advance(milliseconds=1)
    again = await take_one(store)
    assert (again.id, again.job_id, again.tries) == (first.id, first.job_id, 2)


async def test_the_message_that_is_due_first_is_taken_first_and_no_more_than_asked(store: Store, clock: Clock) -> None:
    ids = []
    for _ in range(5):
        ids.append((await finished(store, JobState.COMPLETED, **OWN)).id)
        await clock.advance(seconds=1)
    taken = [await take(store, 2) for _ in range(4)]
    assert [sorted(message.job_id for message in some) for some in taken] == [ids[:2], ids[2:4], ids[4:], []]


async def test_many_takers_at_once_share_what_is_due(store: Store) -> None:
    ids = [(await finished(store, JobState.COMPLETED, **OWN)).id for _ in range(12)]
    shares = await asyncio.gather(*(take(store, 5) for _ in range(4)))
    rest = await take(store)
    assert sorted(message.job_id for share in (*shares, rest) for message in share) == ids


@pytest.mark.parametrize("state", ["delivered", "failed"])
async def test_the_end_of_a_message_is_written_once_and_told_once(store: Store, clock: Clock, state: str) -> None:
    message = await message_of(store)
    await watched(store)
    await clock.advance(seconds=3)
    assert await store.end_delivery(message, state, 0, ENTRY)
    assert not await store.end_delivery(message, state, 0, ENTRY)
    assert not await store.end_delivery(message, "pending", 0, ENTRY)
    delivery = await delivery_of(store, message)
    assert (delivery.state, delivery.tries, delivery.ended_at) == (state, 1, clock.now)
    assert [(one.status, one.error, one.took_ms) for one in delivery.log] == [(500, "answered 500", 7)]
    assert (await read(store, message.job_id)).webhook_sent is (state == "delivered")
    kind = {"delivered": EventType.WEBHOOK_DELIVERED, "failed": EventType.WEBHOOK_FAILED}[state]
    told = (kind, message.job_id, "work", "default", JobState.COMPLETED, 1, {"url": PLACE, "tries": 1})
    assert [facts(event) for event in await heard(store)] == [told]
    await clock.advance(days=1)
    assert (await take(store), await store.next_delivery_ms()) == ([], None)


async def test_without_a_watch_nothing_is_told(store: Store) -> None:
    await store.end_delivery(await message_of(store), "delivered", 0, ENTRY)
    assert await heard(store) == []


async def test_a_try_that_failed_is_followed_by_another_after_its_delay(store: Store, clock: Clock) -> None:
    message = await message_of(store)
    await watched(store)
    assert await store.end_delivery(message, "pending", 5_000, ENTRY)
    delivery = await delivery_of(store, message)
    assert (delivery.state, delivery.next_at, delivery.ended_at) == ("pending", clock.now + timedelta(seconds=5), None)
    assert (await take(store), await store.next_delivery_ms(), await heard(store)) == ([], 5_000, [])
    await clock.advance(seconds=5)
    second = await take_one(store)
    assert second.tries == 2
    await store.end_delivery(second, "delivered", 0, '{"at": "2026-01-02T03:04:05Z", "status": 200, "took_ms": 1}')
    assert [one.status for one in (await delivery_of(store, message)).log] == [500, 200]


@pytest.mark.guards("delivery-try")
@pytest.mark.parametrize("state", ["delivered", "failed", "pending"])
async def test_who_comes_back_after_its_lease_changes_nothing(store: Store, clock: Clock, state: str) -> None:
    late = await message_of(store)
    await watched(store)
    await clock.advance(milliseconds=LEASE)
    now = await take_one(store)
    assert not await store.end_delivery(late, state, 1, ENTRY)
    await store.postpone_delivery(late, 1)
    delivery = await delivery_of(store, now)
    assert (delivery.state, delivery.tries, delivery.log, await heard(store)) == ("pending", 2, [], [])
    assert delivery.next_at == clock.now + timedelta(milliseconds=LEASE)
    assert await store.end_delivery(now, "delivered", 0, ENTRY)


async def test_what_was_not_tried_after_all_costs_no_try(store: Store, clock: Clock) -> None:
    message = await message_of(store)
    await store.postpone_delivery(message, 60_000)
    delivery = await delivery_of(store, message)
    assert (delivery.tries, delivery.next_at, delivery.log) == (0, clock.now + timedelta(minutes=1), [])
    await clock.advance(minutes=1)
    again = await take_one(store)
    assert (again.id, again.tries) == (message.id, 1)


async def test_an_ended_message_cannot_be_postponed(store: Store) -> None:
    message = await message_of(store)
    await store.end_delivery(message, "delivered", 0, ENTRY)
    await store.postpone_delivery(message, 0)
    assert ((await delivery_of(store, message)).state, await take(store)) == ("delivered", [])


# ---- places ----------------------------------------------------------------------------------------------------------


async def test_a_disabled_place_gets_nothing_until_it_is_enabled(store: Store) -> None:
    await store.define_queues({"other": posting(OTHER_URL)})
    job = await finished(store, JobState.COMPLETED, **OWN)
    await store.disable_endpoint(PLACE, "it answered 410 Gone")
    assert await take(store) == []
    assert not await store.enable_endpoint(OTHER_URL)
    assert await store.enable_endpoint(PLACE)
    assert not await store.enable_endpoint(PLACE)
    assert (await take_one(store)).job_id == job.id


async def test_a_disabled_place_keeps_no_other_waiting(store: Store, clock: Clock) -> None:
    await store.disable_endpoint(PLACE, "gone")
    for _ in range(3):
        await finished(store, JobState.COMPLETED, **OWN)
    await clock.advance(seconds=1)
    await store.define_queues({"default": posting(OTHER_URL)})
    job = await finished(store, JobState.COMPLETED)
    assert [message.job_id for message in await take(store, 1)] == [job.id]


async def test_what_was_taken_before_its_place_was_disabled_ends_all_the_same(store: Store) -> None:
    message = await message_of(store)
    await store.disable_endpoint(PLACE, "gone")
    assert await store.end_delivery(message, "failed", 0, ENTRY)
    assert (await delivery_of(store, message)).state == "failed"


async def test_places_are_listed_with_what_became_of_their_messages(store: Store, clock: Clock) -> None:
    assert await store.list_endpoints() == []
    for state in ("delivered", "delivered", "failed", "pending"):
        await store.end_delivery(await message_of(store), state, 0, ENTRY)
    await store.define_queues({"default": posting(OTHER_URL)})
    await finished(store, JobState.COMPLETED)
    await store.disable_endpoint("https://gone.example.org/", "it answered 410 Gone")
    await store.disable_endpoint(PLACE, "by hand")
    assert await store.list_endpoints() == [
        EndpointRow("https://gone.example.org/", clock.now, "it answered 410 Gone", 0, 0, 0),
        EndpointRow(PLACE, clock.now, "by hand", 1, 2, 1),
        EndpointRow(OTHER_URL, None, None, 1, 0, 0),
    ]


# ---- forgetting ------------------------------------------------------------------------------------------------------


async def test_messages_go_with_their_jobs_and_pending_ones_four_days_later(store: Store, clock: Clock) -> None:
    day = keeping(DAY_MS, DAY_MS, DAY_MS, DAY_MS)
    await store.define_queues({"default": posting(terms=day)})
    for state in ("delivered", "failed"):
        await finished(store, JobState.COMPLETED)
        await store.end_delivery(await take_one(store), state, 0, ENTRY)
    waiting = await finished(store, JobState.COMPLETED)
    await clock.advance(days=1, milliseconds=-1)
    assert await store.prune_deliveries(100) == 0
    await clock.advance(milliseconds=1)
    assert [await store.prune_deliveries(1) for _ in range(3)] == [1, 1, 0]
    await clock.advance(days=4, milliseconds=-1)
    assert await store.prune_deliveries(100) == 0
    assert (await take_one(store)).job_id == waiting.id
    await clock.advance(milliseconds=1)
    assert await store.prune_deliveries(100) == 1
    assert await store.list_endpoints() == []


async def test_the_message_of_a_job_kept_for_ever_stays(store: Store, clock: Clock) -> None:
    await store.define_queues({"default": posting(terms=keeping(None, None, None, None))})
    await store.end_delivery(await message_of(store), "delivered", 0, ENTRY)
    await clock.advance(days=36_500)
    assert await store.prune_deliveries(100) == 0


async def test_the_log_of_a_message_is_read_with_its_job_only(store: Store) -> None:
    one, other = await message_of(store), await message_of(store)
    await store.end_delivery(one, "delivered", 0, ENTRY)
    assert ((await delivery_of(store, other)).log, len((await delivery_of(store, one)).log)) == ([], 1)
    await raw.execute(store, "DELETE FROM holdfast.deliveries")
    assert (await read(store, one.job_id)).deliveries == []
