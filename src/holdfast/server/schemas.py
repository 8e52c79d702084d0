"""Checking arguments against the JSON Schema that a worker has published of them.

It knows what `Arguments.schema()` writes, which is what msgspec and pydantic write. What it does not know it lets pass:
the worker reads the arguments again, with the types themselves.
"""

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgspec

from holdfast import payload
from holdfast.errors import ArgumentError, shown

Schema = Mapping[str, Any]

_PASSWORD = "password"  # noqa: S105 - the name of a format
_DECIMAL = "decimal"
_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "boolean": (bool,),
    "null": (type(None),),
    "array": (list,),
    "object": (dict,),
    "number": (int, float),
    "integer": (int,),
}
_FORMATS: Mapping[str, Any] = {
    "date-time": datetime,
    "date": date,
    "time": time,
    "duration": timedelta,
    "uuid": UUID,
    _DECIMAL: Decimal,
}
_BOUNDS: tuple[tuple[str, Callable[[float, float], bool], str], ...] = (
    ("minimum", operator.ge, "at least"),
    ("exclusiveMinimum", operator.gt, "more than"),
    ("maximum", operator.le, "at most"),
    ("exclusiveMaximum", operator.lt, "less than"),
)
_MISTAKES = 5
_MOST_REFERENCES = 20


def checked(schema: Schema, arguments: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """Check arguments, and write them as they are stored; ArgumentError names up to five mistakes."""
    scope = _scope(schema, {})
    mistakes = []
    for number, mistake in enumerate(_mistakes(schema, arguments, "", scope)):
        if number == _MISTAKES:
            break
        mistakes.append(mistake)
    if mistakes:
        message = f"{kind}: {'; '.join(mistakes)}"
        raise ArgumentError(message)
    stored: dict[str, Any] = _stored(schema, arguments, scope)
    return stored


def _scope(schema: Schema, around: Mapping[str, Any]) -> Mapping[str, Any]:
    """The definitions that references inside a schema mean: its own, where it has an id or is the whole."""
    found: Mapping[str, Any] = schema.get("$defs", around)
    return found


def _resolved(schema: Any, scope: Mapping[str, Any]) -> tuple[Schema, Mapping[str, Any]]:
    """Follow references to the schema that they mean."""
    for _ in range(_MOST_REFERENCES):
        if not isinstance(schema, Mapping):
            return {}, scope
        scope = _scope(schema, scope)
        if "$ref" not in schema:
            return schema, scope
        schema = scope.get(str(schema["$ref"]).rpartition("/")[2], {})
    return {}, scope


def _mistakes(given: Any, value: Any, path: str, scope: Mapping[str, Any]) -> Iterator[str]:
    schema, scope = _resolved(given, scope)
    if _is_secret(schema):
        if not isinstance(_revealed(value), str):
            yield _said(path, "text", value)
        return
    for some in ("anyOf", "oneOf"):
        choices = schema.get(some)
        if choices and not any(next(_mistakes(choice, value, path, scope), None) is None for choice in choices):
            yield _of_none(choices, value, path, scope)
            return
    for every in schema.get("allOf", ()):
        yield from _mistakes(every, value, path, scope)
    if "enum" in schema and not any(_same(value, one) for one in schema["enum"]):
        yield _said(path, f"one of {', '.join(shown(one) for one in schema['enum'][:10])}", value)
        return
    if "const" in schema and not _same(value, schema["const"]):
        yield _said(path, shown(schema["const"]), value)
        return
    types = schema.get("type")
    if schema.get("format") == _DECIMAL and _is_of(value, "number"):  # which is read from both
        return
    if types is not None and not any(_is_of(value, one) for one in ([types] if isinstance(types, str) else types)):
        yield _said(path, types if isinstance(types, str) else " or ".join(types), value)
        return
    yield from _inside(schema, value, path, scope)


def _of_none(choices: Any, value: Any, path: str, scope: Mapping[str, Any]) -> str:
    """Say why a value is none of several: what is wrong with the only one that it may be, or all of them."""
    first = [next(_mistakes(choice, value, path, scope), "") for choice in choices]
    deeper = [mistake for mistake in first if not mistake.startswith(f"{_where(path)}: expected")]
    if len(deeper) == 1:
        return deeper[0]
    return _said(path, " or ".join(dict.fromkeys(_words({"anyOf": choices}, scope))), value)


def _words(given: Any, scope: Mapping[str, Any]) -> Iterator[str]:
    """Name the types that a schema takes."""
    schema, scope = _resolved(given, scope)
    if choices := (*schema.get("anyOf", ()), *schema.get("oneOf", ())):
        for choice in choices:
            yield from _words(choice, scope)
    else:
        yield str(schema.get("type") or schema.get("title") or "something else")


def _inside(schema: Schema, value: Any, path: str, scope: Mapping[str, Any]) -> Iterator[str]:
    if isinstance(value, dict):
        yield from _of_object(schema, value, path, scope)
    elif isinstance(value, list):
        yield from _of_array(schema, value, path, scope)
    elif isinstance(value, str):
        yield from _of_text(schema, value, path)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield from _of_number(schema, value, path)


def _of_object(schema: Schema, value: dict[str, Any], path: str, scope: Mapping[str, Any]) -> Iterator[str]:
    known, others = schema.get("properties", {}), schema.get("additionalProperties", True)
    missing = [name for name in schema.get("required", ()) if name not in value]
    if missing:
        yield f"{_where(path)}: {', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing"
    patterns = schema.get("patternProperties", {})
    for name, inner in value.items():
        at = f"{path}.{name}" if path else name
        if name in known:
            yield from _mistakes(known[name], inner, at, scope)
        elif (found := next((one for one in patterns if _matches(one, name)), None)) is not None:
            yield from _mistakes(patterns[found], inner, at, scope)
        elif others is False:
            expected = ", ".join(known) or "none"
            yield f"{_where(at)}: there is no such argument; expected {expected}"
        elif isinstance(others, Mapping):
            yield from _mistakes(others, inner, at, scope)
    yield from _sized(schema, len(value), path, "Properties", "members")


def _of_array(schema: Schema, value: list[Any], path: str, scope: Mapping[str, Any]) -> Iterator[str]:
    first = schema.get("prefixItems", ())
    rest = schema.get("items", True)
    for index, inner in enumerate(value):
        at = f"{path}[{index}]"
        if index < len(first):
            yield from _mistakes(first[index], inner, at, scope)
        elif isinstance(rest, Mapping):
            yield from _mistakes(rest, inner, at, scope)
        elif rest is False:
            yield f"{_where(path)}: expected {len(first)} elements, got {len(value)}"
            break
    yield from _sized(schema, len(value), path, "Items", "elements")
    if schema.get("uniqueItems") and len({msgspec.json.encode(one, order="sorted") for one in value}) < len(value):
        yield f"{_where(path)}: expected each element once"


def _of_text(schema: Schema, value: str, path: str) -> Iterator[str]:
    yield from _sized(schema, len(value), path, "Length", "characters")
    pattern = schema.get("pattern")
    if isinstance(pattern, str) and not _matches(pattern, value):
        yield _said(path, f"text like {pattern}", value)
    kind = _FORMATS.get(schema.get("format", ""))
    if kind is not None:
        try:
            msgspec.convert(value, kind)
        except msgspec.ValidationError:
            yield _said(path, f"a {schema['format']}", value)


def _of_number(schema: Schema, value: float, path: str) -> Iterator[str]:
    for name, fits, word in _BOUNDS:
        bound = schema.get(name)
        if isinstance(bound, int | float) and not fits(value, bound):
            yield _said(path, f"{word} {bound}", value)
    step = schema.get("multipleOf")
    if isinstance(step, int | float) and step and value % step:
        yield _said(path, f"a multiple of {step}", value)


def _sized(schema: Schema, size: int, path: str, what: str, word: str) -> Iterator[str]:
    least, most = schema.get(f"min{what}"), schema.get(f"max{what}")
    if isinstance(least, int) and size < least:
        yield f"{_where(path)}: expected at least {least} {word}, got {size}"
    if isinstance(most, int) and size > most:
        yield f"{_where(path)}: expected at most {most} {word}, got {size}"


def _is_of(value: Any, name: str) -> bool:
    if isinstance(value, bool):
        return name == "boolean"
    if name == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _TYPES.get(name, (object,)))


def _same(value: Any, other: Any) -> bool:
    """Equality of JSON: true is not 1."""
    return bool(value == other) and isinstance(value, bool) == isinstance(other, bool)


def _matches(pattern: str, text: str) -> bool:
    try:
        return re.search(pattern, text) is not None
    except re.error:  # written for another dialect
        return True


def _is_secret(schema: Schema) -> bool:
    return schema.get("format") == _PASSWORD


def _revealed(value: Any) -> Any:
    return value[payload.SECRET] if isinstance(value, dict) and value.keys() == {payload.SECRET} else value


def _stored(given: Any, value: Any, scope: Mapping[str, Any]) -> Any:
    """Write a value as it is stored: what the schema calls secret is marked, and a whole number is one (2.0 is 2)."""
    schema, scope = _resolved(given, scope)
    if _is_secret(schema):
        return {payload.SECRET: value} if isinstance(value, str) else value
    if isinstance(value, float) and value.is_integer() and schema.get("type") == "integer":
        return int(value)
    for some in ("anyOf", "oneOf", "allOf"):
        for choice in schema.get(some, ()):
            if next(_mistakes(choice, value, "", scope), None) is None:
                value = _stored(choice, value, scope)
    if isinstance(value, dict):
        known, others = schema.get("properties", {}), schema.get("additionalProperties", {})
        return {name: _stored(known.get(name, others), inner, scope) for name, inner in value.items()}
    if isinstance(value, list):
        first, rest = schema.get("prefixItems", ()), schema.get("items", {})
        return [
            _stored(first[index] if index < len(first) else rest, inner, scope) for index, inner in enumerate(value)
        ]
    return value


def _where(path: str) -> str:
    return f"argument {path}" if path else "arguments"


def _said(path: str, expected: str, value: Any) -> str:
    return f"{_where(path)}: expected {expected}, got {shown(payload.covered(value))}"
