"""What the log says of a handler that failed."""

import logging

from holdfast.transitions import Transition, Verb
from holdfast.worker.run import Run

_logger = logging.getLogger("holdfast")


def log_failure(run: Run, transition: Transition) -> None:
    """Tell in one line what went wrong and what follows; the traceback is kept with the job."""
    job, why = run.job, transition.failure
    if why is None or transition.verb not in (Verb.RETRY, Verb.FAIL, Verb.CRASH):
        return
    if transition.verb is Verb.FAIL:
        level, next_step = logging.ERROR, "it has failed"
    elif transition.verb is Verb.CRASH:
        level, next_step = logging.ERROR, "a crash is counted"
    else:
        level, next_step = logging.WARNING, f"the next one follows in {transition.delay_ms / 1_000:g} s"
    message = "job %s (%s), attempt %d of %d: %s: %s; %s"
    error = why.message.replace("\n", " ")
    _logger.log(
        level, message, job.public_id, job.kind, job.attempt, job.max_attempts, why.error_class, error, next_step
    )
