"""Several fold roll-ups at once, finishers add to them meanwhile, and the totals never change."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

from holdfast.job import JobState
from holdfast.rollup import Rollup
from holdfast.stores.postgres.connection import Connection
from tests.races.rivals import Rivals
from tests.support.connections import replace_function, show, until_held_up
from tests.support.sizes import size

NOON = datetime(2031, 5, 6, 12, 0, tzinfo=UTC)
KINDS = 5
LOCK = (
    "IF NOT pg_try_advisory_xact_lock(hashtextextended('holdfast fold ' || 'holdfast.rollups'::regclass::oid, 0)) THEN"
)
NO_LOCK = (LOCK, "IF false THEN")
DELETING = ("gone AS (\n            DELETE", "deleted AS (\n            DELETE")
READING = (
    "RETURNING g.start, r.queue, r.kind, r.state, r.jobs, r.wait, r.run\n        ),",
    """RETURNING r.queue
        ),

        gone AS (
            SELECT g.start, r.queue, r.kind, r.state, r.jobs, r.wait, r.run
            FROM holdfast.rollups AS r
            INNER JOIN groups AS g
                ON (date_bin(v_step.wider, r.minute, 'epoch'), r.queue, r.kind, r.state)
                    = (g.start, g.queue, g.kind, g.state)
        ),""",
)


def batch(number: int) -> list[Rollup]:
    """What one finish has counted."""
    return [
        Rollup("default", f"kind-{kind}", JobState.COMPLETED, 2, {number % 7: 2}, {kind: 2}) for kind in range(KINDS)
    ]


async def at(rivals: Rivals, now: datetime) -> None:
    await rivals.one.set_time(now)


async def totals(rivals: Rivals) -> tuple[int, int, int]:
    """Count jobs, and the entries of both histograms, in one snapshot."""
    sql = """
        SELECT
            COALESCE(sum(jobs), 0)::bigint,
            COALESCE(sum((SELECT sum(value::bigint) FROM jsonb_each_text(wait))), 0)::bigint,
            COALESCE(sum((SELECT sum(value::bigint) FROM jsonb_each_text(run))), 0)::bigint
        FROM holdfast.rollups
    """
    jobs, waits, runs = await rivals.watcher.fetchrow(rivals.sql(sql)) or (0, 0, 0)
    return jobs, waits, runs


async def shapes(rivals: Rivals) -> dict[int, int]:
    """Count the rows by what they stand for."""
    found = await rivals.watcher.fetch(rivals.sql("SELECT span_s, count(*) FROM holdfast.rollups GROUP BY 1"))
    return dict(tuple(row) for row in found)


async def fill(rivals: Rivals, batches: int) -> int:
    """Count many batches of ten minutes long ago, and say how many jobs that makes."""
    for number in range(batches):
        await at(rivals, NOON + timedelta(minutes=number % 10))
        await rivals.one.finish_jobs([], rollups=batch(number))
    await at(rivals, NOON + timedelta(hours=1))
    return batches * KINDS * 2


async def fold_at_once(rivals: Rivals) -> int:
    """Let both sides fold until nothing is left, and say how many rows they made."""

    async def fold(store: Callable[[int], Awaitable[int]]) -> int:
        made, idle = 0, 0
        while idle < 3:
            last = await store(3)
            made, idle = made + last, idle + (last == 0)
        return made

    return sum(await asyncio.gather(fold(rivals.one.fold_rollups), fold(rivals.two.fold_rollups)))


async def test_two_who_fold_at_once_never_change_a_count(rivals: Rivals) -> None:
    jobs = await fill(rivals, size(50, 500))
    assert await totals(rivals) == (jobs, jobs, jobs)
    made = await fold_at_once(rivals)
    assert made == 10 * KINDS, "each group is folded once"
    assert await totals(rivals) == (jobs, jobs, jobs)
    assert await shapes(rivals) == {60: 10 * KINDS}


async def test_the_counts_do_not_rest_on_the_lock(rivals: Rivals, caller: Connection) -> None:
    await replace_function(caller, rivals.schema, "fold_rollups", NO_LOCK)
    jobs = await fill(rivals, size(50, 500))
    await fold_at_once(rivals)
    assert await totals(rivals) == (jobs, jobs, jobs)


async def meet_at_the_rows(rivals: Rivals) -> None:
    """Let both fold the same rows: both have read them when the first may delete them."""
    async with rivals.blocker.transaction():
        await rivals.blocker.execute(rivals.sql("SELECT FROM holdfast.rollups FOR UPDATE"))
        both = [asyncio.create_task(store.fold_rollups(1_000)) for store in (rivals.one, rivals.two)]
        await until_held_up(rivals.watcher, rivals.schema, *both)
    await asyncio.gather(*both)


async def test_both_meet_at_the_same_rows(rivals: Rivals, caller: Connection) -> None:
    await replace_function(caller, rivals.schema, "fold_rollups", NO_LOCK)
    jobs = await fill(rivals, 20)
    await meet_at_the_rows(rivals)
    assert await totals(rivals) == (jobs, jobs, jobs)


async def test_what_is_read_before_it_is_deleted_would_count_twice(rivals: Rivals, caller: Connection) -> None:
    """What the rule forbids: to add up what was read, and not what was deleted."""
    await replace_function(caller, rivals.schema, "fold_rollups", NO_LOCK, DELETING, READING)
    jobs = await fill(rivals, 20)
    await meet_at_the_rows(rivals)
    assert (await totals(rivals))[0] == 2 * jobs


async def test_finishers_add_while_others_fold(rivals: Rivals) -> None:
    """Old rows come late, from transactions that began when they were new; none is lost, and none counts twice."""
    rounds = size(40, 400)
    before = await fill(rivals, 20)
    late = rivals.sql(
        "INSERT INTO holdfast.rollups (minute, queue, kind, state, jobs, wait, run) "
        "VALUES ($1, 'default', 'kind-0', 'completed', 1, '{\"3\": 1}', '{\"3\": 1}')"
    )
    done = Counter[str]()

    async def add() -> None:
        while done["rows"] < rounds or done["folds"] <= 2:
            await rivals.blocker.execute(late, NOON + timedelta(minutes=done["rows"] % 10))
            done["rows"] += 1

    adding = asyncio.create_task(add())
    while not adding.done():
        await asyncio.gather(rivals.one.fold_rollups(7), rivals.two.fold_rollups(7))
        done["folds"] += 2
    await adding
    await fold_at_once(rivals)
    show(f"{done['folds']} folds beside {done['rows']} rows that came late")
    assert await totals(rivals) == (before + done["rows"],) * 3
    assert await shapes(rivals) == {60: 10 * KINDS}
