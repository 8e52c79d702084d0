"""Dead letters: every job that ends failed is counted once, in the group of its kind and error."""

from datetime import timedelta
from typing import Any

import pytest

from holdfast.failure import Failure
from holdfast.job import JobRow, JobState
from holdfast.stores.failures import DeadFilter, DeadLetterRow, group_id
from holdfast.stores.postgres.store import PostgresStore
from holdfast.stores.sqlite.store import SqliteStore
from holdfast.stores.store import Store
from holdfast.stores.values import Insertion, QueueTerms, Started
from holdfast.transitions import completed, failed, interrupted, retried
from tests.support.builders import (
    FAILURE,
    claim,
    claim_one,
    crash,
    end,
    enqueue_many,
    keeping,
    lane,
    new_jobs,
    read,
    register,
    retry,
    running,
)
from tests.support.clock import Clock
from tests.support.sizes import size

LEFT, EMPTY = DeadFilter(), DeadFilter(empty=True)
OTHER = Failure("OtherError", "something else", None, "OtherError@/app/tasks.py:send")


async def groups(store: Store, which: DeadFilter = LEFT) -> list[DeadLetterRow]:
    """Read all groups."""
    return (await store.list_dead_letters(which, limit=100)).groups


async def group(store: Store, which: DeadFilter = LEFT) -> DeadLetterRow:
    """Read the only group."""
    (found,) = await groups(store, which)
    return found


async def fail(store: Store, failure: Failure = FAILURE, **changes: Any) -> JobRow:
    """Let a job fail."""
    job = await running(store, **changes)
    await end(store, failed(job.id, job.claim, failure))
    return await read(store, job.id)


async def count(store: Store, table: str) -> int:
    """Count the rows of a table."""
    sizes = {found.name: found.rows for found in await store.measure_tables()}
    return sizes[table]


@pytest.mark.parametrize("is_folded", [False, True])
async def test_jobs_that_failed_alike_are_one_group(store: Store, clock: Clock, is_folded: bool) -> None:
    first_at = clock.now
    await fail(store)
    await clock.advance(minutes=5)
    last = await fail(store, Failure("SomeError", "it went wrong again", None, FAILURE.fingerprint))
    await clock.advance(minutes=5)
    other = await fail(store, OTHER)
    if is_folded:
        assert await store.fold_failures(100) == 3
    assert await groups(store) == [
        DeadLetterRow(
            id=group_id("work", OTHER.fingerprint),
            kind="work",
            fingerprint=OTHER.fingerprint,
            queue="default",
            error_class="OtherError",
            error="something else",
            seen=1,
            first_at=clock.now,
            last_at=clock.now,
            last_job=other.id,
            left=1,
        ),
        DeadLetterRow(
            id=group_id("work", FAILURE.fingerprint),
            kind="work",
            fingerprint=FAILURE.fingerprint,
            queue="default",
            error_class="SomeError",
            error="it went wrong again",
            seen=2,
            first_at=first_at,
            last_at=first_at + timedelta(minutes=5),
            last_job=last.id,
            left=2,
        ),
    ]


async def test_what_is_folded_later_is_added(store: Store, clock: Clock) -> None:
    first_at = clock.now
    jobs = []
    for _ in range(3):
        jobs.append(await fail(store))
        await store.fold_failures(100)
        await clock.advance(minutes=1)
    found = await group(store)
    assert (found.seen, found.left, found.last_job) == (3, 3, jobs[-1].id)
    assert (found.first_at, found.last_at) == (first_at, first_at + timedelta(minutes=2))
    assert await store.fold_failures(100) == 0
    assert await count(store, "failures") == 0


async def test_a_late_failure_does_not_look_like_the_last_one(store: Store, clock: Clock) -> None:
    job = await fail(store)
    await store.fold_failures(100)
    await clock.advance(minutes=-5)
    await fail(store, Failure("SomeError", "earlier", None, FAILURE.fingerprint))
    await store.fold_failures(100)
    found = await group(store)
    assert (found.seen, found.error, found.last_job) == (2, FAILURE.message, job.id)
    assert found.last_at - found.first_at == timedelta(minutes=5)


async def test_a_fold_takes_no_more_than_it_is_told(store: Store) -> None:
    worker = await register(store)
    await enqueue_many(store, 5)
    taken = await claim(store, worker)
    await store.finish_jobs([failed(job.id, job.claim, FAILURE) for job in taken])
    assert [await store.fold_failures(2) for _ in range(4)] == [2, 2, 1, 0]
    assert (await group(store)).seen == 5


async def test_only_what_ends_failed_is_a_dead_letter(store: Store) -> None:
    done = await running(store)
    await end(store, completed(done.id, done.claim))
    again = await running(store)
    await end(store, retried(again.id, again.claim, FAILURE, 0))
    assert await groups(store, EMPTY) == []


async def test_a_crash_too_many_is_a_dead_letter(store: Store) -> None:
    job = await running(store, max_crashes=1)
    await crash(store, job)
    found = await group(store)
    assert (found.last_job, found.seen) == (job.id, 1)
    assert (await read(store, job.id)).error_fingerprint == found.fingerprint


async def test_a_lost_worker_is_a_dead_letter(store: Store, clock: Clock) -> None:
    worker = await register(store)
    await running(store, worker, extra='{"on_restart": "fail"}')
    await clock.advance(minutes=5)
    assert len((await store.rescue_jobs(10)).failed) == 1
    found = await group(store)
    assert (found.error_class, found.fingerprint) == ("WorkerLost", "WorkerLost:its worker's lease ended")


async def test_a_job_that_may_not_begin_again_is_a_dead_letter(store: Store) -> None:
    job = await running(store, extra='{"on_restart": "fail"}')
    await store.start_jobs([Started(job.id, job.claim, 0)])
    await end(store, interrupted(job.id, job.claim))
    found = await group(store)
    assert (found.error_class, found.left) == ("Interrupted", 1)
    assert found.fingerprint == "Interrupted:its worker left before it had ended"


async def test_the_same_write_sent_again_is_counted_once(store: Store) -> None:
    job = await running(store)
    for _ in range(2):
        await end(store, failed(job.id, job.claim, FAILURE))
    assert (await group(store)).seen == 1


async def test_each_life_that_fails_is_counted(store: Store) -> None:
    job = await fail(store)
    await retry(store, job.id)
    assert (await group(store, EMPTY)).left == 0
    assert await groups(store) == []
    again = await claim_one(store)
    await end(store, failed(again.id, again.claim, FAILURE))
    found = await group(store)
    assert (found.seen, found.left) == (2, 1)


async def test_kinds_are_groups_of_their_own(store: Store) -> None:
    await fail(store)
    await fail(store, kind="other")
    assert {found.kind: found.seen for found in await groups(store)} == {"work": 1, "other": 1}


async def test_conditions(store: Store, clock: Clock) -> None:
    worker = await register(store)
    (job,) = await new_jobs(store, 1, queue="bulk")
    await store.insert_jobs([job])
    (taken,) = await claim(store, worker, lane("bulk"))
    await end(store, failed(taken.id, taken.claim, OTHER))
    later = await clock.advance(hours=1)
    await fail(store, kind="late")

    async def kinds(**conditions: Any) -> list[str]:
        return [found.kind for found in await groups(store, DeadFilter(**conditions))]

    assert await kinds() == ["late", "work"]
    assert await kinds(queues=("bulk",)) == ["work"]
    assert await kinds(kinds=("late",)) == ["late"]
    assert await kinds(error_class="OtherError") == ["work"]
    assert await kinds(since=later) == ["late"]
    assert await kinds(ids=(group_id("work", OTHER.fingerprint),)) == ["work"]
    assert await kinds(ids=("000000000000",)) == []
    assert await kinds(kinds=("late",), queues=("bulk",)) == []


async def fail_in(store: Store, queue: str, failure: Failure = FAILURE) -> JobRow:
    """Let a job of a queue fail."""
    worker = await register(store)
    (job,) = await new_jobs(store, 1, queue=queue)
    await store.insert_jobs([job])
    (taken,) = await claim(store, worker, lane(queue))
    await end(store, failed(taken.id, taken.claim, failure))
    return await read(store, taken.id)


@pytest.mark.parametrize("folds", [(), (100,), (1,)], ids=["unfolded", "folded", "partly"])
async def test_a_group_that_is_spread_over_queues_is_in_each_what_it_is_there(
    store: Store, clock: Clock, folds: tuple[int, ...]
) -> None:
    first_at = clock.now
    first = await fail_in(store, "mine")
    await clock.advance(minutes=1)
    mine = [first, await fail_in(store, "mine", Failure("SomeError", "mine", None, FAILURE.fingerprint))]
    await store.delete_jobs([first.id])
    await clock.advance(minutes=1)
    theirs = [await fail_in(store, "theirs") for _ in range(3)]
    for limit in folds:
        await store.fold_failures(limit)
    found = await group(store, DeadFilter(queues=("mine",)))
    assert (found.seen, found.left, found.queue, found.error) == (2, 1, "mine", "mine")
    assert (found.first_at, found.last_at) == (first_at, first_at + timedelta(minutes=1))
    assert (found.last_job, found.id) == (mine[-1].id, group_id("work", FAILURE.fingerprint))
    found = await group(store, DeadFilter(queues=("theirs",), ids=(found.id,)))
    assert (found.seen, found.left, found.first_at, found.last_job) == (3, 3, clock.now, theirs[-1].id)
    for which in (DeadFilter(), DeadFilter(queues=("mine", "theirs"))):
        found = await group(store, which)
        assert (found.seen, found.left, found.queue, found.last_job) == (5, 4, "theirs", theirs[-1].id)
        assert (found.first_at, found.last_at) == (first_at, clock.now)
    assert await groups(store, DeadFilter(queues=("elsewhere",), empty=True)) == []
    await store.delete_jobs([mine[-1].id])
    assert await groups(store, DeadFilter(queues=("mine",))) == []
    assert (await group(store, DeadFilter(queues=("mine",), empty=True))).seen == 2


async def test_pages(store: Store, clock: Clock) -> None:
    for number in range(5):
        await fail(store, kind=f"kind-{number}")
        if number % 2:
            await clock.advance(minutes=1)
    seen: list[str] = []
    after = None
    while True:
        page = await store.list_dead_letters(DeadFilter(), limit=2, after=after)
        assert len(page.groups) <= 2
        seen += [found.kind for found in page.groups]
        if page.next is None:
            break
        after = page.next
    assert sorted(seen) == [f"kind-{number}" for number in range(5)]
    assert seen[0] == "kind-4"


async def test_groups_are_forgotten_when_they_are_long_over(store: Store, clock: Clock) -> None:
    await store.define_queues({"default": keeping(1, 1, 500 * 86_400_000, 1)})
    old = await fail(store)
    await fail(store, kind="kept")
    await store.fold_failures(100)
    await store.delete_jobs([old.id])
    await clock.advance(days=399)
    assert await store.prune_dead_letters(100) == 0
    await clock.advance(days=2)
    assert await store.prune_dead_letters(100) == 1
    assert [found.kind for found in await groups(store, EMPTY)] == ["kept"]
    assert await count(store, "dead_letter_queues") == 1


async def test_a_failure_of_an_escalating_queue_raises_an_alarm(store: Store) -> None:
    await fail(store)
    assert await count(store, "alarms") == 0
    terms = keeping(1, 1, 86_400_000, 1)
    await store.define_queues({"default": QueueTerms(kept_ms=terms.kept_ms, escalation="ops")})
    worker = await register(store)
    await enqueue_many(store, 3)
    taken = await claim(store, worker)
    ends = [failed(job.id, job.claim, FAILURE) for job in taken[:2]]
    await store.finish_jobs([*ends, completed(taken[2].id, taken[2].claim)])
    alarms = await raw_alarms(store)
    assert [alarm[:5] for alarm in alarms] == [
        ("failed", "ops", "default", "work", FAILURE.fingerprint),
        ("failed", "ops", "default", "work", FAILURE.fingerprint),
    ]
    assert {alarm[5] for alarm in alarms} == {job.id for job in taken[:2]}


async def raw_alarms(store: Store) -> list[tuple[Any, ...]]:
    """Read the inbox of escalation."""
    sql = "SELECT source, policy, queue, kind, fingerprint, job_id FROM holdfast.alarms ORDER BY job_id"
    if isinstance(store, PostgresStore):
        return [tuple(row) for row in await store.fetch_sql(sql)]
    assert isinstance(store, SqliteStore)
    statement = sql.replace("holdfast.", "holdfast_")
    return await store.connection.read(lambda database, _: database.execute(statement).fetchall())


async def test_a_new_job_names_the_one_it_stands_for(store: Store) -> None:
    old = await fail(store)
    (job,) = await new_jobs(store, 1, payload='{"to": "b"}')
    answers = [await store.insert_replay(job, old.id, again=again) for again in (False, True)]
    assert [answer.outcome for answer in answers] == [Insertion.CREATED, Insertion.CREATED]
    made = await read(store, job.id)
    assert (made.origin, made.payload, made.state) == (old.id, {"to": "b"}, JobState.QUEUED)
    done = await claim_one(store)
    await end(store, completed(done.id, done.claim))
    assert (await read(store, job.id)).origin == old.id


async def test_thousands_fail_together(store: Store) -> None:
    jobs = size(200, 5_000)
    worker = await register(store)
    await enqueue_many(store, jobs)
    taken = await claim(store, worker, limit=jobs)
    while len(taken) < jobs:
        taken += await claim(store, worker, limit=jobs)
    for start in range(0, jobs, 500):
        await store.finish_jobs([failed(job.id, job.claim, FAILURE) for job in taken[start : start + 500]])
    found = await group(store)
    assert (found.seen, found.left) == (jobs, jobs)
    while await store.fold_failures(1_000):
        pass
    assert await group(store) == found
