"""Budgets: how much jobs may spend in a day or a month, and what happens on the way there."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal, NamedTuple, get_args

from holdfast import names
from holdfast.about import About
from holdfast.errors import ConfigError, InvalidValue, shown
from holdfast.formats import Format, number_of
from holdfast.policies.keys import KeyText, key_path
from holdfast.policies.money import Amount, AmountText, UnitText, read_amount, read_unit
from holdfast.zones import ZoneName, instant, read_zone, wall_time

Period = Literal["day", "month"]
Action = Literal["alert", "reduce", "defer", "stop"]

_MOST_SHARE = 10  # times the sum


class Threshold(NamedTuple):
    """What happens from a share of the budget on; 1.0 is all of it."""

    at: float
    action: Action


DEFAULT_THRESHOLDS = (Threshold(0.8, "alert"), Threshold(1.0, "alert"), Threshold(1.0, "stop"))


@dataclass(frozen=True, kw_only=True)
class Budget:
    """A sum that jobs may spend in a period: those of a `queue`, of `kinds`, or of the tasks that say `budget=`.

    `amount` is money or any unit: "$500", "2000000 tokens". `key` divides it: "args.tenant" or "actor" gives each a
    sum of its own. A `period` begins at midnight in `tz`. `thresholds` are pairs of a share and an action: "alert"
    escalates, "reduce" halves the slots of its jobs, "defer" holds them until the next period, "stop" lets them fail at
    once with `BudgetExceeded`. Left out: alert at 80 % and at 100 %, stop at 100 %.
    """

    name: Annotated[str, About("Name of the budget.", "ai")]
    amount: Annotated[AmountText, About("How much its jobs may spend in a period.", "$500")]
    unit: Annotated[UnitText | None, About("What is spent.", "usd")] = None
    period: Annotated[Period, About("How long a period is: a day or a month.", "month")] = "month"
    tz: Annotated[ZoneName, About("The time zone in which a period begins at midnight.", "UTC")] = "UTC"
    queue: Annotated[names.Name | None, About("The queue whose jobs spend from it.", "high")] = None
    kinds: Annotated[Iterable[names.Name], About("The kinds of jobs that spend from it.", ["summarise"])] = ()
    key: Annotated[KeyText | None, About("What divides it: each value has a sum of its own.", "args.tenant")] = None
    thresholds: Annotated[
        Iterable[tuple[float, Action]], About("What happens from which share on.", [{"at": 0.8, "action": "alert"}])
    ] = DEFAULT_THRESHOLDS
    ceiling: Amount = field(init=False, repr=False, compare=False)
    path: tuple[str, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        try:
            object.__setattr__(self, "name", names.name(self.name, "name"))
            unit = None if self.unit is None else read_unit(self.unit)
            object.__setattr__(self, "ceiling", read_amount(self.amount, unit, "amount"))
            _check_period(self.period)
            read_zone(self.tz)
            if self.queue is not None:
                object.__setattr__(self, "queue", names.name(self.queue, "queue"))
            kinds = (self.kinds,) if isinstance(self.kinds, str) else self.kinds
            object.__setattr__(self, "kinds", tuple(names.name(kind, "kinds") for kind in kinds))
            object.__setattr__(self, "path", key_path(self.key))
            object.__setattr__(self, "thresholds", tuple(sorted(_threshold(*pair) for pair in self.thresholds)))
        except (InvalidValue, TypeError) as error:
            message = f"budget {shown(self.name)}: {error}"
            raise ConfigError(message) from error


def period_around(moment: datetime, period: str, tz: str) -> tuple[datetime, datetime]:
    """The day or month of a time zone in which a moment lies: its first instant, and that of the next one, in UTC."""
    zone = read_zone(tz)
    first = wall_time(moment, zone).replace(hour=0, minute=0, second=0, microsecond=0)
    if period == "month":
        first = first.replace(day=1)
        following = (first + timedelta(days=32)).replace(day=1)
    else:
        following = first + timedelta(days=1)
    ends = instant(following, zone)
    while ends is None:  # clocks skipped that whole day
        following += timedelta(days=1)
        ends = instant(following, zone)
    return instant(first, zone) or moment, ends


def _check_period(period: str) -> None:
    if period not in get_args(Period):
        message = f'period: expected "day" or "month", got {shown(period)}'
        raise InvalidValue(message)


def _threshold(at: float, action: Action) -> Threshold:
    if isinstance(at, bool) or not isinstance(at, int | float) or not 0 < at <= _MOST_SHARE:
        message = f"thresholds: expected a share like 0.8 (80 %), got {shown(at)}"
        raise InvalidValue(message)
    if action not in get_args(Action):
        message = f"thresholds: expected alert, reduce, defer or stop, got {shown(action)}"
        raise InvalidValue(message)
    return Threshold(float(at), action)


def _read_share(value: Any, what: str) -> float:
    """Read a share of a budget, as `80%` or as 0.8."""
    written = str(value).strip()
    number = number_of(written.removesuffix("%").strip())
    share = number / (100 if written.endswith("%") else 1) if isinstance(number, float) else 0.0
    if not 0 < share <= _MOST_SHARE:
        message = f"{what}: expected a share of the budget like 80% or 0.8, got {shown(value)}"
        raise InvalidValue(message)
    return round(share, 6)


Share = Annotated[float, Format(_read_share, {"type": "string", "pattern": "^[0-9.]+ *%?$"})]
"""The type of a setting that is a share, as the configuration file has it."""
