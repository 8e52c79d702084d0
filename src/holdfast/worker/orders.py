"""Messages between a supervisor and its children: one line of JSON each, over a socket pair."""

from typing import Any

import msgspec

from holdfast.app_options import AppOptions
from holdfast.arq_delivery import ArqDelivery
from holdfast.cadence import Service
from holdfast.config import Settings, read_settings
from holdfast.election import RedisElection
from holdfast.errors import TimedOut
from holdfast.queues import Queue
from holdfast.retry import Backoff
from holdfast.shards import RedisDelivery, Shard
from holdfast.stores.values import Held
from holdfast.telemetry.meter import Counts, Gauge
from holdfast.worker import escalations
from holdfast.worker.leaving import Until
from holdfast.worker.parts import Parts, instance_bounds, queues_of
from holdfast.worker_settings import WorkerSettings

# ---- from the supervisor -------------------------------------------------------------------------------------------


class Start(msgspec.Struct, tag="start", kw_only=True):
    """To a fresh child: which app to import, and what the command line asked for; None leaves it to the app."""

    app: str
    source: str = "-A"
    folder: str | None = None
    instance: str = ""
    queues: list[str] | None = None
    concurrency: int | None = None
    processes: int | None = None
    until: Until = Until.TOLD
    recycle_jobs: int | None = None
    recycle_bytes: int | None = None
    log_level: str = "INFO"
    log_format: str = "text"
    is_metered: bool = False


class Go(msgspec.Struct, tag="go"):
    """To a child: it is entered in the store and may claim."""

    worker: int
    lease_s: float
    concurrency: int
    bounds: dict[str, int]


class Adopt(msgspec.Struct, tag="adopt"):
    """To a child that was declared dead: go on under a fresh id."""

    worker: int


class Renewed(msgspec.Struct, tag="renewed"):
    """To a child: what the store shows for it; the moment is monotonic nanoseconds, when the store was asked."""

    held: list[Held]
    asked_at: int


class Revoked(msgspec.Struct, tag="revoked"):
    """To a child that stood still: these claims were given back for it."""

    claims: list[tuple[int, int]]


class Bounds(msgspec.Struct, tag="bounds"):
    """To a child: how many jobs of queues it may run at once from now on."""

    by_queue: dict[str, int]


class Drain(msgspec.Struct, tag="drain"):
    """To a child: claim nothing more, let what runs end, and leave."""


class Halt(msgspec.Struct, tag="halt"):
    """To a child: give back what runs, and leave."""


# ---- from a child --------------------------------------------------------------------------------------------------


class Wire(msgspec.Struct, kw_only=True):
    """The settings of an app as plain values: all that a supervisor needs to reach the store and to know the rules."""

    url: str
    schema: str
    deadline_s: float
    pool_size: int
    synchronous: str
    retry: Backoff
    retries: dict[str, Backoff]
    fatal_timeouts: list[str]
    worker: dict[str, Any]
    bounds: dict[str, int]
    listen_dsn: str | None
    shards: list[tuple[str, str, tuple[int, int], int]] | None
    prefix: str
    arq: tuple[str, str] | None
    leader: tuple[str, str] | None
    services: dict[str, dict[str, Any]]
    channels: dict[str, tuple[str, dict[str, Any]]] = {}
    escalations: list[dict[str, Any]] = []


class Marking(msgspec.Struct, tag="marking"):
    """From a child that is about to make the file of its marks: killed at any later moment, it may have left one."""

    path: str


class Hello(msgspec.Struct, tag="hello", kw_only=True):
    """From a child that has imported the app."""

    wire: Wire
    queues: list[str]
    concurrency: int
    processes: int


class Unable(msgspec.Struct, tag="unable"):
    """From a child that could not import or start the app: a sentence, and where it happened."""

    reason: str
    detail: str | None = None


class Counted(msgspec.Struct, tag="counted"):
    """From a child: what it has counted since the last time, and what it is busy with."""

    counts: Counts
    gauges: list[Gauge]


class Bye(msgspec.Struct, tag="bye"):
    """From a child that leaves on purpose."""

    is_drained: bool
    is_recycling: bool = False


ToChild = Start | Go | Adopt | Renewed | Revoked | Bounds | Drain | Halt
FromChild = Marking | Hello | Unable | Counted | Bye


def wire_of(parts: Parts) -> Wire:
    """Write the settings of an app as plain values."""
    settings, delivery = parts.settings, parts.settings.delivery
    redis = delivery if isinstance(delivery, RedisDelivery) else None
    return Wire(
        url=settings.url,
        schema=settings.schema,
        deadline_s=settings.deadline_s,
        pool_size=settings.pool_size,
        synchronous=settings.synchronous,
        retry=settings.retry,
        retries={
            task.kind: retry
            for task in parts.tasks
            if (retry := task.retry or settings.queue_of(task.queue).retry) is not None
        },
        fatal_timeouts=[task.kind for task in parts.tasks if issubclass(TimedOut, task.policy.fatal_on)],
        worker={name: getattr(settings.worker, f"{name}_s", getattr(settings.worker, name)) for name in _WORKER_FIELDS},
        bounds=instance_bounds(settings),
        listen_dsn=settings.listen_dsn,
        shards=None if redis is None else [(s.name, s.url, s.priorities, s.weight) for s in redis.shards],
        prefix="" if redis is None else redis.prefix,
        arq=(delivery.url, delivery.queue) if isinstance(delivery, ArqDelivery) else None,
        leader=None if settings.leader is None else (settings.leader.url, settings.leader.key),
        services={
            name: {"interval": service.interval_s, "batch": service.batch, "enabled": service.enabled}
            for name, service in settings.services.items()
        },
        channels=escalations.write_channels(settings.channels),
        escalations=escalations.write_escalations(settings.escalations),
    )


def settings_of(wire: Wire) -> Settings:
    """Read the settings that a child sent."""
    return read_settings(
        AppOptions(
            wire.url,
            schema=wire.schema,
            queues=[Queue(name, workers=workers) for name, workers in wire.bounds.items()],
            deadline=wire.deadline_s,
            pool_size=wire.pool_size,
            synchronous="full" if wire.synchronous == "full" else "normal",
            timeout=None,
            retry=wire.retry,
            worker=WorkerSettings(**wire.worker),
            listen_dsn=wire.listen_dsn,
            delivery=_delivery_of(wire),
            leader=None if wire.leader is None else RedisElection(*wire.leader),
            services={name: Service(**service) for name, service in wire.services.items()},
            channels=escalations.read_channels(wire.channels),
            escalations=escalations.read_escalations(wire.escalations),
        )
    )


def _delivery_of(wire: Wire) -> RedisDelivery | ArqDelivery | None:
    if wire.arq is not None:
        return ArqDelivery(*wire.arq)
    return None if wire.shards is None else RedisDelivery([Shard(*shard) for shard in wire.shards], wire.prefix)


def hello_of(parts: Parts, start: Start) -> Hello:
    """Say what this app is, as the command line and the app's own settings have it."""
    worker = parts.settings.worker
    return Hello(
        wire=wire_of(parts),
        queues=list(queues_of(parts, start.queues)),
        concurrency=worker.concurrency if start.concurrency is None else start.concurrency,
        processes=worker.processes if start.processes is None else start.processes,
    )


_WORKER_FIELDS: tuple[str, ...] = tuple(
    name for name, field in WorkerSettings.__dataclass_fields__.items() if field.init
)
_decode_to_child = msgspec.json.Decoder(ToChild)
_decode_from_child = msgspec.json.Decoder(FromChild)


def read_order(line: bytes) -> ToChild:
    """Read what a supervisor sent."""
    order: ToChild = _decode_to_child.decode(line)
    return order


def read_answer(line: bytes) -> FromChild:
    """Read what a child sent."""
    answer: FromChild = _decode_from_child.decode(line)
    return answer


def write(message: ToChild | FromChild) -> bytes:
    """Write a message."""
    return msgspec.json.encode(message) + b"\n"
