"""From a file, the environment and what code says to the arguments of `Holdfast(...)`, or to all mistakes at once."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path as File
from typing import Any

from holdfast.config import read_settings
from holdfast.configuration import files
from holdfast.configuration.building import Fields, build
from holdfast.configuration.checking import check
from holdfast.configuration.environment import WRONG, expanded
from holdfast.configuration.mistakes import Path, Report
from holdfast.configuration.overlay import overlaid
from holdfast.configuration.references import check_references
from holdfast.configuration.sections import ROOT
from holdfast.presets import PRESETS
from holdfast.schedules import Schedule

_NAMED = ("queues", "limits", "budgets", "channels", "escalations", "kinds", "services")
_SEVERAL = ("window", "exclude")


@dataclass(frozen=True)
class Configured:
    """What came of a file: `arguments` for `Holdfast(...)`, fields of `server`, and where each setting comes from."""

    file: File
    arguments: Mapping[str, Any] = field(repr=False)
    schedules: Mapping[str, Mapping[str, Any]] = field(repr=False)
    server: Mapping[str, Any] = field(repr=False)
    origins: Mapping[Path, str] = field(repr=False)


def configure(file: str | File, code: Fields) -> Configured:
    """Read a file and lay it over the arguments that code gave; ConfigMistakes lists everything that is wrong."""
    report = Report(files.shown_path(File(file)))
    raw = expanded(files.read(File(file), report), os.environ, report)
    readable = not report.mistakes or bool(raw)
    origins: dict[Path, str] = dict.fromkeys(_leaves(raw, ()), f"file {File(file).name}")
    raw, from_environment = overlaid(raw, os.environ, {name: _names_of(code[name]) for name in _NAMED}, report)
    for path in from_environment:
        origins[path] = report.places[path]
    checked = check(ROOT, raw, (), report)
    document = {section: value for section, value in checked.items() if value is not WRONG}
    preset = document.get("queues", {}).get("preset")
    ready = PRESETS[preset] if isinstance(preset, str) else ()
    origins |= {("queues", queue.name): f"preset {preset}" for queue in ready}
    arguments = build(document, code, report)
    defined = {name: [*_names_of(arguments[name]), *(document.get(name) or ())] for name in _NAMED}
    check_references(document, defined, report)
    schedules = _schedules(document.get("schedules") or {}, code["schedules"], report)
    if arguments["url"] is None and readable and _missing_url(checked):
        report.add(("store", "url"), "expected the URL of the store, got nothing; add it, or set HOLDFAST_STORE")
    if not report.mistakes:
        with report.at(()):
            read_settings(**{key: value for key, value in arguments.items() if key != "schedules"})
    report.refuse()
    return Configured(File(file), arguments, schedules, document.get("server") or {}, origins)


def _missing_url(document: Mapping[str, Any]) -> bool:
    store = document.get("store")
    return store is not WRONG and (store or {}).get("url") is not WRONG


def _names_of(given: Any) -> list[str]:
    return list(given) if isinstance(given, Mapping) else [one.name for one in given]


def _leaves(value: Any, path: Path) -> list[Path]:
    if isinstance(value, Mapping):
        return [leaf for key, inner in value.items() for leaf in _leaves(inner, (*path, key))]
    return [path]


def _schedules(given: Mapping[str, Any], code: Any, report: Report) -> dict[str, Fields]:
    """Check schedules as far as they are complete; code may add the rest, with `@app.schedule`."""
    known = {schedule.name: schedule for schedule in code}
    found: dict[str, Fields] = {}
    for name, fields in given.items():
        if not isinstance(fields, dict) or any(value is WRONG for value in fields.values()):
            continue
        found[name] = {key: _pairs(value) if key in _SEVERAL else value for key, value in fields.items()}
        if name not in known:
            with report.at(("schedules", name)):
                Schedule(**complete(name, found[name]))
    return found


def _pairs(values: list[Any]) -> tuple[Any, ...]:
    return tuple(tuple(value) if isinstance(value, list) else value for value in values)


def complete(name: str, fields: Mapping[str, Any]) -> Fields:
    """Fill in what code would add to a schedule that only changes it, so that the rest can be checked."""
    given = {"name": name, "kind": name, **fields}
    return given if {"cron", "every"} & fields.keys() else {**given, "every": "1h"}
