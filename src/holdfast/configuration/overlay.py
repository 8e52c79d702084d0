"""Laying HOLDFAST_... variables over a document, each at its path."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, cast

from holdfast.configuration.environment import EnvText, overrides
from holdfast.configuration.mistakes import Path, Report, among
from holdfast.configuration.sections import ROOT, SECTIONS
from holdfast.configuration.shapes import Group, Named, Shape, Table, Tagged
from holdfast.presets import PRESETS

_ODD = re.compile(r"[^a-z0-9]")
_FREE = ("kinds",)  # tasks are registered after the file is read
_ALWAYS = {"queues": ("default",)}


def overlaid(
    document: dict[str, Any], environ: Mapping[str, str], known: Mapping[str, Iterable[str]], report: Report
) -> tuple[dict[str, Any], set[Path]]:
    """Put the variables' values into a document; also gives the paths that came from them.

    `known` are the names that code defines, by section: a variable may name those, and those of the document, only.
    """
    found: set[Path] = set()
    for variable, (steps, text) in overrides(environ).items():
        place = f"environment {variable}"
        path, problem = _path(steps, document, known)
        report.places[path] = place
        if problem is not None:
            report.add(path, problem)
            continue
        found.add(path)
        _put(document, path, EnvText(text))
    return document, found


def _path(steps: list[str], document: Mapping[str, Any], known: Mapping[str, Iterable[str]]) -> tuple[Path, str | None]:
    """Find the keys that the steps of a variable mean."""
    shape: Shape = ROOT
    path: list[str] = []
    here: Any = document
    for step in steps:
        if isinstance(shape, Group):
            key = _match(step, shape.fields)
            if key is None:
                return (*path, step), f"unknown key; {among(shape.fields, step)}"
            shape = shape.fields[key]
        elif isinstance(shape, Named | Tagged):
            there = list(here) if isinstance(here, Mapping) else []
            code = known.get(path[0], ())
            names = dict.fromkeys([*there, *code, *_ALWAYS.get(path[0], ()), *_ready(here)])
            words = shape.words if isinstance(shape, Named) else {}
            allowed = shape.known or (*names, *words) if isinstance(shape, Named) else tuple(names)
            key = _match(step, allowed) or (step if path[0] in _FREE else None)
            if key is None:
                return (*path, step), f"there is no such name in code or file; {among(allowed, step)}"
            shape = _inner(shape, key, here)
        elif isinstance(shape, Table):
            key, shape = step, shape.of
        else:
            return (*path, step), f"expected nothing below {path[-1]}, got {step}"
        path.append(key)
        here = here.get(key) if isinstance(here, Mapping) else None
    return tuple(path), None


def _ready(here: Any) -> list[str]:
    """Name the queues of the preset, if there is one."""
    preset = here.get("preset") if isinstance(here, Mapping) else None
    return [queue.name for queue in PRESETS.get(preset, ())] if isinstance(preset, str) else []


def _inner(shape: Named | Tagged, key: str, here: Any) -> Shape:
    if isinstance(shape, Named):
        return shape.words.get(key, shape.of)
    entry = here.get(key) if isinstance(here, Mapping) else None
    kind = entry.get("type") if isinstance(entry, Mapping) else None
    every = {name: field for group in shape.types.values() for name, field in group.fields.items()}
    chosen = shape.types.get(str(kind))
    return Group(fields={"type": SECTIONS["app"], **(every if chosen is None else chosen.fields)})


def _match(step: str, keys: Iterable[str]) -> str | None:
    """Find a key by a step, in which only letters, digits and underscores can be spelled."""
    wanted = _ODD.sub("_", step.lower())
    return next((key for key in keys if _ODD.sub("_", key.lower()) == wanted), None)


def _put(document: dict[str, Any], path: Path, value: EnvText) -> None:
    here, shape = document, cast("Shape", ROOT)
    for key in path[:-1]:
        shape = _below(shape, key, here)
        inner = here.get(key)
        if not isinstance(inner, Mapping):
            short = shape.short if isinstance(shape, Group) and inner is not None else None
            inner = {} if short is None else {name: part for name, part in short[1](inner).items() if part is not None}
        here[key] = here = dict(inner)
    here[path[-1]] = value


def _below(shape: Shape, key: str, here: Any) -> Shape:
    if isinstance(shape, Group):
        return shape.fields[key]
    return _inner(shape, key, here) if isinstance(shape, Named | Tagged) else shape
