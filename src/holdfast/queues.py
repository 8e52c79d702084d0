"""What an app says of a queue: its priority, its slots, and how long its finished jobs are kept."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from holdfast import names
from holdfast.about import About
from holdfast.duration import Duration, KeptFor, PositiveDuration, positive_ms, timeout_ms
from holdfast.errors import InvalidValue, definition
from holdfast.formats import OR_NONE
from holdfast.job import TERMINAL, JobState
from holdfast.retry import Backoff
from holdfast.webhooks.settings import EVENTS, EventName, Secrets, read_events, read_secrets
from holdfast.worker_settings import MOST_CONCURRENT

Outcome = Literal["completed", "completed_with_errors", "failed", "cancelled"]
Retention = KeptFor | Mapping[Outcome, KeptFor]

FOREVER = "forever"
LONGEST_RETENTION_MS = 100 * 7 * 86_400_000
DEFAULT_PRIORITY = 5
Workers = Annotated[int, Meta(ge=1, le=MOST_CONCURRENT)]
MOST_SHARE = 1_000
AgeShare = Annotated[int, Meta(ge=1, le=MOST_SHARE)]

SPELLING: Mapping[str, tuple[str, ...]] = {
    "workers": ("workers", "min"),
    "max_workers": ("workers", "max"),
    "age_after": ("ageing", "after"),
    "age_share": ("ageing", "share"),
    "webhook": ("webhook", "url"),
    "webhook_events": ("webhook", "events"),
    "webhook_secret": ("webhook", "secret"),
}
"""Fields that files and lists of settings spell otherwise than code."""

_RETENTION: Mapping[Outcome, Duration] = {
    "completed": "7d",
    "completed_with_errors": "7d",
    "failed": "30d",  # dead letters must outlive a holiday
    "cancelled": "7d",
}


@dataclass(frozen=True)
class Queue:
    """What is known about a queue: the priority of its jobs, who works them, how long finished ones are kept.

    `retention` is a duration or "forever" for every outcome, or a mapping of outcomes to either; outcomes left out
    keep their default (failed 30 days, the others 7). `stale_after` is read like `retention`; what is left out never
    becomes stale.
    """

    name: str
    priority: Annotated[names.Priority, About("Priority of its jobs: 0 goes first, 10 last.", 5)] = DEFAULT_PRIORITY
    retention: Annotated[
        Retention, About("How long finished jobs are kept: a duration for all, or one for each outcome.", "30d")
    ] = field(default_factory=dict)
    workers: Annotated[Workers | None, About("How many of its jobs one worker instance runs at once.", 10)] = None
    stale_after: Annotated[Retention, About("When finished jobs become stale; read like `retention`.", "1d")] = field(
        default_factory=dict
    )
    webhook: Annotated[
        str | None, About("The URL that the ends of its jobs are posted to.", "https://example.org/jobs")
    ] = None
    webhook_events: Annotated[Iterable[EventName], About("Which ends are posted.")] = EVENTS
    webhook_secret: Annotated[Secrets | None, About("What signs them, one secret or several; else the app's.")] = field(
        default=None, repr=False
    )
    tell_retention: Annotated[
        bool, About("Whether watchers hear that finished jobs become stale and are deleted.", example=False)
    ] = False
    colour: Annotated[names.Text | None, About("Its colour on the dashboard.", "#c0392b")] = None
    max_workers: Annotated[Workers | None, About("How far an instance may grow while jobs wait too long.", 40)] = None
    sla: Annotated[
        PositiveDuration | None, OR_NONE, About("How long 95 of 100 jobs may wait for their start.", "30s")
    ] = None
    poll: Annotated[
        PositiveDuration | None, OR_NONE, About("How often workers look for jobs without a hint.", "1s")
    ] = None
    timeout: Annotated[
        PositiveDuration | UnsetType | None,
        OR_NONE,
        About("How long an attempt may run, for tasks that set none; none: no limit.", "5m"),
    ] = UNSET
    retry: Annotated[
        Backoff | None, About("How long a failed attempt waits for the next, for tasks that set none.")
    ] = None
    max_attempts: Annotated[names.Count | None, About("How many attempts a job has, for tasks that set none.", 5)] = (
        None
    )
    age_after: Annotated[PositiveDuration, About("How long a job waits until it counts as old.", "10m")] = "10m"
    age_share: Annotated[AgeShare, About("One claimed job in so many is an old one, whatever its priority.", 8)] = 8
    escalation: Annotated[names.Name | None, About("The escalation policy for its failures.", "ops")] = None
    description: Annotated[names.Text | None, About("What the queue is for.", "mail to customers")] = None
    sla_ms: int | None = field(init=False, repr=False, compare=False)
    poll_ms: int | None = field(init=False, repr=False, compare=False)
    timeout_ms: int | UnsetType | None = field(init=False, repr=False, compare=False)
    age_after_ms: int = field(init=False, repr=False, compare=False)
    retention_ms: Mapping[JobState, int | None] = field(init=False, repr=False, compare=False)
    stale_ms: Mapping[JobState, int] = field(init=False, repr=False, compare=False)
    webhook_keys: tuple[bytes, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        with definition(f"queue {self.name!r}"):
            object.__setattr__(self, "webhook_keys", read_secrets(self.webhook_secret))
            object.__setattr__(self, "webhook_events", read_events(self.webhook_events))
            object.__setattr__(self, "stale_ms", _stale_ms(self.stale_after))
            object.__setattr__(self, "name", names.name(self.name, "name"))
            names.priority(self.priority)
            if self.workers is not None:
                names.count(self.workers, "workers", MOST_CONCURRENT)
            object.__setattr__(self, "retention_ms", _retention_ms(self.retention))
            self._read_policies()

    def _read_policies(self) -> None:
        for name in ("sla", "poll"):
            given = getattr(self, name)
            object.__setattr__(self, f"{name}_ms", None if given is None else positive_ms(given, name))
        object.__setattr__(self, "timeout_ms", UNSET if self.timeout is UNSET else timeout_ms(self.timeout))
        object.__setattr__(self, "age_after_ms", positive_ms(self.age_after, "age_after"))
        names.count(self.age_share, "age_share", MOST_SHARE)
        if self.max_attempts is not None:
            names.count(self.max_attempts, "max_attempts")
        if self.retry is not None and not isinstance(self.retry, Backoff):
            message = f"retry: expected backoff(...), got {self.retry!r}"
            raise InvalidValue(message)
        if self.escalation is not None:
            object.__setattr__(self, "escalation", names.name(self.escalation, "escalation"))
        if self.max_workers is not None:
            names.count(self.max_workers, "max_workers", MOST_CONCURRENT)
            if self.workers is None or self.max_workers < self.workers:
                message = f"max_workers: expected at least workers ({self.workers}), got {self.max_workers}"
                raise InvalidValue(message)
        for name in ("colour", "description"):
            if getattr(self, name) is not None:
                names.text(getattr(self, name), name, names.KEY_BYTES)


def _retention_ms(retention: Retention) -> dict[JobState, int | None]:
    """Read how long each outcome is kept, in milliseconds; None keeps it for ever."""
    if isinstance(retention, Mapping):
        unknown = sorted(str(outcome) for outcome in retention if outcome not in TERMINAL)
        if unknown:
            expected = ", ".join(sorted(TERMINAL))
            message = f"retention: expected outcomes among {expected}, got {', '.join(unknown)}"
            raise InvalidValue(message)
        chosen: dict[Outcome, Duration] = {**_RETENTION, **retention}
    else:
        chosen = dict.fromkeys(_RETENTION, retention)
    return {JobState(outcome): _kept_ms(kept, f"retention of {outcome}") for outcome, kept in chosen.items()}


def _kept_ms(kept: Duration, what: str) -> int | None:
    if kept == FOREVER:
        return None
    kept_ms = positive_ms(kept, what)
    if kept_ms > LONGEST_RETENTION_MS:
        message = f'{what}: expected at most 100 weeks, got {kept!r}; write "forever" to keep jobs longer'
        raise InvalidValue(message)
    return kept_ms


def _stale_ms(stale_after: Retention) -> dict[JobState, int]:
    """Read when each outcome becomes stale, in milliseconds; what is left out never does."""
    given = stale_after if isinstance(stale_after, Mapping) else dict.fromkeys(_RETENTION, stale_after)
    unknown = sorted(str(outcome) for outcome in given if outcome not in TERMINAL)
    if unknown:
        expected = ", ".join(sorted(TERMINAL))
        message = f"stale_after: expected outcomes among {expected}, got {', '.join(unknown)}"
        raise InvalidValue(message)
    read = {JobState(outcome): _kept_ms(after, f"stale_after of {outcome}") for outcome, after in given.items()}
    return {outcome: after for outcome, after in read.items() if after is not None}
