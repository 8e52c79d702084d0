"""The options of `Holdfast(...)`, as they are written: the only list of them.

Signature, checks of the configuration file, its JSON Schema, `config show` and `Settings` are made of these classes.
"""

import functools
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import KW_ONLY, MISSING, dataclass, field, fields
from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated, Any, Concatenate, Literal, ParamSpec, TypeVar, get_type_hints

from msgspec import Meta

from holdfast import names, payload
from holdfast.arq_delivery import ArqDelivery
from holdfast.cadence import Service, ServiceName
from holdfast.duration import PositiveDuration
from holdfast.election import RedisElection
from holdfast.formats import OR_NONE
from holdfast.locations import ListenUrl, StoreUrl
from holdfast.policies.budgets import Budget
from holdfast.policies.channels import Channel
from holdfast.policies.escalation import Escalation
from holdfast.policies.kinds import Kind
from holdfast.policies.limits import Limit
from holdfast.queues import Queue
from holdfast.retry import Backoff, backoff
from holdfast.schedules import Schedule
from holdfast.shards import RedisDelivery
from holdfast.telemetry.settings import TelemetrySettings
from holdfast.webhooks.settings import WebhookSettings
from holdfast.worker_settings import WorkerSettings

Synchronous = Literal["full", "normal"]
OnError = Literal["retry", "fatal"]
DeliveryOption = str | Mapping[str, str] | RedisDelivery | ArqDelivery | None
Lifespan = Callable[[Any], AbstractAsyncContextManager[Any]]

P = ParamSpec("P")
Owner = TypeVar("Owner")

LARGEST_PAYLOAD = 64_000_000
DEEPEST_PAYLOAD = 500
LARGEST_POOL = 1_000


@dataclass(frozen=True)
class StoreOptions:
    """Where the jobs live."""

    url: StoreUrl | None = field(default=None, repr=False)
    _: KW_ONLY
    schema: names.SchemaName = "holdfast"
    pool_size: Annotated[int, Meta(ge=1, le=LARGEST_POOL)] = 5
    deadline: PositiveDuration = "10s"
    synchronous: Synchronous = "full"
    listen_dsn: Annotated[ListenUrl | None, OR_NONE] = field(default=None, repr=False)


@dataclass(frozen=True, kw_only=True)
class TaskDefaults:
    """What holds for tasks that say nothing of it."""

    max_attempts: names.Count = 5
    max_crashes: names.Count = 3
    timeout: Annotated[PositiveDuration | None, OR_NONE] = "1h"
    retry: Backoff = field(default_factory=backoff)
    on_error: OnError = "retry"
    max_payload: Annotated[int, Meta(ge=1, le=LARGEST_PAYLOAD)] = payload.BYTES
    max_depth: Annotated[int, Meta(ge=1, le=DEEPEST_PAYLOAD)] = payload.DEPTH


@dataclass(frozen=True, kw_only=True)
class KeptOptions(TaskDefaults, StoreOptions):
    """The options that `Settings` has as they were written."""

    worker: WorkerSettings = field(default_factory=WorkerSettings)
    webhooks: WebhookSettings = field(default_factory=WebhookSettings)
    telemetry: TelemetrySettings = field(default_factory=TelemetrySettings)
    leader: RedisElection | None = None
    services: Mapping[ServiceName, Service] = field(default_factory=dict)
    channels: Mapping[names.Name, Channel] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, kw_only=True)
class AppOptions(KeptOptions):
    """Everything that `Holdfast(...)` takes."""

    config: str | Path | None = None
    queues: Iterable[Queue] = ()
    schedules: Iterable[Schedule] = ()
    limits: Iterable[Limit] = ()
    budgets: Iterable[Budget] = ()
    escalations: Iterable[Escalation] = ()
    kinds: Iterable[Kind] = ()
    delivery: DeliveryOption = None
    lifespan: Lifespan | None = field(default=None, repr=False)


def takes_options(
    options: Callable[P, AppOptions],
) -> Callable[[Callable[[Owner, AppOptions], None]], Callable[Concatenate[Owner, P], None]]:
    """Let a constructor take each option as an argument of its own: `@takes_options(AppOptions)`."""

    def decorate(init: Callable[[Owner, AppOptions], None]) -> Callable[Concatenate[Owner, P], None]:
        def construct(self: Owner, /, *args: P.args, **kwargs: P.kwargs) -> None:
            init(self, options(*args, **kwargs))

        functools.update_wrapper(construct, init)
        construct.__signature__ = _signature()  # type: ignore[attr-defined] # where `inspect` and `help` look for it
        return construct

    return decorate


def _signature() -> Signature:
    types = get_type_hints(AppOptions)
    parameters = [Parameter("self", Parameter.POSITIONAL_OR_KEYWORD)]
    for option in fields(AppOptions):
        sort = Parameter.KEYWORD_ONLY if option.kw_only else Parameter.POSITIONAL_OR_KEYWORD
        default = option.default if option.default_factory is MISSING else option.default_factory()
        parameters.append(Parameter(option.name, sort, default=default, annotation=types[option.name]))
    return Signature(parameters, return_annotation=None)
