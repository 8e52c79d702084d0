"""Laying HOLDFAST_... variables over a document, each at its path."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, get_args

from holdfast.configuration.environment import EnvText, overrides
from holdfast.configuration.forms import SHORT
from holdfast.configuration.report import Path, Report, among
from holdfast.presets import PRESETS
from holdfast.queues import Outcome

_ODD = re.compile(r"[^a-z0-9]")
_SPREAD = dict.fromkeys(("retention", "stale_after"), get_args(Outcome))
_FREE = "kinds"  # tasks are registered after the file is read


def overlaid(
    document: dict[str, Any], environ: Mapping[str, str], known: Mapping[str, Iterable[str]], report: Report
) -> tuple[dict[str, Any], set[Path]]:
    """Put the variables' values into a document; also gives the paths that came from them.

    `known` are the names that code defines, by section: a variable may name those, and those of the document, only.
    """
    paths: set[Path] = set()
    for variable, (steps, text) in overrides(environ).items():
        path, place = tuple(steps), f"environment {variable}"
        if len(path) > 1 and path[0] in known:
            names = _names(path[0], document, known)
            name = _match(path[1], names) or (path[1] if path[0] == _FREE else None)
            if name is None:
                report.places[path[:2]] = place
                report.add(path[:2], f"there is no such name in code or file; {among(names, path[1])}")
                continue
            path = (path[0], name, *path[2:])
        for length in range(1, len(path)):
            report.places.setdefault(path[:length], place)
        report.places[path] = place
        paths.add(path)
        _put(document, path, EnvText(text))
    return document, paths


def _names(section: str, document: Mapping[str, Any], known: Mapping[str, Iterable[str]]) -> list[str]:
    """List what a variable may name in a section."""
    here = document.get(section)
    names = [*known[section], *(here if isinstance(here, Mapping) else ())]
    if section == "queues":
        preset = here.get("preset") if isinstance(here, Mapping) else None
        names += ["default", "preset", *(queue.name for queue in PRESETS.get(str(preset), ()))]
    return names


def _match(step: str, names: Iterable[str]) -> str | None:
    """Find a name by a step, in which only letters, digits and underscores can be spelled."""
    return next((name for name in names if _ODD.sub("_", name.lower()) == _ODD.sub("_", step)), None)


def _put(document: dict[str, Any], path: Path, value: EnvText) -> None:
    here = document
    for key in path[:-1]:
        inner = here.get(key)
        if not isinstance(inner, Mapping):
            inner = {} if inner is None else dict.fromkeys(_SPREAD.get(key, SHORT.get(key, ())[:1]), inner)
        here[key] = here = dict(inner)
    here[path[-1]] = value
