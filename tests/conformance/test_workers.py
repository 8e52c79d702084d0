"""Workers: a lease, what each holds, and how it leaves."""

from datetime import timedelta

from holdfast.job import JobState
from holdfast.stores.store import Store
from holdfast.stores.values import Held, WorkerProcess, WorkerRow
from holdfast.transitions import completed
from tests.support import raw
from tests.support.builders import (
    LEASE_MS,
    cancel,
    claim,
    claim_of,
    enqueue_many,
    read,
    register,
    running,
    settle,
)
from tests.support.clock import Clock

INFO = WorkerProcess(
    instance="pod-7",
    host="host 'ü'",
    pid=2**31,
    boot_id="b-1",
    pid_namespace="pid:[4026531836]",
    process_start=2**40,
    version="1.2.3",
    queues=("high", "low"),
    concurrency=10,
)


async def test_a_worker_is_entered_with_its_lease(store: Store, clock: Clock) -> None:
    worker = await store.register_worker(INFO, LEASE_MS)
    lease_until = clock.now + timedelta(milliseconds=LEASE_MS)
    assert await store.list_workers() == [WorkerRow(worker, INFO, clock.now, clock.now, lease_until, None, 0)]


async def test_what_a_worker_does_not_say_is_kept_as_nothing(store: Store) -> None:
    bare = WorkerProcess(instance="i", host="h", pid=1)
    await store.register_worker(bare, LEASE_MS)
    assert [row.info for row in await store.list_workers()] == [bare]


async def test_every_worker_has_an_id_of_its_own_for_ever(store: Store) -> None:
    first = await register(store)
    await store.retire_worker(first)
    second, third = await register(store), await register(store)
    assert len({first, second, third}) == 3


async def test_a_renewal_extends_the_leases_asked_for(store: Store, clock: Clock) -> None:
    one, two, other = [await register(store) for _ in range(3)]
    registered = clock.now
    await clock.advance(seconds=4)
    renewal = await store.renew_workers([one, two, 4_711], 20_000)
    assert (renewal.alive, renewal.held) == (frozenset({one, two}), [])
    rows = {row.id: row for row in await store.list_workers()}
    assert rows[one].lease_until == rows[two].lease_until == clock.now + timedelta(seconds=20)
    assert (rows[one].renewed_at, rows[one].registered_at) == (clock.now, registered)
    assert rows[other].lease_until == registered + timedelta(milliseconds=LEASE_MS)


async def test_a_renewal_tells_what_the_store_shows_as_held_with_the_cancel_marks(store: Store, clock: Clock) -> None:
    one, two, other = [await register(store, lease_ms=3_600_000) for _ in range(3)]
    await enqueue_many(store, 4)
    request = claim_of(one, limit=2)
    first, second = await store.claim_jobs(request)
    (third,) = await claim(store, two, limit=1)
    await claim(store, other)
    await clock.advance(milliseconds=1_500)
    await cancel(store, second.id)
    held = (await store.renew_workers([one, two], LEASE_MS)).held
    assert sorted(held, key=lambda claim: claim.id) == [
        Held(one, first.id, 1, request.batch, 1_500, cancel_requested=False),
        Held(one, second.id, 1, request.batch, 1_500, cancel_requested=True),
        Held(two, third.id, 1, third.claim_batch, 1_500, cancel_requested=False),
    ]
    await settle(store, completed(first.id, first.claim))
    held = (await store.renew_workers([one], LEASE_MS)).held
    assert [claim.id for claim in held] == [second.id]


async def test_a_renewal_notes_how_much_memory_each_has(store: Store) -> None:
    one, two, other = [await register(store) for _ in range(3)]

    async def told() -> list[int | None]:
        rows = {row.id: row.memory_bytes for row in await store.list_workers()}
        return [rows[worker] for worker in (one, two, other)]

    assert await told() == [None, None, None]
    await store.renew_workers([two, one], LEASE_MS, {one: 2**40, two: None, other: 7, 4_711: 8})
    assert await told() == [2**40, None, None], "of those that are renewed, where it is known"
    await store.renew_workers([one, two], LEASE_MS, {two: 5})
    assert await told() == [None, 5, None], "and no longer than it is known"


async def test_a_renewal_of_nobody_is_harmless(store: Store) -> None:
    renewal = await store.renew_workers([], LEASE_MS)
    assert (renewal.alive, renewal.held) == (frozenset(), [])


async def test_a_worker_shows_how_many_jobs_it_holds(store: Store) -> None:
    idle, busy = await register(store), await register(store)
    await enqueue_many(store, 3)
    await claim(store, busy)
    assert {row.id: row.running for row in await store.list_workers()} == {idle: 0, busy: 3}


async def test_a_worker_that_leaves_gives_back_uncharged_what_it_holds(store: Store) -> None:
    ids = await enqueue_many(store, 3)
    worker, other = await register(store), await register(store)
    first, second = await claim(store, worker, limit=2)
    (kept,) = await claim(store, other)
    await cancel(store, second.id)
    assert await store.retire_worker(worker) == 2
    given_back = await read(store, first.id)
    assert (given_back.state, given_back.attempt, given_back.crashes) == (JobState.QUEUED, 0, 0)
    assert given_back.position == first.position
    assert (await read(store, second.id)).state is JobState.CANCELLED
    assert await read(store, kept.id) == kept
    assert [row.id for row in await store.list_workers()] == [other]
    assert ids == [first.id, second.id, kept.id]


async def test_leaving_twice_gives_back_nothing_more(store: Store) -> None:
    job = await running(store)
    assert await store.retire_worker(job.worker or 0) == 1
    assert await store.retire_worker(job.worker or 0) == 0
    assert await store.retire_worker(4_711) == 0


async def test_a_dead_worker_is_shown_until_it_is_pruned(store: Store, clock: Clock) -> None:
    worker = await register(store)
    died = await clock.advance(milliseconds=LEASE_MS + 1)
    await store.rescue_jobs(10)
    await clock.advance(days=1)
    assert await store.prune_keys(10) == 0
    assert [(row.id, row.dead_at) for row in await store.list_workers()] == [(worker, died)]
    await clock.advance(milliseconds=1)
    assert await store.prune_keys(10) == 1
    assert await store.list_workers() == []


async def test_a_dead_worker_may_leave(store: Store, clock: Clock) -> None:
    worker = await register(store)
    await clock.advance(milliseconds=LEASE_MS + 1)
    await store.rescue_jobs(10)
    assert await store.retire_worker(worker) == 0
    assert await store.list_workers() == []


# ---- being asked to leave ------------------------------------------------------------------------------------------


async def test_an_instance_that_is_asked_to_leave_learns_of_it_with_its_renewal(store: Store, clock: Clock) -> None:
    one, two = [await store.register_worker(INFO, LEASE_MS) for _ in range(2)]
    other = await register(store)
    assert not (await store.renew_workers([one, two], LEASE_MS)).is_draining
    await store.drain_instance("pod-7", "alice")
    assert (await store.renew_workers([one], LEASE_MS)).is_draining
    assert not (await store.renew_workers([other], LEASE_MS)).is_draining
    asked = {row.id: (row.drain_at, row.drain_by) for row in await store.list_workers()}
    assert asked == {one: (clock.now, "alice"), two: (clock.now, "alice"), other: (None, None)}


async def test_the_first_who_asks_is_kept_and_a_renewed_process_forgets_nothing(store: Store, clock: Clock) -> None:
    worker = await store.register_worker(INFO, LEASE_MS)
    first = clock.now
    await store.drain_instance("pod-7", None)
    await clock.advance(seconds=3)
    await store.drain_instance("pod-7", "bob")
    await store.retire_worker(worker)
    after = await store.register_worker(INFO, LEASE_MS)
    assert (await store.renew_workers([after], LEASE_MS)).is_draining
    (row,) = await store.list_workers()
    assert (row.drain_at, row.drain_by) == (first, None)


async def test_what_was_asked_is_forgotten_a_day_after_the_instance_is_gone(store: Store, clock: Clock) -> None:
    worker = await store.register_worker(INFO, LEASE_MS)
    await store.drain_instance("pod-7", None)
    await clock.advance(hours=25)
    await store.prune_keys(100)
    assert (await store.renew_workers([worker], LEASE_MS)).is_draining, "it is still there"
    await store.retire_worker(worker)
    assert await store.prune_keys(100) == 1
    assert await raw.column(store, "SELECT count(*) FROM holdfast.drains") == [0]
