"""Roll-ups that have grown old become fewer rows, and every count stays."""

import sqlite3
from datetime import UTC, datetime, timedelta

import pytest

from holdfast.job import JobState
from holdfast.rollup import Rollup
from holdfast.stores.postgres.store import PostgresStore
from holdfast.stores.sqlite import rows
from holdfast.stores.sqlite.store import SqliteStore
from holdfast.stores.store import Store
from tests.support.clock import Clock

A = Rollup("default", "work", JobState.COMPLETED, 3, {0: 1, 5: 2}, {7: 3})
B = Rollup("default", "work", JobState.COMPLETED, 2, {5: 1, 43: 1}, {})
BOTH = Rollup("default", "work", JobState.COMPLETED, 5, {0: 1, 5: 3, 43: 1}, {7: 3})
OTHERS = [
    Rollup("default", "mail", JobState.FAILED, 1, {1: 1}, {}),
    Rollup("default", "work", JobState.FAILED, 1, {}, {}),
    Rollup("high", "work", JobState.COMPLETED, 1, {1: 1}, {2: 1}),
]
MINUTE, HALF, HOUR, DAY = 60, 1_800, 3_600, 86_400
NOON = datetime(2031, 5, 6, 12, 0, tzinfo=UTC)  # Tuesday, and far from any change of the clocks


@pytest.fixture(autouse=True)
async def _at_noon(clock: Clock) -> None:
    clock.now = NOON
    await clock.stop()


async def spans(store: Store) -> list[tuple[int, datetime, str, str, str]]:
    """Read what the rows stand for: how many seconds, from when, of what."""
    sql = "SELECT span_s, minute, queue, kind, state FROM holdfast.rollups ORDER BY minute, span_s, queue, kind, state"
    if isinstance(store, PostgresStore):
        return [tuple(row) for row in await store.fetch_sql(sql)]
    assert isinstance(store, SqliteStore)

    def read(database: sqlite3.Connection, _now: int) -> list[tuple[int, datetime, str, str, str]]:
        found = database.execute(sql.replace("holdfast.", "holdfast_"))
        return [(span_s, rows.moment(minute), *names) for span_s, minute, *names in found]

    return await store.connection.read(read)


async def count(store: Store, *rollups: Rollup) -> None:
    await store.finish_jobs([], rollups=rollups)


async def fold_all(store: Store) -> int:
    """Fold until nothing is left, and say how many rows that made."""
    made = 0
    while found := await store.fold_rollups(100):
        made += found
    return made


async def test_nothing_to_fold(store: Store, clock: Clock) -> None:
    assert await store.fold_rollups(100) == 0
    await count(store, A)
    assert await store.fold_rollups(100) == 0
    await clock.advance(minutes=6, seconds=-1)  # the minute ended less than five minutes ago
    assert await store.fold_rollups(100) == 0
    assert [row[0] for row in await spans(store)] == [1]


async def test_a_minute_becomes_one_row_bucket_by_bucket(store: Store, clock: Clock) -> None:
    await count(store, A, *OTHERS)
    await clock.advance(seconds=59)
    await count(store, B)
    await clock.advance(seconds=1)
    await count(store, A)
    before = await store.read_rollups(NOON)
    await clock.advance(minutes=5)
    assert await store.fold_rollups(100) == 4
    assert await spans(store) == [
        (MINUTE, NOON, "default", "mail", "failed"),
        (MINUTE, NOON, "default", "work", "completed"),
        (MINUTE, NOON, "default", "work", "failed"),
        (MINUTE, NOON, "high", "work", "completed"),
        (1, NOON + timedelta(minutes=1), "default", "work", "completed"),
    ]
    assert await store.read_rollups(NOON) == before
    assert await store.read_rollups(NOON + timedelta(minutes=1)) == [A]
    assert await store.fold_rollups(100) == 0


async def test_minutes_become_hours_and_hours_become_days(store: Store, clock: Clock) -> None:
    for _ in range(26):  # until 14:00 of the next day
        await count(store, A)
        await clock.advance(minutes=30)
        await count(store, B)
        await clock.advance(minutes=30)
        await store.fold_rollups(100)
    before = await store.read_rollups(NOON)
    assert before[0].jobs == 26 * 5
    await clock.advance(days=1, hours=9)
    await fold_all(store)
    # Two days ago it was 23:00, and the first 11 hours had ended by then.
    assert [row[0] for row in await spans(store)] == [HOUR] * 11 + [HALF] * 30
    assert await store.read_rollups(NOON) == before
    await clock.advance(days=90)
    assert await fold_all(store) == 15 + 2
    midnight = NOON.replace(hour=0)
    assert await spans(store) == [
        (DAY, midnight, "default", "work", "completed"),
        (DAY, midnight + timedelta(days=1), "default", "work", "completed"),
    ]
    assert await store.read_rollups(midnight) == before
    assert [rollup.jobs for rollup in await store.read_rollups(NOON)] == [14 * 5], "a day that began before"


async def test_a_row_that_comes_late_joins_the_one_that_is_there(store: Store, clock: Clock) -> None:
    await count(store, A)
    await clock.advance(minutes=6)
    assert await store.fold_rollups(100) == 1
    clock.now = NOON
    await clock.stop()
    await count(store, B)  # by a transaction that began when the minute was young
    await clock.advance(minutes=6)
    assert await store.fold_rollups(100) == 1
    assert [row[0] for row in await spans(store)] == [MINUTE]
    assert await store.read_rollups(NOON) == [BOTH]


async def test_a_call_makes_at_most_so_many_rows(store: Store, clock: Clock) -> None:
    for _ in range(3):
        await count(store, A, *OTHERS)
        await clock.advance(minutes=1)
    await clock.advance(minutes=10)
    before = await store.read_rollups(NOON)
    made: list[int] = []
    while not made or made[-1]:
        made.append(await store.fold_rollups(5))
        assert await store.read_rollups(NOON) == before
    assert made == [5, 5, 2, 0]
    assert {row[0] for row in await spans(store)} == {MINUTE}


async def test_the_limit_holds_for_all_spans_together(store: Store, clock: Clock) -> None:
    await count(store, A)
    await clock.advance(minutes=10)
    await store.fold_rollups(10)
    await clock.advance(days=3)
    await count(store, A)
    await clock.advance(minutes=10)
    assert await store.fold_rollups(1) == 1
    assert sorted(row[0] for row in await spans(store)) == [MINUTE, MINUTE]
    assert await store.fold_rollups(1) == 1
    assert sorted(row[0] for row in await spans(store)) == [MINUTE, HALF]
    assert await store.fold_rollups(1) == 1
    assert sorted(row[0] for row in await spans(store)) == [MINUTE, HOUR]


async def test_minutes_become_half_hours_after_two_hours(store: Store, clock: Clock) -> None:
    for minutes in (29, 1, 30):
        await count(store, A)
        await clock.advance(minutes=minutes)
    await clock.advance(hours=1, minutes=59)
    await fold_all(store)  # the second half hour ended less than two hours ago
    assert [(row[0], row[1] - NOON) for row in await spans(store)] == [
        (HALF, timedelta(0)),
        (MINUTE, timedelta(minutes=30)),
    ]


async def test_a_series_counts_by_step_queue_and_state(store: Store, clock: Clock) -> None:
    await count(store, A, *OTHERS)
    await clock.advance(minutes=1)
    await count(store, B)
    await clock.advance(minutes=10)
    await count(store, A)
    seen = [(point.at, point.queue, point.state, point.jobs) for point in await store.read_series(NOON, 300)]
    assert seen == [
        (NOON, "default", JobState.COMPLETED, 5),
        (NOON, "default", JobState.FAILED, 2),
        (NOON, "high", JobState.COMPLETED, 1),
        (NOON + timedelta(minutes=10), "default", JobState.COMPLETED, 3),
    ]
    late = await store.read_series(NOON + timedelta(minutes=1), 60)
    assert [(point.at, point.jobs) for point in late] == [
        (NOON + timedelta(minutes=1), 2),
        (NOON + timedelta(minutes=11), 3),
    ]
    await fold_all(store)
    assert [point.jobs for point in await store.read_series(NOON, 300)] == [5, 2, 1, 3]
