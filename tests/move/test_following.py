"""Escalations, messages and bulk operations go on where the jobs come to."""

from collections.abc import Sequence

import pytest

from holdfast.delivery.in_store import InStore
from holdfast.errors import StoreMoved
from holdfast.escalation.facts import dedup_key
from holdfast.job import JobState
from holdfast.moving.copying import numbered
from holdfast.moving.move import Wishes, abort, move
from holdfast.moving.sides import Side
from holdfast.public_id import LARGEST
from holdfast.resources.bulk import BulkState, BulkVerb
from holdfast.services.bulk import BulkService
from holdfast.stores.alarms import Alarm, EscalationRow
from holdfast.stores.bulk import NewBulk
from holdfast.stores.moving import BULK_RUNS, NOTICES, PENDING_NOTICES, Move, MoveProgress, Release, Row, Stage, Table
from holdfast.stores.postgres.store import PostgresStore
from holdfast.stores.sqlite.store import SqliteStore
from holdfast.stores.values import JobFilter
from holdfast.transitions import failed
from tests.move.filling import begin_runs, escalate, rows_of
from tests.move.test_move import TO, quiet
from tests.support import raw
from tests.support.builders import FAILURE, claim, enqueue_many, register

FAILED = JobFilter(states=(JobState.FAILED,))


@pytest.fixture(params=["to-postgres", "to-sqlite"])
def sides(request: pytest.FixtureRequest, postgres: PostgresStore, sqlite_file: SqliteStore) -> tuple[Side, Side]:
    """The store that jobs leave and the one that they come to, both ways."""
    return (sqlite_file, postgres) if request.param == "to-postgres" else (postgres, sqlite_file)


async def escalations(store: Side) -> dict[str, EscalationRow]:
    """Read escalations by what they are about."""
    found = await store.list_escalations(is_open=None, policy=None, limit=100, before=None)
    return {f"{row.fingerprint} {row.id}" if row.title == "own" else row.fingerprint: row for row in found}


async def open_own(store: Side, *fingerprints: str, title: str = "own") -> None:
    """Let a store have open escalations of its own that nobody was told of."""
    await store.define_escalations(["ops"])
    for fingerprint in fingerprints:
        alarm = Alarm(source="failed", title=title, policy="ops", kind="work", fingerprint=fingerprint)
        await raw.raise_alarm(store, alarm)
        await store.fold_alarms({"ops": ["failed"]}, 10)


async def fail_many(store: Side, count: int) -> list[int]:
    """Let jobs fail."""
    worker = await register(store)
    ids = await enqueue_many(store, count)
    await store.finish_jobs([failed(job.id, job.claim, FAILURE) for job in await claim(store, worker)])
    await store.retire_worker(worker)
    return ids


class Lost(Exception):
    """The answer of a store was lost, and the command has ended."""


def lose_answers(target: Side, *tables: str) -> list[str]:
    """Let the answer to the first rows of each of these tables be lost; gives those that are left."""
    left, put = list(tables), target.put_rows

    async def put_rows(
        table: Table, rows: Sequence[Row], progress: MoveProgress, *, is_rehearsal: bool = False
    ) -> list[Row]:
        found = await put(table, rows, progress, is_rehearsal=is_rehearsal)
        if table.name in left and not is_rehearsal:
            left.remove(table.name)
            raise Lost
        return found

    target.put_rows = put_rows  # type: ignore[method-assign] # a link that breaks after the commit
    return left


# ---- escalations -----------------------------------------------------------------------------------------------------


async def test_escalations_go_on_with_their_numbers_clocks_and_messages(sides: tuple[Side, Side]) -> None:
    source, target = sides
    await escalate(source, 42)
    before = await escalations(source)
    left = lose_answers(target, "escalation_policies", "escalations", "notices", "alarms")
    while left:
        with pytest.raises(Lost):
            await move(source, target, TO, quiet)
    counts = await move(source, target, TO, quiet)
    assert {name: counts[name] for name in ("escalations", "notices", "alarms", "escalation_policies")} == {
        "escalations": 3,
        "notices": 6,
        "alarms": 1,
        "escalation_policies": 1,
    }
    after = await escalations(target)
    for fingerprint, old in before.items():
        new = after[fingerprint]
        for name in ("id", "jobs", "count", "said", "version", "snoozed_by"):
            assert getattr(new, name) == getattr(old, name), name
        assert (new.closed_at is None) is (old.closed_at is None)
        assert dedup_key(new) == dedup_key(old), "a pager knows it by this name"
        notices = [found[1] for side in sides if (found := await side.get_escalation(old.id)) is not None]
        assert [[(one.id, one.event, one.state) for one in some] for some in notices[1:]] == [
            [(one.id, one.event, one.state) for one in notices[0]]
        ]
    due = after["told"].due_at
    assert due is not None
    assert before["told"].due_at is not None
    assert abs((due - before["told"].due_at).total_seconds()) < 0.001
    await raw.execute(target, "UPDATE holdfast.notices SET next_at = created_at")
    sent = await target.claim_notices(["chat"], 10, 1_000)
    assert {notice.escalation for notice in sent} == {row.id for row in before.values()}
    assert await target.fold_alarms({"ops": ["failed"]}, 10) == 1, "what nobody had looked at"
    assert (await escalations(target))["inbox"].id > max(row.id for row in before.values())
    with pytest.raises(StoreMoved):
        await source.ack_escalation(before["told"].id, actor="late", note=None)
    with pytest.raises(StoreMoved):
        await open_own(source, "late")


async def test_what_is_over_stays_behind_without_history(sides: tuple[Side, Side]) -> None:
    source, target = sides
    await escalate(source, 42)
    await begin_runs(source)
    pending = await rows_of(source, PENDING_NOTICES)
    await raw.execute(source, "UPDATE holdfast.escalations SET digested = count WHERE fingerprint = 'over'")
    await move(source, target, Wishes("there"), quiet)
    assert set(await escalations(target)) == {"told", "snoozed"}
    assert [row["id"] for row in await rows_of(target, NOTICES)] == [row["id"] for row in pending]
    assert len(pending) == 5
    assert [(run.id, run.state) for run in await target.list_bulk(10)] == [
        (3, BulkState.PAUSED),
        (2, BulkState.RUNNING),
    ]


async def test_a_target_with_escalations_of_its_own_keeps_them_and_numbers_the_others_anew(
    sides: tuple[Side, Side],
) -> None:
    source, target = sides
    await open_own(target, "own", "other", "told", "untold")
    own = await escalations(target)
    await escalate(source, 42)
    await open_own(source, "untold", title="theirs")
    before = await escalations(source)
    await move(source, target, TO, quiet)
    after = await escalations(target)
    assert {name: after[name] for name in own} == own
    lowest = max(row.id for row in own.values())
    shift = after["told"].id - before["told"].id
    assert shift >= lowest
    assert {name: row.id - shift for name, row in after.items() if name not in own} == {
        name: row.id for name, row in before.items()
    }
    for old in before.values():
        found = await target.get_escalation(old.id + shift)
        assert found is not None
        assert len(found[1]) == 2 * (old.told_at is not None), "messages name the new number"
    told = after["told"]  # the target has the same one, open
    assert told.closed_at is not None
    assert (told.due_at, told.resolved_at, told.told_at is None) == (None, None, False)
    untold = after["untold"]  # likewise, and nobody has to hear of its end
    assert untold.closed_at == untold.resolved_at == untold.last_at
    await open_own(target, "next")
    assert len(await escalations(target)) == len(after) + 1


async def test_numbers_stay_when_a_move_is_given_up_and_begun_anew(sides: tuple[Side, Side]) -> None:
    source, target = sides
    await escalate(source, 42)
    before = await escalations(source)
    mark = source.mark_move

    class Enough(Exception):
        """It came as far as it should."""

    async def marking(move: Move) -> bool:
        if move.stage is Stage.MOVED:
            raise Enough
        return await mark(move)

    source.mark_move = marking  # type: ignore[method-assign] # the moment before the mark
    with pytest.raises(Enough):
        await move(source, target, TO, quiet)
    source.mark_move = mark  # type: ignore[method-assign] # as it was
    await abort(source, target)
    assert await escalations(target) == {}
    await open_own(target, "own")
    await move(source, target, TO, quiet)
    after = await escalations(target)
    assert {name: after[name].id for name in before} == {name: row.id for name, row in before.items()}


# ---- bulk operations -----------------------------------------------------------------------------------------------


async def test_a_bulk_run_goes_on_where_it_was(sides: tuple[Side, Side]) -> None:
    source, target = sides
    ids = await fail_many(source, 20)
    new = NewBulk(key="one", verb=BulkVerb.RETRY, which=FAILED, expected=20, actor="alice", reason="fixed")
    run = await source.start_bulk(new)
    assert (await BulkService(source, InStore(source)).run(7)).moved == 7
    await move(source, target, TO, quiet)
    (found,) = await target.list_bulk(10)
    assert (found.id, found.done, found.step, found.actor, found.which) == (run.id, 7, 1, "alice", FAILED)
    serving = BulkService(target, InStore(target))
    while (await serving.run(7)).has_more:
        pass
    (ended,) = await target.list_bulk(10)
    assert (ended.state, ended.done) == (BulkState.ENDED, 20)
    assert {(job.state, job.life) for job in await target.get_jobs(ids)} == {(JobState.QUEUED, 2)}
    again = await target.start_bulk(NewBulk(key="two", verb=BulkVerb.RETRY, which=FAILED, expected=0))
    assert again.id > run.id


async def test_a_bulk_run_begins_on_the_target_only_when_its_jobs_are_there(sides: tuple[Side, Side]) -> None:
    """One that cancels waiting jobs would pass over copies that still wait for their release."""
    source, target = sides
    ids = await enqueue_many(source, 5)
    await source.start_bulk(
        NewBulk(key="one", verb=BulkVerb.CANCEL, which=JobFilter(states=(JobState.QUEUED,)), expected=5)
    )
    release, serving = target.release_jobs, BulkService(target, InStore(target))

    async def busy(releases: Sequence[Release], progress: MoveProgress) -> None:
        await serving.run(100)
        await release(releases, progress)

    target.release_jobs = busy  # type: ignore[method-assign] # a leader that looks in between
    await move(source, target, TO, quiet)
    while (await serving.run(100)).has_more:
        pass
    assert {job.state for job in await target.get_jobs(ids)} == {JobState.CANCELLED}


def test_a_place_between_two_milliseconds_is_looked_at_again() -> None:
    """Jobs of one millisecond may come in another order where times are coarser."""
    row = {"id": 1, "cursor_at": 1_500, "cursor_id": 9}
    assert numbered(BULK_RUNS, row, {"bulk_runs": 0}) == {"id": 1, "cursor_at": 1_500, "cursor_id": LARGEST}
    whole = {"id": 1, "cursor_at": 2_000, "cursor_id": 9}
    assert numbered(BULK_RUNS, whole, {"bulk_runs": 4}) == {"id": 5, "cursor_at": 2_000, "cursor_id": 9}
