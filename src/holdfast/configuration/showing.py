"""Every setting with its value and where it comes from; what is secret is never shown."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass, replace
from datetime import date, timedelta
from typing import Any

import msgspec
from msgspec import UNSET

from holdfast.app_options import StoreOptions, TaskDefaults
from holdfast.config import Settings
from holdfast.configuration.forms import form_of, path_of
from holdfast.configuration.report import Path
from holdfast.locations import masked
from holdfast.queues import Queue
from holdfast.resources.setting import Setting
from holdfast.retry import Backoff
from holdfast.schedules import Schedule
from holdfast.stores.cluster import Override

HIDDEN = "***"
DEFAULT, CODE, OVERRIDE = "default", "code", "override"
_NAMED = ("queues", "limits", "budgets", "escalations", "kinds")
_UNITS = (("w", 604_800_000), ("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1))


def settings_of(
    settings: Settings,
    defaults: Settings,
    schedules: Iterable[Schedule] = (),
    origins: Mapping[Path, str] | None = None,
    server: Any = None,
) -> list[Setting]:
    """List the settings of an app, and those of its server; `defaults` are those of an app that says nothing."""
    told = {path: value for path, (value, _) in _leaves(defaults, ()).items()}
    found: list[Setting] = []
    leaves = _leaves(settings, schedules) | ({} if server is None else _entry(server, ("server",)))
    for path, (value, default) in leaves.items():
        usual = told.get(path, default)
        origin = _origin(path, origins or {}, is_default=value == usual)
        found.append(Setting(path=".".join(path), value=value, default=usual, origin=origin))
    return found


def overridden(settings: Iterable[Setting], overrides: Iterable[Override]) -> list[Setting]:
    """Put in what was changed at run time."""
    found = {setting.path: setting for setting in settings}
    for row in overrides:
        path = override_path(row.path)
        found[path] = replace(
            found.get(path) or Setting(path=path, origin=OVERRIDE),
            value=msgspec.json.decode(row.value),
            origin=OVERRIDE,
            changed_by=row.actor,
            changed_reason=row.reason,
            changed_at=row.changed_at,
        )
    return list(found.values())


def override_path(written: str) -> str:
    """Spell the path of an override as a file does."""
    *front, last = written.split(".")
    return ".".join((*front, *path_of(Queue, last)))


def _origin(path: Path, origins: Mapping[Path, str], *, is_default: bool) -> str:
    if path in origins:
        return origins[path]
    if below := [origin for place, origin in origins.items() if place[: len(path)] == path]:
        return below[0]
    if not is_default:
        for known in range(len(path) - 1, 0, -1):
            if path[:known] in origins:
                return origins[path[:known]]
    return DEFAULT if is_default else CODE


def _leaves(settings: Settings, schedules: Iterable[Schedule]) -> dict[Path, tuple[Any, Any]]:
    """List every value by its path, each with what it would be if nobody had said anything."""
    found = _entry(settings, ("store",), StoreOptions) | _entry(settings, ("defaults",), TaskDefaults)
    for section in ("worker", "webhooks", "telemetry"):
        found |= _entry(getattr(settings, section), (section,))
    for section in _NAMED:
        for name, entry in getattr(settings, section).items():
            found |= _entry(entry, (section, name), sparsely=section == "kinds")
    for name, channel in settings.channels.items():
        found[("channels", name, "type")] = (channel.type, None)
        found |= _entry(channel, ("channels", name))
    for schedule in schedules:
        found |= _entry(schedule, ("schedules", schedule.name))
        found[("schedules", schedule.name, "kind")] = (schedule.kind, schedule.name)
    for name, service in settings.services.items():
        found |= _entry(service, ("services", name))
    for section in ("delivery", "leader"):
        value = getattr(settings, section)
        found[(section,)] = (None if value is None else str(value), None)
    return found


def _entry(value: Any, path: Path, kind: Any = None, *, sparsely: bool = False) -> dict[Path, tuple[Any, Any]]:
    """List the fields of one definition, under the keys that a file has for them."""
    kind = kind or type(value)
    found: dict[Path, tuple[Any, Any]] = {}
    for field in fields(kind):
        given, default = getattr(value, field.name), _default(field)
        place = path_of(kind, field.name)
        if not field.init or field.name == "name" or (sparsely and given == default):
            continue
        if field.name == "max_workers" and given is None:
            continue
        if field.name == "workers" and getattr(value, "max_workers", None) is None:
            place = ("workers",)
        if not field.repr:
            found[(*path, *place)] = (_covered(given, kind), None)
        else:
            found |= _spread(given, (*path, *place), default)
    return found


def _covered(given: Any, kind: Any) -> Any:
    """Show of an address of the store all but its password, and of any other secret nothing."""
    if given and kind is StoreOptions:
        return masked(given)  # guard: store-password, without: return given
    return HIDDEN if given else None  # guard: settings-secrets, without: return given


def _default(field: "Field[Any]") -> Any:
    if field.default is not MISSING:
        return field.default
    return field.default_factory() if field.default_factory is not MISSING else None


def _spread(given: Any, path: Path, default: Any) -> dict[Path, tuple[Any, Any]]:
    """List a value, or each part of one that has parts."""
    if isinstance(given, Backoff):
        parts = {key: getattr(given, key, None) for key in form_of(Backoff).keys}
        parts |= {"base": length(given.base_ms), "cap": length(given.cap_ms)}
        return {(*path, key): (value, None) for key, value in parts.items()}
    if is_dataclass(given):
        return _entry(given, path)
    if isinstance(given, Mapping) and given:
        return {(*path, str(key)): (_plain(value), None) for key, value in given.items()}
    return {path: (_plain(given), _plain(default))}


def _plain(value: Any) -> Any:
    """Give a value as JSON has it."""
    if value is UNSET or (isinstance(value, Mapping) and not value):
        return None
    if isinstance(value, timedelta):
        return length(round(value.total_seconds() * 1_000))
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, list | tuple | set | frozenset | Iterator):
        return [_plain(one) for one in value]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def length(milliseconds: int) -> str:
    """Write a length of time as people do: 1h 30m."""
    parts: list[str] = []
    for unit, size in _UNITS:
        count, milliseconds = divmod(milliseconds, size)
        if count:
            parts.append(f"{count}{unit}")
    return " ".join(parts) or "0s"
