"""What is looked at; each check is one line: how it is, and what to do."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path

import msgspec

from holdfast import ages
from holdfast.health import mounts
from holdfast.job import JobState
from holdfast.resources.health import HealthCheck, HealthLevel
from holdfast.resources.job import Job
from holdfast.resources.queue import JobCount, QueueInfo
from holdfast.resources.worker import WorkerInfo
from holdfast.stores.bounds import BOUNDS
from holdfast.stores.diagnosis import Diagnosis, Holder, TableSize
from holdfast.stores.migrate import Plan
from holdfast.tasks.registry import Registry

SAFE_SQLITE = (3, 51, 3)
_COUNTED = 10_000
_LARGE_LOG_BYTES = 64_000_000
_NAMED = 5
_WAITS = {JobState.QUEUED: "that may run", JobState.SCHEDULED: "due later"}
_WEEKS_AHEAD = 4
_SKEW_WARNING, _SKEW_ERROR = timedelta(seconds=1), timedelta(seconds=60)
_LONG_HELD = timedelta(minutes=5)
_MANY_HELD = 1_000_000


def check(name: str, level: HealthLevel, message: str, advice: str | None = None) -> HealthCheck:
    """Make one finding."""
    return HealthCheck(name=name, level=level, message=message, advice=advice)


def schema(plan: Plan) -> HealthCheck:
    """Whether the schema is what this release needs."""
    version = len(plan.applied)
    if plan.is_empty:
        return check("schema", HealthLevel.OK, f"version {version} is current")
    missing = [f"{step.version:04d}_{step.name}" for step in plan.migrations]
    if plan.functions:
        missing.append(f"{len(plan.functions)} functions")
    message = f"version {version}, missing: {', '.join(missing)}"
    return check("schema", HealthLevel.ERROR, message, "run `migrate up`")


def tables(sizes: Sequence[TableSize], now: datetime) -> Iterator[HealthCheck]:
    """How large each table is that has anything in it, and what bounds it."""
    for size in sizes:
        if size.rows:
            many = f"{size.rows:,}" if size.rows <= _COUNTED else f"{_COUNTED:,}+"
            rows = "row" if size.rows == 1 else "rows"
            oldest = "" if size.oldest is None else f", the oldest {ages.age(size.oldest, now)}"
            yield check("table", HealthLevel.OK, f"{size.name}: {many} {rows}{oldest}; kept: {BOUNDS[size.name].stays}")


# ---- what a store tells about itself -------------------------------------------------------------------------------


def software(told: Diagnosis) -> HealthCheck:
    """Whether the database itself is known to be sound."""
    shown = f"{told.software} {'.'.join(map(str, told.version))}"
    if told.software == "SQLite" and told.version < SAFE_SQLITE:
        message = f"{shown} may, rarely, damage a file that several processes write (the WAL-reset bug)"
        return check("version", HealthLevel.WARNING, message, "install SQLite 3.51.3 or newer, and keep backups")
    return check("version", HealthLevel.OK, shown)


def clock(told: Diagnosis, before: datetime, after: datetime) -> HealthCheck:
    """Whether this machine's clock and the store's agree, within the time that asking took."""
    skew = max(before - told.now, told.now - after, timedelta())
    shown = "agrees with this machine's" if skew < _SKEW_WARNING else f"is {ages.span(skew)} off this machine's"
    message = f"the store's clock {shown}"
    if skew >= _SKEW_WARNING:
        level = HealthLevel.ERROR if skew >= _SKEW_ERROR else HealthLevel.WARNING
        return check("clock", level, message, "the store's clock decides; set both by NTP")
    return check("clock", HealthLevel.OK, message)


def history(told: Diagnosis) -> HealthCheck | None:
    """Whether finished jobs will find a partition in the weeks to come."""
    if told.history_until is None:
        return None
    ahead = told.history_until - told.now
    message = (
        f"partitions of history exist until {ages.stamp(told.history_until)} ({ages.age(told.history_until, told.now)})"
    )
    if ahead < timedelta(weeks=_WEEKS_AHEAD):
        return check("history", HealthLevel.ERROR, f"{message}, fewer than 4 weeks ahead", "run `migrate up`")
    if ahead < told.longest_kept:
        message += f", and some jobs are kept for {told.longest_kept.days} days"
        return check("history", HealthLevel.WARNING, message, "start a worker, which makes them, or run `migrate up`")
    return check("history", HealthLevel.OK, message)


def pooler(told: Diagnosis, *, listens_past: bool) -> HealthCheck | None:
    """Whether a pooler is in front of the database, and workers hear of new jobs nevertheless."""
    if not told.is_pooled:
        return None
    message = "a pooler is in front of the database"
    if listens_past:
        return check("pooler", HealthLevel.OK, f"{message}; workers hear of new jobs past it, by `listen_dsn`")
    advice = "give the app `listen_dsn`, an address of the server itself"
    return check("pooler", HealthLevel.WARNING, f"{message}, and workers look for jobs ten times a second", advice)


def vacuum(told: Diagnosis) -> list[HealthCheck]:
    """What keeps the database from removing dead rows, and who holds it."""
    if told.software != "PostgreSQL":
        return []
    return [_held(holder) for holder in told.holders] or [check("vacuum", HealthLevel.OK, "nothing holds it back")]


def _held(holder: Holder) -> HealthCheck:
    if holder.what == "slot":
        message = (
            f"the replication slot {holder.name} ({holder.state}) keeps dead rows, for {holder.xids:,} transactions"
        )
        if holder.state == "in use" and holder.xids < _MANY_HELD:
            return check("vacuum", HealthLevel.OK, message)
        return check("vacuum", HealthLevel.WARNING, message, "let its replica come back, or drop the slot")
    age = "for an unknown time" if holder.age is None else f"for {ages.span(holder.age)}"
    if holder.what == "prepared":
        message = f"the prepared transaction {holder.name} of {holder.user} keeps dead rows {age}"
        advice = f"COMMIT PREPARED or ROLLBACK PREPARED '{holder.name}'"
    else:
        by = f"{holder.user}, {holder.application or 'no application name'}, {holder.state or 'state unknown'}"
        message = f"the oldest transaction, process {holder.name} ({by}), keeps dead rows {age}"
        message += "" if holder.query is None else f": {holder.query}"
        advice = f"let it end, or SELECT pg_terminate_backend({holder.name})"
    is_long = holder.xids >= _MANY_HELD if holder.age is None else holder.age >= _LONG_HELD
    return (
        check("vacuum", HealthLevel.WARNING, message, advice) if is_long else check("vacuum", HealthLevel.OK, message)
    )


# ---- the file ------------------------------------------------------------------------------------------------------


def file(path: Path) -> list[HealthCheck]:
    """Whether a SQLite file lies on a local disk, and how large it and its log are."""
    size, log = _size(path), _size(path.with_name(f"{path.name}-wal"))
    checks = [check("file", HealthLevel.OK, f"{path}, {_megabytes(size)}")]
    if (network := mounts.network_type(path.parent)) is not None:
        message = f"{path} lies on a network or shared file system ({network})"
        advice = "move it to a local disk: locks and the write-ahead log do not work there"
        checks = [check("file", HealthLevel.WARNING, message, advice)]
    if log > _LARGE_LOG_BYTES:
        message = f"the write-ahead log has {_megabytes(log)} and is not written back"
        checks.append(
            check("log", HealthLevel.WARNING, message, "end the program that holds a long transaction on the file")
        )
    else:
        checks.append(check("log", HealthLevel.OK, f"write-ahead log, {_megabytes(log)}"))
    return checks


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _megabytes(count: int) -> str:
    return f"{count / 1_000_000:.1f} MB"


# ---- queues, workers, jobs -----------------------------------------------------------------------------------------


def paused_by(queue: QueueInfo) -> str:
    """Say who paused a queue, and why."""
    who = f" by {queue.paused_by}" if queue.paused_by else ""
    return f"{who}: {queue.paused_reason}" if queue.paused_reason else who


def paused(queues: Sequence[QueueInfo], now: datetime) -> list[HealthCheck]:
    """Which queues are paused, by whom and why."""
    found = [
        check(
            "queues",
            HealthLevel.WARNING,
            f"{queue.name} is paused{paused_by(queue)}, {ages.age(queue.paused_at, now)}",
            f"`queues resume {queue.name}` lets its jobs start",
        )
        for queue in queues
        if queue.paused_at is not None
    ]
    return found or [check("queues", HealthLevel.OK, f"{len(queues)} known, none paused")]


def workers(found: Sequence[WorkerInfo], now: datetime) -> list[HealthCheck]:
    """Which workers are alive, and which have lost their lease."""
    checks = [check("workers", HealthLevel.OK, f"{sum(worker.is_alive for worker in found)} alive")]
    for worker in found:
        if worker.state == "lease ended":
            message = f"the lease of {_place(worker)} ended {ages.age(worker.lease_until, now)}; it holds"
            message += f" {plural(worker.running)}"
            checks.append(check("workers", HealthLevel.WARNING, message, "the next rescue sweep requeues them"))
    return checks


def differing(
    noted: Mapping[int, str], published: Mapping[str, str], workers: Sequence[WorkerInfo]
) -> list[HealthCheck]:
    """Which workers were started with other definitions than those that are published; fingerprints by path."""
    places = {int(worker.id): _place(worker) for worker in workers}
    checks = []
    for worker, policies in noted.items():
        own = msgspec.json.decode(policies, type=dict[str, str])
        paths = sorted(path for path, mark in own.items() if published.get(path) != mark)
        if paths and worker in places:
            named = ", ".join(paths[:_NAMED]) + (", ..." if len(paths) > _NAMED else "")
            message = f"{places[worker]} was started with other definitions than those published: {named}"
            checks.append(
                check("policies", HealthLevel.WARNING, message, "restart it, or publish its own: config apply")
            )
    return checks


def unattended(queues: Sequence[QueueInfo], workers: Sequence[WorkerInfo]) -> list[HealthCheck]:
    """Which queues have live jobs and no worker that takes them."""
    return [
        check(
            "workers",
            HealthLevel.WARNING,
            f"queue {queue.name} has {_waiting(queue.counts[state], state)} and no worker",
            "start one: holdfast worker -A module:app",
        )
        for queue in queues
        for state in _WAITS
        if state in queue.counts and queue.paused_at is None and not any(info.serves(queue.name) for info in workers)
    ]


def _place(worker: WorkerInfo) -> str:
    return f"worker {worker.id} ({worker.host}, process {worker.pid})"


def _waiting(count: JobCount, state: JobState) -> str:
    return f"{plural(count.jobs, '+' if count.capped else '')} {_WAITS[state]}"


def plural(jobs: int, more: str = "") -> str:
    """Write a number of jobs."""
    return f"{jobs:,}{more} {'job' if jobs == 1 else 'jobs'}"


def kinds(waiting: Sequence[Job], tasks: Registry) -> HealthCheck:
    """Whether the app knows the kinds of the jobs that wait."""
    unknown = Counter(job.kind for job in waiting if job.kind not in tasks)
    if not unknown:
        known = "1 task; it covers" if len(tasks) == 1 else f"{len(tasks)} tasks; they cover"
        return check("kinds", HealthLevel.OK, f"{known} the newest {plural(len(waiting))} that wait")
    named = ", ".join(f"{kind} ({jobs:,})" for kind, jobs in unknown.most_common(_NAMED))
    more = f" and {len(unknown) - _NAMED} more" if len(unknown) > _NAMED else ""
    advice = "import their tasks in the app's module, or add an alias to a task that was renamed"
    return check("kinds", HealthLevel.WARNING, f"jobs wait whose kind this app does not know: {named}{more}", advice)
