"""A job in the words of those who come from a `queue_job` table: `GET /queue/jobs/{public_id}`.

What such a job is about is in its tags: `build_url`, `edition_url`, `subject_url` and `subject_label`.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from fastapi import Request

from holdfast.about import About
from holdfast.job import LIVE, JobRow, JobState
from holdfast.resources.examples import JOB_ID, MOMENT
from holdfast.resources.job_rows import secrets_of
from holdfast.server.api.jobs import Id
from holdfast.server.roles import Permission
from holdfast.server.routing import Routes, Seen, served
from holdfast.telemetry.redaction import hide_within

routes = Routes("seed", "/queue")

_TOLD = ("build_url", "edition_url", "subject_url", "subject_label")


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueJob:
    """A job as a `queue_job` row tells it."""

    self_url: Annotated[str, About(example=f"http://127.0.0.1:8470/queue/jobs/{JOB_ID}")]
    id: Annotated[str, About(example=JOB_ID)]
    status: Annotated[
        str, About("queued, in_progress, completed, completed_with_errors, failed or cancelled.", "in_progress")
    ]
    kind: Annotated[str, About(example="build_processing")]
    build_url: str | None = None
    edition_url: str | None = None
    subject_url: str | None = None
    subject_label: str | None = None
    date_created: Annotated[datetime, About(example=MOMENT)]
    date_started: Annotated[datetime | None, About(example=MOMENT)] = None
    date_completed: Annotated[datetime | None, About(example=MOMENT)] = None
    phase: Annotated[str | None, About(example="editions")] = None
    progress: Annotated[
        dict[str, Any] | None,
        About(example={"editions_total": 1, "editions_completed": ["main"], "editions_failed": []}),
    ] = None
    errors: Annotated[list[dict[str, Any]] | None, About(example=[{"attempt": 1, "error": "R2 timeout"}])] = None


@routes.get("/jobs/{id}", Permission.LOOK, summary="Read a job as a queue_job")
async def read_queue_job(id: Id, client: Seen, request: Request) -> QueueJob:  # noqa: A002 - the name in the address
    """Read a job in the shape that clients of a `queue_job` table poll; 404 once its retention has ended."""
    job = await client.jobs.row(id)
    root = served(request).server.url or str(request.base_url)
    tags = job.tags
    return QueueJob(
        self_url=f"{root.rstrip('/')}/queue/jobs/{job.public_id}",
        id=job.public_id,
        status=_status(job),
        kind=job.kind,
        **{name: tags.get(name) for name in _TOLD},
        date_created=job.enqueued_at,
        date_started=job.started_at or job.claimed_at,
        date_completed=job.finished_at,
        phase=job.phase,
        progress=_progress(job),
        errors=_errors(job) or None,
    )


def _status(job: JobRow) -> str:
    if job.state is JobState.RUNNING:
        return "in_progress"
    return "queued" if job.state in LIVE else job.state.value


def _progress(job: JobRow) -> dict[str, Any] | None:
    """What a handler has reported, its items included, as one object."""
    progress = job.progress
    if progress is None:
        return None
    said = {"message": progress.message, "percent": progress.percent, "phase_percent": progress.phase_percent}
    found: dict[str, Any] = {name: value for name, value in said.items() if value is not None}
    if isinstance(progress.data, dict):
        found |= progress.data
    for shape in job.items.values():
        found |= shape
    told: dict[str, Any] = hide_within(secrets_of(job).cover(found))
    return told


def _errors(job: JobRow) -> list[dict[str, Any]]:
    """All that went wrong: in attempts, in the end, in items."""
    found: list[dict[str, Any]] = [
        {
            "attempt": ended.attempt,
            "error_class": ended.error_class,
            "error": ended.error,
            "date": ended.ended_at,
        }
        for ended in job.attempts
        if ended.error_class is not None
    ]
    if job.state is JobState.FAILED:
        last = {"error_class": job.error_class, "error": job.error, "date": job.finished_at}
        found.append({"attempt": job.attempt, **last})
    for name, shape in job.items.items():
        found += [{"items": name, **failed} for failed in shape.get(f"{name}_failed", ())]
    told: list[dict[str, Any]] = hide_within(secrets_of(job).cover(found))
    return told
