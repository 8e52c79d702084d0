"""One job on one page: what somebody wants to know who was woken up because of it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import msgspec

from holdfast import ages
from holdfast.cli import job_parts, output
from holdfast.client.relatives import Relatives
from holdfast.job import JobState
from holdfast.resources.job import Attempt, Job
from holdfast.resources.job_parts import JobItem, LogLine
from holdfast.resources.redaction import redact

_LABEL = 11
_SHORT_JSON = 76
_FEW = 3


@dataclass(frozen=True)
class Look:
    """A job, what came of it, and for a live one the sentence that says why it stands where it stands."""

    job: Job
    sentence: str | None = None
    items: Sequence[JobItem] = ()
    logs: Sequence[LogLine] = ()
    children: Relatives | None = None
    clones: Relatives | None = None


def write(look: Look, now: datetime) -> None:
    """Print the page."""
    look = replace(look, job=redact(look.job))
    job = look.job
    output.styled(
        (job.id, "bold"), ("  ", ""), (job.kind, "bold"), ("  ", ""), (job.state, output.STATE_STYLES[job.state])
    )
    _field("why", why(look, now))
    for label, value in (*_facts(job, now), *_offspring(look)):
        _field(label, value)
    _json("args", job.args)
    if job.result is not None:
        _json("result", job.result)
    job_parts.write(job, look.items, look.logs, now)
    if job.traceback is not None:
        output.title("traceback")
        output.lines(_indented(job.traceback, 2))
    if job.attempts:
        output.title("attempts")
        for attempt in job.attempts:
            _write_attempt(attempt)


# ---- why -----------------------------------------------------------------------------------------------------------


def why(look: Look, now: datetime) -> str:
    """Say in a sentence why the job stands where it stands."""
    job = look.job
    if look.sentence is not None:
        return look.sentence
    match job.state:
        case JobState.FAILED:
            return f"{_error(job)} (attempt {job.attempt} of {job.max_attempts}, {job.crashes} crashes)"
        case JobState.CANCELLED:
            return f"cancelled{_by(job)}"
        case JobState.COMPLETED_WITH_ERRORS:
            return f"{_ended(job, now)}; some of its items failed: jobs retry runs only those again"
        case _:
            return _ended(job, now)


def _ended(job: Job, now: datetime) -> str:
    return f"finished {ages.age(job.finished_at or now, now)} on attempt {job.attempt}"


def detail(job: Job, now: datetime | None = None) -> str:
    """Say the most important thing in a few words, for a list; without a time, so that it is always the same."""
    if job.unreadable:
        return f"cannot be read: {job.unreadable[0]}"
    match job.state:
        case JobState.SCHEDULED:
            due = f"due {ages.iso(job.run_at)}" if now is None else f"due {ages.age(job.run_at, now)}"
            return f"{due}, {_error(job)}" if job.error_class else due
        case JobState.RUNNING if job.cancel_requested_at is not None:
            return f"asked to stop{_by(job)}"
        case JobState.RUNNING:
            return _progress(job)
        case JobState.CANCELLED:
            return _by(job).strip().removeprefix(": ")
        case JobState.COMPLETED_WITH_ERRORS:
            return job_parts.failures(job)
        case _:
            return _error(job) if job.error_class else ""


# ---- facts ---------------------------------------------------------------------------------------------------------


def _facts(job: Job, now: datetime) -> Iterator[tuple[str, str]]:
    yield "queue", f"{job.queue}, priority {job.priority}"
    crashes = f"crashes {job.crashes} of {job.max_crashes}"
    yield "attempts", f"{job.attempt} of {job.max_attempts}, {crashes}, run {job.run}, claim {job.claim}"
    actor = f" by {job.actor}" if job.actor else ""
    yield "enqueued", f"{_when(job.enqueued_at, now)}{actor}"
    yield from _ancestors(job)
    if not job.is_finished:
        yield "due", _when(job.run_at, now)
    for label, moment in (("claimed", job.claimed_at), ("started", job.started_at)):
        if moment is not None:
            yield label, _when(moment, now)
    if job.finished_at is not None:
        begun = job.started_at or job.claimed_at
        took = f", after {ages.span(job.finished_at - begun)}" if begun is not None else ""
        yield "finished", f"{_when(job.finished_at, now)}{took}"
        yield from _kept(job, now)
    yield "timeout", "none" if job.timeout_ms is None else ages.span(timedelta(milliseconds=job.timeout_ms))
    if job.progress is not None:
        yield "progress", f"{_progress(job)}, {ages.age(job.progress.updated_at, now)}"
    if job.tags:
        yield "tags", ", ".join(f"{name}={value}" for name, value in job.tags.items())
    for mistake in job.unreadable:
        yield "unreadable", mistake
    for label, text in (("unique", job.unique_key), ("key", job.key), ("error id", job.error_fingerprint)):
        if text is not None:
            yield label, text


def _ancestors(job: Job) -> Iterator[tuple[str, str]]:
    if job.parent is not None:
        yield "parent", f"job {job.parent}, whose handler enqueued it"
    if job.origin is not None:
        yield "origin", f"job {job.origin}, of which it is a changed copy"


def _offspring(look: Look) -> Iterator[tuple[str, str]]:
    """Say what came of a job; `jobs list` has all of them."""
    for label, term, found in (("children", "parent", look.children), ("cloned as", "origin", look.clones)):
        if found is None or not found.jobs:
            continue
        few = ", ".join(f"job {job.id} ({job.state})" for job in found.jobs)
        is_few = term == "origin" and len(found.jobs) <= _FEW and not found.has_more
        yield label, few if is_few else f"{found.summary}; see jobs list {term}:{look.job.id}"


def _kept(job: Job, now: datetime) -> Iterator[tuple[str, str]]:
    for label, moment in (("stale", job.stale_at), ("kept until", job.delete_at)):
        if moment is not None:
            yield label, _when(moment, now)


def _write_attempt(attempt: Attempt) -> None:
    begun = attempt.started_at or attempt.claimed_at
    took = "" if begun is None else f" after {ages.span(attempt.finished_at - begun)}"
    worker = "" if attempt.worker is None else f", worker {attempt.worker}"
    style = "red" if attempt.error_class else ""
    output.styled(
        (f"  {attempt.attempt}. ", "bold"),
        (attempt.outcome, style),
        (f"  {ages.stamp(attempt.finished_at)}{took}{worker}, claim {attempt.claim}", ""),
    )
    if attempt.error_class is not None:
        output.styled((f"     {_error(attempt)}", style))
    if attempt.traceback:
        output.lines(_indented(attempt.traceback, 5))


def _field(label: str, value: str) -> None:
    output.styled((f"  {label:<{_LABEL}} ", "bright_black"), (value, ""))


def _json(title: str, value: Any) -> None:
    encoded = msgspec.json.encode(value)
    output.title(title)
    shown = output.indented(encoded, 0)
    output.lines(_indented(shown if len(shown) <= _SHORT_JSON else output.indented(encoded), 2))


def _indented(text: str, by: int) -> str:
    return "\n".join(f"{'':{by}}{line}" for line in text.split("\n"))


def _when(moment: datetime, now: datetime) -> str:
    return f"{ages.stamp(moment)} ({ages.age(moment, now)})"


def _error(of: Job | Attempt) -> str:
    return f"{of.error_class}: {of.error}" if of.error else f"{of.error_class}"


def _by(job: Job) -> str:
    by = f" by {job.cancelled_by}" if job.cancelled_by else ""
    return f"{by}: {job.cancel_reason}" if job.cancel_reason else by


def _progress(job: Job) -> str:
    progress = job.progress
    if progress is None:
        return ""
    percent = "" if progress.percent is None else f"{progress.percent:.0f} %"
    phase = "" if progress.phase is None else f"{progress.phase}:" if progress.message else progress.phase
    data = "" if progress.data is None else output.json_line(progress.data)
    return " ".join(part for part in (percent, phase, progress.message or "", data) if part)
