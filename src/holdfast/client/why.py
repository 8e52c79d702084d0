"""Saying in one true sentence why a job does not run."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from holdfast import public_id
from holdfast.job import JobRow, JobState
from holdfast.policies.money import shown_amount
from holdfast.resources.job_parts import Why
from holdfast.stores.why import MOST_AHEAD, ROOM, Evidence, LimitSeen
from holdfast.why import Reason

_SKEW = timedelta(seconds=2)
_SECOND_US = 1_000_000
_SOMEBODY = -1  # a job that is not named; no job has this number
_UNITS = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))


def ahead_of(before: datetime, after: datetime, store: datetime) -> timedelta:
    """How far the clock of this machine is ahead of the store's, as far as that is certain."""
    if before - store > _SKEW:
        return before - store
    return after - store if store - after > _SKEW else timedelta()


def unnamed(found: Evidence) -> Evidence:
    """Leave out which other jobs there are; how many is kept."""
    limit, lock = found.limit, found.lock
    if limit is not None:
        head = limit.head if limit.head in {None, found.job.id} else _SOMEBODY
        limit = msgspec.structs.replace(limit, holders=(), head=head)
    if lock is not None:
        lock = msgspec.structs.replace(lock, holder=None)
    return msgspec.structs.replace(found, limit=limit, lock=lock)


def explain(found: Evidence, *, ahead: timedelta = timedelta()) -> Why:
    """Say why a job stands where it stands; `ahead` is how far the asker's clock is ahead of the store's."""
    job = found.job
    if job.is_finished:
        return _finished(found)
    match job.state:
        case JobState.RUNNING:
            return _running(found)
        case JobState.SCHEDULED:
            return _scheduled(found, ahead)
        case JobState.BLOCKED:
            others = f"{job.pending} other jobs" if job.pending and job.pending > 1 else "another job"
            return Why(Reason.BLOCKED, f"waits for {others}", {"pending": job.pending})
    if found.queue.paused_at is not None:
        return _paused(found)
    if found.queue.closed_until is not None and found.queue.closed_until > found.now:
        left = found.queue.closed_until - found.now
        sentence = f"its queue {job.queue} is closed for another {span(left)}: a handler was told to slow down"
        return Why(Reason.CLOSED, sentence, {"queue": job.queue, "until": iso(found.queue.closed_until)})
    return _held(found) if job.state is JobState.HELD else _queued(found)


# ---- ended, running, due later --------------------------------------------------------------------------------------


def _finished(found: Evidence) -> Why:
    job = found.job
    since = found.now - (job.finished_at or found.now)
    details: dict[str, Any] = {"state": job.state.value, "attempt": job.attempt}
    if found.stopping:
        kept = ", ".join(found.stopping)
        sentence = f"{_end(job)}, {span(since)} ago, but its handler may still be at work and keeps {kept}"
        return Why(Reason.STOPPING, sentence, details | {"keeps": list(found.stopping)})
    return Why(Reason.FINISHED, f"{_end(job)}, {span(since)} ago, on attempt {job.attempt}", details)


def _end(job: JobRow) -> str:
    if job.state is JobState.FAILED:
        return f"failed with {_error(job)}"
    if job.state is JobState.CANCELLED:
        return f"was cancelled{_by(job.extra.get('cancelled_by'), job.extra.get('cancel_reason'))}"
    return "completed, and some of its items failed" if job.state is JobState.COMPLETED_WITH_ERRORS else "completed"


def _running(found: Evidence) -> Why:
    job, owner = found.job, found.owner
    named = f"worker {job.worker}" if owner is None else f"worker {owner.id} ({owner.host}, process {owner.pid})"
    told = ""
    if job.cancel_requested_at is not None:
        by = _by(job.extra.get("cancelled_by"), job.extra.get("cancel_reason"))
        told = f"; it was asked to stop {span(found.now - job.cancel_requested_at)} ago{by}"
    details: dict[str, Any] = {
        "worker": None if job.worker is None else str(job.worker),
        "claim": job.claim,
        "is_cancelled": bool(told),
    }
    if owner is None or not owner.is_alive:
        return Why(Reason.WORKER_LOST, f"{named} had it and is gone: it will be rescued in a moment{told}", details)
    if job.started_at is None:
        since = span(found.now - (job.claimed_at or found.now))
        return Why(Reason.BUFFERED, f"{named} took it {since} ago and has not started it yet{told}", details)
    since = f"runs for {span(found.now - job.started_at)} on {named}"
    if found.lock is not None:
        holder = "" if found.lock.holder is None else f", which job {public_id.encode(found.lock.holder)} holds"
        details |= {"lock": found.lock.name}
        return Why(Reason.LOCK, f"{since} and waits for the lock {found.lock.name}{holder}{told}", details)
    return Why(Reason.RUNNING, f"{since}{told}", details)


def _scheduled(found: Evidence, ahead: timedelta) -> Why:
    job = found.job
    details: dict[str, Any] = {"due_at": iso(job.run_at)}
    failed = f", after attempt {job.attempt} ended with {_error(job)}" if job.error_class else ""
    if job.run_at > found.now:
        skew = ""
        if ahead:
            way = "ahead of" if ahead > timedelta() else "behind"
            skew = f" by the store's clock (this machine's is {span(abs(ahead))} {way} it)"
            details["clock_ahead_s"] = ahead.total_seconds()
        return Why(Reason.SCHEDULED, f"is due in {span(job.run_at - found.now)}{skew}{failed}", details)
    nobody = "no process that runs the services has queued it yet"
    sentence = f"was due {span(found.now - job.run_at)} ago, and {nobody}{failed}"
    if not found.workers:
        sentence += f"; no living worker takes jobs of queue {job.queue}"
    return Why(Reason.OVERDUE, sentence, details)


def _paused(found: Evidence) -> Why:
    queue, job = found.queue, found.job
    since = found.now - (queue.paused_at or found.now)
    by = _by(queue.paused_by, queue.paused_reason)
    details = {"queue": job.queue, "by": queue.paused_by, "why": queue.paused_reason}
    return Why(Reason.PAUSED, f"its queue {job.queue} was paused {span(since)} ago{by}", details)


# ---- held ------------------------------------------------------------------------------------------------------------


def _held(found: Evidence) -> Why:
    if found.limit is not None:
        return _limited(found, found.limit)
    if found.budget is not None:
        return _unpaid(found)
    return Why(Reason.LIMIT, f"is held for {found.job.limit_key}, which is no more: it is let go in a moment")


def _limited(found: Evidence, limit: LimitSeen) -> Why:
    job = found.job
    whose = f"{limit.name} for {limit.key}" if limit.key else limit.name
    details: dict[str, Any] = {"limit": limit.name, "key": limit.key, "ahead": min(limit.ahead, MOST_AHEAD - 1)}
    if limit.fifo:
        if limit.head is None or limit.head == job.id:
            return Why(Reason.FIFO, f"is the first of {whose}, and is let go in a moment", details)
        if limit.head == _SOMEBODY:
            return Why(Reason.FIFO, f"comes after others of {whose}, where jobs run one after the other", details)
        head = public_id.encode(limit.head)
        sentence = f"comes after job {head}, which is the first of {whose}, where jobs run one after the other"
        return Why(Reason.FIFO, sentence, details | {"behind": head})
    if limit.concurrency is not None and limit.taken >= limit.concurrency:
        holders = [_holder(holder.id, holder.kind, is_stopping=holder.is_stopping) for holder in limit.holders]
        more = limit.taken - len(holders)
        named = ", ".join(holders) + (f" and {more} more" if more > 0 else "")
        full = f"all {limit.concurrency} slots of the limit {whose} are taken" + (f" by {named}" if holders else "")
        details |= {"taken": limit.taken, "of": limit.concurrency}
        details["holders"] = [public_id.encode(holder.id) for holder in limit.holders]
        return Why(Reason.LIMIT, f"{full}{_before(limit.ahead)}", details)
    if limit.throttle_us is not None:
        next_at = _next_start(found.now, limit)
        details["next_at"] = iso(next_at)
        wait = f"the next start is in {span(next_at - found.now)}" if next_at > found.now else "the next may start now"
        sentence = f"starts of {whose} are {_each(limit.throttle_us)} apart, {wait}{_before(limit.ahead)}"
        return Why(Reason.THROTTLE, sentence, details)
    if limit.rotate:
        sentence = (
            f"keys of {limit.name} take turns: it joins its lane when others of {limit.key or 'its key'} have run"
        )
        return Why(Reason.ROTATION, f"{sentence}{_before(limit.ahead)}", details)
    return Why(Reason.LIMIT, f"is held for the limit {whose}, which lets it go in a moment", details)


def _holder(holder: int, kind: str | None, *, is_stopping: bool) -> str:
    named = f"job {public_id.encode(holder)}" + (f" ({kind})" if kind else "")
    return f"{named}, which has ended by force and is stopping" if is_stopping else named


def _next_start(now: datetime, limit: LimitSeen) -> datetime:
    if limit.throttled_until is None or limit.throttle_us is None:
        return now
    return max(now, limit.throttled_until - timedelta(microseconds=limit.throttle_us) * (limit.burst - 1))


def _unpaid(found: Evidence) -> Why:
    job, budget = found.job, found.budget
    if budget is None:
        raise AssertionError
    used = shown_amount(budget.spent + budget.lost, budget.unit)
    of = shown_amount(budget.ceiling, budget.unit)
    whose = f"{budget.name} for {budget.key}" if budget.key else budget.name
    details = {"budget": budget.name, "key": budget.key, "spent": used, "of": of, "until": iso(job.run_at)}
    if (job.limit_key or "").endswith(ROOM):
        aside = shown_amount(budget.reserved, budget.unit)
        sentence = f"the budget {whose} has {aside} set aside for running jobs beside {used} of {of} spent; it is"
        sentence += f" looked at again in {span(job.run_at - found.now)}"
    else:
        sentence = f"the budget {whose} has spent {used} of {of}: it waits {span(job.run_at - found.now)} for the next"
        sentence += " period"
    return Why(Reason.BUDGET, sentence, details)


# ---- queued ----------------------------------------------------------------------------------------------------------


def _queued(found: Evidence) -> Why:
    job, workers = found.job, found.workers
    ahead = min(found.ahead or 0, MOST_AHEAD - 1)
    running, slots = sum(worker.running for worker in workers), sum(worker.slots for worker in workers)
    here = sum(worker.running_here for worker in workers)
    details: dict[str, Any] = {"queue": job.queue, "priority": job.priority, "ahead": ahead}
    details |= {"workers": len(workers), "slots": slots, "running": running}
    if not workers:
        return Why(Reason.NO_WORKER, f"may run, but no living worker takes jobs of queue {job.queue}", details)
    if all(worker.knows is False for worker in workers):
        sentence = f"may run, but none of the {_workers(len(workers))} of queue {job.queue} has a task for {job.kind}"
        return Why(Reason.UNKNOWN_KIND, sentence, details)
    place = f"it may run{_before(found.ahead or 0, 'in its lane')}"
    bound = _bound(found.queue.definition)
    instances = len({worker.instance for worker in workers})
    if running >= slots > 0:
        busy = f"all {slots} slots of the {_workers(len(workers))} of queue {job.queue} are busy"
        return Why(Reason.BUSY, f"{place}; {busy}", details)
    if bound is not None and here >= bound * instances:
        busy = f"queue {job.queue} runs {here} jobs, as many as its {bound} workers in {instances} instances may"
        return Why(Reason.BUSY, f"{place}; {busy}", details | {"bound": bound * instances})
    used = f"{running} of {slots} slots" if slots else f"{running} slots"
    sentence = f"{place}; {used} of the {_workers(len(workers))} of queue {job.queue} are busy"
    return Why(Reason.READY, sentence, details)


def _bound(definition: str | None) -> int | None:
    """The most workers that an instance may give to a queue."""
    if definition is None:
        return None
    written = msgspec.json.decode(definition)
    bound = written.get("max_workers") or written.get("workers")
    return bound if isinstance(bound, int) else None


def _workers(count: int) -> str:
    return "1 worker process" if count == 1 else f"{count} worker processes"


def _before(ahead: int, where: str = "for it") -> str:
    if ahead == 0:
        return f", first {where}" if where != "for it" else ""
    counted = f"{MOST_AHEAD - 1:,}+" if ahead >= MOST_AHEAD else f"{ahead:,}"
    jobs = "job is" if ahead == 1 else "jobs are"
    return f"; {counted} {jobs} before it" if where == "for it" else f", {counted} {jobs} before it {where}"


# ---- words -----------------------------------------------------------------------------------------------------------


def _error(job: JobRow) -> str:
    return f"{job.error_class}: {job.error}" if job.error else f"{job.error_class}"


def _by(who: object, reason: object) -> str:
    by = f" by {who}" if who else ""
    return f"{by}: {reason}" if reason else by


def _each(spacing_us: int) -> str:
    return f"{spacing_us / 1_000:g} ms" if spacing_us < _SECOND_US else f"{spacing_us / _SECOND_US:g} s"


def span(length: timedelta) -> str:
    """Say how long something is, in at most two units."""
    seconds = max(length.total_seconds(), 0)
    if seconds < 1:
        return f"{seconds * 1_000:.0f} ms"
    parts: list[str] = []
    rest = int(seconds)
    for unit, size in _UNITS:
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count} {unit}")
        elif parts:
            break
    return " ".join(parts[:2])


def iso(moment: datetime) -> str:
    """Write a moment for machines."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
