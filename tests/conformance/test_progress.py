"""Progress: the last report of the claim that holds the job."""

import pytest

from holdfast.job import Answer, JobState
from holdfast.stores.store import Store
from holdfast.stores.values import ProgressReport, Verdict
from holdfast.transitions import completed, failed, interrupted, retried
from tests.support.builders import (
    FAILURE,
    LEASE_MS,
    cancel,
    claim_one,
    enqueue,
    finished,
    read,
    register,
    retry,
    running,
    settle,
)
from tests.support.clock import Clock


async def report(store: Store, job_id: int, claim: int, percent: float = 1.0) -> Verdict:
    (verdict,) = await store.save_progress([ProgressReport(job_id, claim, percent)])
    return verdict


async def test_a_report_is_kept_as_it_was_given(store: Store, clock: Clock) -> None:
    job = await running(store)
    await clock.advance(seconds=1)
    given = ProgressReport(job.id, job.claim, 33.25, 'half "way" \n ü 🎉', '{"step": [1, {"a": null}]}')
    assert await store.save_progress([given]) == [Verdict.DONE]
    progress = (await read(store, job.id)).progress
    assert progress is not None
    assert (progress.percent, progress.message) == (33.25, 'half "way" \n ü 🎉')
    assert (progress.data, progress.updated_at) == ({"step": [1, {"a": None}]}, clock.now)


async def test_a_later_report_replaces_the_one_before_whole(store: Store, clock: Clock) -> None:
    job = await running(store)
    await store.save_progress([ProgressReport(job.id, job.claim, 10.0, "first", '{"a": 1}')])
    await clock.advance(seconds=1)
    await store.save_progress([ProgressReport(job.id, job.claim, None, "second", None)])
    progress = (await read(store, job.id)).progress
    assert progress is not None
    assert (progress.percent, progress.message, progress.data) == (None, "second", None)
    assert progress.updated_at == clock.now


async def test_reporting_changes_nothing_else(store: Store) -> None:
    job = await running(store)
    await report(store, job.id, job.claim)
    after = await read(store, job.id)
    assert (after.state, after.claim, after.attempt, after.worker) == (job.state, job.claim, job.attempt, job.worker)


@pytest.mark.guards("progress-fence")
async def test_only_the_claim_that_holds_the_job_may_report(store: Store) -> None:
    job = await running(store)
    waiting = await enqueue(store)
    (unknown,) = await store.take_ids(1)
    verdicts = await store.save_progress(
        [
            ProgressReport(waiting, 0, 1.0),
            ProgressReport(job.id, job.claim, 2.0),
            ProgressReport(unknown, 1, 3.0),
        ]
    )
    assert verdicts == [Verdict.LOST, Verdict.DONE, Verdict.LOST]
    assert await report(store, job.id, job.claim + 1) is Verdict.LOST
    assert await report(store, job.id, job.claim - 1) is Verdict.LOST
    progress = (await read(store, job.id)).progress
    assert progress is not None
    assert progress.percent == 2.0
    assert (await read(store, waiting)).progress is None


async def test_after_a_give_back_a_late_report_is_lost(store: Store) -> None:
    job = await running(store)
    assert await report(store, job.id, job.claim, 10) is Verdict.DONE
    await settle(store, interrupted(job.id, job.claim))
    assert await report(store, job.id, job.claim, 20) is Verdict.LOST
    again = await claim_one(store)
    assert await report(store, job.id, job.claim, 30) is Verdict.LOST
    assert await report(store, again.id, again.claim, 5) is Verdict.DONE
    assert await report(store, job.id, job.claim, 40) is Verdict.LOST
    progress = (await read(store, job.id)).progress
    assert progress is not None
    assert progress.percent == 5


async def test_after_a_rescue_a_late_report_is_lost(store: Store, clock: Clock) -> None:
    job = await running(store)
    await report(store, job.id, job.claim)
    await clock.advance(milliseconds=LEASE_MS + 1)
    await store.rescue_jobs(10)
    assert await report(store, job.id, job.claim) is Verdict.LOST


async def test_while_it_waits_again_a_job_shows_how_far_it_came(store: Store) -> None:
    job = await running(store)
    await report(store, job.id, job.claim, 70)
    waiting = await settle(store, retried(job.id, job.claim, FAILURE, 60_000))
    assert waiting is not None
    assert waiting.progress is not None
    assert waiting.progress.percent == 70


async def test_the_last_report_is_folded_into_the_finished_job(store: Store) -> None:
    job = await running(store)
    await store.save_progress([ProgressReport(job.id, job.claim, 99.5, "nearly", "[1]")])
    before = (await read(store, job.id)).progress
    done = await settle(store, completed(job.id, job.claim))
    assert done is not None
    assert done.progress == before
    assert await report(store, job.id, job.claim) is Verdict.LOST


async def test_a_cancelled_job_keeps_its_last_report(store: Store) -> None:
    job = await running(store)
    await report(store, job.id, job.claim, 40)
    await settle(store, interrupted(job.id, job.claim))
    assert await cancel(store, job.id) is Answer.DONE
    progress = (await read(store, job.id)).progress
    assert progress is not None
    assert progress.percent == 40


async def test_a_new_life_begins_without_progress(store: Store) -> None:
    job = await running(store)
    await report(store, job.id, job.claim)
    await settle(store, failed(job.id, job.claim, FAILURE))
    await retry(store, job.id)
    assert (await read(store, job.id)).progress is None
    again = await claim_one(store)
    assert await report(store, job.id, job.claim) is Verdict.LOST
    assert await report(store, again.id, again.claim) is Verdict.DONE


async def test_a_finished_job_takes_no_report(store: Store) -> None:
    ended = await finished(store, JobState.COMPLETED)
    assert await report(store, ended.id, ended.claim) is Verdict.LOST
    assert (await read(store, ended.id)).progress is None


async def test_a_job_marked_for_cancellation_may_still_report(store: Store) -> None:
    job = await running(store, await register(store))
    await cancel(store, job.id)
    assert await report(store, job.id, job.claim) is Verdict.DONE
    assert await store.save_progress([]) == []
