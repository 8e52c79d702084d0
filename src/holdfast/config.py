"""What an app is told about itself: where its store is, its queues, its defaults and limits."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypedDict, TypeVar, Unpack, get_args

from holdfast import names
from holdfast.arq_delivery import ArqDelivery, read_carrier
from holdfast.cadence import Service, read_services
from holdfast.duration import Duration, positive_ms, timeout_ms
from holdfast.election import RedisElection
from holdfast.errors import ConfigError, InvalidValue, definition
from holdfast.locations import Location, SqliteLocation, checked_listen_dsn, locate
from holdfast.policies.budgets import Budget
from holdfast.policies.channels import Channel, Email, PagerDuty, SignedWebhook, Slack
from holdfast.policies.escalation import Escalation, check_policies
from holdfast.policies.kinds import Kind
from holdfast.policies.limits import Limit
from holdfast.queues import Queue
from holdfast.retry import Backoff, backoff
from holdfast.shards import RedisDelivery
from holdfast.telemetry.settings import TelemetrySettings
from holdfast.webhooks.settings import WebhookSettings
from holdfast.worker_settings import WorkerSettings

Synchronous = Literal["full", "normal"]
OnError = Literal["retry", "fatal"]

LARGEST_PAYLOAD = 64_000_000
DEEPEST_PAYLOAD = 500
LARGEST_POOL = 1_000

_PLAIN_QUEUE = Queue("default")


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


class Options(TypedDict):
    """What `Holdfast(...)` was told, as it was written."""

    url: str
    schema: str
    queues: Iterable[Queue]
    deadline: Duration
    pool_size: int
    synchronous: Synchronous
    max_payload: int
    max_depth: int
    max_attempts: int
    max_crashes: int
    timeout: Duration | None
    on_error: OnError
    retry: Backoff
    worker: WorkerSettings
    webhooks: WebhookSettings
    listen_dsn: str | None
    delivery: object
    leader: RedisElection | None
    services: Mapping[str, Service]
    limits: Iterable[Limit]
    budgets: Iterable[Budget]
    channels: Mapping[str, Channel]
    escalations: Iterable[Escalation]
    kinds: Iterable[Kind]
    telemetry: TelemetrySettings


def read_settings(**given: Unpack[Options]) -> Settings:
    """Check the options of an app; the first wrong one is refused with what was expected."""
    with definition("Holdfast(...)"):
        _check_types(given)
        location = locate(given["url"])
        if isinstance(location, SqliteLocation):
            given["worker"].check_on_sqlite()
        told = _named(given["escalations"], Escalation, "escalations")
        heard = _read_channels(given["channels"])
        check_policies(told, heard)
        return Settings(
            url=given["url"],
            location=location,
            schema=names.schema(given["schema"]),
            queues=_by_name(given["queues"], given["webhooks"]),
            deadline_s=positive_ms(given["deadline"], "deadline") / 1_000,
            pool_size=names.count(given["pool_size"], "pool_size", LARGEST_POOL),
            synchronous=given["synchronous"],
            max_payload=names.count(given["max_payload"], "max_payload", LARGEST_PAYLOAD),
            max_depth=names.count(given["max_depth"], "max_depth", DEEPEST_PAYLOAD),
            max_attempts=names.count(given["max_attempts"], "max_attempts"),
            max_crashes=names.count(given["max_crashes"], "max_crashes"),
            timeout_ms=timeout_ms(given["timeout"]),
            on_error=checked_on_error(given["on_error"]),
            retry=given["retry"],
            worker=given["worker"],
            webhooks=given["webhooks"],
            listen_dsn=checked_listen_dsn(given["listen_dsn"]),
            delivery=read_carrier(given["delivery"]),
            leader=given["leader"],
            services=read_services(given["services"]),
            limits=_named(given["limits"], Limit, "limits"),
            budgets=_named(given["budgets"], Budget, "budgets"),
            channels=heard,
            escalations=told,
            telemetry=given["telemetry"],
            kinds=_named(given["kinds"], Kind, "kinds"),
        )


def _check_types(given: Options) -> None:
    if given["synchronous"] not in get_args(Synchronous):
        message = f'synchronous: expected "full" (every commit is on disk) or "normal", got {given["synchronous"]!r}'
        raise InvalidValue(message)
    _require(given["retry"], Backoff, "retry", "backoff(...)")
    _require(given["worker"], WorkerSettings, "worker", "WorkerSettings(...)")
    _require(given["webhooks"], WebhookSettings, "webhooks", "WebhookSettings(...)")
    _require(given["telemetry"], TelemetrySettings, "telemetry", "TelemetrySettings(...)")
    if given["leader"] is not None:
        _require(given["leader"], RedisElection, "leader", "None (the store) or RedisElection(...)")


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
