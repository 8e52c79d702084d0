"""Making the options of `Holdfast(...)` from a checked document and from what code says."""

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, get_args

from holdfast.app_options import AppOptions, StoreOptions, TaskDefaults
from holdfast.arq_delivery import ArqDelivery
from holdfast.cadence import Service
from holdfast.configuration.checking import MISSING
from holdfast.configuration.document import TABLES
from holdfast.configuration.environment import WRONG
from holdfast.configuration.forms import Form, form_of, is_required, path_of
from holdfast.configuration.report import Path, Report
from holdfast.election import RedisElection
from holdfast.errors import InvalidValue
from holdfast.policies.channels import Channel
from holdfast.presets import PRESETS
from holdfast.retry import Backoff, backoff
from holdfast.shards import RedisDelivery, Shard, read_delivery

Values = dict[str, Any]

_CHANNELS = {kind.type: kind for kind in get_args(Channel)}
NAMED = tuple(section for section in TABLES if section != "schedules")  # `@app.schedule` may define the rest of those
_WAYS = ("redis", "high", "arq", "shards")


def build(document: Values, code: AppOptions, report: Report) -> AppOptions:
    """Lay a document over the options of code; sections and entries with errors are left out."""
    options: Values = {}
    for section, kind in (("store", StoreOptions), ("defaults", TaskDefaults)):
        options |= values_of(kind, _whole(document.get(section)), code, (section,), report)
    for section in ("worker", "webhooks", "telemetry"):
        told = getattr(code, section)
        options[section] = _make(type(told), _whole(document.get(section)), told, (section,), report)
    for section in NAMED:
        kind = get_args(form_of(TABLES[section]).of)[0]
        told = getattr(code, section)
        defined = dict(told) if isinstance(told, Mapping) else {one.name: one for one in told}
        given = document.get(section) or {}
        if section == "queues":
            defined = {queue.name: queue for queue in PRESETS.get(str(given.get("preset")), ())} | defined
        for name, entry in given.items():
            if isinstance(entry, Mapping) and not _has_errors(entry):
                made = _definition(kind, defined.get(name), entry, (section, name), report)
                defined |= {} if made is None else {name: made}
        options[section] = defined if isinstance(told, Mapping) else [*defined.values()]
    if given := _whole(document.get("delivery")):
        with report.at(("delivery",)):
            options["delivery"] = _delivery(given)
    if given := _whole(document.get("leader")):
        options["leader"] = _make(RedisElection, given, None, ("leader",), report)
    return replace(code, **options)


def _whole(group: Any) -> Values:
    """Give a group without errors; of one with errors nothing, because its halves may contradict each other."""
    return group if isinstance(group, dict) and not _has_errors(group) else {}


def _has_errors(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(_has_errors(inner) for inner in value.values())
    return value is WRONG


def values_of(kind: Any, given: Mapping[str, Any], base: Any, path: Path, report: Report) -> Values:
    """Read the fields of a definition from the keys that a file has for them."""
    values: Values = {}
    for name in (one.name for one in fields(kind) if one.init):
        place = path_of(kind, name)
        value, hint = _at(given, place), _at(form_of(kind).keys, place)
        if value is not WRONG and hint is not WRONG:
            values[name] = _value(form_of(hint), value, getattr(base, name, None), (*path, *place), report)
    return values


def _at(keys: Any, place: Path) -> Any:
    for step in place:
        keys = keys.get(step, WRONG) if isinstance(keys, Mapping) else WRONG
    return keys


def _value(form: Form, value: Any, base: Any, path: Path, report: Report) -> Any:
    if form.type is Backoff and isinstance(value, Mapping):
        return _backoff(value, base, path, report)
    if form.sort == "group" and isinstance(value, Mapping):
        return _make(form.type, value, None, path, report)
    if form.single is not None and isinstance(value, Mapping) and isinstance(base, Mapping):
        return {**base, **value}
    if path[0] == "budgets" and path[-1] == "thresholds":
        return [(share, action) for share, actions in value.items() for action in actions]
    return value


def _backoff(given: Mapping[str, Any], base: Backoff | None, path: Path, report: Report) -> Backoff | None:
    """Lay the parts of a backoff over another one, or over the default."""
    start = backoff() if base is None else base
    parts = {key: getattr(start, key) for key in ("growth", "factor", "jitter", "exponent_offset")}
    parts |= {"base": start.base_ms / 1_000, "cap": start.cap_ms / 1_000}
    with report.at(path):
        return backoff(**{**parts, **given})
    return base


def _make(kind: Any, given: Mapping[str, Any], base: Any, path: Path, report: Report, **own: Any) -> Any:
    """Make a definition, or a changed copy of one; what it refuses goes into the report."""
    values = values_of(kind, given, base, path, report) | own
    with report.at(path, {one.name: path_of(kind, one.name) for one in fields(kind)}):
        return kind(**values) if base is None else replace(base, **values)
    return base


def _definition(kind: Any, base: Any, entry: Mapping[str, Any], path: Path, report: Report) -> Any:
    """Make an entry of a table: a changed copy of what code defines, or one of its own."""
    if kind is Service:
        base = base or Service()
    if kind == Channel:
        kind, base = _CHANNELS[entry["type"]], None
    if base is not None:
        return _make(kind, entry, base, path, report)
    needed = [one.name for one in fields(kind) if is_required(one)]
    missing = [key for key in needed if key not in ("name", *entry)]
    for key in missing:
        report.add((*path, key), MISSING)
    own = {"name": path[-1]} if "name" in needed else {}
    return None if missing else _make(kind, entry, None, path, report, **own)


def _delivery(given: Values) -> RedisDelivery | ArqDelivery | None:
    ways = [way for way in _WAYS if way in given]
    belongs = {"redis": {"redis", "prefix"}, "high": {"high", "low", "prefix"}, "arq": {"arq", "queue"}}
    allowed = belongs.get(ways[0], {"shards", "prefix"}) if len(ways) == 1 else set()
    if len(ways) != 1 or given.keys() - allowed or ("high" in given) != ("low" in given):
        message = "expected one of: a Redis URL (redis), two of them (high, low), shards, each perhaps with a prefix;"
        message += f" or arq, perhaps with a queue; got {', '.join(given)}"
        raise InvalidValue(message)
    if "arq" in given:
        return ArqDelivery(given["arq"], **{key: value for key, value in given.items() if key == "queue"})
    if "shards" in given:
        found: RedisDelivery | None = RedisDelivery([Shard(**shard) for shard in given["shards"]])
    else:
        found = read_delivery(given["redis"] if "redis" in given else {key: given[key] for key in ("high", "low")})
    return replace(found, prefix=given["prefix"]) if found is not None and "prefix" in given else found
