"""What the log says of how handlers end: of a failure always, of every end with the level debug."""

import logging

from holdfast.job import JobState
from holdfast.telemetry.logs import facts
from holdfast.transitions import Transition, Verb
from holdfast.worker.run import Run
from holdfast.worker.tally import run_s

_logger = logging.getLogger("holdfast")

_EVENTS = {Verb.RETRY: "job.retry_scheduled", Verb.FAIL: "job.failed", Verb.CRASH: "job.crashed"}


def log_failure(run: Run, transition: Transition) -> None:
    """Tell in one line what went wrong and what follows; the traceback is kept with the job."""
    job, why = run.job, transition.failure
    if why is None or transition.verb not in (Verb.RETRY, Verb.FAIL, Verb.CRASH):
        return
    if transition.verb is Verb.FAIL:
        level, next_step = logging.ERROR, "it has failed"
    elif transition.verb is Verb.CRASH:
        count = f"crash {job.crashes + 1} of {job.max_crashes}"
        next_step = f"{count}: it has failed" if job.crashes + 1 >= job.max_crashes else f"{count} is counted"
        level = logging.ERROR
    else:
        level, next_step = logging.WARNING, f"the next one follows in {transition.delay_ms / 1_000:g} s"
    message = "job %s (%s), attempt %d of %d: %s: %s; %s"
    error = why.message.replace("\n", " ")
    found = facts(_EVENTS[transition.verb], job, max_attempts=job.max_attempts, error_class=why.error_class)
    _logger.log(
        level,
        message,
        *(job.public_id, job.kind, job.attempt, job.max_attempts, why.error_class, error, next_step),
        extra=found,
    )


def log_end(run: Run, verb: Verb, state: JobState) -> None:
    """Tell in one line that a claim has ended, and how long its handler ran."""
    job, ran_s = run.job, run_s(run)
    found = facts("job.ended", job, outcome=verb.value, state=state.value, run_s=round(ran_s, 6))
    _logger.debug("job %s (%s) is %s after %.3f s", job.public_id, job.kind, state.value, ran_s, extra=found)
