"""The options of `Holdfast(...)`, as they are written: the only list of them.

Signature, checks of the configuration file, its JSON Schema, `config show` and `Settings` are made of these classes.
"""

import difflib
import functools
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import KW_ONLY, MISSING, dataclass, field, fields
from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated, Any, Concatenate, Literal, ParamSpec, TypeVar, get_type_hints

from msgspec import Meta

from holdfast import names, payload
from holdfast.about import About
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

    url: Annotated[StoreUrl | None, About("Where the store is.", "postgresql://shop@db/shop")] = field(
        default=None, repr=False
    )
    _: KW_ONLY
    schema: Annotated[names.SchemaName, About("PostgreSQL: the name of the schema.", "holdfast")] = "holdfast"
    pool_size: Annotated[
        int, Meta(ge=1, le=LARGEST_POOL), About("PostgreSQL: how many connections the app has at most.", 5)
    ] = 5
    deadline: Annotated[PositiveDuration, About("How long a call to the store may take.", "10s")] = "10s"
    synchronous: Annotated[Synchronous, About("SQLite: whether each commit is on disk before it counts.", "full")] = (
        "full"
    )
    listen_dsn: Annotated[
        ListenUrl | None,
        OR_NONE,
        About(
            "PostgreSQL: where workers hear of new jobs, if `url` leads to a pooler.", "postgresql://shop@db:5432/shop"
        ),
    ] = field(default=None, repr=False)


@dataclass(frozen=True, kw_only=True)
class TaskDefaults:
    """What holds for tasks that say nothing of it."""

    max_attempts: Annotated[names.Count, About("How many attempts a job has.", 5)] = 5
    max_crashes: Annotated[names.Count, About("After how many crashes of its process a job fails.", 3)] = 3
    timeout: Annotated[
        PositiveDuration | None, OR_NONE, About("How long an attempt may run; none: no limit.", "1h")
    ] = "1h"
    retry: Annotated[Backoff, About("How long a failed attempt waits for the next.")] = field(default_factory=backoff)
    on_error: Annotated[OnError, About("What an exception means that no task classifies.", "retry")] = "retry"
    max_args_bytes: Annotated[
        int, Meta(ge=1, le=LARGEST_PAYLOAD), About("How many bytes the arguments of a job may have as JSON.", 256000)
    ] = payload.BYTES
    max_depth: Annotated[
        int, Meta(ge=1, le=DEEPEST_PAYLOAD), About("How deep the arguments of a job may be nested.", 64)
    ] = payload.DEPTH


@dataclass(frozen=True, kw_only=True)
class KeptOptions(TaskDefaults, StoreOptions):
    """The options that `Settings` has as they were written."""

    worker: Annotated[WorkerSettings, About("How workers behave.")] = field(default_factory=WorkerSettings)
    webhooks: Annotated[WebhookSettings, About("Where the ends of jobs may be posted to, and how they are signed.")] = (
        field(default_factory=WebhookSettings)
    )
    telemetry: Annotated[TelemetrySettings, About("Which numbers are kept and which spans are made.")] = field(
        default_factory=TelemetrySettings
    )
    leader: Annotated[RedisElection | None, About("Where the leader is elected; none: in the store.")] = None
    services: Annotated[Mapping[ServiceName, Service], About("How services run, by name.")] = field(
        default_factory=dict
    )
    channels: Annotated[Mapping[names.Name, Channel], About("Where escalations go, by name.")] = field(
        default_factory=dict, repr=False
    )


@dataclass(frozen=True, kw_only=True)
class AppOptions(KeptOptions):
    """Everything that `Holdfast(...)` takes."""

    config: Annotated[
        str | Path | None, About("The configuration file, which lies over all other options.", "holdfast.yaml")
    ] = None
    queues: Annotated[Iterable[Queue], About("Definitions of queues.")] = ()
    schedules: Annotated[Iterable[Schedule], About("Schedules that stand above no task.")] = ()
    limits: Annotated[Iterable[Limit], About("Bounds that jobs share.")] = ()
    budgets: Annotated[Iterable[Budget], About("What jobs may spend.")] = ()
    escalations: Annotated[Iterable[Escalation], About("Who hears of failures, and how soon an answer is due.")] = ()
    kinds: Annotated[Iterable[Kind], About("What holds for kinds of jobs, over what their tasks say.")] = ()
    delivery: Annotated[
        DeliveryOption,
        About("How ids of waiting jobs reach workers; none: by hints of the store.", "redis://localhost/0"),
    ] = None
    lifespan: Annotated[
        Lifespan | None,
        About("An async context manager around the jobs of a process; what it yields is `ctx.state`."),
    ] = field(default=None, repr=False)


def takes_options(
    options: Callable[P, AppOptions],
) -> Callable[[Callable[[Owner, AppOptions], None]], Callable[Concatenate[Owner, P], None]]:
    """Let a constructor take each option as an argument of its own: `@takes_options(AppOptions)`."""

    def decorate(init: Callable[[Owner, AppOptions], None]) -> Callable[Concatenate[Owner, P], None]:
        def construct(self: Owner, /, *args: P.args, **kwargs: P.kwargs) -> None:
            _require_options(type(self).__name__, len(args), kwargs)
            init(self, options(*args, **kwargs))

        functools.update_wrapper(construct, init)
        construct.__signature__ = _signature()  # type: ignore[attr-defined] # where `inspect` and `help` look for it
        return construct

    return decorate


def _require_options(owner: str, given: int, named: Iterable[str]) -> None:
    """Refuse what is no option under the name of the class that was called, and name the option that was meant."""
    known = [option.name for option in fields(AppOptions)]
    positional = sum(not option.kw_only for option in fields(AppOptions))
    if given > positional:
        message = (
            f"{owner}() takes the URL of the store; all other options are named, got {given} values without a name"
        )
        raise TypeError(message)
    for name in named:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            meant = f"did you mean {close[0]!r}?" if close else f"expected one of {', '.join(known)}"
            message = f"{owner}() has no option {name!r}; {meant}"
            raise TypeError(message)
        if given and name == known[0]:
            message = f"{owner}() got two values for {name!r}; give one"
            raise TypeError(message)


def _signature() -> Signature:
    types = get_type_hints(AppOptions)
    parameters = [Parameter("self", Parameter.POSITIONAL_OR_KEYWORD)]
    for option in fields(AppOptions):
        sort = Parameter.KEYWORD_ONLY if option.kw_only else Parameter.POSITIONAL_OR_KEYWORD
        default = option.default if option.default_factory is MISSING else option.default_factory()
        parameters.append(Parameter(option.name, sort, default=default, annotation=types[option.name]))
    return Signature(parameters, return_annotation=None)
