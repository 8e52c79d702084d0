"""A schedule, as the client, the HTTP API, the command line and the dashboard show it, and maintenance windows."""

from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Annotated, Any

from holdfast.about import About, about
from holdfast.resources.examples import JOB_ID, MOMENT
from holdfast.resources.request import REASON, Reason, Request
from holdfast.schedules import Missed, Overlap, Schedule

_NAME_BYTES = 64
_CRON = {"max_length": 256}
_DAYS = {"max_length": 100}
_DATES = {"max_length": 1_000}
_LENGTH = {"max_length": 40}
_NAME = {"max_length": _NAME_BYTES}
_COUNT = {"ge": 1, "le": 10_000}


@dataclass(frozen=True, slots=True, kw_only=True)
class DateRange:
    """Some days, both ends included."""

    first: Annotated[date, About("The first day.", "2026-12-24")]
    last: Annotated[date, About("The last day.", "2026-12-26")]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleInfo:
    """A schedule: which jobs it makes when, what was changed of it at run time, and how far it has come."""

    name: Annotated[str, about(Schedule, "name")]
    kind: Annotated[str, about(Schedule, "kind")]
    queue: Annotated[str, About("The queue of its jobs.", "default")]
    args: Annotated[Any, about(Schedule, "args")]
    times: Annotated[str, About("Its times in words.", "at 03:00 every day, Europe/Berlin")]
    cron: Annotated[str | None, about(Schedule, "cron")] = None
    every_ms: Annotated[int | None, about(Schedule, "every", 300_000)] = None
    window: Annotated[list[str] | None, about(Schedule, "window")] = None
    days: Annotated[str | None, about(Schedule, "days")] = None
    tz: Annotated[str, about(Schedule, "tz")] = "UTC"
    exclude: Annotated[list[DateRange], about(Schedule, "exclude", [{"first": "2026-12-24", "last": "2026-12-26"}])] = (
        field(default_factory=list)
    )
    jitter_ms: Annotated[int, about(Schedule, "jitter", 30_000)] = 0
    overlap: Annotated[Overlap, about(Schedule, "overlap")] = "skip"
    missed: Annotated[Missed, about(Schedule, "missed")] = "once"
    most_missed: Annotated[int, about(Schedule, "most_missed")] = 100
    grace_ms: Annotated[int, about(Schedule, "grace", 60_000)] = 60_000
    enabled: Annotated[bool, about(Schedule, "enabled")] = True
    withdrawn: Annotated[bool, About("Whether no app defines it any more.", example=False)] = False
    origin: Annotated[str, About("Who defines it: code, or stored.", "code")]
    changed: Annotated[list[str], About("What was changed of it at run time.", ["times"])] = field(default_factory=list)
    changed_by: Annotated[str | None, About("Who changed it.", "ada")] = None
    last_fire: Annotated[datetime | None, About("The last of its times that fired.", MOMENT)] = None
    next_fire: Annotated[datetime | None, About("The next of its times.", "2026-11-17T03:00:00Z")] = None
    due_at: Annotated[
        datetime | None,
        About("The time that the service fires next; in the past while no service runs.", "2026-11-17T03:00:00Z"),
    ] = None

    @property
    def is_active(self) -> bool:
        """Whether it fires: it is enabled, and not withdrawn."""
        return self.enabled and not self.withdrawn


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleList:
    """All schedules that the caller may see."""

    schedules: list[ScheduleInfo]


@dataclass(frozen=True, slots=True, kw_only=True)
class NextFires:
    """When a schedule fires next."""

    schedule: Annotated[str, About("Name of the schedule.", "nightly-report")]
    times: Annotated[
        list[datetime], About("The next times, as it is now.", ["2026-11-17T03:00:00Z", "2026-11-18T03:00:00Z"])
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleFire:
    """What came of one time of a schedule."""

    schedule: Annotated[str, About("Name of the schedule.", "nightly-report")]
    time: Annotated[datetime, About("The time.", MOMENT)]
    outcome: Annotated[str, About("What came of it: enqueued, by_hand, overlap, missed or maintenance.", "enqueued")]
    job: Annotated[str | None, About("The job that was made.", JOB_ID)] = None
    note: Annotated[str | None, About("Why.", "missed")] = None
    recorded_at: Annotated[datetime, About("When that was recorded.", MOMENT)]


@dataclass(frozen=True, slots=True, kw_only=True)
class FireList:
    """What came of the last times of a schedule, the newest first."""

    fires: list[ScheduleFire]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledJob:
    """The job that was made of a schedule now."""

    id: Annotated[str, About("The job.", JOB_ID)]


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceWindow:
    """Hours in which no schedule fires."""

    name: Annotated[str, About("Name of the maintenance window.", "release")]
    hours: Annotated[str, About("The hours in words.", "02:00-04:00 sun Europe/Berlin")]
    holds_until: Annotated[datetime | None, About("Until when it lasts, if it holds now.", MOMENT)] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceList:
    """All maintenance windows."""

    windows: list[MaintenanceWindow]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleChangeRequest(Request):
    """What to change of a schedule; times are given as a whole."""

    cron: Annotated[str | None, about(Schedule, "cron")] = field(default=None, metadata=_CRON)
    every: Annotated[str | None, about(Schedule, "every")] = field(default=None, metadata=_LENGTH)
    window: Annotated[tuple[str, str] | None, about(Schedule, "window")] = None
    days: Annotated[str | None, about(Schedule, "days")] = field(default=None, metadata=_DAYS)
    tz: Annotated[str | None, about(Schedule, "tz")] = field(default=None, metadata=_NAME)
    exclude: Annotated[list[date] | None, about(Schedule, "exclude")] = field(default=None, metadata=_DATES)
    jitter: Annotated[str | None, about(Schedule, "jitter")] = field(default=None, metadata=_LENGTH)
    overlap: Annotated[Overlap | None, about(Schedule, "overlap")] = None
    missed: Annotated[Missed | None, about(Schedule, "missed")] = None
    most_missed: Annotated[int | None, about(Schedule, "most_missed")] = field(default=None, metadata=_COUNT)
    grace: Annotated[str | None, about(Schedule, "grace")] = field(default=None, metadata=_LENGTH)
    args: Annotated[dict[str, Any] | None, about(Schedule, "args")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleRequest(ScheduleChangeRequest):
    """A schedule that no app defines."""

    name: Annotated[str, about(Schedule, "name")] = field(metadata=_NAME)
    kind: Annotated[str, about(Schedule, "kind")] = field(metadata=_NAME)
    enabled: Annotated[bool, about(Schedule, "enabled")] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceRequest(Request):
    """Hours in which no schedule fires: a window of the day or whole days, on weekdays or dates."""

    window: Annotated[
        tuple[str, str] | None, About("The part of the day; the whole day without it.", ["02:00", "04:00"])
    ] = None
    days: Annotated[str | None, About("The weekdays.", "sun")] = field(default=None, metadata=_DAYS)
    tz: Annotated[str, About("The time zone of these hours.", "Europe/Berlin")] = field(default="UTC", metadata=_NAME)
    dates: Annotated[list[date] | None, About("The dates.", ["2026-12-24"])] = field(default=None, metadata=_DATES)
    reason: Reason = field(default=None, metadata=REASON)
