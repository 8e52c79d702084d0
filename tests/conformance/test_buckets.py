"""Which keys of a limit are used up: by jobs that run, by a throttle, by a rate."""

from datetime import timedelta

from holdfast.stores.limits import LimitBucket, LimitRow, LimitUsage
from holdfast.stores.store import Store
from tests.support import limits as limiting
from tests.support.builders import claim, enqueue, lane, register
from tests.support.clock import Clock
from tests.support.limits import TENANT, complete, of

MINUTE_US = 60_000_000


async def usage(store: Store, key: str | None = None, name: str = "tenants") -> LimitUsage:
    """Read how much of a limit is in use."""
    found = await store.limit_usage(name, key)
    assert found is not None
    return found


async def test_a_throttle_tells_which_keys_have_no_start_left_and_when_the_next_comes(
    store: Store, clock: Clock
) -> None:
    await limiting.limit(store, path=TENANT, throttle_us=MINUTE_US, burst=3)
    for tenant in "aaaabb":
        await of(store, tenant)
    await of(store, "idle", run_at=clock.now + timedelta(days=1))
    await claim(store, await register(store))
    minute = timedelta(minutes=1)
    a = LimitBucket("a", "starts", most=3, left=0, next_at=clock.now + minute)
    b = LimitBucket("b", "starts", most=3, left=1, next_at=clock.now + minute)
    assert (await usage(store)).buckets == (a, b), "the fullest first, and nobody who has used nothing"
    found = await usage(store, "b")
    assert (found.buckets, found.has_more_buckets) == ((b,), False)
    assert found.next_at is not None
    assert found.next_at <= clock.now, "another start can be had at once"
    assert (await usage(store, "a")).next_at == clock.now + minute
    await clock.advance(seconds=90)
    half = timedelta(seconds=30)
    a = LimitBucket("a", "starts", most=3, left=1, next_at=clock.now + half)
    b = LimitBucket("b", "starts", most=3, left=2, next_at=clock.now + half)
    assert (await usage(store)).buckets == (a, b)
    await clock.advance(minutes=5)
    assert (await usage(store)).buckets == ()


async def test_a_rate_tells_which_keys_may_enqueue_no_more(store: Store, clock: Clock) -> None:
    row = LimitRow(name="calls", kinds=("work",), path=TENANT, rate_us=MINUTE_US, rate_burst=2)
    await store.define_limits([row], ())
    await store.define_queue_policies({}, ("default",))
    for tenant in "aab":
        await of(store, tenant)
    minute = timedelta(minutes=1)
    assert (await usage(store, name="calls")).buckets == (
        LimitBucket("a", "enqueues", most=2, left=0, next_at=clock.now + minute),
        LimitBucket("b", "enqueues", most=2, left=1, next_at=clock.now + minute),
    )


async def test_slots_come_back_when_jobs_end(store: Store) -> None:
    await limiting.limit(store, path=TENANT, concurrency=2)
    for tenant in "abb":
        await of(store, tenant)
    jobs = await claim(store, await register(store))
    a, b = LimitBucket("a", "slots", most=2, left=1), LimitBucket("b", "slots", most=2, left=0)
    assert (await usage(store)).buckets == (b, a)
    assert (await usage(store, "a")).buckets == (a,)
    await complete(store, *jobs)
    assert (await usage(store)).buckets == ()


async def test_a_limit_without_a_key_has_one_bucket_of_permits(store: Store, clock: Clock) -> None:
    await limiting.limit(store, throttle_us=MINUTE_US, concurrency=5)
    await enqueue(store)
    await claim(store, await register(store))
    bucket = LimitBucket("", "starts", most=1, left=0, next_at=clock.now + timedelta(minutes=1))
    assert (await usage(store)).buckets == (bucket,)


async def test_limits_do_not_show_the_keys_of_others(store: Store) -> None:
    rows = [LimitRow(name=name, queue=name, path=TENANT, throttle_us=MINUTE_US) for name in ("default", "other")]
    await store.define_limits(rows, ["default", "other"])
    for tenant, queue in (("a", "default"), ("b", "other")):
        await of(store, tenant, queue=queue)
    await claim(store, await register(store), lane("default"), lane("other"))
    assert [[bucket.key for bucket in found.buckets] for found in await store.limit_usages()] == [["a"], ["b"]]
    assert [bucket.key for bucket in (await usage(store, name="other")).buckets] == ["b"]
    assert (await usage(store, "a", "other")).buckets == ()


async def test_the_fifty_fullest_are_told_and_that_there_are_more(store: Store) -> None:
    await limiting.limit(store, path=TENANT, throttle_us=MINUTE_US, burst=3)
    worker = await register(store)
    keys = [f"key {n:02}" for n in range(50)]
    for key in keys:
        await of(store, key)
    await claim(store, worker)
    found = await usage(store)
    assert ([bucket.key for bucket in found.buckets], found.has_more_buckets) == (keys, False)
    for _ in range(2):
        await of(store, "the last")
    await claim(store, worker)
    found = await usage(store)
    assert ([bucket.key for bucket in found.buckets], found.has_more_buckets) == (["the last", *keys[:-1]], True)
    assert await store.limit_usages() == [found]
