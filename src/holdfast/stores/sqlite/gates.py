"""Limits in a claim, on SQLite: what jobs have to pass, and where those wait that may not.

Everything here runs inside one transaction that holds SQLite's only write lock, so what was looked at stays true.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from holdfast.stores.limits import LimitRow
from holdfast.stores.sqlite import statements
from holdfast.stores.sqlite.limit_keys import key_of
from holdfast.stores.sqlite.rooms import Freed, Rooms

LANE = 1_000  # jobs near the front of a lane that are parked together
IN_TURN = 10  # jobs of one key that stand in a lane whose keys take turns
AHEAD_MS = 100  # how early a permit is given before its time
EARLY_MS = 60  # how early held jobs go on before a permit can be had
SOONEST_MS = 20
_MANY = 100  # held jobs of a key, with which new ones are held at once


class Candidate(NamedTuple):
    """What decides about a queued job: the columns of the queries that look for one."""

    id: int
    kind: str
    queue: str
    priority: int
    position: int | None
    payload: str
    tags: str | None
    actor: str | None
    claim: int
    fifo_key: str | None
    enqueued_seq: int | None


class Passed(NamedTuple):
    """What came of jobs at their limits: those that may be claimed, with the times of their permits in microseconds.

    `gated` are those of them that are in queues with limits, `in_force` the limits that there are.
    """

    ids: list[int]
    gated: list[Candidate]
    permits: dict[int, int]
    has_parked: bool
    in_force: list[LimitRow]


def limits(connection: sqlite3.Connection) -> list[LimitRow]:
    """Read the limits in force, by name."""
    return [read_limit(row) for row in statements.fetch(connection, "list_limits")]


def read_limit(row: statements.Row) -> LimitRow:
    """Read one limit."""
    fields = dict(zip(LimitRow.__struct_fields__, row, strict=True))
    for name in ("kinds", "path"):
        fields[name] = tuple(msgspec.json.decode(fields[name]))
    return LimitRow(**(fields | {"rotate": bool(fields["rotate"]), "fifo": bool(fields["fifo"])}))


def slots_of(limit: LimitRow | None) -> int | None:
    """How many jobs of a key run at once in the whole cluster; None without such a bound."""
    if limit is None:
        return None
    if limit.fifo:
        return 1
    return limit.concurrency if limit.scope == "cluster" else None


def limit_key(limit: LimitRow, key: str) -> str:
    """Name a key of a limit, as jobs that are held for it do."""
    return f"{limit.name}/{key}"


def is_under(limit: LimitRow, job: Candidate) -> bool:
    """Whether a limit holds for a job."""
    return limit.queue == job.queue or job.kind in limit.kinds


def job_key(limit: LimitRow, job: Candidate) -> str:
    """Tell the key of a job under a limit."""
    tags = None if job.tags is None else msgspec.json.decode(job.tags, type=dict[str, str])
    return key_of(limit.path, job.payload, tags, job.actor, job.kind, job.queue)


def pass_jobs(connection: sqlite3.Connection, now: int, worker: int, ids: Sequence[int], freed: Freed) -> Passed:
    """Let jobs through the limits on them: all or nothing; those that are refused are parked."""
    passed: list[int] = []
    permits: dict[int, int] = {}
    in_force = limits(connection)
    found = {job.id: job for job in look(connection, ids)}
    rooms = Rooms(connection, len(ids), freed)
    rules: dict[tuple[str, str], list[_Rule]] = {}  # by kind and queue: most jobs of a claim share theirs
    parked: set[int] = set()
    for job_id in ids:
        job = found.get(job_id)
        if job is None:
            passed.append(job_id)
        elif job_id not in parked:
            mine = rules.get((job.kind, job.queue))
            if mine is None:
                mine = rules[job.kind, job.queue] = [_Rule(limit) for limit in in_force if is_under(limit, job)]
            refused_by = _pass_one(connection, now, job, rules=mine, permits=permits, rooms=rooms)
            if refused_by is None:
                passed.append(job_id)
            else:
                parked |= {job_id, *_park(connection, refused_by, job, passed)}
    rooms.take(worker, now)
    gated = [found[job_id] for job_id in passed if job_id in found]
    return Passed(passed, gated, permits, bool(parked), in_force)


def rotate(connection: sqlite3.Connection, taken: Sequence[Candidate], in_force: Iterable[LimitRow]) -> None:
    """Let keys take turns: a few jobs of each stand in a lane, and for each that was taken the next joins."""
    for limit in in_force:
        if not limit.rotate:
            continue
        counts: dict[tuple[str, str, int], int] = {}
        for job in taken:
            if is_under(limit, job):
                place = (job_key(limit, job), job.queue, job.priority)
                counts[place] = counts.get(place, 0) + 1
        for (key, queue, priority), count in counts.items():
            _park_lane(connection, limit, key, queue, priority, keep=IN_TURN)
            release(connection, limit, limit_key(limit, key), count, is_fresh=True)


def look(connection: sqlite3.Connection, ids: Iterable[int]) -> list[Candidate]:
    """Look at those of the named jobs that are in queues with limits."""
    return [Candidate(*row) for row in statements.fetch(connection, "gated_jobs", ids=statements.array(ids))]


def hold_back(connection: sqlite3.Connection, ids: Sequence[int]) -> None:
    """Line up new jobs that run one after the other, and hold those at once for whose key many are held already."""
    jobs = look(connection, ids)
    in_force = limits(connection) if jobs else []
    for limit in in_force:
        if limit.throttle_us is None and not limit.rotate and slots_of(limit) is None:
            continue
        for job in jobs:
            if not is_under(limit, job):
                continue
            name = limit_key(limit, job_key(limit, job))
            if limit.fifo:
                line_up(connection, name, job)
            if len(statements.fetch(connection, "first_held", limit_key=name, limit=_MANY)) == _MANY:
                statements.change(connection, "park_jobs", limit_key=name, ids=statements.array([job.id]))


def line_up(connection: sqlite3.Connection, fifo_key: str, job: Candidate) -> None:
    """Give a job its place among those that run one after the other."""
    place = None
    if job.enqueued_seq is None and job.position is None:
        (place,) = _draw_positions(connection, 1)
    statements.change(connection, "line_up", fifo_key=fifo_key, id=job.id, place=place)


def release(
    connection: sqlite3.Connection, limit: LimitRow | None, name: str, most: int, *, is_fresh: bool = False
) -> list[str]:
    """Let the first jobs that are held for a key go on; the answer names their queues, one for each job.

    Jobs in a row go on one at a time: the first of those that live, if it is held.
    """
    held = statements.fetch(connection, "first_held", limit_key=name, limit=most)
    if held and limit is not None and limit.fifo:
        ((job_id, queue, state, held_for),) = statements.fetch(connection, "row_head", fifo_key=name) or [
            (0, "", "", "")
        ]
        held = [(job_id, queue)] if state == "held" and held_for == name else []
    positions: Sequence[int | None] = _draw_positions(connection, len(held)) if is_fresh else [None] * len(held)
    changes = [{"id": job_id, "position": position} for (job_id, _), position in zip(held, positions, strict=True)]
    statements.change_many(connection, "release_held", changes)
    return [queue for _, queue in held]


def free(
    connection: sqlite3.Connection, claims: Iterable[tuple[int, int]], freed: Freed, rows: Iterable[str] = ()
) -> None:
    """Give back the slots of ended claims, and let jobs go on that are held for them.

    `rows` are the keys of jobs in a row of which one has ended for good. Where slots are handed over, those that nobody
    waits for stay taken until `free_rest`.
    """
    counts: dict[str, int] = dict.fromkeys(rows, 1)
    for (name, key), places in _left_slots(connection, claims).items():
        if freed.hands_over and not statements.fetch(connection, "first_held", limit_key=f"{name}/{key}", limit=1):
            freed.places.setdefault((name, key), []).extend(places)
        else:
            _leave(connection, name, key, places)
            counts[f"{name}/{key}"] = counts.get(f"{name}/{key}", 0) + len(places)
    if not counts:
        return
    by_name = {limit.name: limit for limit in limits(connection)}
    for name, count in counts.items():
        freed.queues.update(release(connection, by_name.get(name.partition("/")[0]), name, count))


def free_rest(connection: sqlite3.Connection, freed: Freed) -> None:
    """Give back slots that were to be handed over and were not: nobody waits for them, or they would have been used."""
    for (name, key), places in freed.places.items():
        _leave(connection, name, key, places)


def _left_slots(connection: sqlite3.Connection, claims: Iterable[tuple[int, int]]) -> dict[tuple[str, str], list[int]]:
    left: dict[tuple[str, str], list[int]] = {}
    for name, key, n in statements.fetch(connection, "held_slots", items=statements.array(claims)):
        left.setdefault((name, key), []).append(n)
    return left


def _leave(connection: sqlite3.Connection, name: str, key: str, places: Sequence[int]) -> None:
    statements.change(connection, "free_slots", name=name, key=key, places=statements.array(places))


def _draw_positions(connection: sqlite3.Connection, count: int) -> list[int]:
    if count < 1:
        return []
    first: int = statements.fetch_value(connection, "draw_positions", count=count)
    return list(range(first, first + count))


class _Rule:
    """A limit on jobs of one kind and queue, and what it bounds."""

    __slots__ = ("is_throttled", "limit", "most")

    def __init__(self, limit: LimitRow) -> None:
        self.limit = limit
        self.most = slots_of(limit)
        self.is_throttled = limit.throttle_us is not None

    def key(self, job: Candidate) -> str:
        """Tell the key of a job."""
        return job_key(self.limit, job) if self.limit.path else ""


def _pass_one(
    connection: sqlite3.Connection,
    now: int,
    job: Candidate,
    *,
    rules: Sequence[_Rule],
    permits: dict[int, int],
    rooms: Rooms,
) -> tuple[LimitRow, str] | None:
    """Let one job through its limits, or name the one that refused it, and its key."""
    mine = [(rule, rule.key(job)) for rule in rules]
    for rule, key in mine:
        limit = rule.limit
        if rule.most is None:
            continue
        if limit.fifo and not _is_head(connection, limit_key(limit, key), job):
            return limit, key
        if not rooms.has(limit.name, key, rule.most):
            return limit, key
    for rule, key in mine:
        if rule.is_throttled:
            permit = _permit(connection, now, rule.limit, key)
            if permit is None:
                permits.pop(job.id, None)
                return rule.limit, key
            permits[job.id] = max(permit, permits.get(job.id, 0))
    for rule, key in mine:
        if rule.most is not None:
            rooms.enter(rule.limit.name, key, job.id, job.claim + 1)
    return None


def _is_head(connection: sqlite3.Connection, fifo_key: str, job: Candidate) -> bool:
    if job.fifo_key != fifo_key:
        line_up(connection, fifo_key, job)
    head: int | None = statements.fetch_value(connection, "row_head", fifo_key=fifo_key)
    return head == job.id


def _permit(connection: sqlite3.Connection, now: int, limit: LimitRow, key: str) -> int | None:
    """Give the next start of a key its time, in microseconds, if that is near."""
    step = limit.throttle_us or 0
    now_us = now * 1_000
    until = max(statements.fetch_value(connection, "throttled_until", name=limit.name, key=key) or 0, now_us)
    at = max(now_us, until - (limit.burst - 1) * step)
    is_near = at <= now_us + AHEAD_MS * 1_000
    statements.change(
        connection,
        "save_throttle",
        name=limit.name,
        key=key,
        now=now,
        until=until + step if is_near else until,
        wake_at=None if is_near else at // 1_000 - EARLY_MS,
    )
    return at if is_near else None


def _park(
    connection: sqlite3.Connection, refused_by: tuple[LimitRow, str], job: Candidate, passed: Sequence[int]
) -> set[int]:
    """Park a refused job, and others of its lane and key with it that have not passed."""
    limit, key = refused_by
    statements.change(connection, "park_jobs", limit_key=limit_key(limit, key), ids=statements.array([job.id]))
    return _park_lane(connection, limit, key, job.queue, job.priority, but=passed)


def _park_lane(
    connection: sqlite3.Connection,
    limit: LimitRow,
    key: str,
    queue: str,
    priority: int,
    *,
    keep: int = 0,
    but: Sequence[int] = (),
) -> set[int]:
    """Park the jobs of one key near the front of a lane, but for the first few; of jobs in a row the first stays."""
    name = limit_key(limit, key)
    head = statements.fetch_value(connection, "row_head", fifo_key=name) if limit.fifo else None
    left_out = {*but, head}
    found = [
        job.id
        for job in _lane(connection, queue, priority)
        if is_under(limit, job)
        and job.id not in left_out
        and (not limit.fifo or job.fifo_key == name)
        and job_key(limit, job) == key
    ][keep:]
    if found:
        statements.change(connection, "park_jobs", limit_key=name, ids=statements.array(found))
    return set(found)


def _lane(connection: sqlite3.Connection, queue: str, priority: int) -> Iterator[Candidate]:
    for row in statements.fetch(connection, "lane_jobs", queue=queue, priority=priority, limit=LANE):
        yield Candidate(*row)
