"""What an app is told about itself: where its store is, its queues, its defaults and limits."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar, get_args

from holdfast import names
from holdfast.app_options import (
    DEEPEST_PAYLOAD,
    LARGEST_PAYLOAD,
    LARGEST_POOL,
    AppOptions,
    KeptOptions,
    OnError,
    Synchronous,
)
from holdfast.arq_delivery import ArqDelivery, read_carrier
from holdfast.cadence import read_services
from holdfast.duration import positive_ms, timeout_ms
from holdfast.election import RedisElection
from holdfast.errors import ConfigError, InvalidValue, definition
from holdfast.locations import Location, SqliteLocation, checked_listen_dsn, locate
from holdfast.policies.budgets import Budget
from holdfast.policies.channels import Channel, Email, PagerDuty, SignedWebhook, Slack
from holdfast.policies.escalation import Escalation, check_policies
from holdfast.policies.kinds import Kind
from holdfast.policies.limits import Limit
from holdfast.queues import Queue
from holdfast.retry import Backoff
from holdfast.shards import RedisDelivery
from holdfast.telemetry.settings import TelemetrySettings
from holdfast.webhooks.settings import WebhookSettings
from holdfast.worker_settings import WorkerSettings

_PLAIN_QUEUE = Queue("default")


@dataclass(frozen=True, kw_only=True)
class Settings(KeptOptions):
    """The options of `Holdfast(...)`, checked and converted."""

    url: str = field(repr=False)
    location: Location
    deadline_s: float
    timeout_ms: int | None
    queues: Mapping[str, Queue] = field(default_factory=dict)
    limits: Mapping[str, Limit] = field(default_factory=dict)
    budgets: Mapping[str, Budget] = field(default_factory=dict)
    escalations: Mapping[str, Escalation] = field(default_factory=dict)
    kinds: Mapping[str, Kind] = field(default_factory=dict)
    delivery: RedisDelivery | ArqDelivery | None = None

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


def read_settings(options: AppOptions) -> Settings:
    """Check the options of an app; the first wrong one is refused with what was expected."""
    with definition("Holdfast(...)"):
        if options.url is None:
            message = 'expected a URL like "sqlite:///jobs.db", or config="holdfast.yaml", got neither'
            raise InvalidValue(message)
        _check_types(options)
        location = locate(options.url)
        if isinstance(location, SqliteLocation):
            options.worker.check_on_sqlite()
        checked_listen_dsn(options.listen_dsn)
        kept: dict[str, Any] = {field.name: getattr(options, field.name) for field in fields(KeptOptions)}
        kept["channels"] = _read_channels(options.channels)
        kept["services"] = read_services(options.services)
        escalations = _named(options.escalations, Escalation, "escalations")
        check_policies(escalations, kept["channels"])
        return Settings(
            **kept,
            location=location,
            deadline_s=positive_ms(options.deadline, "deadline") / 1_000,
            timeout_ms=timeout_ms(options.timeout),
            queues=_by_name(options.queues, options.webhooks),
            limits=_named(options.limits, Limit, "limits"),
            budgets=_named(options.budgets, Budget, "budgets"),
            escalations=escalations,
            kinds=_named(options.kinds, Kind, "kinds"),
            delivery=read_carrier(options.delivery),
        )


def _check_types(options: AppOptions) -> None:
    names.schema(options.schema)
    names.count(options.pool_size, "pool_size", LARGEST_POOL)
    names.count(options.max_args_bytes, "max_args_bytes", LARGEST_PAYLOAD)
    names.count(options.max_depth, "max_depth", DEEPEST_PAYLOAD)
    names.count(options.max_attempts, "max_attempts")
    names.count(options.max_crashes, "max_crashes")
    checked_on_error(options.on_error)
    if options.synchronous not in get_args(Synchronous):
        message = f'synchronous: expected "full" (every commit is on disk) or "normal", got {options.synchronous!r}'
        raise InvalidValue(message)
    _require(options.retry, Backoff, "retry", "backoff(...)")
    _require(options.worker, WorkerSettings, "worker", "WorkerSettings(...)")
    _require(options.webhooks, WebhookSettings, "webhooks", "WebhookSettings(...)")
    _require(options.telemetry, TelemetrySettings, "telemetry", "TelemetrySettings(...)")
    if options.leader is not None:
        _require(options.leader, RedisElection, "leader", "None (the store) or RedisElection(...)")


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
