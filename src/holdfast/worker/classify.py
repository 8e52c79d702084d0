"""What the end of a handler means for its job: one Transition."""

import asyncio
from typing import Any

from holdfast import failure, payload
from holdfast import transitions as ends
from holdfast.config import Settings
from holdfast.errors import TimedOut
from holdfast.outcomes import Cancel, Fatal, Outcome, Retry, Skip, Snooze, Throttle, outcome_of
from holdfast.tasks.options import Policy
from holdfast.transitions import Transition, Verb
from holdfast.worker.run import Run, Why

UNKNOWN_KIND_DELAY_MS = 30_000
_ANY = Policy()


def returned(run: Run, value: Any, settings: Settings) -> Transition:
    """The handler returned: its result is stored, or the job fails because the result cannot be."""
    job = run.job
    if run.why is Why.IN_DOUBT:  # the handler caught the error: it knows no more than we do
        return ends.interrupted(*run.key)
    try:
        limits = {"most_bytes": settings.max_args_bytes, "most_depth": settings.max_depth}
        result = None if value is None else payload.encode(value, f"the result of {job.kind}", **limits)
    except Exception as error:  # noqa: BLE001 - besides ArgumentError anything that a model's own code may raise
        # Another attempt would do all the work again, to return the same.
        return ends.failed(*run.key, _described(run, error), started_ago_ms=run.started_ago_ms)
    with_errors = run.phasing is not None and run.phasing.has_failed_items
    return ends.completed(*run.key, result, with_errors=with_errors, started_ago_ms=run.started_ago_ms)


def raised(run: Run, error: BaseException, settings: Settings) -> Transition:
    """The handler raised: by our request, as an outcome, or as a failure."""
    try:
        return _raised(run, error, settings)
    except Exception as broken:  # noqa: BLE001 - it may be built so that looking at it raises anything
        why = failure.from_text(type(broken).__qualname__, "what the handler raised raises itself when it is looked at")
        return failed_attempt(run, why, settings, fatal=False)


def _raised(run: Run, error: BaseException, settings: Settings) -> Transition:
    if run.why is Why.IN_DOUBT:
        return ends.interrupted(*run.key)
    outcome = outcome_of(error)
    if outcome is not None:
        return _by_outcome(run, outcome, error, settings)
    if run.why is Why.CANCELLED:
        return ends.cancelled(*run.key, started_ago_ms=run.started_ago_ms)
    if run.why is Why.TIMED_OUT:
        return timed_out(run, settings)
    if run.why is not None and isinstance(error, asyncio.CancelledError):
        return ends.interrupted(*run.key)
    return failed_attempt(run, _described(run, error), settings, fatal=_is_fatal(run, error, settings))


def timed_out(run: Run, settings: Settings) -> Transition:
    """The handler ran longer than it may."""
    error = TimedOut(f"ran longer than its timeout of {run.timeout_s:g} s")
    return failed_attempt(run, _described(run, error), settings, fatal=_is_fatal(run, error, settings))


def refused(run: Run, error: BaseException) -> Transition:
    """The job cannot be run at all: its arguments do not fit the task."""
    return ends.failed(*run.key, _described(run, error))


def unless_run_once(run: Run, transition: Transition) -> Transition:
    """Let what has begun and may not be begun again fail instead of being given back."""
    is_run_once = run.task is not None and run.task.policy.on_restart == "fail"
    if not is_run_once or transition.verb is not Verb.INTERRUPT or run.started_at is None or run.why is Why.IN_DOUBT:
        return transition
    why = failure.from_text("Interrupted", 'its worker left before it had ended, and its task says on_restart="fail"')
    return ends.failed(*run.key, why, started_ago_ms=run.started_ago_ms)


def unknown(run: Run) -> Transition:
    """No task here has this kind: another worker may know it."""
    return ends.snoozed(*run.key, UNKNOWN_KIND_DELAY_MS)


def _by_outcome(run: Run, outcome: Outcome, error: BaseException, settings: Settings) -> Transition:
    ago = run.started_ago_ms
    if isinstance(outcome, Snooze):
        return ends.snoozed(*run.key, outcome.delay_ms, failure=_reason(run, outcome), started_ago_ms=ago)
    if isinstance(outcome, Throttle):
        return ends.throttled(*run.key, outcome.delay_ms, failure=_reason(run, outcome), started_ago_ms=ago)
    if isinstance(outcome, Cancel):
        return ends.cancelled(*run.key, failure=_reason(run, outcome), started_ago_ms=ago)
    if isinstance(outcome, Skip):
        run.context.progress(None, f"skipped: {outcome.reason}" if outcome.reason else "skipped", skipped=True)
        return ends.completed(*run.key, started_ago_ms=ago)
    why = _described(run, error if error is outcome else outcome)
    if isinstance(outcome, Retry):
        return failed_attempt(run, why, settings, fatal=False, delay_ms=outcome.delay_ms)
    return failed_attempt(run, why, settings, fatal=isinstance(outcome, Fatal))


def _reason(run: Run, outcome: Outcome) -> failure.Failure | None:
    return _covered(run, failure.from_text(type(outcome).__name__, outcome.reason)) if outcome.reason else None


def _is_fatal(run: Run, error: BaseException, settings: Settings) -> bool:
    """Decide by the task's lists, the more special first; what is in neither follows the disposition."""
    policy = run.task.policy if run.task is not None else _ANY
    if isinstance(error, policy.fatal_on):
        return True
    if isinstance(error, (*policy.retry_on, TimedOut)):
        return False
    return (policy.on_error or settings.on_error) == "fatal"


def failed_attempt(
    run: Run, why: failure.Failure, settings: Settings, *, fatal: bool, delay_ms: int | None = None
) -> Transition:
    """Let another attempt follow after the delay or the backoff, unless none is left or none would help."""
    job, ago = run.job, run.started_ago_ms
    if fatal or job.attempt >= job.max_attempts:
        return ends.failed(*run.key, why, started_ago_ms=ago)
    if delay_ms is None:
        backoff = (run.task.retry if run.task is not None else None) or settings.retry_of(job.queue)
        delay_ms = backoff.delay_ms(job.attempt)
    return ends.retried(*run.key, why, delay_ms, started_ago_ms=ago)


def _described(run: Run, error: BaseException) -> failure.Failure:
    return _covered(run, failure.from_exception(error))


def _covered(run: Run, why: failure.Failure) -> failure.Failure:
    """Cover the secrets among the arguments, which any text of a handler may quote."""
    secrets = payload.secrets_in(run.arguments) if run.arguments else ()
    return why if not secrets else failure.covered(why, secrets)  # guard: outcome-secrets, without: return why
