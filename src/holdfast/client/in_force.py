"""What holds, from what apps have published and what people have changed of it at run time."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from holdfast.client.definitions import encoded, fingerprint
from holdfast.errors import ConfigError, InvalidValue, shown
from holdfast.policies.budgets import Budget
from holdfast.policies.limits import Limit
from holdfast.queues import SPELLING, Queue
from holdfast.stores.budgets import SHARE, BudgetRow
from holdfast.stores.cluster import Override
from holdfast.stores.limits import LimitRow
from holdfast.stores.policies import KindRow, PolicyRow

_logger = logging.getLogger("holdfast")

CHANGEABLE: Mapping[str, tuple[str, ...]] = {
    "limits": ("concurrency", "throttle", "burst", "rate", "rotate", "fifo"),
    "budgets": ("amount", "thresholds"),
    "queues": (
        "workers",
        "max_workers",
        "sla",
        "poll",
        "age_after",
        "age_share",
        "colour",
        "escalation",
        "description",
    ),
}
"""What people may change at run time, by the sort of thing; all else belongs to programs."""

_SPELLED = {"queues": {field: ".".join(SPELLING[field]) for field in CHANGEABLE["queues"] if field in SPELLING}}

_QUEUE_TIMES = ("sla", "poll", "age_after")


class InForce(NamedTuple):
    """The rows that hold, and which queues have to look for them: at a claim (`gated`), at an enqueue (`screened`)."""

    limits: Sequence[LimitRow]
    budgets: Sequence[BudgetRow]
    queues: Mapping[str, str]
    gated: Sequence[str]
    screened: Sequence[str]


def mark_of(policies: Sequence[PolicyRow], kinds: Sequence[KindRow], overrides: Sequence[Override]) -> str:
    """Tell in few letters what the rows in force follow from."""
    sources = {row.path: fingerprint(row.definition) for row in policies if row.path}
    sources |= {f"kinds.{kind.name}": f"{kind.queue} {fingerprint(kind.definition)}" for kind in kinds}
    sources |= {f"={override.path}": fingerprint(override.value) for override in _relevant(overrides)}
    return fingerprint(encoded(sources))


def in_force(policies: Sequence[PolicyRow], kinds: Sequence[KindRow], overrides: Sequence[Override]) -> InForce:
    """Work out what holds; a change that fits its definition no more is left out, and said so."""
    changes: dict[str, dict[str, Any]] = {}
    for override in _relevant(overrides):
        path, _, field = override.path.rpartition(".")
        changes.setdefault(path, {})[field] = msgspec.json.decode(override.value)
    makers: dict[str, Callable[..., Any]] = {"limits": _limit, "budgets": _budget, "queues": _queue}
    found: dict[str, list[Any]] = {sort: [] for sort in makers}
    for row in policies:
        sort, _, name = row.path.partition(".")
        if sort in makers:
            made = _changed(row, changes.get(row.path, {}), makers[sort])
            found[sort].append((row.definition, name, made))
    limits = [_limit_row(definition, limit, kinds) for definition, _, limit in found["limits"]]
    budgets = [_budget_row(definition, budget, kinds) for definition, _, budget in found["budgets"]]
    gates = {limit.name for _, _, limit in found["limits"] if limit.is_gate}
    bound = [row for row in limits if row.name in gates]
    rated = [row for row in limits if row.rate_us is not None]
    debounced = {kind.queue for kind in kinds if kind.debounce_ms is not None}
    return InForce(
        limits=limits,
        budgets=budgets,
        queues={name: encoded(shown_queue(queue)) for _, name, queue in found["queues"]},
        gated=sorted(_queues_of([*bound, *budgets], kinds)),
        screened=sorted(_queues_of(rated, kinds) | debounced),
    )


def with_change(definition: str, sort: str, field: str, value: Any) -> None:
    """Refuse a change that makes no sense."""
    makers: dict[str, Callable[..., Any]] = {"limits": _limit, "budgets": _budget, "queues": _queue}
    makers[sort](msgspec.json.decode(definition) | {field: value})


def shown_queue(queue: Queue) -> dict[str, Any]:
    """Write what holds for a queue, times in milliseconds."""
    fields = ("priority", "colour", "workers", "max_workers", "age_share", "escalation", "description")
    written: dict[str, Any] = {name: getattr(queue, name) for name in fields}
    written |= {f"{name}_ms": getattr(queue, f"{name}_ms") for name in _QUEUE_TIMES}
    return {name: value for name, value in written.items() if value is not None}


def policy_path(sort: str, name: str, field: str) -> str:
    """Write the path of a setting; a name may have dots, and a field may not reach into another name by one."""
    if field not in CHANGEABLE[sort]:  # guard: policy-field
        message = f"{sort}: at run time these can be changed: {', '.join(CHANGEABLE[sort])}; got {shown(field)}"
        raise InvalidValue(message)
    return f"{sort}.{name}.{field}"


def split_field(sort: str, rest: str) -> tuple[str, str]:
    """Split what follows the sort of a path into a name, which may have dots, and a field, spelled as in code or files.

    No part of the spelling in a file is a field itself, so that only one reading is possible.
    """
    for field, spelled in _SPELLED.get(sort, {}).items():
        if rest.endswith(f".{spelled}"):
            return rest.removesuffix(f".{spelled}"), field
    name, _, field = rest.rpartition(".")
    return name, field


def changes_of(overrides: Iterable[Override], sort: str, name: str) -> list[Override]:
    """Choose what was changed of one thing, and not of `mail.eu` when it is `mail`."""
    owner = f"{sort}.{name}"
    return [override for override in overrides if override.path.rpartition(".")[0] == owner]


def _relevant(overrides: Sequence[Override]) -> list[Override]:
    return [override for override in overrides if override.path.partition(".")[0] in CHANGEABLE]


def _changed(row: PolicyRow, changes: Mapping[str, Any], make: Callable[..., Any]) -> Any:
    written = msgspec.json.decode(row.definition)
    try:
        return make(written | dict(changes))
    except (ConfigError, TypeError) as error:
        _logger.warning("what was changed of %s at run time fits it no more and is left out: %s", row.path, error)
        return make(written)


def _limit(written: Mapping[str, Any]) -> Limit:
    return Limit(**written)


def _budget(written: Mapping[str, Any]) -> Budget:
    return Budget(**written)


def _queue(written: Mapping[str, Any]) -> Queue:
    # A number of workers that grew beyond the most of the definition is the most.
    most, least = written.get("max_workers"), written.get("workers")
    if isinstance(most, int) and isinstance(least, int) and most < least:
        return Queue(**{**written, "max_workers": least})
    return Queue(**written)


def _limit_row(definition: str, limit: Limit, kinds: Sequence[KindRow]) -> LimitRow:
    named = [kind.name for kind in kinds if limit.name in _named_limits(kind)]
    return LimitRow(
        name=limit.name,
        definition=definition,
        queue=limit.queue,
        kinds=tuple(sorted({*limit.kinds, *named})),
        path=limit.path,
        concurrency=limit.concurrency,
        scope=limit.scope,
        throttle_us=None if limit.spaced is None else limit.spaced.spacing_us,
        burst=limit.burst,
        rate_us=None if limit.refused is None else limit.refused.spacing_us,
        rate_burst=None if limit.refused is None else limit.refused.times,
        rotate=limit.rotate,
        fifo=limit.fifo,
        metric=limit.metric,
    )


def _budget_row(definition: str, budget: Budget, kinds: Sequence[KindRow]) -> BudgetRow:
    named = [kind.name for kind in kinds if kind.budget == budget.name]
    return BudgetRow(
        budget.name,
        definition,
        budget.ceiling.unit,
        budget.ceiling.micro,
        budget.period,
        budget.tz,
        budget.queue,
        tuple(sorted({*budget.kinds, *named})),
        budget.path,
        tuple((round(at * SHARE), action) for at, action in budget.thresholds),
    )


def _named_limits(kind: KindRow) -> Sequence[str]:
    limits: Sequence[str] = msgspec.json.decode(kind.definition).get("limits", ())
    return limits


def _queues_of(rows: Sequence[LimitRow | BudgetRow], kinds: Sequence[KindRow]) -> set[str]:
    """Name the queues whose jobs may be under one of these."""
    queues = {kind.name: kind.queue for kind in kinds}
    found = {row.queue for row in rows if row.queue is not None}
    return found | {queues[kind] for row in rows for kind in row.kinds if kind in queues}
