"""Phases, items and lines: kept under the fence while a job lives, one row with it when it has ended."""

import sqlite3
from datetime import timedelta
from functools import partial
from typing import Any

import msgspec
import pytest

from holdfast.job import Answer, JobRow, JobState
from holdfast.journal import Changes, ItemsNote, PhaseChange
from holdfast.phases import PhaseRow, PhaseState
from holdfast.stores.postgres.store import PostgresStore
from holdfast.stores.sqlite.store import SqliteStore
from holdfast.stores.store import Store
from holdfast.stores.values import ProgressReport, Started, Verdict
from holdfast.transitions import Transition, cancelled, completed, crashed, failed, interrupted, retried, snoozed
from tests.support import builders
from tests.support.builders import (
    FAILURE,
    LEASE_MS,
    claim_one,
    enqueue,
    read,
    register,
    retry,
    running,
    settle,
)
from tests.support.clock import Clock
from tests.support.effects import Effects

TABLES = ("progress", "phases", "item_sets", "items", "logs")
PLAN = '{"phases": [["one", 1.0], ["two", 1.0], ["three", 1.0]]}'
EVERYTHING = {"progress": 1, "phases": 3, "item_sets": 1, "items": 4, "logs": 1}
NOTHING = dict.fromkeys(TABLES, 0)
BUDGET_S = 30.0


def phase(name: str, ordinal: int = 0, state: str = "completed", result: str = "null", **more: Any) -> PhaseChange:
    """What a report says of a phase: that it is over, unless told otherwise."""
    fields: dict[str, Any] = {"weight": 1.0, "percent": None, "message": None, "error": None, "started_ago": 0}
    fields |= {"name": name, "ordinal": ordinal, "state": state, "ended_ago": None if state == "running" else 0}
    fields |= {"data": msgspec.Raw(b"null"), "result": msgspec.Raw(result.encode())}
    return PhaseChange(**(fields | more))


async def say(
    store: Store, job: JobRow, claim: int | None = None, percent: float | None = None, **said: Any
) -> Verdict:
    """Report what changed, under the job's claim or another one."""
    changes = msgspec.json.encode(Changes(**said)).decode()
    report = ProgressReport(job.id, job.claim if claim is None else claim, percent, changes=changes)
    (verdict,) = await store.save_progress([report])
    return verdict


async def kept(store: Store, job_id: int) -> dict[str, int]:
    """Count the rows beside a job, table by table."""
    found: dict[str, int] = {}
    for table in TABLES:
        sql = f"SELECT count(*) FROM holdfast.{table} WHERE job_id = {job_id}"
        if isinstance(store, PostgresStore):
            found[table] = (await store.fetch_sql(sql))[0][0]
            continue
        assert isinstance(store, SqliteStore)
        found[table] = await store.connection.read(partial(count, sql=sql.replace("holdfast.", "holdfast_")))
    return found


def count(database: sqlite3.Connection, _now: int, sql: str) -> int:
    """Read a number."""
    number: int = database.execute(sql).fetchone()[0]
    return number


async def eventful(store: Store, **changes: Any) -> JobRow:
    """Take a job that has said something of everything."""
    job = await running(store, extra=PLAN, **changes)
    phases = [phase("one", 0, result='{"path": "/tmp/a"}'), phase("two", 1, "failed", error="no"), phase("three", 2)]
    sets = [ItemsNote("editions", "slug", "two", ["a", "b", "c", "d"])]
    moves = [("a", "completed", None), ("b", "skipped", "old"), ("c", "failed", "E: no")]
    items = [("editions", *move) for move in moves]
    logs = [(1, 0, "INFO", "begun")]
    assert await say(store, job, percent=40, phases=phases, sets=sets, items=items, logs=logs) is Verdict.DONE
    return job


def shape(total: int, completed: Any, skipped: Any, failed: Any, in_progress: Any) -> dict[str, Any]:
    """The items of a job as readers see them."""
    counts = {"total": total, "completed": completed, "skipped": skipped, "failed": failed, "in_progress": in_progress}
    return {"editions": {f"editions_{key}": value for key, value in counts.items()}}


SHAPE = shape(4, ["a"], [{"slug": "b", "reason": "old"}], [{"slug": "c", "error": "E: no"}], ["d"])


def names(phases: list[PhaseRow], state: PhaseState = PhaseState.COMPLETED) -> list[str]:
    """The names of the phases in a state."""
    return [one.name for one in phases if one.state is state]


# ---- kept ------------------------------------------------------------------------------------------------------------


async def test_a_phase_is_kept_as_it_was_said(store: Store, clock: Clock) -> None:
    job = await running(store)
    given: dict[str, Any] = {"weight": 2.5, "percent": 100.0, "message": "dön\ne"}
    times: dict[str, Any] = {"started_ago": 3_000, "ended_ago": 1_000}
    said = phase("one", 2, result='{"path": ["ü", null, 1.5]}', data=msgspec.Raw(b'{"read": 7}'), **given, **times)
    assert await say(store, job, phases=[said]) is Verdict.DONE
    (found,) = (await read(store, job.id)).phases
    given |= {"data": {"read": 7}, "result": {"path": ["ü", None, 1.5]}, "claim": job.claim}
    given |= {"started_at": clock.now - timedelta(seconds=3), "ended_at": clock.now - timedelta(seconds=1)}
    assert found == PhaseRow(name="one", ordinal=2, state=PhaseState.COMPLETED, **given)


async def test_a_later_word_on_a_phase_replaces_the_one_before(store: Store) -> None:
    job = await running(store, extra=PLAN)
    await say(store, job, phases=[phase("one"), phase("two", 1, "running")])
    assert names((await read(store, job.id)).phases, PhaseState.RUNNING) == ["two"]
    await say(store, job, phases=[phase("two", 1, result="7")])
    phases = (await read(store, job.id)).phases
    assert (names(phases), names(phases, PhaseState.PENDING)) == (["one", "two"], ["three"])
    assert [one.result for one in phases] == [None, 7, None]


async def test_items_and_lines_are_kept_in_order(store: Store, clock: Clock) -> None:
    job = await eventful(store)
    assert await say(store, job, logs=[(2, 2_000, "WARNING", "ü\n"), (1, 0, "INFO", "sent again")]) is Verdict.DONE
    found = await read(store, job.id)
    assert found.items == SHAPE
    lines = [(line.claim, line.line, line.level, line.text) for line in found.logs]
    assert lines == [(1, 1, "INFO", "begun"), (1, 2, "WARNING", "ü\n")]
    assert found.logs[1].at == clock.now - timedelta(seconds=2)
    assert await kept(store, job.id) == EVERYTHING | {"logs": 2}


async def test_items_that_are_opened_again_keep_what_ended_well(store: Store) -> None:
    job = await eventful(store)
    await say(store, job, sets=[ItemsNote("editions", "name", None, ["e", "c", "b", "a"])])
    expected = shape(4, ["a"], [{"name": "b", "reason": "old"}], [], ["e", "c"])
    assert (await read(store, job.id)).items == expected


async def test_lines_of_the_last_five_claims_are_kept(store: Store) -> None:
    worker = await register(store)
    job = await running(store, worker)
    for _ in range(6):
        await say(store, job, logs=[(1, 0, "INFO", f"claim {job.claim}")])
        await settle(store, interrupted(job.id, job.claim))
        job = await claim_one(store, worker)
    assert [line.claim for line in (await read(store, job.id)).logs] == [2, 3, 4, 5, 6]


async def test_a_bare_report_leaves_the_progress_as_it_was(store: Store) -> None:
    job = await running(store)
    assert await say(store, job, bare=True, logs=[(1, 0, "INFO", "first of all")]) is Verdict.DONE
    assert (await read(store, job.id)).logs
    await store.save_progress([ProgressReport(job.id, job.claim, 30.0, "a third", '{"a": 1}', "one", 90.0)])
    assert await say(store, job, bare=True, phases=[phase("one")]) is Verdict.DONE
    await settle(store, interrupted(job.id, job.claim))
    again = await claim_one(store)
    assert await say(store, again, bare=True, logs=[(1, 0, "INFO", "again")]) is Verdict.DONE
    progress = (await read(store, job.id)).progress
    assert progress is not None
    assert (progress.percent, progress.message, progress.data) == (30.0, "a third", {"a": 1})
    assert (progress.phase, progress.phase_percent) == ("one", 90.0)


async def test_a_reset_forgets_phases_and_items_and_takes_the_rest(store: Store) -> None:
    job = await eventful(store)
    assert await say(store, job, reset=True, phases=[phase("one", state="running")]) is Verdict.DONE
    found = await read(store, job.id)
    assert (names(found.phases), names(found.phases, PhaseState.RUNNING)) == ([], ["one"])
    assert (found.items, len(found.logs)) == ({}, 1)
    assert await kept(store, job.id) == {"progress": 1, "phases": 1, "item_sets": 0, "items": 0, "logs": 1}


# ---- the fence -------------------------------------------------------------------------------------------------------

SAID: dict[str, Any] = {
    "phases": [phase("late")],
    "sets": [ItemsNote("late", "slug", None, ["x"])],
    "items": [("late", "x", "completed", None), ("editions", "d", "failed", "late")],
    "logs": [(9, 0, "INFO", "late")],
}


@pytest.mark.parametrize("is_bare", [False, True])
@pytest.mark.parametrize("is_reset", [False, True])
async def test_a_stale_claim_changes_nothing(store: Store, is_bare: bool, is_reset: bool) -> None:
    waiting = await enqueue(store, queue="other")
    job = await eventful(store)
    before = await read(store, job.id)
    for claim in (job.claim - 1, job.claim + 1):
        assert await say(store, job, claim, bare=is_bare, reset=is_reset, **SAID) is Verdict.LOST
    assert await say(store, await read(store, waiting), bare=is_bare, reset=is_reset, **SAID) is Verdict.LOST
    assert await read(store, job.id) == before
    assert (await kept(store, job.id), await kept(store, waiting)) == (EVERYTHING, NOTHING)


@pytest.mark.parametrize("is_bare", [False, True])
@pytest.mark.parametrize("how", ["interrupt", "retry", "snooze", "crash", "rescue"])
async def test_once_a_job_waits_again_a_late_report_is_lost(
    store: Store, clock: Clock, how: str, is_bare: bool
) -> None:
    job = await eventful(store)
    ways = {
        "interrupt": interrupted(job.id, job.claim),
        "retry": retried(job.id, job.claim, FAILURE, 0),
        "snooze": snoozed(job.id, job.claim, 0),
        "crash": crashed(job.id, job.claim, FAILURE),
    }
    await clock.advance(milliseconds=LEASE_MS + 1)
    await (settle(store, ways[how]) if how in ways else store.rescue_jobs(10))
    assert await say(store, job, bare=is_bare, **SAID) is Verdict.LOST
    again = await claim_one(store)
    assert await say(store, job, bare=is_bare, reset=True, **SAID) is Verdict.LOST
    assert await kept(store, job.id) == EVERYTHING
    await say(store, again, phases=[phase("two", 1)])
    found = await read(store, job.id)
    assert (names(found.phases), found.items) == (["one", "two", "three"], SHAPE)
    assert [one.claim for one in found.phases] == [1, 2, 1]


async def test_the_end_of_a_phase_and_an_effect_are_one_commit(store: Store) -> None:
    effects = Effects(store)
    await effects.make()
    job = await running(store, extra=PLAN)
    changes = msgspec.json.encode(Changes(phases=[phase("one", result="1")])).decode()
    for claim, verdict in ((job.claim + 1, Verdict.LOST), (job.claim, Verdict.DONE)):
        async with store.transaction(BUDGET_S) as tx:
            await effects.write(tx.connection, claim)
            assert await tx.report(ProgressReport(job.id, claim, changes=changes)) is verdict
    assert await effects.numbers() == [job.claim]
    found = await read(store, job.id)
    assert (found.state, names(found.phases)) == (JobState.RUNNING, ["one"])


# ---- folded ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["completed", "with errors", "failed", "cancelled", "crash", "outside", "forced"])
async def test_what_is_kept_beside_a_job_becomes_part_of_its_one_row(store: Store, clock: Clock, how: str) -> None:
    job = await eventful(store, max_crashes=1)
    before = await read(store, job.id)
    ends: dict[str, list[Transition]] = {
        "completed": [completed(job.id, job.claim)],
        "with errors": [completed(job.id, job.claim, with_errors=True)],
        "failed": [failed(job.id, job.claim, FAILURE)],
        "cancelled": [cancelled(job.id, job.claim)],
        "crash": [crashed(job.id, job.claim, FAILURE)],
        "outside": [interrupted(job.id, job.claim)],
    }
    for transition in ends.get(how, ()):
        await settle(store, transition)
    if how in ("outside", "forced"):
        await builders.cancel(store, job.id)
    if how == "forced":
        await clock.advance(seconds=2)
        assert await store.force_cancels(1_000, 10) == (job.id,)
    after = await read(store, job.id)
    assert (after.is_finished, after.progress) == (True, before.progress)
    assert (after.items, after.logs) == (before.items, before.logs)
    if how in ("cancelled", "outside", "forced"):
        assert names(after.phases, PhaseState.CANCELLED) == ["two"]
    else:
        assert after.phases == before.phases
    assert names(after.phases) == ["one", "three"]
    assert await kept(store, job.id) == NOTHING
    assert await say(store, job, **SAID) is Verdict.LOST
    assert await kept(store, job.id) == NOTHING


async def test_a_job_that_is_cancelled_before_it_began_has_only_cancelled_phases(store: Store) -> None:
    job = await builders.finished(store, JobState.CANCELLED, extra=PLAN)
    assert names(job.phases, PhaseState.CANCELLED) == ["one", "two", "three"]
    assert await kept(store, job.id) == NOTHING


# ---- reopened --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["failed", "cancelled"])
async def test_a_retry_lays_everything_out_again(store: Store, how: str) -> None:
    job = await eventful(store)
    before = await read(store, job.id)
    ends = {"failed": failed(job.id, job.claim, FAILURE), "cancelled": cancelled(job.id, job.claim)}
    await settle(store, ends[how])
    assert await retry(store, job.id) is Answer.DONE
    waiting = await read(store, job.id)
    assert (waiting.state, waiting.life) == (JobState.QUEUED, 2)
    assert (waiting.phases, waiting.items, waiting.logs) == (before.phases, before.items, before.logs)
    assert waiting.progress == before.progress
    assert await kept(store, job.id) == EVERYTHING
    again = await claim_one(store)
    assert await say(store, job, **SAID) is Verdict.LOST
    assert await say(store, again, bare=True, phases=[phase("two", 1, result="2")]) is Verdict.DONE
    done = await settle(store, completed(again.id, again.claim))
    assert done is not None
    assert [one.result for one in done.phases] == [{"path": "/tmp/a"}, 2, None]
    assert await kept(store, job.id) == NOTHING


async def three_sets(store: Store) -> JobRow:
    """Take a job that has gone through three phases, each with items of its own, some beside them, and one failure."""
    job = await running(store, extra=PLAN)
    sets = [ItemsNote(name, "slug", owner, ["a", "b"]) for name, owner in (("x", "one"), ("y", "two"), ("z", "three"))]
    sets.append(ItemsNote("loose", "slug", None, ["a", "b"]))
    moves: list[tuple[Any, ...]] = [(item.name, key, "completed", None) for item in sets for key in item.keys]
    moves[3] = ("y", "b", "failed", "no")
    phases = [phase(name, ordinal, result=str(ordinal)) for ordinal, name in enumerate(("one", "two", "three"))]
    await say(store, job, percent=100, phases=phases, sets=sets, items=moves)
    return job


@pytest.mark.parametrize(
    "from_phase, phases, sets",
    [
        pytest.param(None, ["one"], ["loose", "x", "y"], id="the first with failures"),
        pytest.param("one", [], ["loose"], id="the first"),
        pytest.param("two", ["one"], ["loose", "x"], id="the second"),
        pytest.param("three", ["one", "two"], ["loose", "x", "y"], id="the last"),
    ],
)
async def test_a_partly_completed_job_goes_on_at_a_phase(
    store: Store, from_phase: str | None, phases: list[str], sets: list[str]
) -> None:
    job = await three_sets(store)
    await settle(store, completed(job.id, job.claim, '"old"', with_errors=True))
    (answered,) = await store.retry_jobs([job.id], from_phase=from_phase)
    assert answered.answer is Answer.DONE
    found = await read(store, job.id)
    assert names(found.phases) == phases
    assert names(found.phases, PhaseState.PENDING) == ["one", "two", "three"][len(phases) :]
    assert sorted(found.items) == sets
    if "y" in sets:
        assert found.items["y"]["y_completed"] == ["a"]
        assert found.items["y"]["y_failed"] == [{"slug": "b", "error": "no"}]
    assert found.items["loose"]["loose_completed"] == ["a", "b"]
    assert (await kept(store, job.id))["items"] == 2 * len(sets)


async def test_a_failed_job_keeps_the_items_of_its_phases(store: Store) -> None:
    job = await three_sets(store)
    await settle(store, failed(job.id, job.claim, FAILURE))
    await retry(store, job.id)
    found = await read(store, job.id)
    assert (names(found.phases), sorted(found.items)) == (["one", "two", "three"], ["loose", "x", "y", "z"])


async def test_a_phase_that_had_not_begun_forgets_nothing(store: Store) -> None:
    job = await running(store, extra=PLAN)
    await say(store, job, phases=[phase("one", result="1")])
    await settle(store, failed(job.id, job.claim, FAILURE))
    await store.retry_jobs([job.id], from_phase="three")
    assert [one.result for one in (await read(store, job.id)).phases] == [1, None, None]


# ---- crashes ---------------------------------------------------------------------------------------------------------

RUN_ONCE = '{"on_restart": "fail"}'


@pytest.mark.parametrize("how", ["crash", "lease", "release"])
async def test_who_must_not_run_twice_fails_by_a_crash_and_others_are_requeued(
    store: Store, clock: Clock, how: str
) -> None:
    worker = await register(store)
    once = await running(store, worker, extra=RUN_ONCE)
    often = await running(store, worker, extra='{"on_restart": "requeue"}')
    plain = await running(store, worker)
    jobs = (once, often, plain)
    ends = [crashed(job.id, job.claim, FAILURE) for job in jobs]
    if how == "crash":
        await store.finish_jobs(ends)
    else:
        await clock.advance(milliseconds=LEASE_MS + 1)
        rescued = await (store.rescue_jobs(10) if how == "lease" else store.release_worker(worker, ends))
        assert (rescued.failed, sorted(rescued.requeued)) == ((once.id,), sorted([often.id, plain.id]))
    found = [await read(store, job.id) for job in jobs]
    assert [job.state for job in found] == [JobState.FAILED, JobState.QUEUED, JobState.QUEUED]
    assert [job.crashes for job in found] == [1, 1, 1]


@pytest.mark.parametrize("is_begun, target", [(False, JobState.QUEUED), (True, JobState.FAILED)])
async def test_who_must_not_run_twice_is_given_back_until_it_has_begun(
    store: Store, is_begun: bool, target: JobState
) -> None:
    worker = await register(store)
    jobs = [await running(store, worker, extra=RUN_ONCE) for _ in range(2)]
    await builders.cancel(store, jobs[1].id)
    if is_begun:
        await store.start_jobs([Started(job.id, job.claim, 0) for job in jobs])
    ended = [await settle(store, interrupted(job.id, job.claim)) for job in jobs]
    assert [job.state for job in ended if job is not None] == [target, JobState.CANCELLED]
