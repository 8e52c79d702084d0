"""One job on one page: what somebody wants to know who was woken up because of it."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from holdfast import ages, public_id
from holdfast.cli import job_parts, output
from holdfast.client.covering import Covering
from holdfast.client.relatives import Relatives
from holdfast.job import Attempt, Job, JobState
from holdfast.payload import covered_json

_LABEL = 11
_SHORT_JSON = 76
_FEW = 3


@dataclass(frozen=True)
class Look:
    """A job, what came of it, and for a live one the sentence that says why it stands where it stands."""

    job: Job
    sentence: str | None = None
    children: Relatives | None = None
    replays: Relatives | None = None


def write(look: Look, now: datetime) -> None:
    """Print the page."""
    job = look.job
    output.styled(
        (job.public_id, "bold"), ("  ", ""), (job.kind, "bold"), ("  ", ""), (job.state, output.STATE_STYLES[job.state])
    )
    _field("why", why(look, now))
    for label, value in (*_facts(job, now), *_offspring(look)):
        _field(label, value)
    _json("payload", covered_json(job.payload_json))
    if job.result_json is not None:
        _json("result", Covering(job).json(job.result_json))
    job_parts.write(job, now)
    if (traceback := job.extra.get("traceback")) is not None:
        output.line("")
        output.styled(("traceback", "bold"))
        output.lines(_indented(str(traceback), 2))
    if job.attempts:
        output.line("")
        output.styled(("attempts", "bold"))
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
    return f"ended {ages.age(job.finished_at or now, now)} on attempt {job.attempt}"


def detail(job: Job, now: datetime | None) -> str:
    """Say the most important thing in a few words, for a list; without a time, so that it is always the same."""
    if job.unreadable:
        return f"cannot be read: {job.unreadable[0]}"
    match job.state:
        case JobState.SCHEDULED:
            due = f"due {ages.iso(job.run_at)}" if now is None else f"due {ages.age(job.run_at, now)}"
            return f"{due}, {_error(job)}" if job.error_class else due
        case JobState.RUNNING if job.cancel_requested_at is not None:
            return f"told to stop{_by(job)}"
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
    yield "attempts", f"{job.attempt} of {job.max_attempts}, {crashes}, life {job.life}, claim {job.claim}"
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
    for label, text in (("unique", job.unique_key), ("key", job.idempotency_key), ("error id", job.error_fingerprint)):
        if text is not None:
            yield label, text


def _ancestors(job: Job) -> Iterator[tuple[str, str]]:
    if job.parent is not None:
        yield "parent", f"job {public_id.encode(job.parent)}, whose handler enqueued it"
    if job.origin is not None:
        yield "origin", f"job {public_id.encode(job.origin)}, replayed with other arguments"


def _offspring(look: Look) -> Iterator[tuple[str, str]]:
    """Say what came of a job; `jobs list` has all of them."""
    for label, term, found in (("children", "parent", look.children), ("replayed as", "origin", look.replays)):
        if found is None or not found.jobs:
            continue
        few = ", ".join(f"job {job.public_id} ({job.state})" for job in found.jobs)
        is_few = term == "origin" and len(found.jobs) <= _FEW and not found.has_more
        yield label, few if is_few else f"{found.summary}; see jobs list {term}:{look.job.public_id}"


def _kept(job: Job, now: datetime) -> Iterator[tuple[str, str]]:
    for label, moment in (("stale", job.stale_at), ("kept until", job.delete_at)):
        if moment is not None:
            yield label, _when(moment, now)


def _write_attempt(attempt: Attempt) -> None:
    begun = attempt.started_at or attempt.claimed_at
    took = "" if begun is None else f" after {ages.span(attempt.ended_at - begun)}"
    worker = "" if attempt.worker is None else f", worker {attempt.worker}"
    style = "red" if attempt.error_class else ""
    output.styled(
        (f"  {attempt.attempt}. ", "bold"),
        (attempt.outcome, style),
        (f"  {ages.stamp(attempt.ended_at)}{took}{worker}, claim {attempt.claim}", ""),
    )
    if attempt.error_class is not None:
        output.styled((f"     {attempt.error_class}: {attempt.error}", style))
    if attempt.traceback:
        output.lines(_indented(attempt.traceback, 5))


def _field(label: str, value: str) -> None:
    output.styled((f"  {label:<{_LABEL}} ", "bright_black"), (value, ""))


def _json(title: str, encoded: str) -> None:
    output.line("")
    output.styled((title, "bold"))
    shown = output.indented(encoded, 0)
    output.lines(_indented(shown if len(shown) <= _SHORT_JSON else output.indented(encoded), 2))


def _indented(text: str, by: int) -> str:
    return "\n".join(f"{'':{by}}{line}" for line in text.split("\n"))


def _when(moment: datetime, now: datetime) -> str:
    return f"{ages.stamp(moment)} ({ages.age(moment, now)})"


def _error(job: Job) -> str:
    return f"{job.error_class}: {job.error}" if job.error else f"{job.error_class}"


def _by(job: Job) -> str:
    who, reason = job.extra.get("cancelled_by"), job.extra.get("cancel_reason")
    by = f" by {who}" if who else ""
    return f"{by}: {reason}" if reason else by


def _progress(job: Job) -> str:
    progress = Covering(job).progress
    if progress is None:
        return ""
    percent = "" if progress.percent is None else f"{progress.percent:.0f} %"
    phase = "" if progress.phase is None else f"{progress.phase}:" if progress.message else progress.phase
    data = "" if progress.data is None else output.json_line(progress.data)
    return " ".join(part for part in (percent, phase, progress.message or "", data) if part)
