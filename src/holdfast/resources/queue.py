"""A queue, as the client, the HTTP API, the command line and the dashboard show it."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any

from holdfast.about import About, about
from holdfast.job import JobState
from holdfast.queues import Queue
from holdfast.resources.examples import MOMENT
from holdfast.resources.request import REASON, Reason, Request


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCount:
    """A number of jobs; `capped` says that there are so many or more."""

    jobs: Annotated[int, About("How many jobs.", 128)] = 0
    capped: Annotated[bool, About("Whether there may be more: counting stops at 10,000.", example=False)] = False

    def __str__(self) -> str:
        return f"{self.jobs:,}{'+' if self.capped else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """How many jobs of a queue one worker instance runs at once, between which bounds, and why."""

    instance: Annotated[str, About("The worker instance.", "f3c9a1e07b52")]
    workers: Annotated[int, About("How many jobs of the queue it runs at once.", 12)]
    lowest: Annotated[int, About("The fewest it may run.", 10)]
    highest: Annotated[int, About("The most it may run.", 40)]
    reason: Annotated[str, About("Why it runs so many.", "jobs wait for longer than 30 s")]
    changed_at: Annotated[datetime | None, About("When that changed last.", MOMENT)] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueInfo:
    """A queue: its settings, whether it is paused, and how long its jobs wait."""

    name: Annotated[str, About("Name of the queue.", "high")]
    description: Annotated[str | None, about(Queue, "description")] = None
    colour: Annotated[str | None, about(Queue, "colour")] = None
    priority: Annotated[int | None, about(Queue, "priority")] = None
    workers: Annotated[int | None, about(Queue, "workers")] = None
    max_workers: Annotated[int | None, about(Queue, "max_workers")] = None
    poll_ms: Annotated[int | None, about(Queue, "poll", 1_000)] = None
    sla_ms: Annotated[int | None, about(Queue, "sla", 30_000)] = None
    age_after_ms: Annotated[int | None, about(Queue, "age_after", 600_000)] = None
    age_share: Annotated[int | None, about(Queue, "age_share")] = None
    escalation: Annotated[str | None, about(Queue, "escalation")] = None
    paused_at: Annotated[datetime | None, About("When it was paused.", MOMENT)] = None
    paused_by: Annotated[str | None, About("Who paused it.", "ada")] = None
    paused_reason: Annotated[str | None, About("Why it was paused.", "the mail provider is down")] = None
    p95_wait_ms: Annotated[
        int | None, About("The wait that 5 of 100 starts of the last five minutes reached or passed.", 1_200)
    ] = None
    starts: Annotated[int | None, About("How many starts `p95_wait_ms` is measured on.", 311)] = None
    oldest_wait_ms: Annotated[int | None, About("How long its oldest waiting job has waited.", 2_400)] = None
    waiting: Annotated[int | None, About("How many jobs waited when that was measured.", 12)] = None
    measured_at: Annotated[datetime | None, About("When the waits were measured.", MOMENT)] = None
    late_since: Annotated[datetime | None, About("Since when its jobs wait for longer than `sla_ms`.", MOMENT)] = None
    counts: Annotated[
        dict[JobState, JobCount],
        About(
            "Live jobs by state, measured in the last seconds; a state without jobs is left out.",
            {"queued": {"jobs": 128, "capped": False}},
        ),
    ] = field(default_factory=dict)
    tunings: Annotated[
        list[Tuning], About("How many workers each instance gives it, where that number may change.")
    ] = field(default_factory=list)

    def count(self, *states: JobState) -> JobCount:
        """Add up the jobs of some states."""
        counts = [self.counts[state] for state in states if state in self.counts]
        return JobCount(jobs=sum(count.jobs for count in counts), capped=any(count.capped for count in counts))


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueList:
    """All queues that the caller may see."""

    queues: list[QueueInfo]


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseRequest(Request):
    """Why a queue is paused."""

    reason: Reason = field(default=None, metadata=REASON)


@dataclass(frozen=True, slots=True, kw_only=True)
class PurgeRequest(Request):
    """How fast the waiting jobs of a queue are cancelled, and why."""

    rate: Annotated[str | None, About("At most so many jobs in a time.", "50/s")] = field(
        default=None, metadata={"max_length": 40}
    )
    reason: Reason = field(default=None, metadata=REASON)


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingRequest(Request):
    """A new value of a setting, and why it changes."""

    value: Annotated[Any, About("The value, as in the configuration file.", 20)]
    reason: Reason = field(default=None, metadata=REASON)
