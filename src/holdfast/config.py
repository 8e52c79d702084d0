"""What an app is told about itself: where its store is, its queues, its defaults and limits."""

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar, get_args

from msgspec import UNSET, UnsetType

from holdfast import names
from holdfast.arq_delivery import ArqDelivery, read_carrier
from holdfast.cadence import Service, read_services
from holdfast.duration import Duration, milliseconds
from holdfast.election import RedisElection
from holdfast.errors import ConfigError, InvalidValue
from holdfast.job import TERMINAL, JobState
from holdfast.locations import Location, SqliteLocation, checked_listen_dsn, locate
from holdfast.policies.budgets import Budget
from holdfast.policies.channels import Channel, Email, PagerDuty, SignedWebhook, Slack
from holdfast.policies.escalation import Escalation, check_policies
from holdfast.policies.kinds import Kind
from holdfast.policies.limits import Limit
from holdfast.retry import Backoff, backoff
from holdfast.shards import RedisDelivery
from holdfast.telemetry.settings import TelemetrySettings
from holdfast.webhooks.settings import EVENTS, Secrets, WebhookSettings, read_events, read_secrets

Outcome = Literal["completed", "completed_with_errors", "failed", "cancelled"]
Retention = Duration | Mapping[Outcome, Duration]
Synchronous = Literal["full", "normal"]
OnError = Literal["retry", "fatal"]
Logs = Literal["ctx", "all", "none"]

FOREVER = "forever"
LONGEST_RETENTION_MS = 100 * 7 * 86_400_000
DEFAULT_PRIORITY = 5
LARGEST_PAYLOAD = 64_000_000
DEEPEST_PAYLOAD = 500
LARGEST_POOL = 1_000
MOST_CONCURRENT = 10_000
MOST_PROCESSES = 256
MOST_SHARE = 1_000
BUDGETS_IN_A_LEASE = 10

_RETENTION: Mapping[Outcome, Duration] = {
    "completed": "7d",
    "completed_with_errors": "7d",
    "failed": "30d",  # dead letters must outlive a holiday
    "cancelled": "7d",
}


@contextmanager
def definition(what: str) -> Iterator[None]:
    """Turn a refused value inside a definition into a ConfigError that names the definition."""
    try:
        yield
    except InvalidValue as error:
        message = f"{what}: {error}"
        raise ConfigError(message) from error


@dataclass(frozen=True)
class Queue:
    """What is known about a queue: the priority of its jobs, who works them, how long finished ones are kept.

    `workers` bounds how many of its jobs run at once in one worker instance; None leaves it to the instance's slots.
    `retention` is a duration or "forever" for every outcome, or a mapping of outcomes to either; outcomes left out
    keep their default (failed 30 days, the others 7). `stale_after` is read like `retention`; what is left out never
    becomes stale. The ends of its jobs are posted to the URL `webhook`, those of `webhook_events` only, signed with
    `webhook_secret` or the app's. `tell_retention` publishes when a finished job becomes stale and when it is deleted.

    `max_workers` lets an instance grow from `workers` to so many while jobs wait too long, and shrink again. `sla` is
    how long 95 of 100 jobs may wait for their start; None is best effort. `poll` is how often workers look without a
    hint. `timeout`, `retry` and `max_attempts` are for tasks that set none. Jobs that have waited for longer than
    `age_after` get one claim in `age_share`, whatever their priority. `escalation` names the policy for failures.
    """

    name: str
    priority: int = DEFAULT_PRIORITY
    retention: Retention = field(default_factory=dict)
    workers: int | None = None
    stale_after: Retention = field(default_factory=dict)
    webhook: str | None = None
    webhook_events: Iterable[str] = EVENTS
    webhook_secret: Secrets | None = field(default=None, repr=False)
    tell_retention: bool = False
    colour: str | None = None
    max_workers: int | None = None
    sla: Duration | None = None
    poll: Duration | None = None
    timeout: Duration | UnsetType | None = UNSET
    retry: Backoff | None = None
    max_attempts: int | None = None
    age_after: Duration = "10m"
    age_share: int = 8
    escalation: str | None = None
    description: str | None = None
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
            object.__setattr__(self, f"{name}_ms", None if given is None else _positive_ms(given, name))
        object.__setattr__(self, "timeout_ms", UNSET if self.timeout is UNSET else timeout_ms(self.timeout))
        object.__setattr__(self, "age_after_ms", _positive_ms(self.age_after, "age_after"))
        names.count(self.age_share, "age_share", MOST_SHARE)
        if self.max_attempts is not None:
            names.count(self.max_attempts, "max_attempts")
        if self.retry is not None:
            _require(self.retry, Backoff, "retry", "backoff(...)")
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
    kept_ms = _positive_ms(kept, what)
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


@dataclass(frozen=True, kw_only=True)
class WorkerSettings:
    """How the workers of an app behave; all durations as people write them.

    `concurrency` is the total of one instance, dealt evenly to its `processes`. A worker whose lease ends is dead for
    all others: `lease` holds under a supervisor, which renews it from a process of its own, `embedded_lease` where
    handlers can keep the renewing event loop waiting. `shutdown_grace` is how long running jobs may go on after the
    first signal, `cancel_grace` how long after a cancellation, `kill_grace` how long after their timeout. `poll` is how
    often a worker looks without a hint. `transaction_budget` bounds `ctx.transaction()` on SQLite. `logs` says which
    lines are kept with a job: those of `ctx.log` ("ctx"), those of every logger while its handler runs ("all"), none.
    """

    concurrency: int = 10
    processes: int = 1
    lease: Duration = "10s"
    embedded_lease: Duration = "60s"
    shutdown_grace: Duration = "30s"
    cancel_grace: Duration = "30s"
    kill_grace: Duration = "5s"
    poll: Duration = "1s"
    transaction_budget: Duration = "1s"
    logs: Logs = "ctx"
    lease_s: float = field(init=False, repr=False, compare=False)
    embedded_lease_s: float = field(init=False, repr=False, compare=False)
    shutdown_grace_s: float = field(init=False, repr=False, compare=False)
    cancel_grace_s: float = field(init=False, repr=False, compare=False)
    kill_grace_s: float = field(init=False, repr=False, compare=False)
    poll_s: float = field(init=False, repr=False, compare=False)
    transaction_budget_s: float = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        with definition("WorkerSettings(...)"):
            names.count(self.concurrency, "concurrency", MOST_CONCURRENT)
            names.count(self.processes, "processes", MOST_PROCESSES)
            if self.processes > self.concurrency:
                message = f"processes: expected at most concurrency ({self.concurrency}), got {self.processes}; each"
                message += " process needs a slot"
                raise InvalidValue(message)
            for name in ("lease", "embedded_lease", "cancel_grace", "kill_grace", "poll", "transaction_budget"):
                object.__setattr__(self, f"{name}_s", _positive_ms(getattr(self, name), name) / 1_000)
            if self.logs not in get_args(Logs):
                message = f'logs: expected "ctx", "all" or "none", got {self.logs!r}'
                raise InvalidValue(message)
            grace = milliseconds(self.shutdown_grace, "shutdown_grace")  # none at all is a choice
            object.__setattr__(self, "shutdown_grace_s", grace / 1_000)

    def check_on_sqlite(self) -> None:
        """Refuse a budget that could keep a renewal waiting until its lease has ended."""
        for name in ("lease", "embedded_lease"):
            if getattr(self, f"{name}_s") < BUDGETS_IN_A_LEASE * self.transaction_budget_s:
                message = f"{name}: expected at least {BUDGETS_IN_A_LEASE} x transaction_budget on SQLite, where a"
                message += f" transaction keeps every writer waiting, got {getattr(self, name)!r} with a budget of"
                message += f" {self.transaction_budget!r}"
                raise InvalidValue(message)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Everything `Holdfast(...)` was told, checked and converted."""

    url: str = field(repr=False)
    location: Location
    schema: str
    queues: Mapping[str, Queue]
    deadline_s: float
    pool_size: int
    synchronous: Synchronous
    max_payload: int
    max_depth: int
    max_attempts: int
    max_crashes: int
    timeout_ms: int | None
    on_error: OnError = "retry"
    retry: Backoff = field(default_factory=backoff)
    worker: WorkerSettings = field(default_factory=WorkerSettings)
    webhooks: WebhookSettings = field(default_factory=WebhookSettings)
    listen_dsn: str | None = field(default=None, repr=False)
    delivery: RedisDelivery | ArqDelivery | None = None
    leader: RedisElection | None = None
    services: Mapping[str, Service] = field(default_factory=lambda: read_services({}))
    limits: Mapping[str, Limit] = field(default_factory=dict)
    budgets: Mapping[str, Budget] = field(default_factory=dict)
    channels: Mapping[str, Channel] = field(default_factory=dict, repr=False)
    escalations: Mapping[str, Escalation] = field(default_factory=dict)
    telemetry: TelemetrySettings = field(default_factory=TelemetrySettings)
    kinds: Mapping[str, Kind] = field(default_factory=dict)

    def webhook_keys_of(self, queue: str) -> tuple[bytes, ...]:
        """The secrets that a queue has of its own."""
        defined = self.queues.get(queue)
        return () if defined is None else defined.webhook_keys

    def queue_of(self, queue: str) -> Queue:
        """What is known of a queue; nothing special of one that is not defined."""
        return self.queues.get(queue, _PLAIN_QUEUE)

    def poll_s_of(self, queues: Iterable[str]) -> float:
        """How often a worker of these queues looks without a hint: as often as the most impatient of them wants."""
        polls = (self.queue_of(queue).poll_ms for queue in queues)
        return min((self.worker.poll_s if poll is None else poll / 1_000 for poll in polls), default=self.worker.poll_s)

    def retry_of(self, queue: str) -> Backoff:
        """How long failed attempts of a queue's jobs wait whose tasks say nothing of it."""
        return self.queue_of(queue).retry or self.retry


_NO_SERVICES: Mapping[str, Service] = {}
_NO_CHANNELS: Mapping[str, Channel] = {}
_TELEMETRY = TelemetrySettings()


def read_settings(
    url: str,
    *,
    schema: str,
    queues: Iterable[Queue],
    deadline: Duration,
    pool_size: int,
    synchronous: Synchronous,
    max_payload: int,
    max_depth: int,
    max_attempts: int,
    max_crashes: int,
    timeout: Duration | None,
    on_error: OnError,
    retry: Backoff,
    worker: WorkerSettings,
    webhooks: WebhookSettings,
    listen_dsn: str | None = None,
    delivery: object = None,
    leader: RedisElection | None = None,
    services: Mapping[str, Service] = _NO_SERVICES,
    limits: Iterable[Limit] = (),
    budgets: Iterable[Budget] = (),
    channels: Mapping[str, Channel] = _NO_CHANNELS,
    escalations: Iterable[Escalation] = (),
    kinds: Iterable[Kind] = (),
    telemetry: TelemetrySettings = _TELEMETRY,
) -> Settings:
    """Check the options of an app; the first wrong one is refused with what was expected."""
    with definition("Holdfast(...)"):
        if synchronous not in ("full", "normal"):
            message = f'synchronous: expected "full" (every commit is on disk) or "normal", got {synchronous!r}'
            raise InvalidValue(message)
        _require(retry, Backoff, "retry", "backoff(...)")
        _require(worker, WorkerSettings, "worker", "WorkerSettings(...)")
        _require(webhooks, WebhookSettings, "webhooks", "WebhookSettings(...)")
        _require(telemetry, TelemetrySettings, "telemetry", "TelemetrySettings(...)")
        if leader is not None:
            _require(leader, RedisElection, "leader", "None (the store) or RedisElection(...)")
        location = locate(url)
        if isinstance(location, SqliteLocation):
            worker.check_on_sqlite()
        told = _named(escalations, Escalation, "escalations")
        heard = _read_channels(channels)
        check_policies(told, heard)
        return Settings(
            url=url,
            location=location,
            schema=names.schema(schema),
            queues=_by_name(queues, webhooks),
            deadline_s=_positive_ms(deadline, "deadline") / 1_000,
            pool_size=names.count(pool_size, "pool_size", LARGEST_POOL),
            synchronous=synchronous,
            max_payload=names.count(max_payload, "max_payload", LARGEST_PAYLOAD),
            max_depth=names.count(max_depth, "max_depth", DEEPEST_PAYLOAD),
            max_attempts=names.count(max_attempts, "max_attempts"),
            max_crashes=names.count(max_crashes, "max_crashes"),
            timeout_ms=timeout_ms(timeout),
            on_error=checked_on_error(on_error),
            retry=retry,
            worker=worker,
            webhooks=webhooks,
            listen_dsn=checked_listen_dsn(listen_dsn),
            delivery=read_carrier(delivery),
            leader=leader,
            services=read_services(services),
            limits=_named(limits, Limit, "limits"),
            budgets=_named(budgets, Budget, "budgets"),
            channels=heard,
            escalations=told,
            telemetry=telemetry,
            kinds=_named(kinds, Kind, "kinds"),
        )


def _require(value: object, kind: type, what: str, expected: str) -> None:
    if not isinstance(value, kind):
        message = f"{what}: expected {expected}, got {value!r}"
        raise InvalidValue(message)


def checked_on_error(on_error: OnError) -> OnError:
    """Check what becomes of an attempt that ended with an exception nobody classified."""
    if on_error not in get_args(OnError):
        message = f'on_error: expected "retry" or "fatal", got {on_error!r}'
        raise InvalidValue(message)
    return on_error


def timeout_ms(timeout: Duration | None) -> int | None:
    """Read how long a job may run; None, written out, means as long as it likes."""
    if timeout is None:
        return None
    return _positive_ms(timeout, "timeout", "; None means no timeout")


def _positive_ms(value: Duration, what: str, hint: str = "") -> int:
    if isinstance(value, float) and not math.isfinite(value):
        message = f"{what}: expected a finite duration, got {value!r}{hint}"
        raise InvalidValue(message)
    length = milliseconds(value, what)
    if length == 0:
        message = f"{what}: expected more than 0, got {value!r}{hint}"
        raise InvalidValue(message)
    return length


def _by_name(queues: Iterable[Queue], webhooks: WebhookSettings) -> dict[str, Queue]:
    defined: dict[str, Queue] = {}
    for queue in queues:
        if not isinstance(queue, Queue):
            message = f"queues: expected Queue(...) values, got {queue!r}; write Queue({queue!r})"
            raise ConfigError(message)
        if queue.name in defined:
            message = f"queues: {queue.name!r} is defined twice; names are compared without case"
            raise ConfigError(message)
        if queue.webhook is not None:
            with definition(f"queue {queue.name!r}"):
                webhooks.checked(queue.webhook, queue.webhook_keys)
        defined[queue.name] = queue
    return defined


_Policy = TypeVar("_Policy", Limit, Budget, Escalation, Kind)


def _named(given: Iterable[_Policy], kind: type[_Policy], what: str) -> dict[str, _Policy]:
    defined: dict[str, _Policy] = {}
    for policy in given:
        _require(policy, kind, what, f"{kind.__name__}(...)")
        if policy.name in defined:
            message = f"{what}: {policy.name!r} is defined twice; names are compared without case"
            raise ConfigError(message)
        defined[policy.name] = policy
    return defined


def _read_channels(given: Mapping[str, Any]) -> dict[str, Channel]:
    kinds = (PagerDuty, Slack, Email, SignedWebhook)
    for name, channel in given.items():
        if not isinstance(channel, kinds):
            expected = ", ".join(f"{kind.__name__}(...)" for kind in kinds)
            message = f"channels: expected {expected} for {name!r}, got a {type(channel).__name__}"
            raise ConfigError(message)
    return {names.name(name, "channels"): channel for name, channel in given.items()}


_PLAIN_QUEUE = Queue("default")  # below what reads its fields
