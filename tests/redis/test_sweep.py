"""Announcing again: what was lost is announced once more, and what honestly waits is not announced over and over."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest

from holdfast import Holdfast
from holdfast.delivery.in_store import InStore
from holdfast.delivery.redis import ByRedis
from holdfast.services import announcements
from holdfast.services.announcements import UNANNOUNCED_MS, AnnouncementsService
from holdfast.services.promotion import PromotionService
from holdfast.services.runner import ServiceRunner
from holdfast.shards import RedisDelivery, Shard
from holdfast.stores.postgres.store import PostgresStore
from holdfast.stores.sql import quoted
from tests.conftest import AnyStore
from tests.support import raw
from tests.support.builders import enqueue_many
from tests.support.moments import Moments, recorded
from tests.support.sizes import size
from tests.support.valkey import Valkey
from tests.support.wait import until

WAITING = size(5_000, 50_000)
COUNTED = 10_001  # so many jobs of a lane are counted at most
BATCH = 1_000
SWEEPS = 5
LANE = ("default", 5)

MakeDelivery = Callable[[], ByRedis]


@pytest.fixture(params=["sqlite-file", "postgres"])
def store(request: pytest.FixtureRequest) -> AnyStore:
    found: AnyStore = request.getfixturevalue(request.param.replace("-", "_"))
    return found


@pytest.fixture
def settings(valkey: Valkey) -> RedisDelivery:
    return RedisDelivery([Shard("all", valkey.url)])


@pytest.fixture
async def deliveries(settings: RedisDelivery) -> AsyncIterator[Callable[[AnyStore], ByRedis]]:
    """Give what makes deliveries of a store, which end with the test."""
    made = []

    def make(store: AnyStore) -> ByRedis:
        delivery = ByRedis(settings, InStore(store), store.mark_announced)
        made.append(delivery)
        return delivery

    yield make
    for delivery in made:
        await delivery.close()


@pytest.fixture
def by_redis(store: AnyStore, deliveries: Callable[[AnyStore], ByRedis]) -> ByRedis:
    return deliveries(store)


@pytest.fixture
def restless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let one sweep follow the other at once; the tests wait for what each has begun."""
    monkeypatch.setattr(announcements, "REST_S", 0.0)


async def age(store: AnyStore, seconds: float) -> None:
    """Let time pass in the store."""
    await store.set_time(datetime.now(UTC) + timedelta(seconds=seconds))


async def swept(by_redis: ByRedis, sweep: AnnouncementsService) -> int:
    """Sweep once, and wait until everything that it announced is pushed and marked; how many jobs that were."""
    before = by_redis.pushed
    with recorded() as moments:
        done = await sweep.run(BATCH)
        await until(lambda: by_redis.pushed == before + done.moved)
        await until(lambda: sum(len(m.facts["jobs"]) for m in moments.all if m.name == "marked") == done.moved)
    return done.moved


async def insert(store: AnyStore, count: int, **changes: Any) -> list[int]:
    return [
        job_id for _ in range(0, count, BATCH) for job_id in await enqueue_many(store, min(count, BATCH), **changes)
    ]


def pushes(valkey: Valkey) -> int:
    """How many ids were added as the server counts it: a batch of so many is one call."""
    stats: Any = valkey.ask("INFO", "commandstats")
    return int(stats.get("cmdstat_zadd", {"calls": 0})["calls"])


@pytest.mark.timeout(180)
@pytest.mark.usefixtures("restless")
async def test_what_waits_is_announced_once(
    store: AnyStore, by_redis: ByRedis, valkey: Valkey, settings: RedisDelivery
) -> None:
    await insert(store, WAITING)
    await age(store, 10)
    sweep = AnnouncementsService(store, by_redis, by_redis)
    held = min(WAITING, COUNTED)
    rounds = -(-held // BATCH)
    assert [await swept(by_redis, sweep) for _ in range(rounds)] == [BATCH] * (held // BATCH) + [1] * (held % BATCH > 0)
    assert valkey.ask("ZCARD", settings.key(*LANE)) == held
    calls = pushes(valkey)
    for number in range(2, SWEEPS + 2):
        await age(store, 10 * number)  # long enough that each of them might have been lost
        assert await swept(by_redis, sweep) == 0
    assert by_redis.pushed == held
    assert pushes(valkey) == calls


@pytest.mark.timeout(180)
@pytest.mark.usefixtures("restless")
async def test_what_was_lost_is_announced_again_after_some_seconds(
    store: AnyStore, by_redis: ByRedis, valkey: Valkey, settings: RedisDelivery
) -> None:
    await insert(store, BATCH)
    await age(store, 10)
    sweep = AnnouncementsService(store, by_redis, by_redis)
    assert await swept(by_redis, sweep) == BATCH
    valkey.ask("FLUSHALL")
    assert await swept(by_redis, sweep) == 0  # they may be on their way to a worker
    await age(store, 10 + UNANNOUNCED_MS / 1_000 + 1)
    assert await swept(by_redis, sweep) == BATCH
    assert valkey.ask("ZCARD", settings.key(*LANE)) == BATCH


@pytest.mark.guards("lost-ids")
@pytest.mark.usefixtures("restless")
async def test_ids_of_cancelled_jobs_hide_no_lost_ids(
    store: AnyStore, by_redis: ByRedis, valkey: Valkey, settings: RedisDelivery
) -> None:
    ids = await insert(store, 20)
    await age(store, 10)
    sweep = AnnouncementsService(store, by_redis, by_redis)
    assert await swept(by_redis, sweep) == 20
    cancelled, lost, waits = ids[:10], ids[10:15], ids[15:]
    await store.cancel_jobs(cancelled, actor=None, reason=None)
    valkey.ask("ZREM", settings.key(*LANE), *lost)
    await age(store, 10 + UNANNOUNCED_MS / 1_000 + 1)
    assert await swept(by_redis, sweep) == len(lost)
    lying: Any = valkey.ask("ZRANGE", settings.key(*LANE), 0, -1)
    assert {*lost, *waits} <= set(map(int, lying))
    await age(store, 10 + 2 * (UNANNOUNCED_MS / 1_000 + 1))
    assert await swept(by_redis, sweep) == 0, "no id is lost any more"


@pytest.mark.usefixtures("restless")
async def test_with_the_rights_of_earlier_releases_a_flushed_server_is_filled(
    store: AnyStore, valkey: Valkey, by_redis: ByRedis, settings: RedisDelivery
) -> None:
    valkey.ask("ACL", "SETUSER", "default", "-zscore")
    await insert(store, BATCH)
    await age(store, 10)
    sweep = AnnouncementsService(store, by_redis, by_redis)
    assert await swept(by_redis, sweep) == BATCH
    await age(store, 10 + UNANNOUNCED_MS / 1_000 + 1)
    assert await swept(by_redis, sweep) == 0, "it holds as many ids as there are jobs"
    valkey.ask("FLUSHALL")
    assert await swept(by_redis, sweep) == BATCH


async def test_a_job_that_was_just_made_ready_is_left_to_whoever_did_it(store: AnyStore, by_redis: ByRedis) -> None:
    await store.set_time(datetime.now(UTC))
    await insert(store, BATCH)
    assert await swept(by_redis, AnnouncementsService(store, by_redis, by_redis)) == 0


async def test_what_a_paused_queue_holds_is_not_announced(store: AnyStore, by_redis: ByRedis) -> None:
    await insert(store, BATCH)
    await age(store, 10)
    await store.pause_queue("default", actor=None, reason=None)
    assert await swept(by_redis, AnnouncementsService(store, by_redis, by_redis)) == 0


async def test_a_session_that_marks_waits_for_the_disk_afterwards_as_before(dsn: str, schema: str) -> None:
    store = PostgresStore(dsn, schema=schema, pool_size=1)
    await store.open()
    before = await store.fetch_sql("SHOW synchronous_commit")
    await store.mark_announced(await insert(store, 1))
    assert await store.fetch_sql("SHOW synchronous_commit") == before
    await store.close()


# ---- as a service ----------------------------------------------------------------------------------------------------


class Leads:
    """Leads always."""

    holder = "the test"
    is_leader = True

    async def serve(self) -> None:
        await asyncio.Event().wait()

    async def resign(self) -> None:
        pass


@asynccontextmanager
async def serving(store: AnyStore, by_redis: ByRedis) -> AsyncIterator[ServiceRunner]:
    """Let the services run beside the block."""
    runner = ServiceRunner(store, by_redis, Holdfast("sqlite://").config, Leads())
    async with runner.open():
        yield runner


def rounds(runner: ServiceRunner) -> int:
    return next((report.runs for report in runner.reports() if report.name == "announcements"), 0)


async def test_a_flushed_server_is_filled_without_repeating(
    store: AnyStore, by_redis: ByRedis, valkey: Valkey, settings: RedisDelivery, moments: Moments
) -> None:
    await insert(store, 3 * BATCH)
    await age(store, 10)
    async with serving(store, by_redis):
        await until(lambda: valkey.ask("ZCARD", settings.key(*LANE)) == 3 * BATCH)
        await moments.next("served", times=2, service="announcements")  # it might go on
    assert by_redis.pushed == 3 * BATCH


async def test_a_full_server_is_not_swept_in_a_loop(
    store: AnyStore, by_redis: ByRedis, valkey: Valkey, moments: Moments
) -> None:
    """What cannot be pushed is hinted at by way of the store, and hints wake the sweep."""
    valkey.ask("CONFIG", "SET", "maxmemory", 1)
    await insert(store, 100)
    await age(store, 10)
    async with serving(store, by_redis):
        await until(lambda: by_redis.push_failures >= 3)  # from now on no try is made
        await moments.next("served", service="announcements")
        began = time.monotonic()
        await moments.next("served", times=3, service="announcements")
        assert time.monotonic() - began > 1.0


# ---- in the words of the seed ----------------------------------------------------------------------------------------


@pytest.fixture
async def statuses(dsn: str, postgres: PostgresStore) -> AsyncIterator[Callable[[], Awaitable[dict[str, int]]]]:
    """Give what counts the jobs by their status, as the view of the tasks shows them."""
    await postgres.migrator.up(seed_views=True)
    views = quoted(f"{postgres.schema}_seed")
    connection = await asyncpg.connect(dsn)

    async def count() -> dict[str, int]:
        found = await connection.fetch(f"SELECT status, count(*) FROM {views}.tasks GROUP BY status")
        return {row[0]: row[1] for row in found}

    yield count
    await connection.execute(f"DROP SCHEMA {views} CASCADE")
    await connection.close()


async def test_while_redis_is_away_tasks_stay_pending_and_no_lock_is_held(
    postgres: PostgresStore,
    deliveries: Callable[[AnyStore], ByRedis],
    statuses: Callable[[], Awaitable[dict[str, int]]],
    valkey: Valkey,
) -> None:
    by_redis = deliveries(postgres)
    valkey.pause()
    ids = await insert(postgres, 100)
    await age(postgres, 10)
    async with serving(postgres, by_redis) as runner:
        by_redis.announce(await postgres.unannounced_jobs(*LANE, UNANNOUNCED_MS, 50))
        while not (by_redis.dropped and rounds(runner)):
            assert await statuses() == {"PENDING": 100}
            # Whoever locks or changes them meanwhile waits for nobody.
            await raw.execute(postgres, f"UPDATE holdfast.jobs SET priority = 5 WHERE id = {ids[0]}")
            assert await idle_in_transaction(postgres) == 0
        valkey.resume()
        await until_same(statuses, {"QUEUED": 100})
    assert by_redis.push_failures >= 1


async def idle_in_transaction(store: PostgresStore) -> int:
    """Count the sessions at this server that keep a transaction open for more than a second, and do nothing."""
    ((found,),) = await store.fetch_sql(
        "SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'"
        " AND clock_timestamp() - state_change > interval '1 second'"
    )
    return int(found)


async def until_same(ask: Callable[[], Awaitable[object]], wanted: object) -> None:
    async def is_same() -> bool:
        return await ask() == wanted

    await until(is_same, f"it is {wanted}")


async def test_two_schedulers_queue_every_task_once(
    postgres: PostgresStore,
    deliveries: Callable[[AnyStore], ByRedis],
    statuses: Callable[[], Awaitable[dict[str, int]]],
    valkey: Valkey,
    settings: RedisDelivery,
) -> None:
    ids = await insert(postgres, 2 * BATCH, delay_ms=5_000)
    assert await statuses() == {"SCHEDULED": 2 * BATCH}
    await age(postgres, 10)
    both = [deliveries(postgres), deliveries(postgres)]
    schedulers = [PromotionService(postgres, delivery) for delivery in both]
    moved = 0
    while moved < len(ids):
        moved += sum([done.moved for done in await asyncio.gather(*(each.run(100) for each in schedulers))])
    await until_same(statuses, {"QUEUED": 2 * BATCH})
    assert all(delivery.pushed for delivery in both)
    assert sum(delivery.pushed for delivery in both) == moved == len(ids)
    lying: Any = valkey.ask("ZRANGE", settings.key(*LANE), 0, -1)
    assert sorted(map(int, lying)) == sorted(ids)
