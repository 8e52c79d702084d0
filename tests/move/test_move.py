"""A move takes everything along: both ways, once each, in order, readable and runnable."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import Conflict, StoreMoved
from holdfast.job import JobState
from holdfast.moving.move import Wishes, abort, move
from holdfast.moving.sides import Side
from holdfast.stores.failures import DeadFilter
from holdfast.stores.moving import JOBS, Kind, Move, MoveProgress, Row, Stage, Table, kind_of
from holdfast.stores.postgres.moving import _KINDS
from holdfast.stores.postgres.store import PostgresStore
from holdfast.stores.sqlite.store import SqliteStore
from holdfast.stores.values import Insertion, Verdict
from holdfast.transitions import completed, failed
from tests.move.filling import (
    GONE,
    LIVE,
    assert_same,
    fill,
    listed,
    order,
    read_all,
    rows_of,
    run_out,
    snapshot,
)
from tests.move.tables import LEFT, MOVED, catalogue
from tests.support import raw
from tests.support.builders import FAILURE, claim, enqueue, find, insert, lane, register, running
from tests.support.sizes import CHAOS, size

JOBS_MOVED = size(1_000, 10_000)
TO = Wishes("postgresql://app:***@db/app", with_history=True, wait_s=0)


def quiet(_step: str, _rows: int) -> None:
    """Tell nobody."""


@pytest.fixture(params=["to-postgres", "to-sqlite"])
def sides(request: pytest.FixtureRequest, postgres: PostgresStore, sqlite_file: SqliteStore) -> tuple[Side, Side]:
    """The store that jobs leave and the one that they come to, both ways."""
    return (sqlite_file, postgres) if request.param == "to-postgres" else (postgres, sqlite_file)


async def test_every_table_is_moved_or_has_a_reason_to_stay(sides: tuple[Side, Side]) -> None:
    """A new table needs a decision; one that is forgotten would be lost by the first move."""
    moved = {table.name for table in MOVED}
    assert not moved & set(LEFT)
    found = await asyncio.gather(*(catalogue(side) for side in sides))
    assert found[0] | found[1] == moved | set(LEFT)


@pytest.mark.timeout(300 if CHAOS else 60)
async def test_everything_comes_over_once_and_runs_to_its_end(sides: tuple[Side, Side]) -> None:
    source, target = sides
    made = await fill(source, JOBS_MOVED)
    before, lanes = await snapshot(source), await order(source)
    assert all(before.values()), "every table has something to lose"
    told: list[str] = []

    counts = await move(source, target, TO, lambda step, _: told.append(step))

    after = await snapshot(target)
    assert_same(before, after)
    assert {name: len(rows) for name, rows in before.items() if rows} == {
        name: count for name, count in counts.items() if not name.endswith(" jobs")
    }
    assert await order(target) == lanes
    assert {"jobs", "compared history", "ready jobs"} <= set(told)
    paused = {row.name: row.paused_reason for row in await target.list_queues() if row.paused_at}
    assert paused == {"stopped": "it's broken"}
    assert await target.move_progress() == []
    live = [job_id for job_id, sort in made.items() if sort in LIVE]
    await raw.execute(target, "UPDATE holdfast.jobs SET state = 'blocked', position = NULL WHERE queue = 'later'")
    taken = await run_out(target)
    assert taken == Counter(job_id for job_id in live if made[job_id] in ("ready", "urgent", "midway", "stopped"))


async def test_groups_of_dead_letters_come_over_with_what_was_not_counted_yet(sides: tuple[Side, Side]) -> None:
    source, target = sides
    for _ in range(3):
        job = await running(source)
        await source.finish_jobs([failed(job.id, job.claim, FAILURE)])
        await source.fold_failures(1)
    job = await running(source, kind="late")
    await source.finish_jobs([failed(job.id, job.claim, FAILURE)])
    conditions = (DeadFilter(), DeadFilter(queues=("default",)))
    found = [await source.list_dead_letters(which, limit=10) for which in conditions]
    await move(source, target, TO, quiet)
    for which, before in zip(conditions, found, strict=True):
        after = await target.list_dead_letters(which, limit=10)
        assert {(group.id, group.seen, group.left) for group in after.groups} == {
            (group.id, group.seen, group.left) for group in before.groups
        }
        assert sum(group.seen for group in after.groups) == 4


async def test_jobs_read_the_same_on_both_sides(sides: tuple[Side, Side]) -> None:
    source, target = sides
    made = await fill(source, 220)
    ids = list(made)
    before, tagged = await read_all(source, ids), await listed(source, ("batch", "7"))
    await move(source, target, TO, quiet)
    after = await read_all(target, ids)

    assert after.keys() == before.keys() == made.keys()
    for job_id, job in after.items():
        assert (job.state, job.kind, job.queue, job.priority) == (
            (old := before[job_id]).state,
            old.kind,
            old.queue,
            old.priority,
        )
        assert (job.claim, job.life, job.attempt, job.crashes) == (old.claim, old.life, old.attempt, old.crashes)
        assert job.payload == old.payload
        assert job.result == old.result
        assert [(part.name, part.state, part.result) for part in job.phases] == [
            (part.name, part.state, part.result) for part in old.phases
        ]
        assert job.items == old.items
        assert [entry.error for entry in job.attempts] == [entry.error for entry in old.attempts]
        assert [line.text for line in job.logs] == [line.text for line in old.logs]
        assert abs((job.run_at - old.run_at).total_seconds()) < 0.001
    assert {job.state for job in after.values()} == set(JobState) - {JobState.RUNNING, JobState.BLOCKED}
    assert await listed(target, ("batch", "7")) == tagged > 0


async def test_without_history_only_what_lives_and_what_is_owed_comes_over(sides: tuple[Side, Side]) -> None:
    source, target = sides
    made = await fill(source, 220)
    await move(source, target, Wishes("there"), quiet)
    found = await snapshot(target)
    assert {row["id"] for row in found["jobs"]} == {job_id for job_id, sort in made.items() if sort in LIVE}
    assert found["history"] == found["rollups"] == found["retention_due"] == []
    assert len(found["deliveries"]) == sum(sort == "done" for sort in made.values())  # nobody has posted them yet
    assert sum(sort in GONE for sort in made.values()) > 0


async def test_keys_hold_on_the_target(sides: tuple[Side, Side]) -> None:
    source, target = sides
    made = await fill(source, 220)
    (first, *_) = (job_id for job_id, sort in made.items() if sort == "urgent")
    payload = (await read_all(source, [first]))[first].payload_json
    await move(source, target, TO, quiet)
    again = await insert(target, queue="urgent", payload=payload, key="k-0")
    assert (again.outcome, again.id) == (Insertion.EXISTING, first)
    unique = await insert(target, queue="urgent", unique="u-0")
    assert (unique.outcome, unique.id) == (Insertion.EXISTING, first)


@pytest.mark.guards("staged-copy")
async def test_nobody_takes_a_copy_before_the_source_is_given_up(sides: tuple[Side, Side]) -> None:
    source, target = sides
    await fill(source, 110)
    worker = await register(target)
    seen: list[int] = []

    class Busy(Exception):
        """The target's workers have looked; that is enough."""

    async def look() -> None:
        lanes = [lane(queue, priority) for queue in LIVE for priority in (1, 5)]
        seen.append(len(await claim(target, worker, *lanes)))
        await target.promote_jobs(1_000)
        assert await target.claim_deliveries(100, 1_000) == []

    mark = source.mark_move

    async def marking(move: Move) -> bool:
        if move.stage is Stage.MOVED:
            await look()
            raise Busy
        return await mark(move)

    source.mark_move = marking  # type: ignore[method-assign] # the moment before the mark
    with pytest.raises(Busy):
        await move(source, target, TO, quiet)
    source.mark_move = mark  # type: ignore[method-assign] # as it was
    assert seen == [0]
    before = await snapshot(source)
    await move(source, target, TO, quiet)
    assert_same(before, await snapshot(target))


async def test_a_target_in_use_keeps_what_it_has(sides: tuple[Side, Side]) -> None:
    source, target = sides
    own = [await enqueue(target, queue="ready"), await enqueue(target, queue="own")]
    await target.pause_queue("own", actor="a", reason="b")
    made = await fill(source, 220)
    await move(source, target, TO, quiet)
    lanes = await order(target)
    assert lanes["ready", 5][0] == own[0]  # who came first is served first
    assert lanes["own", 5] == [own[1]]
    assert {row["id"] for row in await rows_of(target, JOBS)} == {
        *own,
        *(job_id for job_id, sort in made.items() if sort in LIVE),
    }


async def test_between_two_databases_of_a_kind_not_a_digit_is_lost(
    dsn: str, postgres: PostgresStore, tmp_path: Path
) -> None:
    schema = f"{postgres.schema}_2"
    other = PostgresStore(dsn, schema=schema)
    await other.migrator.up()
    await other.open()
    await fill(postgres, 110)
    before = await snapshot(postgres)
    await move(postgres, other, TO, quiet)
    after = await snapshot(other)
    assert_same(before, after)
    assert [row["enqueued_at"] for row in after["jobs"]] == [row["enqueued_at"] for row in before["jobs"]]
    assert any(row["enqueued_at"] % 1_000 for row in after["jobs"])  # microseconds
    await other.close()
    await raw.drop_schema(dsn, schema)


# ---- two at once ---------------------------------------------------------------------------------------------------


async def test_of_two_commands_at_once_one_goes_on_and_nothing_comes_twice(sides: tuple[Side, Side]) -> None:
    source, target = sides
    await fill(source, 220)
    before = await snapshot(source)
    put = target.put_rows
    passed: list[str] = []

    async def late(table: Table, rows: Sequence[Row], progress: MoveProgress, *, is_rehearsal: bool = False) -> Any:
        target.put_rows = put  # type: ignore[method-assign] # once is enough
        await move(source, target, TO, quiet)  # another process, from here to its end
        passed.append(table.name)
        return await put(table, rows, progress, is_rehearsal=is_rehearsal)

    target.put_rows = late  # type: ignore[method-assign] # a process that stands still before it writes
    with pytest.raises(Conflict, match="another process goes on with this move"):
        await move(source, target, TO, quiet)
    assert passed == ["jobs"]
    assert_same(before, await snapshot(target))


@pytest.mark.parametrize("verb", ["take_progress", "read_tags", "end_progress"])
async def test_a_command_that_is_overtaken_does_nothing_again(sides: tuple[Side, Side], verb: str) -> None:
    source, target = sides
    await fill(source, 220)
    before = await snapshot(source)
    side = source if verb == "read_tags" else target
    asked = getattr(side, verb)
    calls = 0

    async def late(*given: Any) -> Any:
        nonlocal calls
        calls += 1
        if verb == "read_tags" and calls == 1:  # the one before the source is closed
            return await asked(*given)
        setattr(side, verb, asked)
        await move(source, target, TO, quiet)  # another process, from here to its end
        return await asked(*given)

    setattr(side, verb, late)
    with contextlib.suppress(Conflict):
        await move(source, target, TO, quiet)
    assert await move(source, target, TO, quiet) == {}
    assert_same(before, await snapshot(target))
    assert await target.move_progress() == []


async def test_a_move_that_was_given_up_meanwhile_gives_nothing_up(sides: tuple[Side, Side]) -> None:
    source, target = sides
    made = await fill(source, 110)
    before = await snapshot(source)
    same = target.same_rows

    async def late(table: Table, rows: Sequence[Row]) -> list[Row]:
        target.same_rows = same  # type: ignore[method-assign] # once is enough
        found = await same(table, rows)
        await abort(source, None)  # somebody reopens the source while this one compares
        return found

    target.same_rows = late  # type: ignore[method-assign] # a process that stands still while it compares
    with pytest.raises(Conflict, match="marked by another move, or this one was given up"):
        await move(source, target, TO, quiet)
    assert await source.read_move() is None
    assert await order(target) == {}  # the copies wait, and run nowhere
    await enqueue(source, queue="own")
    await move(source, target, TO, quiet)  # the next one clears up first
    after = await snapshot(target)
    assert len(after["jobs"]) == len(before["jobs"]) + 1
    assert {row["id"] for row in after["history"]} == {job_id for job_id, sort in made.items() if sort in GONE}


# ---- refusals ------------------------------------------------------------------------------------------------------


async def test_a_store_with_the_same_tag_gets_another_one_while_it_is_empty(sides: tuple[Side, Side]) -> None:
    source, target = sides
    await target.change_tag((await source.read_tags()).own)
    await fill(source, 110)
    await move(source, target, TO, quiet)
    assert (await target.read_tags()).own != (await source.read_tags()).own


@pytest.mark.guards("moved-ids")
async def test_a_store_with_the_same_tag_and_jobs_is_refused(sides: tuple[Side, Side]) -> None:
    source, target = sides
    await target.change_tag((await source.read_tags()).own)
    await enqueue(target)
    await enqueue(source)
    with pytest.raises(Conflict, match="an id could mean two jobs"):
        await move(source, target, TO, quiet)
    await enqueue(source)  # nothing was closed


async def test_a_store_is_not_moved_into_itself(postgres: PostgresStore, sqlite_file: SqliteStore) -> None:
    for store in (postgres, sqlite_file):
        await enqueue(store)
        with pytest.raises(Conflict, match=r"an id could mean two|very store"):
            await move(store, store, TO, quiet)
        await enqueue(store)


async def test_a_clash_is_told_and_nothing_is_given_up(sides: tuple[Side, Side]) -> None:
    source, target = sides
    job_id = await enqueue(source, unique="one")
    other = await enqueue(target, unique="one")
    with pytest.raises(Conflict, match=r"jobs .* is not there"):
        await move(source, target, TO, quiet)
    mark = await source.read_move()
    assert mark is not None
    assert mark.stage is Stage.CLOSED
    assert await abort(source, target) == 0
    assert await find(target, job_id) is None
    assert await find(target, other) is not None
    await enqueue(source)


async def test_running_jobs_are_waited_for(sides: tuple[Side, Side]) -> None:
    source, target = sides
    worker = await register(source)
    first, second = await enqueue(source), await enqueue(source)
    jobs = await claim(source, worker, limit=1)
    with pytest.raises(Conflict, match="1 jobs still run"):
        await move(source, target, TO, quiet)
    assert await claim(source, worker) == []  # nothing new is begun
    with pytest.raises(StoreMoved, match=r"being moved to postgresql://app:\*\*\*@db/app"):
        await enqueue(source)
    await source.renew_workers([worker], 10_000)  # what runs may go on ...
    await source.finish_jobs([completed(job.id, job.claim) for job in jobs])  # ... and end
    await move(source, target, TO, quiet)
    assert [await find(target, job_id) is not None for job_id in (first, second)] == [True, True]
    assert await order(target) == {("default", 5): [second]}


async def test_what_still_runs_can_be_interrupted(sides: tuple[Side, Side]) -> None:
    source, target = sides
    worker = await register(source)
    job_id = await enqueue(source)
    (job,) = await claim(source, worker)
    await move(source, target, Wishes("there", wait_s=0, interrupts=True), quiet)
    with contextlib.suppress(StoreMoved):  # who has lost its claim may be told so, too
        worked = await source.finish_jobs([completed(job.id, job.claim)])
        assert worked.finishes[0].verdict is not Verdict.DONE
    with pytest.raises(StoreMoved):
        await register(source)
    moved = await find(target, job_id)
    assert moved is not None
    assert (moved.state, moved.attempt, moved.claim) == (JobState.QUEUED, 0, 1)  # uncharged, and fenced


async def test_kinds_of_columns_are_those_of_the_catalogue(postgres: PostgresStore) -> None:
    for table in MOVED:
        columns = await postgres.columns_of(table)
        assert columns
        assert {name: kind_of(name) for name in columns} == {
            name: _KINDS.get(kind, Kind.PLAIN) for name, kind in columns.items()
        }, table.name


async def test_a_file_that_moved_is_refused_by_its_new_name_too(tmp_path: Path) -> None:
    source, target = SqliteStore(str(tmp_path / "a.db")), SqliteStore(str(tmp_path / "b.db"))
    await source.open()
    await target.open()
    await fill(source, 110)
    before = await snapshot(source)
    await move(source, target, Wishes("sqlite:///b.db", with_history=True), quiet)
    assert_same(before, await snapshot(target))
    await source.close()
    with pytest.raises(StoreMoved, match=r"has been moved to sqlite:///b\.db: use that one"):
        await SqliteStore(str(tmp_path / "a.db")).open()
    await target.close()
