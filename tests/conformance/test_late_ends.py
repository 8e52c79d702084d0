"""A worker that was taken for dead, and tells of its end late, takes nothing from the one that holds the job now."""

from collections.abc import Callable

import pytest

from holdfast.job import JobState
from holdfast.stores.budgets import Reserving
from holdfast.stores.store import Store
from holdfast.stores.values import ProgressReport, Verdict
from holdfast.transitions import Transition, completed, crashed, failed, interrupted, retried
from tests.support import limits as limiting
from tests.support.budgets import budget, reserve, spend, sums
from tests.support.builders import FAILURE, claim, claim_of, claim_one, end, enqueue, register, running, state_of

LATE: dict[str, Callable[[int, int], Transition]] = {
    "complete": completed,
    "fail": lambda job, claim: failed(job, claim, FAILURE),
    "retry": lambda job, claim: retried(job, claim, FAILURE, 60_000),
    "interrupt": interrupted,
    "crash": lambda job, claim: crashed(job, claim, FAILURE),
}


async def taken(store: Store) -> int:
    """Count the slots of the limit that claims hold."""
    usage = await store.limit_usage("tenants")
    assert usage is not None
    return usage.taken


# ---- slots -----------------------------------------------------------------------------------------------------------


@pytest.mark.guards("slot-claim", "finish-fence")
@pytest.mark.parametrize("name", LATE)
async def test_the_late_end_of_an_old_claim_leaves_the_slot_with_the_new_one(store: Store, name: str) -> None:
    await limiting.limit(store, concurrency=1)
    old_worker, worker = await register(store), await register(store)
    old = await running(store, old_worker)
    await store.release_worker(old_worker, [])
    again = await claim_one(store, worker)
    assert (again.id, again.claim) == (old.id, old.claim + 1)
    next_one = await enqueue(store)

    assert (await end(store, LATE[name](old.id, old.claim))).verdict is not Verdict.DONE
    assert await taken(store) == 1
    assert await claim(store, worker) == [], "one runs, and one is what the limit says"
    assert await state_of(store, again.id) is JobState.RUNNING

    assert (await end(store, completed(again.id, again.claim))).verdict is Verdict.DONE
    assert [job.id for job in await claim(store, worker)] == [next_one]


@pytest.mark.guards("slot-claim")
async def test_a_late_end_hands_no_slot_over_to_the_claim_that_it_carries(store: Store) -> None:
    await limiting.limit(store, concurrency=1)
    old_worker, worker = await register(store), await register(store)
    old = await running(store, old_worker)
    await store.release_worker(old_worker, [])
    await claim_one(store, worker)
    await enqueue(store)
    fresh = await register(store)
    worked = await store.finish_jobs([completed(old.id, old.claim)], claim=claim_of(fresh))
    assert worked.claimed == []
    assert await taken(store) == 1


# ---- budgets ---------------------------------------------------------------------------------------------------------


def unnamed(job: int, claim: int) -> list[Transition]:
    return []


def named(job: int, claim: int) -> list[Transition]:
    return [crashed(job, claim, FAILURE)]


@pytest.mark.guards("killed-reservation")
@pytest.mark.parametrize("ends", [unnamed, named])
async def test_what_a_killed_process_had_set_aside_stays_spent_until_it_is_settled(
    store: Store, ends: Callable[[int, int], list[Transition]]
) -> None:
    await store.define_budgets([budget()])
    worker = await register(store)
    job = await running(store, worker)
    await reserve(store, job, 900)
    await spend(store, job, 50)
    assert (await store.release_worker(worker, ends(job.id, job.claim))).requeued == (job.id,)
    assert await sums(store) == (50, 0, 850)

    again = await claim_one(store, await register(store))
    assert (await reserve(store, again, 101)).outcome is Reserving.REFUSED, "50 spent, 850 maybe, of 1,000"
    (lost,) = await store.list_lost("ai", 10)
    assert (lost.job_id, lost.claim, lost.amount, lost.spent) == (job.id, job.claim, 900, 50)
    assert await store.settle_spend(job.id, job.claim)
    assert await sums(store) == (50, 0, 0)
    assert (await reserve(store, again, 101)).outcome is Reserving.GRANTED


@pytest.mark.guards("killed-reservation")
async def test_what_a_lost_claim_call_had_set_aside_stays_spent(store: Store) -> None:
    await store.define_budgets([budget()])
    worker = await register(store)
    await enqueue(store)
    (job,) = await store.claim_jobs(claim_of(worker, batch=777))
    await reserve(store, job, 900)
    assert await store.give_back_batch(worker, 777) == 1
    assert await sums(store) == (0, 0, 900)


@pytest.mark.guards("reservation-claim")
@pytest.mark.parametrize("name", LATE)
async def test_the_late_end_of_an_old_claim_frees_no_reservation(store: Store, name: str) -> None:
    await store.define_budgets([budget()])
    worker = await register(store)
    old = await running(store, worker)
    await reserve(store, old, 300)
    await store.release_worker(worker, [])
    again = await claim_one(store, await register(store))
    await reserve(store, again, 400)
    assert await sums(store) == (0, 400, 300)
    await end(store, LATE[name](old.id, old.claim))
    assert await sums(store) == (0, 400, 300)


# ---- what a late worker writes ---------------------------------------------------------------------------------------


@pytest.mark.guards("finish-fence")
@pytest.mark.parametrize("name", LATE)
async def test_a_late_end_changes_nothing_of_the_job(store: Store, name: str) -> None:
    worker = await register(store)
    old = await running(store, worker)
    await store.release_worker(worker, [])
    again = await claim_one(store, await register(store))
    finish = await end(store, LATE[name](old.id, old.claim))
    assert finish.verdict is (Verdict.ALREADY if name == "interrupt" else Verdict.LOST)
    (now,) = await store.get_jobs([old.id])
    assert (now.state, now.claim, now.worker) == (JobState.RUNNING, again.claim, again.worker)


@pytest.mark.guards("progress-fence", "watched-progress-fence", "reported-claim")
@pytest.mark.parametrize("is_watched", [False, True])
@pytest.mark.parametrize("has_reported", [False, True])
async def test_a_late_report_changes_nothing_of_the_job(store: Store, is_watched: bool, has_reported: bool) -> None:
    worker = await register(store)
    old = await running(store, worker)
    await store.release_worker(worker, [])
    again = await claim_one(store, await register(store))
    if is_watched:
        await store.watch("here", 60_000)
    if has_reported:
        assert await store.save_progress([ProgressReport(again.id, again.claim, 10.0)]) == [Verdict.DONE]
    for _ in range(2):
        assert await store.save_progress([ProgressReport(old.id, old.claim, 90.0)]) == [Verdict.LOST]
    (now,) = await store.get_jobs([old.id])
    assert (None if now.progress is None else now.progress.percent) == (10.0 if has_reported else None)
