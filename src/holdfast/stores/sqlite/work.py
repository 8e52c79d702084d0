"""What workers ask, on SQLite."""

import sqlite3
from collections.abc import Iterable, Sequence
from typing import ClassVar

import msgspec

from holdfast import transitions as ends
from holdfast.errors import WorkerLost
from holdfast.events import EventType
from holdfast.job import JobRow
from holdfast.rollup import Rollup
from holdfast.stores.sqlite import gates, publishing, rows, statements
from holdfast.stores.sqlite.connection import Connection
from holdfast.stores.sqlite.endings import Held, end_apart, end_claims, strip
from holdfast.stores.sqlite.reports import save as save_reports
from holdfast.stores.sqlite.rooms import Freed
from holdfast.stores.sqlite.wakeups import SqliteWakeups
from holdfast.stores.values import DONE, Claim, Finish, ProgressReport, Started, Verdict, Worked
from holdfast.transitions import Transition

_ROUNDS = 4  # looks for jobs in one claim, where those that were found had to be parked


class SqliteWork(SqliteWakeups):
    """The verbs of `WorkStore`."""

    connection: Connection
    is_remote: ClassVar[bool] = False  # its thread and the event loop would wait for each other's interpreter lock

    async def claim_jobs(self, claim: Claim) -> list[JobRow]:
        def operation(connection: sqlite3.Connection, now: int) -> list[JobRow]:
            _require_worker(connection, claim.worker)
            return _take_ready(connection, now, claim, Freed())

        return await self.connection.write(operation)

    async def claim_jobs_by_id(self, claim: Claim, ids: Sequence[int]) -> list[JobRow]:
        return await self.claim_jobs(msgspec.structs.replace(claim, ids=tuple(ids)))

    async def give_back_batch(self, worker: int, batch: int) -> int:
        return await self.connection.write(lambda connection, now: give_back(connection, now, worker, batch))

    async def start_jobs(self, starts: Sequence[Started]) -> list[Verdict]:
        def operation(connection: sqlite3.Connection, now: int) -> list[Verdict]:
            held = _fenced(connection, ((start.id, start.claim) for start in starts))
            ours = [msgspec.structs.asdict(start) | {"now": now} for start in starts if _key(start) in held]
            is_watched = bool(ours) and publishing.is_watched(connection, now)
            before = publishing.look(connection, (start.id for start in starts)) if is_watched else {}
            statements.change_many(connection, "start_jobs", ours)
            for start in starts:
                # guard: told-start, without: if start.id in before and _key(start) in held:
                if start.id in before and _key(start) in held and before[start.id].started_at is None:
                    publishing.publish(connection, now - start.started_ago_ms, EventType.STARTED, before[start.id])
            return [_verdict(_key(start) in held) for start in starts]

        return await self.connection.write(operation)

    async def finish_jobs(
        self, transitions: Sequence[Transition], *, rollups: Sequence[Rollup] = (), claim: Claim | None = None
    ) -> Worked:
        require_distinct(transitions)

        released: set[str] = set()

        def operation(connection: sqlite3.Connection, now: int) -> Worked:
            freed = Freed(hands_over=claim is not None)
            finishes = finish_claims(connection, now, transitions, freed)
            statements.change_many(connection, "save_rollup", [_rollup_parameters(rollup, now) for rollup in rollups])
            is_lost = claim is not None and not _is_alive(connection, claim.worker)
            taken: list[JobRow] = []
            if claim is not None and not is_lost:
                taken = _take_ready(connection, now, _from_start(claim, freed.queues), freed)
            gates.free_rest(connection, freed)
            released.clear()
            released.update(freed.queues)
            return Worked(finishes, taken, worker_lost=is_lost)

        worked = await self.connection.write(operation)
        if released:
            await self.announce(sorted(released))
        return worked

    async def fail_refused(self, transition: Transition) -> Finish:
        def operation(connection: sqlite3.Connection, now: int) -> Finish:
            if _fenced(connection, [_key(transition)]):
                strip(connection, transition.id)
            return finish_claims(connection, now, [transition])[0]

        return await self.connection.write(operation)

    async def save_progress(self, reports: Sequence[ProgressReport]) -> list[Verdict]:
        def operation(connection: sqlite3.Connection, now: int) -> list[Verdict]:
            held = _fenced(connection, ((report.id, report.claim) for report in reports))
            save_reports(connection, now, [report for report in reports if _key(report) in held])
            return [_verdict(_key(report) in held) for report in reports]

        return await self.connection.write(operation)

    async def cancelled_claims(self, worker: int) -> list[tuple[int, int]]:
        return await self.connection.read(
            lambda connection, _: statements.fetch(connection, "cancelled_claims", worker=worker)
        )


def give_back(connection: sqlite3.Connection, now: int, worker: int, batch: int | None) -> int:
    """Give back uncharged what one claim of a worker has taken, or (no batch) all it holds."""
    given_back = held_by(connection, worker, batch)
    states = end_apart(connection, now, [(held, ends.interrupted(held.id, held.claim)) for held in given_back])
    return sum(state is not None for state in states)


def held_by(connection: sqlite3.Connection, worker: int, batch: int | None) -> list[Held]:
    """Look at what one claim of a worker has taken, or (no batch) at all it holds."""
    return [Held(*row) for row in statements.fetch(connection, "give_back_batch", worker=worker, batch=batch)]


def require_distinct(transitions: Sequence[Transition]) -> None:
    """Refuse a job that is named twice, of which only one end could be true."""
    if len({transition.id for transition in transitions}) != len(transitions):
        message = "a job is named twice in one finish: fold its writes into one"
        raise ValueError(message)


def _is_alive(connection: sqlite3.Connection, worker: int) -> bool:
    return bool(statements.fetch_value(connection, "living_worker", worker=worker))


def _require_worker(connection: sqlite3.Connection, worker: int) -> None:
    if not _is_alive(connection, worker):  # guard: living-worker
        message = f"worker {worker} is not alive in the store: stop its jobs and register it anew"
        raise WorkerLost(message)


def _from_start(claim: Claim, queues: set[str]) -> Claim:
    """Read the lanes of queues from their beginning, where jobs are that were held until now."""
    if not queues:
        return claim
    lanes = (lane if lane.queue not in queues else msgspec.structs.replace(lane, after=0) for lane in claim.lanes)
    return msgspec.structs.replace(claim, lanes=tuple(lanes))


def _take_ready(connection: sqlite3.Connection, now: int, claim: Claim, freed: Freed) -> list[JobRow]:
    """Take what may run now; where there are limits, others are looked for in the place of those that may not."""
    queues = statements.array({lane.queue for lane in claim.lanes})
    query = "has_any_gated" if claim.ids else "has_gated"
    if not statements.fetch_value(connection, query, queues=queues):
        return _take(connection, now, claim, _ready(connection, now, claim))
    taken: list[JobRow] = []
    for _ in range(_ROUNDS):
        left = msgspec.structs.replace(claim, limit=claim.limit - len(taken))
        passed = gates.pass_jobs(connection, now, claim.worker, _ready(connection, now, left), freed)
        statements.change(connection, "clear_permits", ids=statements.array(passed.ids))
        permits = [{"id": job_id, "permit_at": permit_at} for job_id, permit_at in passed.permits.items()]
        statements.change_many(connection, "set_permits", permits)
        taken += _take(connection, now, claim, passed.ids)
        gates.rotate(connection, passed.gated, passed.in_force)
        if not passed.has_parked or claim.ids or len(taken) >= claim.limit:
            break
    return taken


def _ready(connection: sqlite3.Connection, now: int, claim: Claim) -> list[int]:
    """Find the jobs that the claim names, or jobs lane by lane until it is full."""
    if claim.ids:
        asked = {"ids": statements.array(claim.ids), "limit": claim.limit, "now": now}
        return [row[0] for row in statements.fetch(connection, "claim_jobs_by_id", **asked)]
    found: dict[int, None] = {}  # ordered; a lane that is named twice gives its jobs once
    for lane in claim.lanes:
        limit = min(lane.limit, claim.limit - len(found))
        if limit < 1:
            continue
        ready = statements.fetch(
            connection, "claim_jobs", queue=lane.queue, priority=lane.priority, after=lane.after, limit=limit, now=now
        )
        found.update((row[0], None) for row in ready)
    return list(found)


def _take(connection: sqlite3.Connection, now: int, claim: Claim, ids: Sequence[int]) -> list[JobRow]:
    if not ids:
        return []
    taken = statements.fetch(
        connection, "take_jobs", ids=statements.array(ids), now=now, worker=claim.worker, batch=claim.batch
    )
    by_id = {row[0]: rows.job(row) for row in taken}
    return [by_id[job_id] for job_id in ids if job_id in by_id]  # a store that jobs move away from gives none


def _fenced(connection: sqlite3.Connection, claims: Iterable[tuple[int, int]]) -> dict[tuple[int, int], Held]:
    """Look at the jobs that are still running under the named claims."""
    found = statements.fetch(connection, "fenced_jobs", items=statements.array(claims))
    return {(row[0], row[1]): Held(*row) for row in found}


def _key(named: Started | ProgressReport | Transition) -> tuple[int, int]:
    return named.id, named.claim


def _verdict(is_ours: bool) -> Verdict:  # noqa: FBT001 - reads as its one word
    return Verdict.DONE if is_ours else Verdict.LOST


def keep_report(connection: sqlite3.Connection, now: int, report: ProgressReport) -> Verdict:
    """Keep one report if its claim is still held."""
    is_ours = _key(report) in _fenced(connection, [_key(report)])
    if is_ours:
        save_reports(connection, now, [report])
    return _verdict(is_ours)


def finish_claims(
    connection: sqlite3.Connection, now: int, transitions: Sequence[Transition], freed: Freed | None = None
) -> list[Finish]:
    """End claims that are still held; of the others, tell our own earlier writes from lost claims.

    `freed` takes what they leave.
    """
    held = _fenced(connection, (_key(transition) for transition in transitions))
    found = [(held.get(_key(transition)), transition) for transition in transitions]
    ours = [(claim, transition) for claim, transition in found if claim is not None]
    left = freed or Freed()
    states = iter(end_claims(connection, now, ours, left))
    if len(ours) < len(found):
        # The handler of a claim that was taken from its worker has ended as well.
        gates.free(connection, [_key(transition) for claim, transition in found if claim is None], left)
    return [
        _earlier_finish(connection, transition) if claim is None else DONE[next(states)] for claim, transition in found
    ]


def _earlier_finish(connection: sqlite3.Connection, transition: Transition) -> Finish:
    state = statements.fetch_value(
        connection, "accepted_before", id=transition.id, claim=transition.claim, verb=transition.verb.value
    )
    if state is None:
        return Finish(Verdict.LOST, None)
    # guard: repeated-finish, without: return Finish(Verdict.LOST, None)
    return Finish(Verdict.ALREADY, rows.state(state))


def _rollup_parameters(rollup: Rollup, now: int) -> dict[str, object]:
    return {
        "now": now,
        "queue": rollup.queue,
        "kind": rollup.kind,
        "state": rollup.state.value,
        "jobs": rollup.jobs,
        "wait": msgspec.json.encode(rollup.wait).decode(),
        "run": msgspec.json.encode(rollup.run).decode(),
    }
