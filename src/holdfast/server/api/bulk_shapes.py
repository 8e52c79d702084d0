"""Bulk runs as the API shows them, and what they are asked with."""

from typing import Any

import msgspec
from pydantic import Field

from holdfast import filtering, names, public_id
from holdfast.server.api.enqueue_shapes import Length
from holdfast.server.api.job_shapes import ID
from holdfast.server.api.parameters import Instant, Reason
from holdfast.server.api.shape import Asked, Moment, Shape, Told
from holdfast.stores.bulk import COUNT_CAP, BulkRun, BulkState, BulkVerb

MOST_IDS = 1_000
_MOMENT = "2026-11-16T09:30:00Z"


class PreviewRequest(Asked):
    """What would be done to which jobs: `q` in the filter language, or `ids`; one of them."""

    verb: BulkVerb = Field(examples=["retry"])
    q: str | None = Field(None, max_length=filtering.LONGEST, examples=["kind:send_email state:failed since:1h"])
    ids: list[str] | None = Field(None, min_length=1, max_length=MOST_IDS, examples=[[ID]])


class BulkRequest(PreviewRequest):
    """What to do to which jobs; `rate` bounds how fast.

    `priority` goes with reprioritise, and either `run_at` or `delay` with reschedule.
    """

    priority: int | None = Field(
        None, ge=names.HIGHEST_PRIORITY, le=names.LOWEST_PRIORITY, strict=True, examples=[None], description="0 to 10."
    )
    run_at: Instant | None = Field(None, examples=[None])
    delay: Length | None = Field(None, examples=[None])
    rate: str | None = Field(None, max_length=40, examples=["50/s"])
    reason: Reason = None


class PreviewShape(Shape):
    """How many jobs a run would change; `capped` says "this many or more"."""

    jobs: int = Field(examples=[128])
    capped: bool = Field(examples=[False])


class BulkShape(Shape):
    """A bulk run: what it does, to which jobs, for whom, and how far it is.

    `expected` is how many jobs there were when it began; `done` were changed, `refused` had changed meanwhile.
    """

    id: str = Field(examples=["17"])
    verb: BulkVerb = Field(examples=["retry"])
    state: BulkState = Field(examples=["running"])
    which: dict[str, Any] = Field(examples=[{"kinds": ["send_email"], "states": ["failed"]}])
    priority: int | None = Field(None, examples=[None])
    run_at: Moment | None = Field(None, examples=[None])
    delay_ms: int | None = Field(None, examples=[None])
    actor: str | None = Field(None, examples=["ada"])
    reason: str | None = Field(None, examples=["the mail provider is back"])
    expected: int = Field(examples=[128])
    expected_capped: bool = Field(examples=[False])
    done: int = Field(examples=[64])
    refused: int = Field(examples=[0])
    per_second: float | None = Field(None, examples=[50.0])
    started_at: Moment = Field(examples=[_MOMENT])
    ended_at: Moment | None = Field(None, examples=[_MOMENT])
    errors: int = Field(examples=[0], description="How often in a row its next batch could not be done.")
    error: Told | None = None


class BulkList(Shape):
    """Bulk runs of the last 30 days, the newest first."""

    runs: list[BulkShape]


def preview_shape(jobs: int) -> PreviewShape:
    """Show a count that was bounded."""
    return PreviewShape(jobs=min(jobs, COUNT_CAP - 1), capped=jobs >= COUNT_CAP)


def bulk_shape(run: BulkRun) -> BulkShape:
    """Show a run."""
    same = ("verb", "state", "priority", "actor", "reason", "done", "refused", "started_at", "ended_at", "errors")
    given: dict[str, Any] = msgspec.to_builtins(run.which)
    which = {name: value for name, value in given.items() if value not in (None, [], ())}
    if run.which.ids:
        which["ids"] = [public_id.encode(one) for one in run.which.ids]
    return BulkShape(
        **{name: getattr(run, name) for name in (*same, "error")},
        id=str(run.id),
        which=which,
        run_at=None if run.due is None else run.due.run_at,
        delay_ms=None if run.due is None else run.due.delay_ms,
        expected=min(run.expected, COUNT_CAP - 1),
        expected_capped=run.expected >= COUNT_CAP,
        per_second=1_000_000 / run.spacing_us if run.spacing_us else None,
    )
