"""No more jobs of a key run at once than its limit says, and whoever waits goes on as soon as one ends."""

from typing import Any

import pytest

from holdfast.job import JobRow, JobState
from holdfast.stores.limits import LimitRow
from holdfast.stores.store import Store
from holdfast.transitions import crashed, failed, interrupted, retried, snoozed
from tests.support import limits as limiting
from tests.support import raw
from tests.support.builders import (
    FAILURE,
    cancel,
    claim,
    claim_of,
    enqueue,
    enqueue_many,
    lane,
    read,
    register,
    settle,
    state_of,
)
from tests.support.clock import Clock
from tests.support.limits import TENANT, complete, of

HELD, QUEUED, RUNNING = JobState.HELD, JobState.QUEUED, JobState.RUNNING


def ids_of(jobs: list[JobRow]) -> list[int]:
    return [job.id for job in jobs]


async def test_of_each_key_no_more_run_than_the_limit_says_and_the_rest_is_held(store: Store) -> None:
    await limiting.limit(store, path=TENANT, concurrency=2)
    a = [await of(store, "a") for _ in range(4)]
    b = [await of(store, "b") for _ in range(3)]
    worker = await register(store)
    assert ids_of(await claim(store, worker)) == [*a[:2], *b[:2]]
    assert await limiting.states(store, [*a, *b]) == [RUNNING, RUNNING, HELD, HELD, RUNNING, RUNNING, HELD]
    assert await claim(store, worker) == []


async def test_one_that_ends_lets_the_first_that_waits_go_on_at_its_place(store: Store) -> None:
    await limiting.limit(store, path=TENANT, concurrency=1)
    first, second, third = [await of(store, "a") for _ in range(3)]
    worker = await register(store)
    (running,) = await claim(store, worker)
    place = (await read(store, second)).position
    await complete(store, running)
    assert await limiting.states(store, [first, second, third]) == [JobState.COMPLETED, QUEUED, HELD]
    assert (await read(store, second)).position == place
    assert ids_of(await claim(store, worker)) == [second]


async def test_the_next_goes_on_in_the_same_call_that_ends_the_last(store: Store) -> None:
    await limiting.limit(store, concurrency=1)
    first, second = [await enqueue(store) for _ in range(2)]
    worker = await register(store)
    (running,) = await claim(store, worker)
    assert running.id == first
    beyond = (running.position or 0) + 1_000  # what this worker has seen of the lane
    worked = await store.finish_jobs(
        [snoozed(running.id, running.claim, 60_000)], claim=claim_of(worker, lane(after=beyond))
    )
    assert ids_of(worked.claimed) == [second]


@pytest.mark.parametrize("how", ["retried", "snoozed", "interrupted", "crashed", "failed"])
async def test_however_a_claim_ends_its_slot_comes_back(store: Store, how: str) -> None:
    await limiting.limit(store, concurrency=1)
    await enqueue(store)
    second = await enqueue(store)
    worker = await register(store)
    (job,) = await claim(store, worker)
    key = (job.id, job.claim)
    ends = {
        "retried": retried(*key, FAILURE, 60_000),
        "snoozed": snoozed(*key, 60_000),
        "interrupted": interrupted(*key),
        "crashed": crashed(*key, FAILURE),
        "failed": failed(*key, FAILURE),
    }
    await settle(store, ends[how])
    usage = await store.limit_usage("tenants")
    assert usage is not None
    assert (usage.most, usage.taken, usage.available) == (1, 0, 1)
    (taken,) = await claim(store, worker, limit=1)
    assert taken.id == (job.id if how in {"interrupted", "crashed"} else second)


async def test_the_slots_of_a_dead_worker_come_back_with_its_jobs(store: Store, clock: Clock) -> None:
    await limiting.limit(store, concurrency=2)
    await enqueue(store)
    await enqueue(store)
    await claim(store, await register(store, lease_ms=1_000))
    await clock.advance(seconds=2)
    rescued = await store.rescue_jobs(100)
    assert len(rescued.requeued) == 2
    usage = await store.limit_usage("tenants")
    assert usage is not None
    assert usage.taken == 0


async def test_what_is_forced_to_end_keeps_its_slot_until_its_worker_tells_or_is_gone(
    store: Store, clock: Clock
) -> None:
    await limiting.limit(store, concurrency=2)
    for _ in range(4):
        await enqueue(store)
    worker = await register(store, lease_ms=60_000)
    one, other = await claim(store, worker, limit=2)
    await cancel(store, one.id)
    await cancel(store, other.id)
    await clock.advance(seconds=31)
    assert len(await store.force_cancels(30_000, 10)) == 2
    assert (await store.sweep_limits("", 100, leaks=True)).freed == 0
    assert await claim(store, worker) == []
    await store.finish_jobs([interrupted(one.id, one.claim)])  # its handler has ended, if late
    assert len(await claim(store, worker)) == 1
    await clock.advance(seconds=60)
    await store.rescue_jobs(10)
    assert (await store.sweep_limits("", 100, leaks=True)).freed == 1
    usage = await store.limit_usage("tenants")
    assert usage is not None
    assert usage.taken == 0


async def test_a_job_under_several_limits_takes_all_or_nothing(store: Store) -> None:
    limits = [
        LimitRow(name="all", queue="default", concurrency=3),
        LimitRow(name="tenants", queue="default", path=TENANT, concurrency=1),
    ]
    await store.define_limits(limits, ["default"])
    a = [await of(store, "a") for _ in range(3)]
    b = [await of(store, "b") for _ in range(2)]
    c, d = await of(store, "c"), await of(store, "d")
    worker = await register(store)
    taken = await claim(store, worker)
    assert ids_of(taken) == [a[0], b[0], c]
    usage = await store.limit_usage("all")
    assert usage is not None
    assert (usage.taken, usage.held) == (3, 1)
    assert await state_of(store, d) is HELD
    await complete(store, taken[1])
    assert ids_of(await claim(store, worker)) in ([d], [b[1]])


async def test_limits_hold_for_kinds_wherever_their_jobs_are(store: Store) -> None:
    await store.define_limits([LimitRow(name="shots", kinds=("shot",), concurrency=1)], ["default", "other"])
    one = await enqueue(store, kind="shot")
    two = await enqueue(store, kind="shot", queue="other")
    free = await enqueue(store, kind="mail", queue="other")
    taken = await claim(store, await register(store), lane(), lane("other"))
    assert ids_of(taken) == [one, free]
    assert await state_of(store, two) is HELD


async def test_a_claim_by_id_passes_the_same_gates(store: Store) -> None:
    await limiting.limit(store, concurrency=1)
    ids = [await enqueue(store) for _ in range(2)]
    request = claim_of(await register(store))
    assert ids_of(await store.claim_jobs_by_id(request, ids)) == ids[:1]
    assert await state_of(store, ids[1]) is HELD


async def test_jobs_without_the_field_share_a_key_and_long_keys_are_told_apart(store: Store) -> None:
    await limiting.limit(store, path=TENANT, concurrency=1)
    without = [await enqueue(store) for _ in range(2)]
    long = [await of(store, "x" * 5_000 + end) for end in ("1", "2", "2")]
    taken = await claim(store, await register(store))
    assert ids_of(taken) == [without[0], long[0], long[1]]


async def test_keys_may_be_numbers_tags_kinds_and_actors(store: Store) -> None:
    worker = await register(store)
    cases: list[tuple[tuple[str, ...], dict[str, Any]]] = [
        (("payload", "n"), {"payload": '{"n": 7}'}),
        (("payload", "deep", "1"), {"payload": '{"deep": [0, {"a": true}]}'}),
        (("tags", "t"), {"tags": {"t": "v"}}),
        (("actor",), {"actor": "me"}),
        (("kind",), {"kind": "mine"}),
    ]
    for path, changes in cases:
        await limiting.limit(store, path=path, concurrency=1)
        one = await enqueue(store, **changes)
        two = await enqueue(store, **changes)
        other = await enqueue(store, kind="else")
        taken = await claim(store, worker)
        assert ids_of(taken) == [one, other]
        await complete(store, *taken)
        await cancel(store, two)


async def test_a_greater_limit_lets_held_jobs_go_on_and_a_smaller_one_lets_fewer_run(store: Store) -> None:
    await limiting.limit(store, concurrency=1)
    ids = [await enqueue(store) for _ in range(4)]
    worker = await register(store)
    taken = await claim(store, worker)
    await limiting.limit(store, concurrency=3)
    await store.sweep_limits("", 100, leaks=False)
    taken += await claim(store, worker)
    assert ids_of(taken) == ids[:3]
    await limiting.limit(store, concurrency=1)
    await complete(store, taken[0])
    assert await claim(store, worker) == []
    await complete(store, *taken[1:])
    await store.sweep_limits("", 100, leaks=False)
    assert ids_of(await claim(store, worker)) == ids[3:]


async def test_without_the_limit_everything_goes_on(store: Store) -> None:
    await limiting.limit(store, concurrency=1)
    ids = [await enqueue(store) for _ in range(3)]
    worker = await register(store)
    await claim(store, worker)
    await store.define_limits([], [])
    swept = await store.sweep_limits("", 100, leaks=False)
    assert swept.released == 2
    assert ids_of(await claim(store, worker)) == ids[1:]


async def test_where_many_are_held_new_ones_are_held_at_once_and_others_are_not(store: Store) -> None:
    await limiting.limit(store, path=TENANT, concurrency=1)
    for _ in range(102):
        await of(store, "a")
    worker = await register(store)
    assert len(await claim(store, worker)) == 1
    assert await state_of(store, await of(store, "a")) is HELD
    assert await state_of(store, await of(store, "b")) is QUEUED


async def test_held_jobs_can_be_cancelled_rescheduled_and_reprioritised(store: Store) -> None:
    await limiting.limit(store, concurrency=1)
    ids = [await enqueue(store) for _ in range(4)]
    worker = await register(store)
    (running,) = await claim(store, worker)
    await cancel(store, ids[1])
    assert await state_of(store, ids[1]) is JobState.CANCELLED
    await store.reschedule_jobs([ids[2]], run_at=None, delay_ms=0)
    assert await state_of(store, ids[2]) is HELD
    await store.reprioritise_jobs([ids[3]], 1)
    assert await state_of(store, ids[3]) is HELD
    await complete(store, running)
    worked = await claim(store, worker, lane(priority=1), lane())
    assert ids_of(worked) == [ids[3]]
    await complete(store, *worked)
    assert ids_of(await claim(store, worker)) == [ids[2]]


async def test_the_usage_names_who_holds_and_counts_who_waits(store: Store) -> None:
    await limiting.limit(store, path=TENANT, concurrency=2)
    a = [await of(store, "a") for _ in range(3)]
    b = await of(store, "b")
    await claim(store, await register(store))
    usage = await store.limit_usage("tenants", "a")
    assert usage is not None
    assert (usage.most, usage.taken, usage.held, usage.available) == (2, 2, 1, 0)
    assert sorted(holder.job_id for holder in usage.holders) == a[:2]
    whole = await store.limit_usage("tenants")
    assert whole is not None
    assert (whole.most, whole.taken, whole.held, whole.available) == (4, 3, 1, 1)
    assert b in {holder.job_id for holder in whole.holders}
    assert await store.limit_usage("nothing") is None
    assert await store.limit_usages() == [whole]


async def test_the_usage_of_all_limits_is_that_of_each(store: Store) -> None:
    assert await store.limit_usages() == []
    keyed = LimitRow(name="tenants", queue="default", path=TENANT, concurrency=1)
    await store.define_limits([keyed, LimitRow(name="second", queue="other", concurrency=1)], ["default", "other"])
    for tenant in ("a", "a", "b"):
        await of(store, tenant)
    for _ in range(3):
        await enqueue(store, queue="other")
    worker = await register(store)
    await claim(store, worker)
    await claim(store, worker, lane("other"))
    found = await store.limit_usages()
    assert found == [await store.limit_usage("second"), await store.limit_usage("tenants")]
    assert [(usage.name, usage.most, usage.taken, usage.held, len(usage.holders)) for usage in found] == [
        ("second", 1, 1, 2, 1),
        ("tenants", 2, 2, 1, 2),
    ]


async def test_slots_per_instance_are_free_where_the_queue_is_worked(store: Store, clock: Clock) -> None:
    await limiting.limit(store, name="shots", concurrency=3, scope="instance")

    async def free() -> int | None:
        usage = await store.limit_usage("shots")
        assert usage is not None
        assert (await store.limit_usages()) == [usage]
        return usage.available

    assert await free() == 0
    await register(store, instance="of mail", queues=("mail",))
    assert await free() == 0
    worker = await register(store, instance="of both", queues=("mail", "default"))
    await register(store, instance="of both", queues=("mail", "default"))  # another process of it
    assert await free() == 3
    await register(store, instance="of all", queues=(), lease_ms=3_600_000)
    assert await free() == 6
    await enqueue(store)
    await claim(store, worker)
    assert await free() == 5
    await clock.advance(seconds=60)  # the lease of the one that runs it is over
    assert await free() == 3


async def test_limits_are_kept_as_defined(store: Store) -> None:
    rows = [
        LimitRow(name="a", queue="default", concurrency=3, scope="instance", metric="shots"),
        LimitRow(
            name="b",
            definition='{"x":1}',
            kinds=("k",),
            path=TENANT,
            throttle_us=20_000,
            burst=2,
            rotate=True,
            fifo=True,
        ),
    ]
    await store.define_limits(rows, ["default"])
    found = await store.list_limits()
    assert [row.name for row in found] == ["a", "b"]
    assert found[0] == rows[0]
    assert (found[1].kinds, found[1].path, found[1].throttle_us, found[1].rotate) == (("k",), TENANT, 20_000, True)


async def test_a_sweep_frees_the_slots_of_claims_that_are_no_more_and_whose_worker_is_gone(store: Store) -> None:
    await limiting.limit(store, concurrency=1)
    await enqueue(store)
    waits = await enqueue(store)
    worker = await register(store)
    await claim(store, worker)
    await raw.execute(store, "DELETE FROM holdfast.jobs WHERE state = 'running'")
    await raw.execute(store, f"DELETE FROM holdfast.workers WHERE id = {worker}")
    assert (await store.sweep_limits("", 100, leaks=True)).freed == 1
    assert ids_of(await claim(store, await register(store))) == [waits]


async def test_what_nobody_has_used_for_a_day_is_forgotten(store: Store, clock: Clock) -> None:
    await limiting.limit(store, path=TENANT, concurrency=1, throttle_us=1_000)
    await of(store, "a")
    await complete(store, *await claim(store, await register(store)))
    assert await store.prune_limits(100) == 0
    await clock.advance(days=2)
    assert await store.prune_limits(100) == 2


async def test_what_is_held_for_another_limit_hides_nobody(store: Store) -> None:
    await limiting.limit(store, path=TENANT, concurrency=1)
    await enqueue_many(store, 10_010, queue="elsewhere")  # more than one look counts
    held = "UPDATE holdfast.jobs SET state = 'held', limit_key = 'another/x' WHERE queue = 'elsewhere'"
    await raw.execute(store, held)
    for _ in range(3):
        await of(store, "a")
    await claim(store, await register(store))
    usage = await store.limit_usage("tenants")
    assert usage is not None
    assert (usage.taken, usage.held) == (1, 2)
