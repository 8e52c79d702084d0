"""A store with jobs in every state and everything that can lie beside them, and looks at what came of it."""

import json
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any

import msgspec

from holdfast.job import JobRow, JobState
from holdfast.journal import Changes, ItemsNote
from holdfast.moving.comparing import differences
from holdfast.moving.sides import Side
from holdfast.resources.bulk import BulkState, BulkVerb
from holdfast.rollup import Rollup
from holdfast.stores.access import NewAuditEntry
from holdfast.stores.alarms import Alarm, NewNotice, Pace
from holdfast.stores.bulk import NewBulk
from holdfast.stores.moving import BATCH, READY, MoveProgress, Row, Table
from holdfast.stores.values import Cursor, JobFilter, ProgressReport, QueueTerms, Verdict
from holdfast.transitions import Transition, completed, failed, interrupted, retried
from tests.conformance.test_access import new
from tests.conformance.test_phases import phase
from tests.move.tables import MOVED
from tests.support import raw
from tests.support.builders import FAILURE, claim, enqueue_many, lane, register

DAY_MS = 86_400_000
FAR_US = 4_102_444_800_000_000  # the year 2100
PAYLOAD = '{"z": 1e2, "a": [1.50, -0.0, 12345678901234567890], "text": "\\u00fc \\u2028 \'quoted\'", "a b": null}'
LIVE = ("ready", "urgent", "later", "again", "midway", "held", "stopped")
GONE = ("done", "halfway", "failed", "cancelled")
HOOK = '{"url": "https://example.org/hook?secret=1"}'


async def fill(store: Side, count: int) -> dict[int, str]:
    """Store about so many jobs in all states that a move meets; the answer names the sort of each."""
    each = count // (len(LIVE) + len(GONE))
    await _define(store)
    made: dict[int, str] = {}
    for sort in (*LIVE, *GONE):
        made |= dict.fromkeys(await _enqueue(store, sort, each), sort)
    worker = await register(store, lease_ms=600_000)
    await _finish(store, worker, "again", lambda job: retried(job.id, job.claim, FAILURE, 3_600_000))
    await _report(store, worker, "midway")
    await _finish(store, worker, "midway", lambda job: interrupted(job.id, job.claim))
    await _finish(store, worker, "done", lambda job: completed(job.id, job.claim, '{"b": 2, "a": 1.0}'))
    await _finish(store, worker, "halfway", lambda job: completed(job.id, job.claim, with_errors=True))
    await _finish(store, worker, "failed", lambda job: failed(job.id, job.claim, FAILURE))
    leaving = [job_id for job_id, sort in made.items() if sort == "cancelled"]
    for begin in range(0, len(leaving), BATCH):
        await store.cancel_jobs(leaving[begin : begin + BATCH], actor="ops", reason="no longer needed")
    await raw.execute(store, "UPDATE holdfast.jobs SET state = 'held', limit_key = 'k' WHERE queue = 'held'")
    await store.pause_queue("stopped", actor="ops", reason="it's broken")
    await store.disable_endpoint("https://gone.example.org/", "410")
    await store.retire_worker(worker)
    await _settings(store, next(iter(made)))
    await store.add_token(new(digest="filled"))
    deed: dict[str, Any] = {"actor": "ada", "role": "admin", "action": "pause", "target": "/queues/high", "status": 200}
    await store.add_audit(NewAuditEntry(**deed, queue="high", detail='{"reason": "it\'s full"}', request="r1"))
    await escalate(store, next(iter(made)))
    await begin_runs(store)
    while await store.fold_failures(BATCH):
        pass
    return made


async def _define(store: Side) -> None:
    kept = dict.fromkeys((JobState(state) for state in ("completed", "failed", "cancelled")), 90 * DAY_MS)
    terms = QueueTerms(kept_ms={**kept, JobState.COMPLETED_WITH_ERRORS: None}, webhook=HOOK)
    told = QueueTerms(kept_ms={**kept, JobState.COMPLETED_WITH_ERRORS: None}, tells=True)
    await store.define_queues({"done": terms, "halfway": told, "failed": told})


async def _enqueue(store: Side, sort: str, count: int) -> list[int]:
    more: dict[str, Any] = {"queue": sort, "payload": PAYLOAD}
    if sort == "urgent":
        ids: list[int] = []
        for number in range(count):
            keys = {"unique": f"u-{number}", "unique_for_ms": DAY_MS, "key": f"k-{number}"}
            ids += await enqueue_many(store, 1, priority=1, **more, **keys)
        return ids
    if sort == "later":
        more["delay_ms"] = 3_600_000
    if sort in ("ready", "done"):
        more |= {"tags": {"customer": "a'b", "batch": "7"}, "actor": "somebody"}
    return await enqueue_many(store, count, **more)


async def _finish(store: Side, worker: int, queue: str, end: Callable[[JobRow], Transition]) -> None:
    while jobs := await claim(store, worker, lane(queue), limit=BATCH):
        rollup = Rollup(queue, "work", JobState.COMPLETED, len(jobs), {1: len(jobs)}, {})
        worked = await store.finish_jobs([end(job) for job in jobs], rollups=[rollup])
        assert {finish.verdict for finish in worked.finishes} == {Verdict.DONE}
        if queue == "midway":
            return


async def _report(store: Side, worker: int, queue: str) -> None:
    """Let jobs be in the middle of their work once, and given back."""
    jobs = await claim(store, worker, lane(queue), limit=100_000)
    said = Changes(
        sets=[ItemsNote("files", "file", "one", ["a", "b", "c"])],
        items=[("files", "a", "completed", None), ("files", "b", "failed", "it's bad")],
        phases=[phase("one", 0, result='{"x": 1.0}'), phase("two", 1, "running")],
        logs=[(1, 5, "info", "a line"), (2, 3, "error", "another 'line'")],
    )
    changes = msgspec.json.encode(said).decode()
    for begin in range(0, len(jobs), BATCH):
        some = jobs[begin : begin + BATCH]
        await store.save_progress(
            [ProgressReport(job.id, job.claim, 33.3, "m", '{"d": 0.1}', "two", 12.5, changes) for job in some]
        )
        await store.finish_jobs([interrupted(job.id, job.claim) for job in some])


async def _settings(store: Side, job_id: int) -> None:
    """Write what other programs keep beside jobs, as it would come from another store."""
    rows: dict[str, Row] = {
        "overrides": {"path": "a.b", "value": '{"x": 1}', "actor": None, "reason": "so", "changed_at": FAR_US},
        "schedules": {
            "name": "nightly",
            "origin": "code",
            "definition": '{"cron": "0 3 * * *"}',
            "override": "{}",
            "withdrawn_at": None,
            "version": 3,
            "defined_at": FAR_US,
            "changed_at": FAR_US,
            "changed_by": "me",
            "last_fire": FAR_US - 1_000,
            "next_fire": FAR_US,
        },
        "fires": {
            "schedule": "nightly",
            "nominal": FAR_US - 1_000,
            "outcome": "enqueued",
            "job_id": job_id,
            "note": None,
            "at": FAR_US,
            "expires_at": FAR_US,
        },
        "budget_periods": {
            "budget": "ai",
            "key": "tenant",
            "starts_at": FAR_US - 1_000,
            "ends_at": FAR_US,
            "spent": 7,
            "reserved": 0,
            "lost": 3,
            "alerts": "[800000]",
        },
        "reservations": {
            "job_id": job_id,
            "claim": 1,
            "budget": "ai",
            "key": "tenant",
            "starts_at": FAR_US - 1_000,
            "queue": "default",
            "amount": 5,
            "spent": 2,
            "state": "lost",
            "at": FAR_US,
        },
        "ledger": {
            "at": FAR_US,
            "budget": "ai",
            "key": "tenant",
            "kind": "work",
            "queue": "default",
            "actor": None,
            "job_id": job_id,
            "claim": 1,
            "n": 1,
            "unit": "usd",
            "amount": 7,
            "note": None,
            "is_late": True,
        },
    }
    progress = MoveProgress("0b", 0, "test")
    await store.take_progress(progress)
    for table in MOVED:
        if table.name in rows:
            await store.put_rows(table, [rows[table.name]], progress)
    await store.end_progress(progress.id)


async def escalate(store: Side, job_id: int) -> None:
    """Leave alarms in every stage: in the inbox, told with a clock and a message on its way, snoozed, over."""

    def alarm(fingerprint: str) -> Alarm:
        details = '{"error": "OSError: disk full"}'
        return Alarm(
            source="failed",
            title="it's full",
            policy="ops",
            queue="failed",
            kind="work",
            fingerprint=fingerprint,
            job_id=job_id,
            life=1,
            details=details,
        )

    await store.define_escalations(["ops"])
    for fingerprint in ("told", "snoozed", "over", "over"):
        await raw.raise_alarm(store, alarm(fingerprint))
    await store.fold_alarms({"ops": ["failed"]}, 10)
    rows = {
        row.fingerprint: row for row in await store.list_escalations(is_open=None, policy=None, limit=9, before=None)
    }
    told_at = rows["told"].first_at
    for fingerprint, row in rows.items():
        notices = [NewNotice(row.id, "ops", "chat", event, '{"title": "it\'s full"}') for event in ("trigger", "again")]
        after = msgspec.structs.replace(row, told_at=told_at, said=1, due_at=told_at + timedelta(hours=1))
        if fingerprint == "over":
            after = msgspec.structs.replace(after, due_at=None, closed_at=told_at, resolved_at=told_at)
        assert await store.move_escalation(row, after, notices, Pace("ops", 1_000_000, 9))
    await store.snooze_escalation(rows["snoozed"].id, until=None, delay_ms=DAY_MS, actor="me")
    (sent, *_) = await store.claim_notices(["chat"], 9, 1_000)
    await store.end_notice(sent, "sent", 0, None)
    await raw.raise_alarm(store, alarm("inbox"))


async def begin_runs(store: Side) -> None:
    """Leave bulk operations that have begun, are paused, and have ended."""
    for key in ("ended", "begun", "paused"):
        which = JobFilter(states=(JobState.FAILED,), queues=("no such",))
        run = await store.start_bulk(NewBulk(key=key, verb=BulkVerb.RETRY, which=which, expected=7, spacing_us=5))
        if key == "ended":
            await store.work_bulk(run, [], cursor=None)
        elif key == "paused":
            await store.change_bulk(run.id, BulkState.PAUSED)
        else:
            worked = await store.work_bulk(run, [], cursor=Cursor(run.started_at, 17))
            assert worked is not None
            await store.fail_bulk(worked[0], "it's full", 60_000)


# ---- looking -------------------------------------------------------------------------------------------------------


async def rows_of(store: Side, table: Table) -> list[Row]:
    """Read a whole table."""
    rows: list[Row] = []
    after = None
    while True:
        page, after = await store.read_page(table, after)
        if after is None:
            return rows
        rows += page


async def snapshot(store: Side) -> dict[str, list[Row]]:
    """Read everything that a move takes."""
    return {table.name: await rows_of(store, table) for table in MOVED}


async def order(store: Side) -> dict[tuple[str, int], list[int]]:
    """Read the jobs that may run, lane by lane and in order."""
    lanes: dict[tuple[str, int], list[int]] = {}
    for row in await rows_of(store, READY):
        lanes.setdefault((row["queue"], row["priority"]), []).append(row["id"])
    return lanes


def assert_same(before: dict[str, list[Row]], after: dict[str, list[Row]]) -> None:
    """Compare what was moved: every row is there once and says the same."""
    for table in MOVED:
        assert len(after[table.name]) == len(before[table.name]), table.name
        if not table.key:
            counted = [Counter(json.dumps(_meaning(row)) for row in rows[table.name]) for rows in (before, after)]
            assert counted[0] == counted[1], table.name
            continue
        drawn_anew = {
            "jobs": {"position"},
            "history": {"claim_batch"},
            "idempotency": {"payload", "payload_hash"},
            "escalations": {"first_at"},
            "bulk_runs": {"cursor_id"},
        }.get(table.name, set())
        sent, found = (
            [{name: value for name, value in row.items() if name not in drawn_anew} for row in rows[table.name]]
            for rows in (before, after)
        )
        assert differences(table, sent, found) == []


def _meaning(row: Row) -> list[Any]:
    # Histograms as numbers, times in milliseconds: another reading than that of the code under test.
    if "minute" not in row:
        return sorted((name, str(value)) for name, value in row.items() if name not in ("at", "details"))
    plain = {**row, "minute": row["minute"] // 1_000}
    for name in ("wait", "run"):
        plain[name] = sorted((key, int(Decimal(value))) for key, value in json.loads(row[name]).items())
    return sorted(plain.items())


async def read_all(store: Side, ids: list[int]) -> dict[int, JobRow]:
    """Read jobs as programs do."""
    found: dict[int, JobRow] = {}
    for begin in range(0, len(ids), BATCH):
        found |= {job.id: job for job in await store.get_jobs(ids[begin : begin + BATCH])}
    return found


async def run_out(store: Side) -> Counter[int]:
    """Work everything that may run or will, and count how often each job was taken."""
    taken: Counter[int] = Counter()
    await raw.execute(store, "UPDATE holdfast.queues SET paused_at = NULL")
    worker = await register(store, lease_ms=600_000)
    while True:
        taken_now = 0
        for (queue, priority), ids in (await order(store)).items():
            jobs = await claim(store, worker, lane(queue, priority), limit=len(ids))
            taken.update(job.id for job in jobs)
            taken_now += len(jobs)
            ends: list[Transition] = [completed(job.id, job.claim) for job in jobs]
            await store.finish_jobs(ends)
        if not taken_now:
            return taken


async def listed(store: Side, tag: tuple[str, str]) -> int:
    """Count the jobs with a tag."""
    seen, after = 0, None
    while True:
        page = await store.list_jobs(JobFilter(tags=(tag,)), limit=500, after=after)
        seen += len(page.jobs)
        if page.next is None:
            return seen
        after = page.next
