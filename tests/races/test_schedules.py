"""Schedules under contention: two who fire, one who changes, and jobs that end meanwhile."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import msgspec

from holdfast.job import JobState
from holdfast.schedules import Outcome, Schedule, plan_of
from holdfast.services.leader import StoreLeader
from holdfast.stores.cluster import Fire, FireRow
from holdfast.stores.postgres.store import PostgresStore
from holdfast.transitions import completed
from tests.races.rivals import Rivals
from tests.support.connections import insert, new_job, register, request, show, until_held_up
from tests.support.sizes import size

ROUNDS = size(100, 1_000)
DUE = size(1_000, 10_000)
START = datetime(2026, 3, 4, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
PLAN = msgspec.json.encode(
    plan_of(Schedule(name="nightly", kind="work", every="1s"), new_job(0)),
).decode()

_REFUSING = """
CREATE FUNCTION holdfast.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no election'; END $$;
CREATE TRIGGER refused BEFORE INSERT OR UPDATE ON holdfast.leaders FOR EACH ROW EXECUTE FUNCTION holdfast.refuse();
"""

Work = Callable[[], Awaitable[Any]]


async def fire(
    store: PostgresStore, nominal: datetime, *, version: int = 1, overlap: str = "queue", name: str = "nightly"
) -> list[FireRow]:
    """Fire one nominal time, as a leader does that has read the schedule in some version."""
    (job_id,) = await store.take_ids(1)
    fires = [Fire(nominal, Outcome.ENQUEUED, new_job(job_id))]
    return await store.fire_schedule(name, version, fires, overlap=overlap, next_fire=nominal + SECOND)


async def live_jobs(rivals: Rivals) -> int:
    return int(await rivals.watcher.fetchval(rivals.sql("SELECT count(*) FROM holdfast.jobs")))


async def queue_up(rivals: Rivals, first: Work, second: Work) -> tuple[Any, Any]:
    """Let two wait for the row of the schedule, in this order."""

    async def run(work: Work) -> Any:
        return await work()

    async with rivals.blocker.transaction():
        await rivals.blocker.execute(rivals.sql("SELECT FROM holdfast.schedules FOR UPDATE"))
        one = asyncio.create_task(run(first))
        await until_held_up(rivals.watcher, rivals.schema, one)
        two = asyncio.create_task(run(second))
        await until_held_up(rivals.watcher, rivals.schema, one, two)
    return await one, await two


async def test_of_two_who_fire_the_same_time_one_makes_a_job(rivals: Rivals) -> None:
    await rivals.one.define_schedules({"nightly": PLAN}, ["work"])
    won = 0
    for turn in range(ROUNDS):
        nominal = START + turn * SECOND
        if turn % 10 == 0:
            one, two = await queue_up(rivals, partial(fire, rivals.one, nominal), partial(fire, rivals.two, nominal))
        elif turn % 2:
            one, two = await asyncio.gather(fire(rivals.one, nominal), fire(rivals.two, nominal))
        else:
            two, one = await asyncio.gather(fire(rivals.two, nominal), fire(rivals.one, nominal))
        assert len(one) + len(two) == 1
        won += len(one)
    show(f"of {ROUNDS} nominal times {won} were fired by the first")
    fires = await rivals.one.list_fires("nightly", 10_000)
    assert len(fires) == len({row.nominal for row in fires}) == ROUNDS
    assert await live_jobs(rivals) == ROUNDS
    assert 0 < won < ROUNDS


async def test_of_two_who_fire_different_times_one_leaves_out_what_overlaps(rivals: Rivals) -> None:
    await rivals.one.define_schedules({"nightly": PLAN}, ["work"])
    worker = await register(rivals.one)
    for turn in range(ROUNDS):
        earlier, later = START + 2 * turn * SECOND, START + (2 * turn + 1) * SECOND
        one, two = await asyncio.gather(
            fire(rivals.one, earlier, overlap="skip"), fire(rivals.two, later, overlap="skip")
        )
        assert sorted(row.outcome for row in one + two) == ["enqueued", "overlap"]
        (job,) = await rivals.one.claim_jobs(request(worker))
        await rivals.one.finish_jobs([completed(job.id, job.claim, "null")])
        (row,) = [row for row in (await rivals.one.read_schedules())[1] if row.name == "nightly"]
        assert row.last_fire == later


async def test_a_change_and_a_fire_come_one_after_the_other(rivals: Rivals) -> None:
    disable = '{"enabled": false}'
    for turn in range(ROUNDS // 5):
        name, nominal = f"nightly{turn}", START + turn * SECOND
        await rivals.one.define_schedules({name: PLAN}, [])

        def fires(at: datetime = nominal, name: str = name) -> Awaitable[list[FireRow]]:
            return fire(rivals.one, at, name=name)

        def changes(name: str = name) -> Awaitable[bool]:
            return rivals.two.change_schedule(name, disable, moves=True, actor=None)

        if turn % 2:
            changed, recorded = await queue_up(rivals, changes, fires)
            assert recorded == []  # what was decided for another version is decided anew
        else:
            recorded, changed = await queue_up(rivals, fires, changes)
            assert len(recorded) == 1
        assert changed
        (row,) = [row for row in (await rivals.one.read_schedules())[1] if row.name == name]
        assert (row.version, row.next_fire) == (2, None)
        assert row.last_fire is not None
        assert row.last_fire > nominal
        assert len(await rivals.one.list_fires(name, 10)) == len(recorded)
    assert await live_jobs(rivals) == len(range(0, ROUNDS // 5, 2))


async def test_the_end_of_a_job_and_the_next_fire_leave_one_live_job_at_most(rivals: Rivals) -> None:
    await rivals.one.define_schedules({"nightly": PLAN}, ["work"])
    worker = await register(rivals.one)
    await fire(rivals.one, START)
    skipped = 0
    for turn in range(1, ROUNDS):
        claimed = await rivals.one.claim_jobs(request(worker))
        if not claimed:  # the last one was left out, as its predecessor had not ended
            await fire(rivals.one, START + turn * SECOND, overlap="skip")
            claimed = await rivals.one.claim_jobs(request(worker))
        (job,) = claimed
        end = rivals.one.finish_jobs([completed(job.id, job.claim, "null")])
        if turn % 2:
            _, recorded = await asyncio.gather(end, fire(rivals.two, START + (ROUNDS + turn) * SECOND, overlap="skip"))
        else:
            recorded, _ = await asyncio.gather(fire(rivals.two, START + (ROUNDS + turn) * SECOND, overlap="skip"), end)
        (row,) = recorded
        skipped += row.outcome == "overlap"
        assert await live_jobs(rivals) == (row.outcome == "enqueued")
        assert [ended.state for ended in await rivals.one.get_jobs([job.id])] == [JobState.COMPLETED]
    show(f"of {ROUNDS} fires beside the end of a job {skipped} were left out")


async def test_a_cancelling_fire_and_the_end_of_the_job_never_lose_the_new_one(rivals: Rivals) -> None:
    await rivals.one.define_schedules({"nightly": PLAN}, ["work"])
    worker = await register(rivals.one)
    await fire(rivals.one, START)
    for turn in range(1, ROUNDS):
        (job,) = await rivals.one.claim_jobs(request(worker))
        recorded, worked = await asyncio.gather(
            fire(rivals.two, START + turn * SECOND, overlap="cancel"),
            rivals.one.finish_jobs([completed(job.id, job.claim, "null")]),
        )
        assert [row.outcome for row in recorded] == ["enqueued"]
        (ended,) = await rivals.one.get_jobs([job.id])
        assert ended.state in (JobState.COMPLETED, JobState.CANCELLED), worked
        assert await live_jobs(rivals) == 1


async def test_of_two_who_ask_for_an_office_that_has_ended_one_leads(rivals: Rivals) -> None:
    terms: list[int] = []
    for turn in range(ROUNDS):
        asked = [
            (rivals.one, f"one {turn}"),
            (rivals.two, f"two {turn}"),
        ]
        answers = await asyncio.gather(
            *(store.lead("upkeep", holder, None, 1_000_000) for store, holder in asked[:: 1 if turn % 2 else -1])
        )
        (term,) = [answer for answer in answers if answer is not None]
        terms.append(term)
        await rivals.watcher.execute(rivals.sql("UPDATE holdfast.leaders SET until = now() - interval '1 second'"))
    assert terms == list(range(1, ROUNDS + 1))


async def test_a_late_renewal_and_a_successor_never_both_lead(rivals: Rivals) -> None:
    renewed = 0
    for turn in range(ROUNDS):
        lease = f"lease {turn}"
        term = await rivals.one.lead(lease, "one", None, 1_000_000)
        await rivals.watcher.execute(rivals.sql("UPDATE holdfast.leaders SET until = now() - interval '1 second'"))
        keep, take = rivals.one.lead(lease, "one", term, 1_000_000), rivals.two.lead(lease, "two", None, 1_000_000)
        if turn % 2:
            kept, taken = await asyncio.gather(keep, take)
        else:
            taken, kept = await asyncio.gather(take, keep)
        assert (kept, taken) in ((1, None), (None, 2))
        renewed += kept is not None
    show(f"of {ROUNDS} late renewals {renewed} came in time")
    assert 0 < renewed < ROUNDS


async def test_who_cannot_be_elected_does_not_lead(rivals: Rivals) -> None:
    one, two = StoreLeader(rivals.one), StoreLeader(rivals.two)
    await one.ask()
    assert one.is_leader
    await rivals.watcher.execute(rivals.sql(_REFUSING))
    await one.ask()
    await two.ask()
    assert not one.is_leader
    assert not two.is_leader
    await rivals.watcher.execute(rivals.sql("DROP TRIGGER refused ON holdfast.leaders"))
    await one.ask()
    assert one.is_leader
    assert [row.term for row in await rivals.one.list_leaders()] == [1]


async def test_two_who_promote_make_every_due_job_ready_once(rivals: Rivals) -> None:
    due = datetime.now(UTC) - timedelta(hours=1)
    ids = await insert(rivals.one, DUE, run_at=datetime.now(UTC) + timedelta(hours=1))
    await rivals.watcher.execute(rivals.sql("UPDATE holdfast.jobs SET run_at = $1"), due)

    async def promote(store: PostgresStore) -> list[int]:
        found: list[int] = []
        while (promoted := await store.promote_jobs(50, named=True)).jobs:
            found += [ready.id for ready in promoted.ready]
        return found

    one, two = await asyncio.gather(promote(rivals.one), promote(rivals.two))
    show(f"of {DUE} due jobs {len(one)} were promoted by the first")
    assert sorted(one + two) == ids
    assert one
    assert two
    rows = await rivals.watcher.fetch(
        rivals.sql("SELECT state, count(DISTINCT position) FROM holdfast.jobs GROUP BY 1")
    )
    assert [tuple(row) for row in rows] == [("queued", DUE)]
