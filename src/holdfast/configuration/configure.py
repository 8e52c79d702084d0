"""From a file, the environment and what code says to the options of `Holdfast(...)`, or to all errors at once."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path as File
from typing import Any

from holdfast.app_options import AppOptions
from holdfast.cadence import DEFAULTS
from holdfast.config import read_settings
from holdfast.configuration import files
from holdfast.configuration.building import NAMED, Values, build, values_of
from holdfast.configuration.checking import check
from holdfast.configuration.document import sections
from holdfast.configuration.environment import WRONG, expanded
from holdfast.configuration.overlay import overlaid
from holdfast.configuration.references import check_references
from holdfast.configuration.report import Path, Report
from holdfast.presets import PRESETS
from holdfast.schedules import Schedule

_ALSO: dict[str, list[str]] = {"services": [*DEFAULTS], "schedules": []}
_ITERABLES = ("queues", "limits", "budgets", "escalations", "kinds", "schedules")


@dataclass(frozen=True)
class Configured:
    """What came of a file: the `options`, fields of `server`, and where each setting comes from."""

    file: File
    options: AppOptions = field(repr=False)
    schedules: Mapping[str, Mapping[str, Any]] = field(repr=False)
    server: Mapping[str, Any] = field(repr=False)
    origins: Mapping[Path, str] = field(repr=False)


def configure(file: str | File, code: AppOptions, server: type) -> Configured:
    """Read a file and lay it over the options of code; InvalidConfig lists everything that is wrong.

    `server` is ServerSettings.
    """
    several: dict[str, Any] = {name: tuple(getattr(code, name)) for name in _ITERABLES}
    code = replace(code, **several)
    report = Report(files.shown_path(File(file)))
    raw = expanded(files.read(File(file), report), os.environ, report)
    readable = not report.errors or bool(raw)
    origins: dict[Path, str] = dict.fromkeys(_leaves(raw, ()), f"file {File(file).name}")
    known = {name: _names_of(getattr(code, name)) for name in NAMED} | _ALSO
    raw, from_environment = overlaid(raw, os.environ, known, report)
    for path in from_environment:
        origins[path] = report.places[path]
    checked = check(sections(server), raw, (), report)
    document = {section: value for section, value in checked.items() if value is not WRONG}
    preset = document.get("queues", {}).get("preset")
    origins |= {("queues", queue.name): f"preset {preset}" for queue in PRESETS.get(str(preset), ())}
    options = build(document, code, report)
    defined = {name: [*_names_of(getattr(options, name)), *(document.get(name) or ())] for name in NAMED}
    check_references(document, defined, report)
    schedules = _schedules(document.get("schedules") or {}, code.schedules, report)
    if options.url is None and readable and _missing_url(checked):
        report.add(("store", "url"), "expected the URL of the store, got nothing; add it, or set HOLDFAST_STORE")
    if not report.errors:
        with report.at(()):
            read_settings(options)
    report.refuse()
    return Configured(File(file), options, schedules, document.get("server") or {}, origins)


def _missing_url(document: Mapping[str, Any]) -> bool:
    store = document.get("store")
    return store is not WRONG and (store or {}).get("url") is not WRONG


def _names_of(given: Any) -> list[str]:
    return list(given) if isinstance(given, Mapping) else [one.name for one in given]


def _leaves(value: Any, path: Path) -> list[Path]:
    if isinstance(value, Mapping):
        return [leaf for key, inner in value.items() for leaf in _leaves(inner, (*path, key))]
    return [path]


def _schedules(given: Mapping[str, Any], code: Any, report: Report) -> dict[str, Values]:
    """Check schedules as far as they are complete; code may add the rest, with `@app.schedule`."""
    known = {schedule.name for schedule in code}
    found: dict[str, Values] = {}
    for name, entry in given.items():
        if not isinstance(entry, dict) or any(value is WRONG for value in entry.values()):
            continue
        found[name] = values_of(Schedule, entry, None, ("schedules", name), report)
        if name not in known:
            with report.at(("schedules", name)):
                Schedule(**complete(name, found[name]))
    return found


def complete(name: str, fields: Mapping[str, Any]) -> Values:
    """Fill in what code would add to a schedule that only changes it, so that the rest can be checked."""
    given = {"name": name, "kind": name, **fields}
    return given if {"cron", "every"} & fields.keys() else {**given, "every": "1h"}
