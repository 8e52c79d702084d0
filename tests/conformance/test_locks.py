"""Locks: who gets one, in which order, until when, and what the next one's token is."""

import asyncio

import pytest

from holdfast.stores.cluster import LockAnswer, LockRequest, LockRow
from holdfast.stores.store import Store
from holdfast.transitions import completed
from tests.support import raw
from tests.support.builders import claim, enqueue, register
from tests.support.clock import Clock

LASTS_MS, WAITS_MS = 30_000, 5_000


@pytest.fixture(autouse=True)
async def _without_locks(store: Store) -> None:
    for table in ("locks", "lock_waiters"):
        await raw.execute(store, f"DELETE FROM holdfast.{table}")


def asks(name: str, owner: str, context: str | None = None, **whose: int) -> LockRequest:
    return LockRequest(name, owner, context or f"context of {owner}", "here/1", **whose)


async def take(store: Store, name: str, owner: str, context: str | None = None, **whose: int) -> LockAnswer:
    return await store.take_lock(asks(name, owner, context, **whose), lasts_ms=LASTS_MS, waits_ms=WAITS_MS)


async def taken(store: Store, name: str, owner: str, context: str | None = None, **whose: int) -> int:
    answer = await take(store, name, owner, context, **whose)
    assert answer.token is not None
    return answer.token


async def waiting(store: Store, name: str, owner: str, context: str | None = None) -> int:
    answer = await take(store, name, owner, context)
    assert answer.token is None
    assert answer.ticket is not None
    assert not answer.is_cycle
    return answer.ticket


async def test_a_free_lock_is_taken_and_shown(store: Store, clock: Clock) -> None:
    answer = await take(store, "edition:42", "a")
    assert answer.token is not None
    assert answer.since == clock.now
    (row,) = await store.list_locks(10)
    until = row.until
    assert row == LockRow("edition:42", answer.token, "here/1", None, None, None, clock.now, until, 0)
    assert (until - clock.now).total_seconds() == 30


async def test_asking_again_as_the_same_owner_answers_the_same(store: Store) -> None:
    token = await taken(store, "x", "a")
    assert await taken(store, "x", "a") == token
    ticket = await waiting(store, "x", "b")
    assert await waiting(store, "x", "b") == ticket
    assert [row.waiters for row in await store.list_locks(10)] == [1]


async def test_a_holder_that_asks_again_leaves_no_ticket(store: Store) -> None:
    await taken(store, "x", "a")
    await taken(store, "x", "a")
    assert not await store.release_lock("x", "a")
    await taken(store, "x", "b")


async def test_locks_of_other_names_do_not_wait(store: Store) -> None:
    first, second = await taken(store, "x", "a"), await taken(store, "y", "b")
    assert second > first


async def test_a_release_tells_whether_others_wait(store: Store) -> None:
    await taken(store, "x", "a")
    assert not await store.release_lock("x", "a")
    await taken(store, "x", "a2")
    await waiting(store, "x", "b")
    assert await store.release_lock("x", "a2")
    await taken(store, "x", "b")
    assert not await store.release_lock("x", "b")
    assert not await store.release_lock("x", "b")
    assert await store.list_locks(10) == []


@pytest.mark.guards("released-owner")
async def test_nobody_releases_the_lock_of_another(store: Store) -> None:
    await taken(store, "x", "a")
    await store.release_lock("x", "b")
    await waiting(store, "x", "c")


@pytest.mark.guards("lock-order")
async def test_those_who_wait_are_served_in_order(store: Store) -> None:
    await taken(store, "x", "a")
    tickets = [await waiting(store, "x", owner) for owner in ("b", "c", "d")]
    assert tickets == sorted(tickets)
    await store.release_lock("x", "a")
    await waiting(store, "x", "d")
    await waiting(store, "x", "c")
    await waiting(store, "x", "newcomer")
    tokens = []
    for owner in ("b", "c", "d", "newcomer"):
        tokens.append(await taken(store, "x", owner))
        await store.release_lock("x", owner)
    assert tokens == sorted(tokens)
    assert len(set(tokens)) == 4


async def test_one_who_gave_up_or_is_not_heard_of_keeps_nobody_waiting(store: Store, clock: Clock) -> None:
    await taken(store, "x", "a")
    await waiting(store, "x", "b")
    await waiting(store, "x", "c")
    await waiting(store, "x", "d")
    await store.release_lock("x", "b")
    await clock.advance(seconds=4)
    assert await store.renew_tickets(["d", "nobody"], WAITS_MS) == {"d"}
    await clock.advance(seconds=2)
    await store.release_lock("x", "a")
    await taken(store, "x", "d")


async def test_a_lock_ends_with_its_time_and_the_next_token_is_larger(store: Store, clock: Clock) -> None:
    token = await taken(store, "x", "a")
    await clock.advance(seconds=29)
    await waiting(store, "x", "b")
    await clock.advance(seconds=1)
    assert await taken(store, "x", "b") > token
    assert await store.renew_locks(["a"], LASTS_MS) == frozenset()
    await store.release_lock("x", "a")
    await waiting(store, "x", "c")


async def test_a_renewed_lock_goes_on(store: Store, clock: Clock) -> None:
    await taken(store, "x", "a")
    await taken(store, "y", "b")
    await clock.advance(seconds=29)
    assert await store.renew_locks(["a", "b", "nobody"], LASTS_MS) == {"a", "b"}
    await clock.advance(seconds=29)
    await waiting(store, "x", "c")


async def test_a_lock_that_ended_and_that_nobody_took_can_still_be_renewed(store: Store, clock: Clock) -> None:
    await taken(store, "x", "a")
    await clock.advance(seconds=60)
    assert await store.list_locks(10) == []
    assert await store.renew_locks(["a"], LASTS_MS) == {"a"}
    await waiting(store, "x", "b")


async def test_a_dead_worker_frees_its_locks_at_once(store: Store) -> None:
    worker = await register(store)
    job_id = await enqueue(store)
    (job,) = await claim(store, worker)
    await taken(store, "x", "a", worker=worker, job_id=job_id, claim=job.claim)
    await waiting(store, "x", "b")
    await store.release_worker(worker, [])
    await taken(store, "x", "b")


@pytest.mark.guards("lock-living-worker")
async def test_a_claim_that_ended_while_its_worker_lives_keeps_its_lock(store: Store) -> None:
    worker = await register(store)
    job_id = await enqueue(store)
    (job,) = await claim(store, worker)
    await taken(store, "x", "a", worker=worker, job_id=job_id, claim=job.claim)
    await store.cancel_jobs([job_id], actor=None, reason=None)
    assert await store.force_cancels(0, 10) == (job_id,)
    await waiting(store, "x", "b")
    await store.retire_worker(worker)
    await taken(store, "x", "b")


@pytest.mark.guards("lock-running-claim")
async def test_the_lock_of_a_running_claim_is_never_free_before_its_time(store: Store) -> None:
    worker = await register(store)
    job_id = await enqueue(store)
    (job,) = await claim(store, worker)
    await raw.execute(store, f"DELETE FROM holdfast.workers WHERE id = {worker}")
    await taken(store, "x", "a", worker=worker, job_id=job_id, claim=job.claim)
    await waiting(store, "x", "b")
    await store.finish_jobs([completed(job_id, job.claim)])
    await taken(store, "x", "b")


async def test_what_the_handler_of_a_claim_held_is_freed(store: Store) -> None:
    worker = await register(store)
    await taken(store, "x", "a", worker=worker, job_id=7, claim=1)
    await taken(store, "y", "b", worker=worker, job_id=7, claim=2)
    await take(store, "y", "c", worker=worker, job_id=7, claim=1)
    assert await store.free_locks(7, 1) == 2
    assert await store.free_locks(7, 1) == 0
    assert [row.name for row in await store.list_locks(10)] == ["y"]


async def test_the_same_context_cannot_wait_for_itself(store: Store) -> None:
    await taken(store, "x", "a", "one task")
    answer = await take(store, "x", "b", "one task")
    assert answer.is_cycle


async def test_the_youngest_of_a_cycle_is_told(store: Store) -> None:
    await taken(store, "x", "a-x", "a")
    await taken(store, "y", "b-y", "b")
    await taken(store, "z", "c-z", "c")
    await waiting(store, "y", "a-y", "a")
    await waiting(store, "z", "b-z", "b")
    await waiting(store, "y", "stranger")
    assert (await take(store, "x", "c-x", "c")).is_cycle
    assert not (await take(store, "y", "a-y", "a")).is_cycle
    assert not (await take(store, "y", "stranger")).is_cycle
    await store.release_lock("x", "c-x")
    await store.release_lock("z", "c-z")
    await taken(store, "z", "b-z", "b")


async def test_the_wait_of_a_dead_one_closes_no_cycle(store: Store, clock: Clock) -> None:
    await taken(store, "x", "a-x", "a")
    await taken(store, "y", "b-y", "b")
    await waiting(store, "y", "a-y", "a")
    await clock.advance(seconds=6)
    assert not (await take(store, "x", "b-x", "b")).is_cycle


async def test_pruning_leaves_what_lives(store: Store, clock: Clock) -> None:
    await taken(store, "x", "a")
    await taken(store, "y", "b")
    await waiting(store, "x", "c")
    await waiting(store, "y", "d")
    await clock.advance(seconds=26)
    await store.renew_tickets(["d"], WAITS_MS)
    await store.renew_locks(["b"], LASTS_MS)
    await clock.advance(seconds=5)
    assert await store.prune_locks(10) == 2
    assert await store.prune_locks(10) == 0
    assert [(row.name, row.waiters) for row in await store.list_locks(10)] == [("y", 0)]
    await waiting(store, "y", "d")


async def test_many_at_once_get_different_tokens_one_after_the_other(store: Store) -> None:
    answers = await asyncio.gather(*(take(store, "x", f"owner {number}") for number in range(20)))
    (winner,) = [number for number, answer in enumerate(answers) if answer.token is not None]
    tickets = [answer.ticket for answer in answers if answer.ticket is not None]
    assert len(set(tickets)) == 19
    await store.release_lock("x", f"owner {winner}")
    again = await asyncio.gather(*(take(store, "x", f"owner {number}") for number in range(20) if number != winner))
    assert len([answer for answer in again if answer.token is not None]) <= 1


@pytest.mark.guards("broken-token")
async def test_a_lock_is_taken_from_the_holder_of_a_token_only(store: Store) -> None:
    token = await taken(store, "x", "a")
    await waiting(store, "x", "b")
    assert not await store.break_lock("x", token + 1)
    assert not await store.break_lock("y", token)
    assert await store.break_lock("x", token)
    assert not await store.break_lock("x", token), "it is gone"
    assert await store.renew_locks(["a"], LASTS_MS) == frozenset(), "its holder hears of it"
    assert await taken(store, "x", "b") > token
