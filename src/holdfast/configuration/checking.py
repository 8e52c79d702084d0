"""Comparing a document with the form: every value is read on its own, so that every mistake is found."""

from collections.abc import Mapping
from typing import Any

import msgspec

from holdfast import names
from holdfast.configuration.environment import WRONG, EnvText
from holdfast.configuration.mistakes import Path, Report, among, described
from holdfast.configuration.shapes import Group, Many, Named, Shape, Table, Tagged
from holdfast.configuration.values import Value
from holdfast.errors import ConfigError, InvalidValue

TYPE = "type"


def check(shape: Shape, given: Any, path: Path, report: Report) -> Any:
    """Read what was given; what is wrong goes into the report, and WRONG in its place."""
    if given is WRONG:
        return WRONG
    if isinstance(shape, Value):
        return _check_value(shape, given, path, report)
    if isinstance(given, EnvText):
        given = _from_environment(shape, given)
    if isinstance(shape, Group):
        return _check_group(shape, given, path, report)
    if isinstance(shape, Many):
        return _check_many(shape, given, path, report)
    entries = {} if given is None else given
    if not isinstance(entries, Mapping):
        report.add(path, f"expected a mapping, got {described(given)}")
        return WRONG
    if isinstance(shape, Named):
        return _check_named(shape, entries, path, report)
    if isinstance(shape, Tagged):
        return {
            _name(key, path, report): _check_tagged(shape, value, (*path, key), report)
            for key, value in entries.items()
        }
    return _check_table(shape, entries, path, report)


def _check_value(shape: Value, given: Any, path: Path, report: Report) -> Any:
    value = shape.from_text(str(given)) if isinstance(given, EnvText) else given
    try:
        return shape.read(value, path[-1])
    except (ConfigError, InvalidValue) as error:
        message = str(error)
        report.add(path, message[message.index("expected") :] if "expected" in message else message)
        return WRONG


def _check_group(shape: Group, given: Any, path: Path, report: Report) -> Any:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        if shape.short is None:
            report.add(path, f"expected a mapping of {', '.join(shape.fields)}, got {described(given)}")
            return WRONG
        field, spread = shape.short
        value = check(shape.fields[field], given, path, report)
        return WRONG if value is WRONG else spread(value)
    found: dict[str, Any] = {}
    for key, inner in given.items():
        if key in shape.fields:
            found[key] = check(shape.fields[key], inner, (*path, key), report)
        else:
            report.add((*path, key), f"unknown key; {among(shape.fields, key)}")
            found[key] = WRONG
    for key in shape.needed:
        if key not in given:
            report.add((*path, key), "expected a value, got nothing; add it")
            found[key] = WRONG
    if shape.rule is not None and WRONG not in found.values() and (problem := shape.rule(found)) is not None:
        report.add(path, problem)
        return WRONG
    return found


def _check_many(shape: Many, given: Any, path: Path, report: Report) -> Any:
    one_by_one = isinstance(given, list)
    values = given if one_by_one else [] if given is None else [given]
    if shape.exactly is not None and len(values) != shape.exactly:
        report.add(path, f"expected a list of {shape.exactly} values, got {len(values)}")
        return WRONG
    found = [
        check(shape.of, value, (*path, str(at)) if one_by_one else path, report) for at, value in enumerate(values)
    ]
    return WRONG if WRONG in found else found


def _check_named(shape: Named, entries: Mapping[str, Any], path: Path, report: Report) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, inner in entries.items():
        place = (*path, key)
        if key in shape.words and not isinstance(inner, Mapping):
            found[key] = check(shape.words[key], inner, place, report)
        elif shape.known and key not in shape.known:
            report.add(place, f"there is no such name; {among(shape.known, key)}")
        else:
            name = _name(key, path, report)
            if name in found:
                report.add(place, "the name stands here twice; names are compared without case")
            found[name] = check(shape.of, inner, place, report)
    return found


def _check_tagged(shape: Tagged, given: Any, path: Path, report: Report) -> Any:
    if not isinstance(given, Mapping):
        report.add(path, f"expected a mapping with a type, got {described(given)}")
        return WRONG
    kind = given.get(TYPE)
    if kind is WRONG:
        return WRONG
    if not isinstance(kind, str) or kind not in shape.types:
        hint = among(shape.types, kind) if isinstance(kind, str) else f"expected {' or '.join(shape.types)}"
        report.add((*path, TYPE), f"expected the type of a channel, got {described(kind)}; {hint}")
        return WRONG
    fields = {key: value for key, value in given.items() if key != TYPE}
    checked = _check_group(shape.types[kind], fields, path, report)
    return {TYPE: str(kind), **checked}


def _check_table(shape: Table, entries: Mapping[str, Any], path: Path, report: Report) -> Any:
    found: dict[Any, Any] = {}
    for key, inner in entries.items():
        place = (*path, key)
        found[_check_value(shape.key, key, place, report)] = check(shape.of, inner, place, report)
    return WRONG if WRONG in found or WRONG in found.values() else found


def _name(key: str, path: Path, report: Report) -> str:
    """Read a name as it is stored; a wrong one is kept as it is, once it has been complained about."""
    try:
        return names.name(key, path[-1])
    except InvalidValue as error:
        message = str(error)
        report.add((*path, key), message[message.index("expected") :])
        return key


def _from_environment(shape: Shape, given: EnvText) -> Any:
    """Read a list or a mapping that a variable holds: as JSON, or a list with commas."""
    text = given.strip()
    if text.startswith(("{", "[")):
        try:
            return msgspec.json.decode(text)
        except msgspec.DecodeError:
            return given
    if isinstance(shape, Many):
        return [EnvText(part.strip()) for part in text.split(",")] if text else []
    return given
