"""Making the definitions that `Holdfast(...)` takes, from a checked document and from what code says."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from holdfast.arq_delivery import ArqDelivery
from holdfast.cadence import Service
from holdfast.configuration.environment import WRONG
from holdfast.configuration.mistakes import Path, Report
from holdfast.election import RedisElection
from holdfast.errors import InvalidValue
from holdfast.policies.budgets import Budget
from holdfast.policies.channels import Channel, Email, PagerDuty, SignedWebhook, Slack
from holdfast.policies.escalation import BusinessHours, Escalation
from holdfast.policies.kinds import Kind
from holdfast.policies.limits import Limit
from holdfast.presets import PRESETS
from holdfast.queues import Queue
from holdfast.retry import Backoff, backoff
from holdfast.shards import RedisDelivery, Shard, read_delivery

Fields = dict[str, Any]

CHANNEL_TYPES: Mapping[str, type[Channel]] = {
    "pagerduty": PagerDuty,
    "slack": Slack,
    "email": Email,
    "webhook": SignedWebhook,
}
_WAYS = ("redis", "high", "arq", "shards")


def build(document: Fields, code: Fields, report: Report) -> Fields:
    """Lay a document over the arguments that code gave; the sections without mistakes, that is."""
    arguments = dict(code)
    arguments |= _right(document.get("store"))
    defaults = _right(document.get("defaults"))
    arguments |= defaults
    if "retry" in defaults:
        arguments["retry"] = read_retry(code["retry"], defaults["retry"], ("defaults", "retry"), report)
    for section in ("worker", "webhooks", "telemetry"):
        if fields := _right(document.get(section)):
            with report.at((section,)):
                arguments[section] = replace(code[section], **fields)
    queues = document.get("queues") or {}
    preset = queues.pop("preset", None)
    ready = PRESETS[preset] if isinstance(preset, str) else ()
    arguments["queues"] = _queues({queue.name: queue for queue in (*ready, *code["queues"])}, queues, report)
    for section in _POLICIES:
        arguments[section] = _policies(section, code[section], document.get(section) or {}, report)
    arguments["channels"] = _channels(code["channels"], document.get("channels") or {}, report)
    arguments["services"] = _services(code["services"], document.get("services") or {}, report)
    if fields := _right(document.get("delivery")):
        with report.at(("delivery",)):
            arguments["delivery"] = _delivery(fields)
    if fields := _right(document.get("leader")):
        with report.at(("leader",)):
            arguments["leader"] = RedisElection(**fields)
    return arguments


def _right(group: Any) -> Fields:
    """Give the fields of a group in which nothing was wrong; else nothing, for halves contradict each other."""
    return group if isinstance(group, dict) and not _has_mistakes(group) else {}


def _has_mistakes(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(_has_mistakes(inner) for inner in value.values())
    return value is WRONG


def read_retry(base: Backoff | None, fields: Any, path: Path, report: Report) -> Backoff | None:
    """Lay the given parts of a backoff over another one."""
    start = backoff() if base is None else base
    told = {
        "growth": start.growth,
        "base": timedelta(milliseconds=start.base_ms),
        "factor": start.factor,
        "cap": timedelta(milliseconds=start.cap_ms),
        "jitter": start.jitter,
        "exponent_offset": start.exponent_offset,
    }
    with report.at(path):
        return backoff(**(told | fields))
    return base


# ---- queues --------------------------------------------------------------------------------------------------------


def _queues(code: Mapping[str, Queue], given: Mapping[str, Any], report: Report) -> list[Queue]:
    built = dict(code)
    for name, fields in given.items():
        if _has_mistakes(fields):
            continue
        path = ("queues", name)
        base = code.get(name) or _plain_queue(name)
        if base is None:
            continue  # the name itself was complained about
        with report.at(path):
            built[name] = replace(base, **_queue_fields(base, dict(fields), path, report))
    return list(built.values())


def _plain_queue(name: str) -> Queue | None:
    try:
        return Queue(name)
    except ValueError:
        return None


def _queue_fields(base: Queue, fields: Fields, path: Path, report: Report) -> Fields:
    workers = fields.pop("workers", None)
    if workers is not None:
        fields |= {"workers": workers["min"], "max_workers": workers["max"]}
    ageing = fields.pop("ageing", {})
    fields |= {f"age_{key}": value for key, value in ageing.items()}
    webhook = fields.pop("webhook", {})
    fields |= {"webhook" if key == "url" else f"webhook_{key}": value for key, value in webhook.items()}
    for key in ("retention", "stale_after"):
        told = getattr(base, key)
        if key in fields and isinstance(told, Mapping):
            fields[key] = {**told, **fields[key]}
    if "retry" in fields:
        fields["retry"] = read_retry(base.retry, fields["retry"], (*path, "retry"), report)
    return fields


# ---- policies ------------------------------------------------------------------------------------------------------


def _policies(section: str, code: Iterable[Any], given: Mapping[str, Any], report: Report) -> list[Any]:
    """Make limits, budgets, escalations or kinds: those of code, with what the document says of them, and its own."""
    kind, make, needed = _POLICIES[section]
    built: dict[str, Any] = {policy.name: policy for policy in code}
    for name, fields in given.items():
        path = (section, name)
        if _has_mistakes(fields):
            continue
        base = built.get(name)
        if base is None and needed is not None and needed not in fields:
            report.add((*path, needed), "expected a value, got nothing; add it")
            continue
        with report.at(path):
            made = make(dict(fields), path, report)
            built[name] = kind(name=name, **made) if base is None else replace(base, **made)
    return list(built.values())


def _as_written(fields: Fields, _path: Path, _report: Report) -> Fields:
    return fields


def _budget_fields(fields: Fields, _path: Path, _report: Report) -> Fields:
    if "thresholds" not in fields:
        return fields
    pairs = [(share, action) for share, actions in fields["thresholds"].items() for action in actions]
    return {**fields, "thresholds": pairs}


def _escalation_fields(fields: Fields, _path: Path, _report: Report) -> Fields:
    if "business_hours" not in fields:
        return fields
    hours = {("from_" if key == "from" else key): value for key, value in fields["business_hours"].items()}
    return {**fields, "business_hours": BusinessHours(**hours)}


def _kind_fields(fields: Fields, path: Path, report: Report) -> Fields:
    if "retry" not in fields:
        return fields
    return {**fields, "retry": read_retry(None, fields["retry"], (*path, "retry"), report)}


_POLICIES: Mapping[str, tuple[Callable[..., Any], Callable[[Fields, Path, Report], Fields], str | None]] = {
    "limits": (Limit, _as_written, None),
    "budgets": (Budget, _budget_fields, "amount"),
    "escalations": (Escalation, _escalation_fields, "channels"),
    "kinds": (Kind, _kind_fields, None),
}
"""How each is made, and what one must say that code does not define."""


# ---- channels, services, delivery ----------------------------------------------------------------------------------


def _channels(code: Mapping[str, Channel], given: Mapping[str, Any], report: Report) -> dict[str, Channel]:
    built = dict(code)
    for name, entry in given.items():
        if _has_mistakes(entry):
            continue
        kind, fields = CHANNEL_TYPES[entry["type"]], {key: value for key, value in entry.items() if key != "type"}
        with report.at(("channels", name)):
            built[name] = kind(**fields)
    return built


def _services(code: Mapping[str, Service], given: Mapping[str, Any], report: Report) -> dict[str, Service]:
    built = dict(code)
    for name, fields in given.items():
        if not _has_mistakes(fields):
            with report.at(("services", name)):
                built[name] = replace(code.get(name, Service()), **fields)
    return built


def _delivery(fields: Fields) -> RedisDelivery | ArqDelivery | None:
    ways = [way for way in _WAYS if way in fields]
    belongs = {"redis": {"redis", "prefix"}, "high": {"high", "low", "prefix"}, "arq": {"arq", "queue"}}
    allowed = belongs.get(ways[0], {"shards", "prefix"}) if len(ways) == 1 else set()
    if len(ways) != 1 or fields.keys() - allowed or ("high" in fields) != ("low" in fields):
        message = (
            "expected one of: a Redis URL (redis), two of them (high, low), shards, each perhaps with a prefix; or"
        )
        message += f" arq, perhaps with a queue; got {', '.join(fields)}"
        raise InvalidValue(message)
    if "arq" in fields:
        return ArqDelivery(fields["arq"], **{key: value for key, value in fields.items() if key == "queue"})
    if "shards" in fields:
        found: RedisDelivery | None = RedisDelivery([Shard(**shard) for shard in fields["shards"]])
    else:
        found = read_delivery(fields["redis"] if "redis" in fields else {key: fields[key] for key in ("high", "low")})
    return replace(found, prefix=fields["prefix"]) if found is not None and "prefix" in fields else found
