"""What a program says of its kinds, queues, limits and budgets, as it is published."""

import difflib
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET

from holdfast.config import Settings
from holdfast.errors import ConfigError
from holdfast.policies.budgets import Budget
from holdfast.policies.keys import stored_key
from holdfast.policies.limits import Limit
from holdfast.queues import Queue
from holdfast.schedules import Schedule
from holdfast.stores.policies import KindRow
from holdfast.tasks.registry import AnyTask, Registry

_LIMIT_FIELDS = (
    *("name", "queue", "kinds", "key", "concurrency", "scope", "throttle", "burst", "rate", "rotate", "fifo", "metric"),
)
_BUDGET_FIELDS = ("name", "amount", "unit", "period", "tz", "queue", "kinds", "key", "thresholds")
_QUEUE_FIELDS = ("name", "priority", "colour", "workers", "max_workers", "age_share", "escalation", "description")
_QUEUE_TIMES = ("sla", "poll", "age_after")
_FINGERPRINT_BYTES = 8


class Definitions(NamedTuple):
    """What one program defines: JSON by path ("limits.tenant"), and its kinds."""

    policies: Mapping[str, str]
    kinds: Sequence[KindRow]

    def fingerprints(self) -> str:
        """Write a fingerprint of each definition by path, as JSON, for comparing workers."""
        written = dict(self.policies) | {f"kinds.{kind.name}": kind.definition for kind in self.kinds}
        return encoded({path: fingerprint(definition) for path, definition in written.items()})


def read_definitions(settings: Settings, tasks: Registry, schedules: Iterable[Schedule]) -> Definitions:
    """Write down what is published of a program; a name that nothing has is refused."""
    policies = {f"queues.{queue.name}": encoded(written_queue(queue)) for queue in settings.queues.values()}
    policies |= {f"limits.{limit.name}": encoded(_written_limit(limit)) for limit in settings.limits.values()}
    policies |= {f"budgets.{budget.name}": encoded(_written_budget(budget)) for budget in settings.budgets.values()}
    cadences: dict[str, list[str]] = {}
    for schedule in schedules:
        if schedule.enabled:
            cadences.setdefault(tasks.get(schedule.kind).kind, []).append(schedule.times.describe())
    return Definitions(policies, [_kind(task, settings, cadences.get(task.kind, [])) for task in tasks])


def encoded(value: object) -> str:
    """Write JSON so that equal values are equal texts."""
    return msgspec.json.encode(value, order="deterministic").decode()


def fingerprint(text: str) -> str:
    """Tell definitions apart in few letters, whatever their spelling as JSON."""
    canonical = encoded(msgspec.json.decode(text))
    return hashlib.blake2b(canonical.encode(), digest_size=_FINGERPRINT_BYTES).hexdigest()


def require_known(name: str, known: Iterable[str], what: str, who: str) -> None:
    """Refuse a name that nothing has, and say which one may be meant."""
    names = list(known)
    if name in names:
        return
    close = difflib.get_close_matches(name, names, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"defined are {', '.join(sorted(names)) or 'none'}"
    message = f"{who}: expected a {what} that is defined, got {name!r}; {hint}"
    raise ConfigError(message)


def written_queue(queue: Queue) -> dict[str, Any]:
    """Write what is published of a queue; its webhook and its secrets are not."""
    written: dict[str, Any] = {name: getattr(queue, name) for name in _QUEUE_FIELDS}
    for name in _QUEUE_TIMES:
        length = getattr(queue, f"{name}_ms")
        written[name] = None if length is None else f"{length}ms"
    return {name: value for name, value in written.items() if value is not None}


def _written_limit(limit: Limit) -> dict[str, Any]:
    written = {name: getattr(limit, name) for name in _LIMIT_FIELDS} | {"key": stored_key(limit.path)}
    return {name: value for name, value in written.items() if value not in (None, (), False)}


def _written_budget(budget: Budget) -> dict[str, Any]:
    written = {name: getattr(budget, name) for name in _BUDGET_FIELDS}
    written["key"] = stored_key(budget.path)
    written["amount"] = str(budget.amount)  # perhaps a Decimal
    return {name: value for name, value in written.items() if value not in (None, ())}


def _kind(task: AnyTask, settings: Settings, cadences: Sequence[str]) -> KindRow:
    policy, queue = task.policy, settings.queue_of(task.queue)
    _check_names(task, settings)
    timeout_ms = queue.timeout_ms if policy.timeout_ms is UNSET else policy.timeout_ms
    retry = policy.retry or queue.retry or settings.retry
    definition: dict[str, Any] = {
        "name": task.name,
        "handler": task.source,
        "aliases": task.aliases,
        "note": policy.note,
        "cadence": list(cadences),
        "priority": queue.priority if policy.priority is None else policy.priority,
        "max_attempts": policy.max_attempts or queue.max_attempts or settings.max_attempts,
        "max_crashes": policy.max_crashes or settings.max_crashes,
        "retry": msgspec.to_builtins(retry),
        "limits": policy.limits,
        "budget": policy.budget,
        "estimate": None if policy.estimate is None else str(policy.estimate),
        "debounce_ms": policy.debounce_ms,
        "debounce_key": stored_key(policy.debounce_path),
        "phases": policy.plan,
        "on_restart": None if policy.on_restart == "requeue" else policy.on_restart,
        "queue_override": policy.queue_override or None,
        "arguments": task.arguments.schema(),
    }
    written = {name: value for name, value in definition.items() if value not in (None, (), [])}
    return KindRow(
        name=task.kind,
        queue=task.queue,
        definition=encoded(written | {"timeout_ms": settings.timeout_ms if timeout_ms is UNSET else timeout_ms}),
        debounce_ms=policy.debounce_ms,
        debounce_path=policy.debounce_path,
        budget=policy.budget,
        estimate=None if policy.estimate is None else policy.estimate.micro,
    )


def _check_names(task: AnyTask, settings: Settings) -> None:
    policy, who = task.policy, f"task {task.name}"
    for limit in policy.limits:
        require_known(limit, settings.limits, "limit", who)
    if policy.budget is None:
        return
    require_known(policy.budget, settings.budgets, "budget", who)
    unit = settings.budgets[policy.budget].ceiling.unit
    if policy.estimate is not None and policy.estimate.unit != unit:
        message = f"{who}: estimate: expected an amount of {unit}, the unit of its budget, got {policy.estimate}"
        raise ConfigError(message)
