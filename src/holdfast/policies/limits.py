"""Limits: how many jobs of a queue, kind or key run at once, how fast they start, how fast they may be asked for."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Annotated, Literal, get_args

from msgspec import Meta

from holdfast import names
from holdfast.about import About
from holdfast.errors import ConfigError, InvalidValue, shown
from holdfast.policies.keys import KeyText, key_path
from holdfast.policies.rate import Rate, RateText, read_rate

Scope = Literal["cluster", "instance"]

_METRIC = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}", re.ASCII)  # what Prometheus takes without quotes
MOST_SLOTS = 10_000
MOST_BURST = 1_000
Slots = Annotated[int, Meta(ge=1, le=MOST_SLOTS)]


@dataclass(frozen=True, kw_only=True)
class Limit:
    """A bound that jobs share: those of a `queue`, of `kinds`, or of the tasks that name it in `limits=`.

    `key` divides it: "args.tenant" gives each tenant a bound of its own; jobs without the field share one.
    `concurrency` is how many run at once, in the whole cluster or (`scope="instance"`, for a queue and without a key)
    in each worker instance. `throttle` spaces starts ("50/s"; up to `burst` of them may come together), and jobs wait.
    `rate` is how many may be enqueued; more are refused with `RateLimited`. `rotate` lets keys take turns. `fifo` runs
    the jobs of a key one at a time in the order they were enqueued, a failed one that waits for its retry included.
    """

    name: Annotated[str, About("Name of the limit.", "screenshots")]
    queue: Annotated[names.Name | None, About("The queue whose jobs are under it.", "high")] = None
    kinds: Annotated[Iterable[names.Name], About("The kinds of jobs that are under it.", ["screenshot"])] = ()
    key: Annotated[KeyText | None, About("What divides it: each value has a bound of its own.", "args.tenant")] = None
    concurrency: Annotated[Slots | None, About("How many of its jobs run at once.", 4)] = None
    scope: Annotated[Scope, About("Where so many run: in the cluster, or in each worker instance.", "cluster")] = (
        "cluster"
    )
    throttle: Annotated[RateText | None, About("How many of its jobs start in a time; more wait.", "50/s")] = None
    burst: Annotated[int, Meta(ge=1, le=MOST_BURST), About("How many starts may come together.", 1)] = 1
    rate: Annotated[
        RateText | None, About("How many of its jobs are enqueued in a time; more are refused.", "50/s")
    ] = None
    rotate: Annotated[bool, About("Whether keys take turns.", example=False)] = False
    fifo: Annotated[bool, About("Whether the jobs of a key run one at a time, in order.", example=False)] = False
    metric: Annotated[names.Name | None, About("The metric of its slots in use.", "screenshots_in_use")] = None
    path: tuple[str, ...] = field(init=False, repr=False, compare=False)
    spaced: Rate | None = field(init=False, repr=False, compare=False)  # what `throttle` means
    refused: Rate | None = field(init=False, repr=False, compare=False)  # what `rate` means

    def __post_init__(self) -> None:
        try:
            self._read()
        except InvalidValue as error:
            message = f"limit {shown(self.name)}: {error}"
            raise ConfigError(message) from error

    def _read(self) -> None:
        object.__setattr__(self, "name", names.name(self.name, "name"))
        if self.queue is not None:
            object.__setattr__(self, "queue", names.name(self.queue, "queue"))
        kinds = (self.kinds,) if isinstance(self.kinds, str) else self.kinds
        object.__setattr__(self, "kinds", tuple(names.name(kind, "kinds") for kind in kinds))
        object.__setattr__(self, "path", key_path(self.key))
        object.__setattr__(self, "spaced", None if self.throttle is None else read_rate(self.throttle, "throttle"))
        object.__setattr__(self, "refused", None if self.rate is None else read_rate(self.rate, "rate"))
        names.count(self.burst, "burst", MOST_BURST)
        if self.concurrency is not None:
            names.count(self.concurrency, "concurrency", MOST_SLOTS)
        if self.scope not in get_args(Scope):
            message = f'scope: expected "cluster" or "instance", got {shown(self.scope)}'
            raise InvalidValue(message)
        self._check_together()

    def _check_together(self) -> None:
        bounds = (self.concurrency, self.spaced, self.refused)
        if all(bound is None for bound in bounds) and not (self.rotate or self.fifo):
            message = "expected at least one of concurrency, throttle, rate, rotate and fifo, got none"
            raise InvalidValue(message)
        if self.scope == "instance" and (self.concurrency is None or self.queue is None or self.path or self.kinds):
            message = 'scope="instance": expected concurrency for a whole queue, without kinds and key'
            raise InvalidValue(message)
        if (self.rotate or self.fifo) and not self.path:
            message = 'rotate and fifo: expected a key, as in key="args.tenant"'
            raise InvalidValue(message)
        if self.metric is not None and not _METRIC.fullmatch(self.metric):
            message = f"metric: expected a name like screenshot_concurrency_utilization, got {shown(self.metric)}"
            raise InvalidValue(message)

    @property
    def is_gate(self) -> bool:
        """Whether jobs may have to wait for it, in the store."""
        is_shared = self.concurrency is not None and self.scope == "cluster"
        return is_shared or self.spaced is not None or self.rotate or self.fifo
