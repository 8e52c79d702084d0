"""What is counted and logged of the ends of claims."""

import logging

from holdfast.job import JobState
from holdfast.telemetry.logs import facts
from holdfast.telemetry.meter import Meter
from holdfast.transitions import Verb
from holdfast.worker.complaint import log_end
from holdfast.worker.marks import Marks
from holdfast.worker.metering import Metering
from holdfast.worker.run import Run
from holdfast.worker.tally import Tally

_logger = logging.getLogger("holdfast")


class Counting:
    """Counts the ends of the claims of one process: for its supervisor, for the roll-ups and for operators."""

    def __init__(self, marks: Marks, meter: Meter | None) -> None:
        self.ended_jobs = 0
        self.refused_writes = 0  # because the claim was no longer ours
        self.tally = Tally()
        self.metering = None if meter is None else Metering(meter)
        self._marks = marks
        self._tells_ends = _logger.isEnabledFor(logging.DEBUG)

    def ended(self, run: Run, verb: Verb, state: JobState) -> None:
        """Count the end of a claim whose handler had begun."""
        self.ended_jobs += 1
        self._marks.count_finished(1)
        self.tally.count(run, state)
        if self.metering is not None:
            self.metering.ended(run, verb, state)
        if self._tells_ends:
            log_end(run, verb, state)

    def refused(self, run: Run) -> None:
        """Count an end that nobody wants to know: the claim was no longer ours."""
        self.refused_writes += 1
        if self.metering is not None:
            self.metering.fenced()
        message = "job %s (%s) was taken from this worker, what its claim %d did is dropped"
        _logger.warning(message, run.job.public_id, run.job.kind, run.job.claim, extra=facts("job.lost", run.job))
