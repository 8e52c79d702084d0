"""From a call to the job that an insert needs."""

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from holdfast.config import Settings
from holdfast.context import running_job
from holdfast.job import NewJob
from holdfast.tasks.call import Call
from holdfast.telemetry import tracing


def new_job(call: Call[Any], job_id: int, settings: Settings) -> NewJob:
    """Fill in what the call leaves to its task, and the task to the app."""
    options, policy, queue = call.options, call.policy, settings.queue_of(call.queue)
    return NewJob(
        id=job_id,
        kind=call.kind,
        queue=call.queue,
        priority=_first(options.priority, policy.priority, queue.priority),
        payload=call.args_json,
        run_at=options.run_at,
        delay_ms=options.delay_ms,
        unique=options.unique,
        unique_for_ms=options.unique_for_ms,
        key=options.key,
        max_attempts=_first(options.max_attempts, policy.max_attempts, queue.max_attempts or settings.max_attempts),
        max_crashes=_first(options.max_crashes, policy.max_crashes, settings.max_crashes),
        timeout_ms=_given(_given(_given(options.timeout_ms, policy.timeout_ms), queue.timeout_ms), settings.timeout_ms),
        tags=options.tags,
        actor=options.actor,
        extra=_extra(call, settings),
        parent=running_job.get(),
    )


def _extra(call: Call[Any], settings: Settings) -> str | None:
    """Write what the job carries with it; a webhook is checked here, which is where it is registered."""
    extra = call.policy.extra
    if call.options.webhook is not None:
        target = settings.webhooks.checked(call.options.webhook, settings.webhook_keys_of(call.queue))
        extra["webhook"] = {"url": target.url}
    extra |= tracing.carried(is_wanted=settings.telemetry.traces)
    if call.options.estimate is not None:
        extra["estimate"] = call.options.estimate.micro
    return msgspec.json.encode(extra).decode() if extra else None


def _first(choice: int | None, second: int | None, last: int) -> int:
    if choice is not None:
        return choice
    return last if second is None else second


def _given(chosen: int | UnsetType | None, otherwise: Any) -> Any:
    """Take what was given, None included: None is a choice of its own here."""
    return otherwise if chosen is UNSET else chosen
