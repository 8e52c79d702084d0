"""How often services run, how much they do at a time, and whether they run at all."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from holdfast import names
from holdfast.about import About
from holdfast.duration import Duration, PositiveDuration, milliseconds
from holdfast.errors import ConfigError, InvalidValue, shown
from holdfast.formats import Format

LARGEST_BATCH = 10_000
SHORTEST_MS, LONGEST_MS = 10, 86_400_000


@dataclass(frozen=True, kw_only=True)
class Service:
    """How one service runs: the longest time between two rounds, what one round does at most, and whether it runs.

    What is left out stays as it is by default.
    """

    interval: Annotated[PositiveDuration | None, About("The longest time between two rounds.", "5s")] = None
    batch: Annotated[
        Annotated[int, Meta(ge=1, le=LARGEST_BATCH)] | None, About("What one round does at most.", 1_000)
    ] = None
    enabled: Annotated[bool, About("Whether it runs.", example=True)] = True
    interval_s: float = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        try:
            object.__setattr__(self, "interval_s", _interval_ms(self.interval) / 1_000)
            if self.batch is not None:
                names.count(self.batch, "batch", LARGEST_BATCH)
        except InvalidValue as error:
            message = f"service: {error}"
            raise ConfigError(message) from error
        if not isinstance(self.enabled, bool):
            message = f"service: enabled: expected true or false, got {shown(self.enabled)}"
            raise ConfigError(message)


def _interval_ms(interval: Duration | None) -> int:
    if interval is None:
        return 0
    interval_ms = milliseconds(interval, "interval")
    if not SHORTEST_MS <= interval_ms <= LONGEST_MS:
        message = f"interval: expected from 10 ms to a day, got {shown(interval)}"
        raise InvalidValue(message)
    return interval_ms


DEFAULTS: Mapping[str, Service] = {
    "promotion": Service(interval="5s", batch=1_000),  # at the latest: it wakes when the next job is due
    "schedules": Service(interval="1s", batch=100),
    "rescue": Service(interval="1s", batch=500),
    "announcements": Service(interval="1s", batch=1_000),
    "retention": Service(interval="60s", batch=500),
    "rollups": Service(interval="60s", batch=500),
    "lane_counts": Service(interval="10s"),
    "escalations": Service(interval="1s", batch=500),
    "notices": Service(interval="1s", batch=8),  # messages to channels, sent at the same time
    "dead_letters": Service(interval="1s", batch=1_000),
    "bulk": Service(interval="1s", batch=500),
    "sla": Service(interval="10s"),
}
"""Every service, as it runs unless it is set otherwise."""

DESCRIPTIONS: Mapping[str, str] = {
    "promotion": "queues scheduled jobs that are due",
    "schedules": "fires schedules",
    "rescue": "requeues jobs of dead workers, and ends cancelled jobs that do not stop",
    "announcements": "announces jobs to Redis again whose ids were lost",
    "retention": "deletes what has been kept long enough",
    "rollups": "adds up old counts of jobs: by the half hour, the hour, the day",
    "lane_counts": "counts the jobs of each lane",
    "escalations": "turns alarms into escalations, and escalations into messages",
    "notices": "sends the messages of escalations",
    "dead_letters": "puts failed jobs into groups",
    "bulk": "works on bulk operations",
    "sla": "compares waits with the SLA of each queue",
}


def read_services(given: Mapping[str, Service]) -> dict[str, Service]:
    """Fill in what is left out; a name that no service has is refused."""
    for name, service in given.items():
        require_service(name)
        if not isinstance(service, Service):
            message = f"services: expected Service(...) for {name!r}, got {shown(service)}"
            raise ConfigError(message)
        if service.batch is not None and DEFAULTS[name].batch is None:
            message = f"services: {name!r} takes no batch; leave it out"
            raise ConfigError(message)
    return {name: _filled(given.get(name, default), default) for name, default in DEFAULTS.items()}


def require_service(name: str) -> None:
    """Refuse a name that no service has."""
    if name not in DEFAULTS:
        message = f"services: expected one of {', '.join(DEFAULTS)}, got {shown(name)}"
        raise ConfigError(message)


def overridden(service: Service, changes: Mapping[str, str]) -> Service:
    """Apply what people have set at run time: JSON by the name of the field."""
    try:
        read: dict[str, Any] = {name: msgspec.json.decode(value) for name, value in changes.items()}
        return replace(service, **read)
    except (TypeError, ValueError, msgspec.DecodeError) as error:
        message = f"service: expected values for interval, batch and enabled, got {shown(dict(changes))}: {error}"
        raise ConfigError(message) from error


def _filled(service: Service, default: Service) -> Service:
    return Service(
        interval=default.interval if service.interval is None else service.interval,
        batch=default.batch if service.batch is None else service.batch,
        enabled=service.enabled,
    )


def _service_name(name: Any, _what: str) -> str:
    try:
        require_service(name)
    except ConfigError as error:
        raise InvalidValue(str(error)) from None
    known: str = name
    return known


ServiceName = Annotated[str, Format(_service_name, {"enum": list(DEFAULTS)})]
"""The type of a setting that names a service."""
