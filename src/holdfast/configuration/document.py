"""The whole file: its sections, each with the type that it is read from."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, TypedDict

from holdfast import names
from holdfast.about import About
from holdfast.app_options import StoreOptions, TaskDefaults
from holdfast.cadence import Service, ServiceName
from holdfast.configuration.forms import Words
from holdfast.election import RedisElection
from holdfast.policies.budgets import Budget
from holdfast.policies.channels import Channel
from holdfast.policies.escalation import Escalation
from holdfast.policies.kinds import Kind
from holdfast.policies.limits import Limit
from holdfast.presets import PRESETS
from holdfast.queues import Queue
from holdfast.schedules import Schedule
from holdfast.shards import RedisUrl, Shard
from holdfast.telemetry.settings import TelemetrySettings
from holdfast.webhooks.settings import WebhookSettings
from holdfast.worker_settings import WorkerSettings


class DeliverySection(TypedDict, total=False):
    """How ids of waiting jobs reach workers, if not by hints of the store: by Redis, or by Arq."""

    redis: Annotated[RedisUrl, About("One Redis server for all priorities.", "redis://localhost/0")]
    high: Annotated[RedisUrl, About("The Redis server of the priorities 0 to 4.", "redis://high/0")]
    low: Annotated[RedisUrl, About("The Redis server of the priorities 5 to 10.", "redis://low/0")]
    arq: Annotated[RedisUrl, About("The Redis server of an Arq deployment.", "redis://localhost/1")]
    queue: Annotated[names.Text, About("The queue that the workers of Arq read.", "arq:queue")]
    prefix: Annotated[names.Name, About("What all keys begin with, where stores share a server.", "shop")]
    shards: Annotated[Sequence[Shard], About("Redis servers by bands of priorities.")]


TABLES: Mapping[str, Any] = {
    "queues": Annotated[
        Mapping[names.Name, Queue],
        Words({"preset": Annotated[Literal[tuple(PRESETS)], About("A ready set of queues.")]}),
        About("Queues by name, and a ready `preset`."),
    ],
    "limits": Annotated[Mapping[names.Name, Limit], About("Bounds that jobs share, by name.")],
    "budgets": Annotated[Mapping[names.Name, Budget], About("What jobs may spend, by name.")],
    "channels": Annotated[Mapping[names.Name, Channel], About("Where escalations go, by name.")],
    "escalations": Annotated[Mapping[names.Name, Escalation], About("What happens after failures, by policy.")],
    "kinds": Annotated[Mapping[names.Name, Kind], About("What holds for kinds of jobs.")],
    "schedules": Annotated[Mapping[names.Name, Schedule], About("What runs by itself, by name.")],
    "services": Annotated[Mapping[ServiceName, Service], About("How services run, by name.")],
}
"""The sections that hold definitions by name."""


def sections(server: type) -> dict[str, Any]:
    """List the sections; `server` is ServerSettings, which only servers import."""
    return {
        "app": Annotated[names.Text, About("The app, as `module:attribute`.", "shop.jobs:app")],
        "store": StoreOptions,
        "defaults": TaskDefaults,
        "worker": WorkerSettings,
        **TABLES,
        "delivery": DeliverySection,
        "leader": RedisElection,
        "webhooks": WebhookSettings,
        "server": server,
        "telemetry": TelemetrySettings,
    }
