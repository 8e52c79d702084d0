"""Counting for operators what a worker does: how its claims end, and what it is busy with."""

from collections.abc import Iterator

from holdfast.config import Settings
from holdfast.job import TERMINAL, JobRow, JobState
from holdfast.policies.money import MICRO, USD, Amount
from holdfast.telemetry.meter import Gauge, Meter
from holdfast.telemetry.metrics import (
    CLAIMS,
    DOLLARS,
    EXECUTION,
    FENCED,
    LIMIT_SLOTS,
    LISTENER,
    MEMORY,
    METRICS,
    PROCESSES,
    RETRIES,
    RUNNING,
    SLOTS,
    WAIT,
)
from holdfast.transitions import Verb
from holdfast.worker.memory import resident_bytes
from holdfast.worker.run import Run
from holdfast.worker.slots import Slots
from holdfast.worker.tally import run_s, waited_s

_WORDS = {
    Verb.RETRY: "retried",
    Verb.SNOOZE: "snoozed",
    Verb.THROTTLE: "throttled",
    Verb.INTERRUPT: "interrupted",
    Verb.CRASH: "crashed",
}


class Metering:
    """What a worker tells its meter."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter

    def ended(self, run: Run, verb: Verb, state: JobState) -> None:
        """Count the end of a claim whose handler had begun."""
        count_end(self._meter, run.job, verb, state, run_s(run))
        wait = waited_s(run)
        if wait is not None:
            self._meter.time((WAIT, run.job.kind, run.job.queue), wait)

    def claimed(self, seconds: float) -> None:
        """Count a claim that the store has answered."""
        self._meter.time((CLAIMS,), seconds)

    def fenced(self) -> None:
        """Count a write that the store refused, or that was not even sent because the claim was lost."""
        self._meter.count((FENCED,))

    def spent(self, job: JobRow, amount: Amount) -> None:
        """Count money that was written down; other units are no dollars."""
        if amount.unit == USD:
            self._meter.count((DOLLARS, job.kind), amount.micro / MICRO)


def count_end(meter: Meter, job: JobRow, verb: Verb, state: JobState, ran_s: float) -> None:
    """Count the end of a handler: how long it ran, what became of its claim, and whether another attempt follows."""
    status = state.value if state in TERMINAL else _WORDS.get(verb, verb.value)
    meter.time((EXECUTION, job.kind, job.queue, status), ran_s)
    if verb is Verb.RETRY and state not in TERMINAL:
        meter.count((RETRIES, job.kind, job.queue))


def memory_of(pid: int) -> Iterator[Gauge]:
    """How much memory a process has that runs jobs, where the system tells it."""
    found = resident_bytes(pid)
    if found is not None:
        yield (MEMORY,), float(found)


def gauges_of(slots: Slots, settings: Settings, *, hears: bool) -> Iterator[Gauge]:
    """What a worker is busy with at the moment, and the limits that each instance has for itself."""
    yield (LISTENER,), float(hears)
    yield (PROCESSES,), 1.0
    yield (SLOTS,), float(slots.total)
    for queue, running in slots.running.items():
        yield (RUNNING, queue), float(running)
    for limit in settings.limits.values():
        if limit.scope == "instance" and limit.queue is not None:
            taken = float(slots.running.get(limit.queue, 0))
            yield (LIMIT_SLOTS, limit.name, "taken"), taken
            bound = slots.bound(limit.queue)
            yield (LIMIT_SLOTS, limit.name, "total"), float(slots.total if bound is None else min(bound, slots.total))
            if limit.metric is not None and limit.metric not in METRICS:
                yield (limit.metric,), taken
