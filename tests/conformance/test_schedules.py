"""Schedules in the store: what is published, changed and withdrawn, and one record for each nominal time."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from holdfast.job import JobState
from holdfast.schedules import Outcome, read_plan
from holdfast.stores.cluster import FireRow
from holdfast.stores.store import Store
from holdfast.transitions import completed
from tests.conformance.scheduling import define, fire, job_of, names, plan, row
from tests.support import raw
from tests.support.builders import cancel, claim_one, find, read, settle
from tests.support.clock import Clock

MINUTE = timedelta(minutes=1)


@pytest.fixture(autouse=True)
async def _without_schedules(store: Store) -> None:
    for table in ("schedules", "fires"):
        await raw.execute(store, f"DELETE FROM holdfast.{table}")


# ---- definitions ---------------------------------------------------------------------------------------------------


async def test_a_published_schedule_is_read_with_the_stores_time(store: Store, clock: Clock) -> None:
    await define(store, nightly=plan(args={}))
    now, (found,) = await store.read_schedules()
    assert now == clock.now
    assert (found.name, found.origin, found.version, found.override) == ("nightly", "code", 1, "{}")
    assert (found.defined_at, found.changed_at, found.changed_by) == (clock.now, clock.now, None)
    assert (found.withdrawn_at, found.last_fire, found.next_fire) == (None, None, None)
    assert read_plan(found.definition) == read_plan(plan())


async def test_without_schedules_the_time_is_read(store: Store, clock: Clock) -> None:
    assert await store.read_schedules() == (clock.now, [])


async def test_publishing_the_same_again_changes_nothing(store: Store, clock: Clock) -> None:
    await define(store, nightly=plan())
    before = await row(store)
    await clock.advance(seconds=5)
    await define(store, nightly=plan())
    assert await row(store) == before


async def test_a_schedule_that_a_program_has_no_more_is_withdrawn_and_comes_back(store: Store, clock: Clock) -> None:
    await define(store, nightly=plan(), hourly=plan())
    await fire(store, clock.now)
    fired_at = clock.now
    await clock.advance(seconds=5)
    await define(store, hourly=plan())
    withdrawn = await row(store)
    assert withdrawn.withdrawn_at == clock.now
    assert (withdrawn.version, withdrawn.last_fire) == (2, fired_at)
    assert (await row(store, "hourly")).withdrawn_at is None
    await clock.advance(hours=5)
    await define(store, nightly=plan(), hourly=plan())
    back = await row(store)
    assert (back.withdrawn_at, back.version) == (None, 3)
    assert back.last_fire == clock.now  # what was due meanwhile was nobody's


async def test_a_program_withdraws_only_what_it_would_know(store: Store) -> None:
    await define(store, "other", nightly=plan(), theirs=plan("other"))
    await store.store_schedule("stored", plan(), actor="ada")
    await store.define_schedules({}, ["work"])
    withdrawn = {one.name: one.withdrawn_at is not None for one in (await store.read_schedules())[1]}
    assert withdrawn == {"nightly": True, "stored": False, "theirs": False}


async def test_a_new_definition_keeps_how_far_it_has_come_unless_its_times_change(store: Store, clock: Clock) -> None:
    await define(store, nightly=plan())
    nominal = clock.now
    await fire(store, nominal, next_fire=nominal + MINUTE)
    await clock.advance(minutes=10)
    await define(store, nightly=plan(missed="all"))
    same = await row(store)
    assert (same.version, same.last_fire, same.next_fire) == (2, nominal, None)
    await define(store, nightly=plan(cron="0 3 * * *"))
    other = await row(store)
    assert (other.version, other.last_fire, other.next_fire) == (3, clock.now, None)


@pytest.mark.parametrize("before", [True, False])
async def test_what_came_while_a_program_had_it_disabled_is_settled(store: Store, clock: Clock, before: bool) -> None:
    await define(store, nightly=plan(enabled=before))
    await clock.advance(hours=5)
    await define(store, nightly=plan(enabled=not before))
    assert (await row(store)).last_fire == clock.now


async def test_a_program_takes_over_what_was_stored(store: Store) -> None:
    assert await store.store_schedule("nightly", plan(), actor="ada")
    await define(store, nightly=plan())
    found = await row(store)
    assert (found.origin, found.version, found.changed_by) == ("code", 2, None)
    assert not await store.drop_schedule("nightly")


# ---- changes -------------------------------------------------------------------------------------------------------


async def test_a_stored_schedule_has_its_author_and_its_name_for_itself(store: Store, clock: Clock) -> None:
    assert await store.store_schedule("nightly", plan(), actor="ada")
    assert not await store.store_schedule("nightly", plan(missed="all"), actor="bob")
    found = await row(store)
    assert (found.origin, found.changed_by, found.defined_at) == ("stored", "ada", clock.now)
    assert read_plan(found.definition).missed == "once"


async def test_changes_add_up_and_null_takes_one_back(store: Store, clock: Clock) -> None:
    await define(store, nightly=plan())
    await clock.advance(seconds=5)
    assert await store.change_schedule("nightly", '{"enabled": false, "missed": "all"}', moves=False, actor="ada")
    assert await store.change_schedule("nightly", '{"missed": null, "overlap": "cancel"}', moves=False, actor="bob")
    found = await row(store)
    assert msgspec.json.decode(found.override) == {"enabled": False, "overlap": "cancel"}
    assert (found.version, found.changed_at, found.changed_by) == (3, clock.now, "bob")
    assert await store.change_schedule("nightly", '{"enabled": null, "overlap": null}', moves=False, actor=None)
    assert (await row(store)).override == "{}"


async def test_a_change_survives_the_next_definition(store: Store) -> None:
    await define(store, nightly=plan())
    await store.change_schedule("nightly", '{"enabled": false}', moves=True, actor="ada")
    await define(store, nightly=plan(missed="all"))
    found = await row(store)
    written = read_plan(found.definition, found.override)
    assert (written.enabled, written.missed) == (False, "all")


async def test_a_change_that_moves_settles_what_was_due(store: Store, clock: Clock) -> None:
    await define(store, nightly=plan())
    await fire(store, clock.now, next_fire=clock.now + MINUTE)
    fired_at = clock.now
    await clock.advance(minutes=5)
    await store.change_schedule("nightly", '{"missed": "all"}', moves=False, actor=None)
    found = await row(store)
    assert (found.last_fire, found.next_fire) == (fired_at, None)
    await store.change_schedule("nightly", '{"enabled": true}', moves=True, actor=None)
    assert (await row(store)).last_fire == clock.now


async def test_a_change_that_moves_takes_no_fire_back(store: Store, clock: Clock) -> None:
    await define(store, nightly=plan())
    ahead = clock.now + 5 * MINUTE  # the clock went back since
    await fire(store, ahead)
    await store.change_schedule("nightly", '{"enabled": true}', moves=True, actor=None)
    assert (await row(store)).last_fire == ahead


async def test_what_is_not_there_cannot_be_changed(store: Store) -> None:
    assert not await store.change_schedule("nightly", "{}", moves=True, actor=None)
    assert not await store.drop_schedule("nightly")


async def test_only_what_no_program_defines_can_be_dropped(store: Store) -> None:
    await define(store, nightly=plan())
    await store.store_schedule("stored", plan(), actor=None)
    assert await store.drop_schedule("stored")
    assert not await store.drop_schedule("nightly")
    await store.define_schedules({}, ["work"])
    assert await store.drop_schedule("nightly")
    assert await names(store) == []


# ---- fires ---------------------------------------------------------------------------------------------------------


async def test_a_fire_makes_a_job_that_knows_its_time(store: Store, clock: Clock) -> None:
    await define(store, nightly=plan())
    nominal = clock.now - timedelta(seconds=3)
    recorded = await fire(store, nominal, next_fire=nominal + MINUTE, payload='{"a":1}')
    job = await read(store, job_of(recorded))
    assert (job.state, job.payload, job.schedule, job.fire_time) == (JobState.QUEUED, {"a": 1}, "nightly", nominal)
    assert recorded == [FireRow("nightly", nominal, "enqueued", job.id, None, clock.now)]
    found = await row(store)
    assert (found.last_fire, found.next_fire) == (nominal, nominal + MINUTE)
    claimed = await claim_one(store)
    assert (claimed.schedule, claimed.fire_time) == ("nightly", nominal)
    ended = await settle(store, completed(job.id, claimed.claim, "null"))
    assert ended is not None
    assert (ended.schedule, ended.fire_time) == ("nightly", nominal)


async def test_a_nominal_time_fires_once_also_when_its_job_is_gone(store: Store, clock: Clock) -> None:
    await define(store, nightly=plan())
    job_id = job_of(await fire(store, clock.now))
    job = await claim_one(store)
    await settle(store, completed(job.id, job.claim, "null"))
    assert await fire(store, clock.now) == []
    await store.delete_jobs([job_id])
    assert await find(store, job_id) is None
    assert await fire(store, clock.now) == []
    assert [count.jobs for count in await store.count_jobs() if count.jobs] == []


async def test_of_many_times_only_the_new_ones_fire(store: Store, clock: Clock) -> None:
    await define(store, nightly=plan())
    first, second, third = (clock.now + minute * MINUTE for minute in range(3))
    await fire(store, first, second)
    recorded = await fire(store, first, second, third)
    assert [one.nominal for one in recorded] == [third]
    listed = await store.list_fires("nightly", 10)
    assert [one.nominal for one in listed] == [third, second, first]
    assert len({one.job_id for one in listed}) == 3


async def test_a_stale_version_fires_nothing(store: Store, clock: Clock) -> None:
    await define(store, nightly=plan())
    version = (await row(store)).version
    await store.change_schedule("nightly", '{"enabled": false}', moves=True, actor=None)
    before = await row(store)
    assert await fire(store, clock.now, version=version, next_fire=clock.now + MINUTE) == []
    assert await store.list_fires("nightly", 10) == []
    assert await row(store) == before
    assert await store.fire_schedule("no such", 1, [], overlap="skip", next_fire=clock.now) == []


async def test_how_far_it_has_come_never_goes_back(store: Store, clock: Clock) -> None:
    await define(store, nightly=plan())
    await fire(store, clock.now, next_fire=clock.now + MINUTE)
    await fire(store, clock.now - MINUTE, next_fire=clock.now)
    found = await row(store)
    assert (found.last_fire, found.next_fire) == (clock.now, clock.now)


async def test_a_round_without_fires_notes_the_next_time(store: Store, clock: Clock) -> None:
    await define(store, nightly=plan())
    assert await fire(store, next_fire=clock.now + MINUTE) == []
    found = await row(store)
    assert (found.last_fire, found.next_fire, found.version) == (None, clock.now + MINUTE, 1)


async def test_running_by_hand_moves_no_time(store: Store, clock: Clock) -> None:
    await define(store, nightly=plan())
    await fire(store, clock.now, next_fire=clock.now + MINUTE)
    by_hand = clock.now + timedelta(milliseconds=1_234)
    (recorded,) = await fire(store, by_hand, outcome=Outcome.BY_HAND)
    assert (recorded.outcome, recorded.nominal) == ("by_hand", by_hand)
    found = await row(store)
    assert (found.last_fire, found.next_fire) == (clock.now, clock.now + MINUTE)


@pytest.mark.parametrize("outcome", [Outcome.MISSED, Outcome.MAINTENANCE])
async def test_a_time_without_a_job_is_recorded_and_passed(store: Store, clock: Clock, outcome: Outcome) -> None:
    await define(store, nightly=plan())
    (recorded,) = await fire(store, clock.now, outcome=outcome)
    assert (recorded.outcome, recorded.job_id) == (outcome, None)
    assert (await row(store)).last_fire == clock.now
    assert await fire(store, clock.now) == []


# ---- overlap -------------------------------------------------------------------------------------------------------


async def test_skip_makes_no_job_while_one_is_not_finished(store: Store, clock: Clock) -> None:
    await define(store, nightly=plan())
    job_id = job_of(await fire(store, clock.now, overlap="skip"))
    (skipped,) = await fire(store, clock.now + MINUTE, overlap="skip")
    assert (skipped.outcome, skipped.job_id, skipped.note) == ("overlap", None, "an earlier job is not finished")
    job = await claim_one(store)
    assert job.id == job_id
    (running,) = await fire(store, clock.now + 2 * MINUTE, overlap="skip")
    assert running.outcome == "overlap"
    await settle(store, completed(job.id, job.claim, "null"))
    assert job_of(await fire(store, clock.now + 3 * MINUTE, overlap="skip")) != job_id
    assert await fire(store, clock.now + MINUTE, overlap="skip") == []  # what was left out does not come later


async def test_skip_looks_at_one_schedule_only(store: Store, clock: Clock) -> None:
    await define(store, nightly=plan(), hourly=plan())
    job_of(await fire(store, clock.now, overlap="skip"))
    job_of(await fire(store, clock.now, name="hourly", overlap="skip"))


async def test_skip_sees_the_job_of_the_same_round(store: Store, clock: Clock) -> None:
    await define(store, nightly=plan())
    recorded = await fire(store, clock.now, clock.now + MINUTE, overlap="skip")
    assert [one.outcome for one in recorded] == ["enqueued", "overlap"]


async def test_queue_makes_a_job_all_the_same(store: Store, clock: Clock) -> None:
    await define(store, nightly=plan())
    recorded = await fire(store, clock.now, clock.now + MINUTE, overlap="queue")
    states = [(await read(store, one.job_id)).state for one in recorded if one.job_id is not None]
    assert states == [JobState.QUEUED, JobState.QUEUED]


async def test_cancel_cancels_the_earlier_ones(store: Store, clock: Clock) -> None:
    await define(store, nightly=plan(), hourly=plan())
    other = job_of(await fire(store, clock.now, name="hourly"))
    first = job_of(await fire(store, clock.now))
    second = job_of(await fire(store, clock.now + MINUTE, overlap="cancel"))
    cancelled = await read(store, first)
    assert cancelled.state is JobState.CANCELLED
    assert (cancelled.extra["cancelled_by"], cancelled.extra["cancel_reason"]) == (
        "schedule nightly",
        "the next one is due",
    )
    assert (await read(store, second)).state is JobState.QUEUED
    assert (await read(store, other)).state is JobState.QUEUED


async def test_cancel_marks_what_runs(store: Store, clock: Clock) -> None:
    await define(store, nightly=plan())
    await fire(store, clock.now)
    job = await claim_one(store)
    assert job.worker is not None
    job_of(await fire(store, clock.now + MINUTE, overlap="cancel"))
    assert await store.cancelled_claims(job.worker) == [(job.id, job.claim)]


async def test_a_time_that_was_recorded_before_cancels_nobody(store: Store, clock: Clock) -> None:
    await define(store, nightly=plan())
    job_id = job_of(await fire(store, clock.now))
    assert await fire(store, clock.now, overlap="cancel") == []
    assert (await read(store, job_id)).state is JobState.QUEUED


async def test_a_job_run_by_hand_runs_beside_others_and_counts_as_one_of_them(store: Store, clock: Clock) -> None:
    await define(store, nightly=plan())
    job_of(await fire(store, clock.now, overlap="skip"))
    by_hand = job_of(await fire(store, clock.now + MINUTE / 2, overlap="skip", outcome=Outcome.BY_HAND))
    await cancel(store, by_hand)
    (skipped,) = await fire(store, clock.now + MINUTE, overlap="skip")
    assert skipped.outcome == "overlap"


# ---- listing, pruning ----------------------------------------------------------------------------------------------


async def test_fires_are_listed_newest_first_and_for_one_schedule(store: Store, clock: Clock) -> None:
    await define(store, nightly=plan(), hourly=plan())
    nominals = [clock.now + minute * MINUTE for minute in range(5)]
    await fire(store, *nominals)
    await fire(store, clock.now, name="hourly")
    assert [one.nominal for one in await store.list_fires("nightly", 2)] == [nominals[4], nominals[3]]
    assert len(await store.list_fires("nightly", 100)) == 5
    assert await store.list_fires("no such", 10) == []


async def test_fires_are_forgotten_after_thirty_days_in_batches(store: Store, clock: Clock) -> None:
    await define(store, nightly=plan())
    await fire(store, *(clock.now + minute * MINUTE for minute in range(3)))
    await clock.advance(days=30)
    assert await store.prune_fires(10) == 1
    await clock.advance(minutes=10)
    await fire(store, clock.now)
    assert await store.prune_fires(1) == 1
    assert await store.prune_fires(10) == 1
    assert await store.prune_fires(10) == 0
    assert [one.nominal for one in await store.list_fires("nightly", 10)] == [clock.now]


async def test_fires_outlive_a_schedule_that_was_dropped(store: Store, clock: Clock) -> None:
    await store.store_schedule("nightly", plan(), actor=None)
    await fire(store, clock.now)
    await store.drop_schedule("nightly")
    await store.store_schedule("nightly", plan(), actor=None)
    assert await fire(store, clock.now) == []
    assert len(await store.list_fires("nightly", 10)) == 1


async def test_a_time_keeps_its_milliseconds(store: Store) -> None:
    await define(store, nightly=plan())
    nominal = datetime(2026, 3, 29, 0, 59, 59, 999_000, tzinfo=UTC)
    assert [one.nominal for one in await fire(store, nominal)] == [nominal]
    assert (await row(store)).last_fire == nominal
