"""Schedules: what is enqueued when, and which of the times that have come get a job.

What a user writes is a `Schedule`; what a store keeps is a `Plan`, which any process can fire without knowing the task.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any, Literal, TypedDict, get_args

import msgspec
from msgspec import Meta

from holdfast import names
from holdfast.about import About
from holdfast.cron import CronLine, Times, read_times
from holdfast.duration import Duration, PositiveDuration, milliseconds
from holdfast.errors import ConfigError, InvalidValue, shown
from holdfast.hours import ClosingTime, DateOrSpan, Dates, Days, Maintenance, Weekdays, Window
from holdfast.job import NewJob
from holdfast.zones import ZoneName

Overlap = Literal["skip", "queue", "cancel"]
Missed = Literal["skip", "once", "all"]

MAINTENANCE = "maintenance."
"""The paths of settings that say when no schedule fires begin so."""

MOST_MISSED = 100
GRACE_MS = 60_000
SHORTEST_GRACE_MS = 20_000  # twice the leader's lease: a change of leaders makes nothing missed
_COUNTED = 10_000
_FIRST_LOOK = timedelta(minutes=10)


class TimesOptions(TypedDict, total=False):
    """When a schedule fires; see `Schedule`."""

    cron: str | None
    every: Duration | None
    window: Window | None
    days: Days | None
    tz: str
    exclude: Dates
    jitter: Duration | None


class ChangeOptions(TimesOptions, total=False):
    """When a schedule fires and what becomes of late fires; see `Schedule`."""

    overlap: Overlap
    missed: Missed
    most_missed: int
    grace: Duration


class PlanOptions(ChangeOptions, total=False):
    """What is said of a schedule beside its name and its job; see `Schedule`."""

    enabled: bool


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """Jobs of a kind at times: by a cron line or an interval, within hours, on days, in a time zone.

    `args` are the task's arguments. `window`, `days` and `exclude` narrow the times down, `jitter` delays each by up to
    so much. With `overlap="skip"` no job is made while an earlier one is not finished; "queue" makes it all the same,
    "cancel" cancels the earlier ones. A time is missed when it is later than `grace`: "once" makes one job for all that
    were missed, "all" one for each up to `most_missed`, "skip" none.
    """

    name: Annotated[str, About("Name of the schedule.", "nightly-report")]
    kind: Annotated[names.Name, About("The kind of its jobs.", "send_report")]
    cron: Annotated[CronLine | None, About("Its times, as a cron line.", "0 3 * * *")] = None
    every: Annotated[PositiveDuration | None, About("The time from one job to the next.", "5m")] = None
    args: Annotated[Mapping[str, Any], About("The arguments of its jobs.", {"to": "ops@example.org"})] = field(
        default_factory=dict
    )
    window: Annotated[
        tuple[ClosingTime, ClosingTime] | None,
        About("The part of the day in which it fires.", ["09:30", "16:00"]),
    ] = None
    days: Annotated[Weekdays | None, About("The weekdays on which it fires.", "mon-fri")] = None
    tz: Annotated[ZoneName, About("The time zone of its times.", "Europe/Berlin")] = "UTC"
    exclude: Annotated[Iterable[DateOrSpan], About("The dates on which it does not fire.", ["2026-12-25"])] = ()
    jitter: Annotated[PositiveDuration | None, About("Up to how much later each time fires.", "30s")] = None
    overlap: Annotated[
        Overlap, About("What happens while an earlier job is not finished: skip, queue or cancel.", "skip")
    ] = "skip"
    missed: Annotated[Missed, About("What happens to times that were missed: skip, once or all.", "once")] = "once"
    most_missed: Annotated[int, Meta(ge=1, le=_COUNTED), About("At most so many missed times get a job.", 100)] = (
        MOST_MISSED
    )
    grace: Annotated[PositiveDuration, About("How late a time may be until it counts as missed.", "60s")] = "60s"
    enabled: Annotated[bool, About("Whether it fires.", example=True)] = True
    times: Times = field(init=False, repr=False, compare=False)
    grace_ms: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        try:
            object.__setattr__(self, "name", names.name(self.name, "name"))
            object.__setattr__(self, "kind", names.name(self.kind, "kind"))
            times = read_times(
                self.cron, self.every, self.window, self.days, self.tz, exclude=self.exclude, jitter=self.jitter
            )
            object.__setattr__(self, "times", times)
            object.__setattr__(self, "grace_ms", milliseconds(self.grace, "grace"))
            object.__setattr__(self, "args", dict(self.args))
            check_policies(self.overlap, self.missed, self.most_missed, self.grace_ms)
        except InvalidValue as error:
            message = f"schedule {shown(self.name)}: {error}"
            raise ConfigError(message) from error


def check_policies(overlap: object, missed: object, most_missed: int, grace_ms: int) -> None:
    """Refuse what no schedule can mean."""
    if overlap not in get_args(Overlap):
        message = f'overlap: expected "skip", "queue" or "cancel", got {shown(overlap)}'
        raise InvalidValue(message)
    if missed not in get_args(Missed):
        message = f'missed: expected "skip", "once" or "all", got {shown(missed)}'
        raise InvalidValue(message)
    names.count(most_missed, "most_missed", _COUNTED)
    if grace_ms < SHORTEST_GRACE_MS:
        message = f"grace: expected at least {SHORTEST_GRACE_MS // 1_000} s, in which a leader is replaced, got"
        message += f" {grace_ms} ms"
        raise InvalidValue(message)


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What a store keeps of a schedule; `job` is what each fire enqueues, under an id of its own."""

    kind: str
    times: Times
    job: NewJob
    overlap: Overlap = "skip"
    missed: Missed = "once"
    most_missed: int = MOST_MISSED
    grace_ms: int = GRACE_MS
    enabled: bool = True


def plan_of(schedule: Schedule, job: NewJob) -> Plan:
    """Write down a schedule together with the job that it makes."""
    return Plan(
        kind=schedule.kind,
        times=schedule.times,
        job=job,
        overlap=schedule.overlap,
        missed=schedule.missed,
        most_missed=schedule.most_missed,
        grace_ms=schedule.grace_ms,
        enabled=schedule.enabled,
    )


def read_plan(definition: str, override: str = "{}") -> Plan:
    """Read a stored schedule, with what people have changed of it."""
    fields = msgspec.json.decode(definition, type=dict[str, Any])
    return msgspec.convert(fields | msgspec.json.decode(override, type=dict[str, Any]), Plan)


class Outcome(StrEnum):
    """What came of one nominal time."""

    ENQUEUED = "enqueued"
    BY_HAND = "by_hand"
    OVERLAP = "overlap"  # an earlier job was not finished
    MISSED = "missed"
    MAINTENANCE = "maintenance"


class Decision(msgspec.Struct, frozen=True):
    """What is to become of one nominal time, and a word on why; it was missed when it came later than the grace."""

    nominal: datetime
    outcome: Outcome
    note: str | None = None
    is_missed: bool = False


def decide(plan: Plan, after: datetime, now: datetime, closed: Iterable[Maintenance] = ()) -> list[Decision]:
    """Decide on every nominal time after one moment and up to another.

    What is merely late runs. Of what was missed only the last ones are looked at, as many as may get a job; one note
    says how many were dropped.
    """
    windows = list(closed)
    missed_until = now - timedelta(milliseconds=plan.grace_ms)
    late = plan.times.between(max(after, missed_until), now, _COUNTED + 1)  # more than one round may fire
    decisions = _decide_missed(plan, after, missed_until) if after < missed_until else []
    decisions += [Decision(nominal, Outcome.ENQUEUED) for nominal in late]
    return [_unless_closed(decision, windows) for decision in decisions]


def _decide_missed(plan: Plan, after: datetime, until: datetime) -> list[Decision]:
    most = {"skip": 0, "once": 1, "all": plan.most_missed}[plan.missed]
    last = _last(plan.times, after, until, max(most, 1))
    if not last:
        return []
    kept = last[-most:] if most else []
    dropped = _dropped(plan.times, after, (kept or last)[0], len(kept))
    note = f"{dropped} missed and dropped" if dropped else None
    if not kept:
        return [Decision(last[-1], Outcome.MISSED, note, is_missed=True)]
    first, *others = kept
    return [_late(first, note or "missed"), *(_late(nominal) for nominal in others)]


def _late(nominal: datetime, note: str = "missed") -> Decision:
    return Decision(nominal, Outcome.ENQUEUED, note, is_missed=True)


def _last(times: Times, after: datetime, until: datetime, most: int) -> Sequence[datetime]:
    """Find the last times before a moment without going through all of them.

    Look back further and further; where that is too far, because a dense time lies behind a quiet one, halve the way.
    """
    many: datetime | None = None  # from there on there are too many to go through
    few, since = until, max(after, until - _FIRST_LOOK)
    while True:
        found = times.between(since, until, 2 * _COUNTED)
        if len(found) == 2 * _COUNTED:
            many = since
        elif len(found) >= most or since == after:
            return found[-most:]
        else:
            few = since
        since = max(after, until - 4 * (until - few)) if many is None else many + (few - many) / 2


def _dropped(times: Times, after: datetime, kept_from: datetime, kept: int) -> str:
    """Say how many times came before the first that is kept (or up to the last one, if none is)."""
    until = kept_from - timedelta(milliseconds=1) if kept else kept_from
    count = len(times.between(after, until, _COUNTED))
    return "" if count == 0 else f"{_COUNTED:,} or more" if count == _COUNTED else f"{count:,}"


def _unless_closed(decision: Decision, windows: Sequence[Maintenance]) -> Decision:
    for window in windows:
        until = window.holds_at(decision.nominal)
        if until is not None:
            return Decision(decision.nominal, Outcome.MAINTENANCE, f"closed until {until:%Y-%m-%d %H:%M} UTC")
    return decision
