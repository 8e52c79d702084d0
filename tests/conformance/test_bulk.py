"""Bulk operations: each batch is done once and with its cursor, whoever dies, stalls or works beside."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from holdfast.delivery.in_store import InStore
from holdfast.errors import DataRefused, StoreUnavailable
from holdfast.job import JobState
from holdfast.resources.bulk import BulkState, BulkVerb
from holdfast.services.bulk import BulkService
from holdfast.stores.bulk import MOST_ERRORS, BulkOperationRow, Due, NewBulk, written
from holdfast.stores.store import Store
from holdfast.stores.values import Cursor, JobFilter
from holdfast.transitions import failed
from tests.support import raw
from tests.support.builders import FAILURE, claim, end, enqueue, enqueue_many, read, register, running, state_of
from tests.support.clock import Clock
from tests.support.sizes import size

FAILED = JobFilter(states=(JobState.FAILED,))


async def fail_many(store: Store, count: int, **changes: Any) -> list[int]:
    """Let jobs fail."""
    worker = await register(store)
    ids = await enqueue_many(store, count, **changes)
    taken = await claim(store, worker)
    await store.finish_jobs([failed(job.id, job.claim, FAILURE) for job in taken])
    assert sorted(job.id for job in taken) == sorted(ids)
    return ids


async def start(
    store: Store, verb: BulkVerb = BulkVerb.RETRY, which: JobFilter = FAILED, **changes: Any
) -> BulkOperationRow:
    """Begin a run."""
    new = NewBulk(key=str(changes.pop("key", id(changes))), verb=verb, which=which, expected=0)
    return await store.start_bulk(msgspec.structs.replace(new, **changes))


def service(store: Store) -> BulkService:
    """Give the service, as a process that leads has it."""
    return BulkService(store, InStore(store))


async def work(store: Store, batch: int = 100, rounds: int = 100) -> int:
    """Work until there is nothing to do now; tells how many jobs were changed."""
    changed = 0
    serving = service(store)
    for _ in range(rounds):
        done = await serving.run(batch)
        changed += done.moved
        if not done.has_more:
            break
    return changed


async def look(store: Store, run: BulkOperationRow) -> BulkOperationRow:
    """Read a run."""
    (found,) = await store.list_bulk(1, run=run.id)
    return found


async def test_a_run_gives_a_new_life_to_all_that_fit(store: Store) -> None:
    ids = await fail_many(store, size(120, 1_000))
    (other,) = await fail_many(store, 1, kind="other")
    run = await start(store, which=JobFilter(states=(JobState.FAILED,), kinds=("work",)), actor="alice", reason="fixed")
    assert (run.state, run.step, run.done, run.cursor) == (BulkState.RUNNING, 0, 0, None)
    assert await work(store, batch=50) == len(ids)
    ended = await look(store, run)
    assert (ended.state, ended.done, ended.refused) == (BulkState.ENDED, len(ids), 0)
    assert (ended.actor, ended.reason) == ("alice", "fixed")
    assert ended.ended_at is not None
    jobs = await store.get_jobs(ids)
    assert {(job.state, job.life) for job in jobs} == {(JobState.QUEUED, 2)}
    assert await state_of(store, other) is JobState.FAILED
    assert await store.next_bulk() is None


async def test_a_preview_counts_what_fits(store: Store) -> None:
    await fail_many(store, 3)
    await fail_many(store, 2, kind="other")
    await enqueue(store)
    assert await store.preview_jobs(FAILED) == 5
    assert await store.preview_jobs(JobFilter()) == 6
    assert await store.preview_jobs(JobFilter(kinds=("other",), states=(JobState.FAILED, JobState.QUEUED))) == 2
    assert await store.preview_jobs(JobFilter(error_class="SomeError")) == 5
    assert await store.preview_jobs(JobFilter(error_class="Other")) == 0


async def test_a_run_goes_on_where_a_dead_leader_was(store: Store) -> None:
    ids = await fail_many(store, 30)
    run = await start(store)
    assert (await service(store).run(10)).moved == 10
    # The next leader reads a batch and dies before it is done; the one after that does it.
    turn = await store.next_bulk()
    assert turn is not None
    await store.list_jobs(turn[0].open_to, limit=10, after=turn[0].cursor)
    assert await work(store, batch=10) == 20
    assert (await look(store, run)).done == 30
    assert {job.life for job in await store.get_jobs(ids)} == {2}


async def test_of_two_who_do_the_same_batch_one_does_it(store: Store) -> None:
    ids = await fail_many(store, 4)
    await start(store)
    turn = await store.next_bulk()
    assert turn is not None
    first = await store.work_bulk(turn[0], ids, cursor=None)
    assert first is not None
    assert (first[0].state, first[1]) == (BulkState.ENDED, frozenset(ids))
    # They run again and fail again before the second one comes to its turn.
    worker = await register(store)
    again = await claim(store, worker)
    await store.finish_jobs([failed(job.id, job.claim, FAILURE) for job in again])
    assert await store.work_bulk(turn[0], ids, cursor=None) is None
    assert {job.state for job in await store.get_jobs(ids)} == {JobState.FAILED}


async def test_what_fails_again_is_not_replayed_again(store: Store, clock: Clock) -> None:
    await fail_many(store, 6)
    run = await start(store)
    assert (await service(store).run(3)).moved == 3
    await clock.advance(seconds=1)
    again = await claim(store, await register(store))
    assert len(again) == 3
    await store.finish_jobs([failed(job.id, job.claim, FAILURE) for job in again])
    await fail_many(store, 2)
    assert await work(store) == 3
    ended = await look(store, run)
    assert (ended.state, ended.done) == (BulkState.ENDED, 6)
    # Also when the place where the run was is lost: what failed after it had begun is not its business.
    assert await store.preview_jobs(run.open_to) == 0
    assert await store.preview_jobs(FAILED) == 5


async def test_what_changed_meanwhile_is_refused_and_counted(store: Store) -> None:
    ids = await fail_many(store, 3)
    run = await start(store)
    turn = await store.next_bulk()
    assert turn is not None
    await store.delete_jobs(ids[:1])
    worked = await store.work_bulk(turn[0], ids, cursor=None)
    assert worked is not None
    assert worked[1] == frozenset(ids[1:])
    ended = await look(store, run)
    assert (ended.done, ended.refused) == (2, 1)


async def test_a_rate_spaces_the_batches(store: Store, clock: Clock) -> None:
    await fail_many(store, 30)
    run = await start(store, spacing_us=20_000)  # 50/s
    serving = service(store)
    counts = []
    for _ in range(4):
        done = await serving.run(500)
        counts.append(done.moved)
        waiting = await serving.run(500)
        if waiting.next_s is None:
            break
        assert waiting.moved == 0
        assert waiting.next_s == pytest.approx(0.24)
        await clock.advance(milliseconds=240)
    assert counts == [12, 12, 6]
    assert (await look(store, run)).state is BulkState.ENDED


async def test_runs_take_turns(store: Store, clock: Clock) -> None:
    await fail_many(store, 4)
    await fail_many(store, 4, kind="other")
    runs = [
        await start(store, which=JobFilter(states=(JobState.FAILED,), kinds=(kind,)), key=kind)
        for kind in ("work", "other")
    ]
    serving = service(store)
    for _ in range(2):
        await serving.run(2)
        await clock.advance(seconds=1)
    assert [(await look(store, run)).done for run in runs] == [2, 2]


async def test_a_run_is_paused_goes_on_and_is_cancelled(store: Store) -> None:
    await fail_many(store, 6)
    run = await start(store)
    await service(store).run(2)
    seen = await store.next_bulk()
    assert seen is not None
    for _ in range(2):  # asking again changes nothing
        paused = await store.change_bulk(run.id, BulkState.PAUSED)
        assert paused is not None
        assert (paused.state, paused.done, paused.ended_at) == (BulkState.PAUSED, 2, None)
    assert await store.next_bulk() is None
    assert await store.work_bulk(seen[0], [], cursor=None) is None
    await store.change_bulk(run.id, BulkState.RUNNING)
    await service(store).run(2)
    cancelled = await store.change_bulk(run.id, BulkState.CANCELLED)
    assert cancelled is not None
    assert (cancelled.state, cancelled.done) == (BulkState.CANCELLED, 4)
    assert cancelled.ended_at is not None
    assert await store.change_bulk(run.id, BulkState.RUNNING) is None
    assert await store.change_bulk(run.id + 1, BulkState.PAUSED) is None
    assert await work(store) == 0


async def test_the_same_key_is_the_same_run(store: Store) -> None:
    first = await start(store, key="one")
    assert await start(store, key="one") == first
    other = await start(store, key="two")
    assert [run.id for run in await store.list_bulk(10)] == [other.id, first.id]


async def test_finished_jobs_are_deleted(store: Store) -> None:
    ids = await fail_many(store, 5)
    live = await enqueue(store)
    run = await start(store, BulkVerb.DELETE)
    assert await work(store, batch=2) == 5
    assert (await look(store, run)).done == 5
    assert await store.get_jobs(ids) == []
    assert await state_of(store, live) is JobState.QUEUED


async def test_live_jobs_are_cancelled_with_who_and_why(store: Store) -> None:
    busy = await running(store, queue="default")
    waiting = await enqueue(store)
    which = JobFilter(states=(JobState.QUEUED, JobState.RUNNING))
    run = await start(store, BulkVerb.CANCEL, which, actor="alice", reason="wrong customer")
    assert await work(store) == 2
    assert (await look(store, run)).done == 2
    gone = await read(store, waiting)
    assert (gone.state, gone.extra["cancelled_by"]) == (JobState.CANCELLED, "alice")
    assert (await read(store, busy.id)).cancel_requested_at is not None


async def test_waiting_jobs_are_moved_to_another_priority(store: Store, clock: Clock) -> None:
    first = await enqueue_many(store, 3)
    run = await start(store, BulkVerb.REPRIORITISE, JobFilter(states=(JobState.QUEUED,)), priority=1)
    await clock.advance(seconds=1)
    (later,) = await enqueue_many(store, 1)
    assert await work(store, batch=2) == 3
    assert (await look(store, run)).done == 3
    assert {job.priority for job in await store.get_jobs(first)} == {1}
    assert (await read(store, later)).priority == 5


async def test_waiting_jobs_are_put_off_and_called_back(store: Store, clock: Clock) -> None:
    waiting = JobFilter(states=(JobState.QUEUED, JobState.SCHEDULED))
    ids = await enqueue_many(store, 3)
    at = (await read(store, ids[0])).enqueued_at.replace(microsecond=0) + timedelta(days=1)
    run = await start(store, BulkVerb.RESCHEDULE, waiting, due=Due(run_at=at))
    assert (run.verb, run.due) == (BulkVerb.RESCHEDULE, Due(run_at=at))
    assert await work(store, batch=2) == 3
    assert {(job.state, job.run_at) for job in await store.get_jobs(ids)} == {(JobState.SCHEDULED, at)}
    assert (await look(store, run)).verb is BulkVerb.RESCHEDULE
    kept = written(NewBulk(key="k", verb=BulkVerb.RESCHEDULE, which=waiting, due=Due(delay_ms=0), expected=0))
    assert kept[0] == "reprioritise"  # which the tables of an older release take
    with pytest.raises(msgspec.ValidationError):  # and whoever leads there does not take it for that
        msgspec.json.decode(kept[1], type=JobFilter | tuple[JobFilter])
    await clock.advance(seconds=1)
    await start(store, BulkVerb.RESCHEDULE, waiting, due=Due(delay_ms=0), key="now")
    assert await work(store, batch=2) == 3
    assert {job.state for job in await store.get_jobs(ids)} == {JobState.QUEUED}


async def test_ended_runs_are_forgotten_after_a_month(store: Store, clock: Clock) -> None:
    ended = await start(store, key="ended")
    await work(store)
    await start(store, BulkVerb.RETRY, key="paused")
    await store.change_bulk(ended.id + 1, BulkState.PAUSED)
    await clock.advance(days=29)
    assert await store.prune_bulk(10) == 0
    await clock.advance(timedelta(days=2))
    assert await store.prune_bulk(10) == 1
    assert [run.state for run in await store.list_bulk(10)] == [BulkState.PAUSED]


async def test_a_unique_clash_is_refused(store: Store) -> None:
    job = await running(store, unique="one")
    await end(store, failed(job.id, job.claim, FAILURE))
    await enqueue(store, unique="one")
    run = await start(store)
    assert await work(store) == 0
    ended = await look(store, run)
    assert (ended.state, ended.done, ended.refused) == (BulkState.ENDED, 0, 1)


# ---- runs that meet errors -------------------------------------------------------------------------------------------


@pytest.fixture
def stuck(store: Store, monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """Give the runs whose batches cannot be done: whoever is entered here meets an error."""
    stuck: set[int] = set()
    doing = store.work_bulk

    async def work_bulk(run: BulkOperationRow, ids: Sequence[int], *, cursor: Cursor | None) -> Any:
        if run.id in stuck:
            message = "no room\x1b"
            raise DataRefused(message)
        return await doing(run, ids, cursor=cursor)

    monkeypatch.setattr(store, "work_bulk", work_bulk)
    return stuck


async def test_a_run_that_meets_errors_waits_longer_and_longer_and_holds_up_nobody(
    store: Store, clock: Clock, stuck: set[int]
) -> None:
    await fail_many(store, 4)
    await fail_many(store, 4, kind="other")
    bad = await start(store, which=JobFilter(states=(JobState.FAILED,), kinds=("work",)), key="work")
    await clock.advance(milliseconds=1)  # of two that begin at once, either may be the first
    good = await start(store, which=JobFilter(states=(JobState.FAILED,), kinds=("other",)), key="other")
    stuck.add(bad.id)
    serving = service(store)
    first = await serving.run(2)
    assert (first.failures, first.moved, first.has_more) == (1, 0, True)
    assert await work(store, batch=2) == 4
    assert (await look(store, good)).state is BulkState.ENDED
    waits = []
    for _ in range(4):
        waits.append((await serving.run(2)).next_s)
        await clock.advance(seconds=waits[-1] or 0)
        assert (await serving.run(2)).failures == 1
    assert waits == [1, 2, 4, 8]
    failing = await look(store, bad)
    error = "holdfast.errors.DataRefused: no room\\x1b"
    assert (failing.state, failing.errors, failing.error, failing.done) == (BulkState.RUNNING, 5, error, 0)
    stuck.clear()
    assert await work(store) == 0, "it still waits"
    going = await store.change_bulk(bad.id, BulkState.RUNNING)
    assert going is not None
    assert (going.errors, going.error) == (0, None)
    assert await work(store) == 4, "somebody told it to go on now"
    ended = await look(store, bad)
    assert (ended.state, ended.done, ended.errors, ended.error) == (BulkState.ENDED, 4, 0, None)


async def test_a_run_is_given_up_after_twenty_errors_in_more_than_an_hour(
    store: Store, clock: Clock, stuck: set[int]
) -> None:
    await fail_many(store, 1)
    run = await start(store)
    stuck.add(run.id)
    began = clock.now
    serving = service(store)
    for _ in range(MOST_ERRORS):
        assert (await look(store, run)).state is BulkState.RUNNING
        assert (await serving.run(2)).failures == 1
        await clock.advance(seconds=(await serving.run(2)).next_s or 0)
    over = await look(store, run)
    assert (over.state, over.errors, over.ended_at) == (BulkState.FAILED, MOST_ERRORS, clock.now)
    assert over.error is not None
    assert timedelta(hours=1) < clock.now - began < timedelta(hours=2)
    assert await store.next_bulk() is None
    for state in (BulkState.RUNNING, BulkState.CANCELLED):
        assert await store.change_bulk(run.id, state) is None, "it has ended"
    assert await store.fail_bulk(over, "late", 1) is None
    stored = await raw.column(store, "SELECT state FROM holdfast.bulk_runs")
    assert stored == ["cancelled"], "which release 0.6 can read"


async def test_twenty_errors_within_the_hour_are_no_end(store: Store, clock: Clock) -> None:
    run = await start(store)
    for _ in range(MOST_ERRORS + 1):
        await clock.advance(minutes=2)
        failing = await store.fail_bulk(await look(store, run), "no room", 1)
        assert failing is not None
        assert failing.state is BulkState.RUNNING


async def test_an_error_counts_once_and_only_at_the_step_where_it_was_met(store: Store) -> None:
    await fail_many(store, 3)
    run = await start(store)
    assert await store.fail_bulk(run, "no room", 0) is not None
    assert await store.fail_bulk(run, "no room", 0) is None, "of two who met it, one counts it"
    assert (await look(store, run)).errors == 1
    seen = await look(store, run)
    assert (await service(store).run(2)).moved == 1, "half of the batch at most, after an error"
    assert await store.fail_bulk(seen, "no room", 0) is None, "it has gone on"
    assert (await look(store, run)).errors == 0


async def test_a_store_that_is_away_is_no_fault_of_a_run(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    async def away(*_: object, **__: object) -> None:
        message = "away"
        raise StoreUnavailable(message)

    run = await start(store)
    monkeypatch.setattr(store, "list_jobs", away)
    with pytest.raises(StoreUnavailable):
        await service(store).run(2)
    assert (await look(store, run)).errors == 0


async def test_a_run_keeps_every_condition_and_an_older_release_cannot_read_those_it_does_not_know(
    store: Store,
) -> None:
    plain = JobFilter(states=(JobState.FAILED,), kinds=("work",), tags=(("a", "1"),))
    assert (await start(store, which=plain, key="plain")).which == plain
    assert written(NewBulk(key="k", verb=BulkVerb.RETRY, which=plain, expected=0))[1].startswith("{")
    conditions: list[dict[str, Any]] = [
        {"args": ((("to", "city"), "Rome"),)},
        {"words": ("x",)},
        {"priorities": (0,)},
        {"schedule": "nightly"},
        {"error_name": "E"},
        {"has_error": True},
        {"id_range": (0, 5)},
        {"id_ending": (97, 3)},
    ]
    for newer in conditions:
        which = JobFilter(states=(JobState.FAILED,), **newer)
        run = await start(store, which=which, key=str(newer))
        assert run.which == which
        assert (await store.list_bulk(1, run=run.id))[0].which == which
        with pytest.raises(msgspec.ValidationError):  # as one that knows the first conditions only would
            msgspec.json.decode(written(NewBulk(key="k", verb=run.verb, which=which, expected=0))[1], type=JobFilter)
