"""Comparing a document with the types of the settings: each value is read on its own, so that all errors are found."""

from collections.abc import Mapping
from typing import Any, get_args

import msgspec

from holdfast.configuration.environment import WRONG, EnvText
from holdfast.configuration.forms import SHORT, Form, form_of
from holdfast.configuration.report import Path, Report, among, described
from holdfast.errors import ConfigError, InvalidValue
from holdfast.formats import OR_NONE

MISSING = "expected a value, got nothing; add it"
_TYPE = "type"
_FLAGS = {"yes": True, "on": True, "no": False, "off": False}  # in variables, besides true, false, 1 and 0


def check(hint: Any, given: Any, path: Path, report: Report) -> Any:
    """Read what stands at a path as a type says; what is wrong goes into the report, and WRONG in its place."""
    form = form_of(hint)
    if given is WRONG:
        return WRONG
    if form.sort == "value":
        return _check_value(form, given, path, report)
    if isinstance(given, EnvText):
        given = _from_environment(form, given)
    if form.sort == "list":
        return _check_list(form, given, path, report)
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        return _check_short(form, given, path, report)
    if form.sort == "group":
        return _check_group(form, given, path, report)
    if form.sort == "choice":
        return _check_choice(form, given, path, report)
    return _check_table(form, given, path, report)


def _check_value(form: Form, given: Any, path: Path, report: Report) -> Any:
    if form.is_optional and (given is None or given == OR_NONE):
        return None
    try:
        return _read(form, given, path[-1])
    except (ConfigError, InvalidValue) as error:
        message = str(error)
        report.add(path, message[message.index("expected") :] if "expected" in message else message)
        return WRONG


def _read(form: Form, given: Any, what: str) -> Any:
    if form.format is not None:
        return form.format.read(form.format.from_text(str(given)) if isinstance(given, EnvText) else given, what)
    value = str(given) if isinstance(given, EnvText) else given
    if isinstance(given, EnvText) and form.type is bool:
        value = _FLAGS.get(value.strip().lower(), value)
    try:
        return msgspec.convert(value, form.type, strict=not isinstance(given, EnvText))
    except msgspec.ValidationError:
        message = f"{what}: expected {_expectation(form.schema)}, got {described(given)}"
        raise InvalidValue(message) from None


def _expectation(schema: Mapping[str, Any]) -> str:
    """Say what a schema of msgspec demands."""
    if "enum" in schema:
        return " or ".join(map(str, schema["enum"]))
    if schema["type"] == "boolean":
        return "true or false"
    if schema["type"] == "string":
        return "text"
    number = "a whole number" if schema["type"] == "integer" else "a number"
    return f"{number} from {schema['minimum']} to {schema['maximum']}"


def _check_short(form: Form, given: Any, path: Path, report: Report) -> Any:
    """Read a single value that stands for a group, or for the same at every key of a table."""
    key, *others = SHORT.get(path[-1], ("",))
    if key in form.keys:
        value = check(form.keys[key], given, path, report)
        return WRONG if value is WRONG else {key: value, **dict.fromkeys(others)}
    if form.single is not None:
        value = check(form.single, given, path, report)
        return WRONG if value is WRONG else dict.fromkeys(get_args(form.key), value)
    what = "a mapping" if form.sort == "table" else "a mapping with a type"
    if form.sort == "group":
        what = f"a mapping of {', '.join(form.keys)}"
    report.add(path, f"expected {what}, got {described(given)}")
    return WRONG


def _check_group(form: Form, given: Mapping[str, Any], path: Path, report: Report) -> Any:
    checked: dict[str, Any] = {}
    for key, value in given.items():
        if key in form.keys:
            checked[key] = check(form.keys[key], value, (*path, key), report)
        else:
            report.add((*path, key), f"unknown key; {among(form.keys, key)}")
            checked[key] = WRONG
    for key in () if form.is_entry else form.needed:
        if key not in given:
            report.add((*path, key), MISSING)
            checked[key] = WRONG
    return checked


def _check_list(form: Form, given: Any, path: Path, report: Report) -> Any:
    is_list = isinstance(given, list)
    values = given if is_list else [] if given is None else [given]
    if form.length is not None and len(values) != form.length:
        report.add(path, f"expected a list of {form.length} values, got {len(values)}")
        return WRONG
    checked = [check(form.of, value, (*path, str(at)) if is_list else path, report) for at, value in enumerate(values)]
    return WRONG if WRONG in checked else checked


def _check_table(form: Form, given: Mapping[str, Any], path: Path, report: Report) -> Any:
    checked: dict[Any, Any] = {}
    for key, value in given.items():
        place = (*path, key)
        if key in form.keys and not isinstance(value, Mapping):
            checked[key] = check(form.keys[key], value, place, report)
        elif form.names and key not in form.names:
            report.add(place, f"unknown key; {among(form.names, key)}")
            checked[key] = WRONG
        else:
            name = _check_value(form_of(form.key), key, place, report)
            if name in checked and name is not WRONG:
                report.add(place, "the name stands here twice; names are compared without case")
            inner = check(form.of, value, place, report)
            checked |= {key: WRONG} if name is WRONG else {name: inner}
    return checked


def _check_choice(form: Form, given: Mapping[str, Any], path: Path, report: Report) -> Any:
    kind = given.get(_TYPE)
    if kind is WRONG:
        return WRONG
    if not isinstance(kind, str) or kind not in form.keys:
        hint = among(form.keys, kind) if isinstance(kind, str) else f"expected {' or '.join(form.keys)}"
        report.add((*path, _TYPE), f"expected the type of a channel, got {described(kind)}; {hint}")
        return WRONG
    group = form_of(form.keys[kind])
    fields = {key: value for key, value in given.items() if key != _TYPE}
    return {_TYPE: str(kind), **_check_group(group, fields, path, report)}


def _from_environment(form: Form, given: EnvText) -> Any:
    """Read a list or a mapping that a variable holds: as JSON, or a list with commas."""
    text = given.strip()
    if text.startswith(("{", "[")):
        try:
            return msgspec.json.decode(text)
        except msgspec.DecodeError:
            return given
    if form.sort == "list":
        return [EnvText(part.strip()) for part in text.split(",")] if text else []
    return given
