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

    redis: RedisUrl
    high: RedisUrl
    low: RedisUrl
    arq: RedisUrl
    queue: names.Text
    prefix: names.Name
    shards: Sequence[Shard]


def sections(server: type) -> dict[str, Any]:
    """List the sections; `server` is ServerSettings, which only servers import."""
    return {
        "app": Annotated[names.Text, About("The app, as `module:attribute`.", "shop.jobs:app")],
        "store": StoreOptions,
        "defaults": TaskDefaults,
        "worker": WorkerSettings,
        "queues": Annotated[
            Mapping[names.Name, Queue],
            Words({"preset": Literal[tuple(PRESETS)]}),
            About("Queues by name, and a ready `preset`."),
        ],
        "limits": Mapping[names.Name, Limit],
        "budgets": Mapping[names.Name, Budget],
        "channels": Annotated[Mapping[names.Name, Channel], About("Where escalations go, by name.")],
        "escalations": Mapping[names.Name, Escalation],
        "kinds": Mapping[names.Name, Kind],
        "schedules": Mapping[names.Name, Schedule],
        "services": Mapping[ServiceName, Service],
        "delivery": DeliverySection,
        "leader": RedisElection,
        "webhooks": WebhookSettings,
        "server": server,
        "telemetry": TelemetrySettings,
    }
