"""Checking arguments against the JSON Schema that a worker has published of them.

It knows what `Arguments.schema()` writes, which is what msgspec and pydantic write. What it does not know it lets pass:
the worker reads the arguments again, with the types themselves. Arguments come from anyone who may enqueue, so a check
takes a bounded number of steps, and no step takes longer than the text that it looks at.
"""

import functools
import itertools
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgspec
from pydantic_core import SchemaError, SchemaValidator, core_schema

from holdfast import payload
from holdfast.errors import ArgumentError, shown

Schema = Mapping[str, Any]
_Scoped = tuple[Any, Mapping[str, Any]]  # a schema, and what references inside it mean

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
_LONGEST_PATH = 200
_MOST_SHOWN = 50
_MOST_STEPS = 2_000_000  # some seconds of a thread; arguments of the largest size usually take half of it
_STEPS_PER_VALUE = 1_000  # a value is looked at once for each of the types that it may have


def checked(schema: Schema, arguments: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """Check arguments, and write them as they are stored; ArgumentError names up to five mistakes."""
    return _Check(kind, min(_STEPS_PER_VALUE * _count(arguments), _MOST_STEPS)).run(schema, arguments)


class _Check:
    """One check of the arguments of a job."""

    def __init__(self, kind: str, most_steps: int) -> None:
        self._kind = kind
        self._most_steps = most_steps
        self._steps = 0
        self._first: dict[tuple[int, int], tuple[Any, str | None]] = {}  # a value and its first mistake, by their ids

    def run(self, schema: Schema, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Check the arguments, and write them as they are stored."""
        scope = _scope(schema, {})
        mistakes = list(itertools.islice(self._mistakes(schema, arguments, "", scope), _MISTAKES))
        if mistakes:
            message = f"{self._kind}: {'; '.join(mistakes)}"
            raise ArgumentError(message)
        stored: dict[str, Any] = self._stored([(schema, scope)], arguments)
        return stored

    def _step(self) -> None:
        self._steps += 1
        if self._steps > self._most_steps:  # guard: check-steps
            message = f"{self._kind}: the arguments match too many of their types at once; nest them less deeply"
            raise ArgumentError(message)

    def _first_mistake(self, choice: Any, value: Any, path: str, scope: Mapping[str, Any]) -> str | None:
        """Find the first mistake of a value, once: each level that asks twice would double the work of all below."""
        if not isinstance(value, dict | list):  # equal texts and numbers at two places may be one object
            return next(self._mistakes(choice, value, path, scope), None)
        key = (id(choice), id(value))
        if key not in self._first:  # guard: check-once, without: if True:
            self._first[key] = (value, next(self._mistakes(choice, value, path, scope), None))
        return self._first[key][1]

    def _mistakes(self, given: Any, value: Any, path: str, scope: Mapping[str, Any]) -> Iterator[str]:
        self._step()
        schema, scope = _resolved(given, scope)
        if _is_secret(schema):
            if not isinstance(_revealed(value), str):
                yield _said(path, "text", value)
            return
        for some in ("anyOf", "oneOf"):
            choices = schema.get(some)
            if choices and all(self._first_mistake(choice, value, path, scope) is not None for choice in choices):
                yield self._of_none(choices, value, path, scope)
                return
        for every in schema.get("allOf", ()):
            yield from self._mistakes(every, value, path, scope)
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
        yield from self._inside(schema, value, path, scope)

    def _of_none(self, choices: Any, value: Any, path: str, scope: Mapping[str, Any]) -> str:
        """Say why a value is none of several: what is wrong with the only one that it may be, or all of them."""
        first = [self._first_mistake(choice, value, path, scope) or "" for choice in choices]
        deeper = [mistake for mistake in first if not mistake.startswith(f"{_where(path)}: expected")]
        if len(deeper) == 1:
            return deeper[0]
        return _said(path, " or ".join(dict.fromkeys(_words({"anyOf": choices}, scope))), value)

    def _inside(self, schema: Schema, value: Any, path: str, scope: Mapping[str, Any]) -> Iterator[str]:
        if isinstance(value, dict):
            yield from self._of_object(schema, value, path, scope)
        elif isinstance(value, list):
            yield from self._of_array(schema, value, path, scope)
        elif isinstance(value, str):
            yield from _of_text(schema, value, path)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield from _of_number(schema, value, path)

    def _of_object(self, schema: Schema, value: dict[str, Any], path: str, scope: Mapping[str, Any]) -> Iterator[str]:
        known, others = schema.get("properties", {}), schema.get("additionalProperties", True)
        missing = [name for name in schema.get("required", ()) if name not in value]
        if missing:
            yield f"{_where(path)}: {', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing"
        patterns = schema.get("patternProperties", {})
        for name, inner in value.items():
            at = _below(path, f".{name[:_LONGEST_PATH]}" if path else name[:_LONGEST_PATH])
            if name in known:
                yield from self._mistakes(known[name], inner, at, scope)
            elif (found := next((one for one in patterns if _matches(one, name)), None)) is not None:
                yield from self._mistakes(patterns[found], inner, at, scope)
            elif others is False:
                expected = ", ".join(known) or "none"
                yield f"{_where(at)}: there is no such argument; expected {expected}"
            elif isinstance(others, Mapping):
                yield from self._mistakes(others, inner, at, scope)
        yield from _sized(schema, len(value), path, "Properties", "members")

    def _of_array(self, schema: Schema, value: list[Any], path: str, scope: Mapping[str, Any]) -> Iterator[str]:
        first = schema.get("prefixItems", ())
        rest = schema.get("items", True)
        for index, inner in enumerate(value):
            at = _below(path, f"[{index}]")
            if index < len(first):
                yield from self._mistakes(first[index], inner, at, scope)
            elif isinstance(rest, Mapping):
                yield from self._mistakes(rest, inner, at, scope)
            elif rest is False:
                yield f"{_where(path)}: expected {len(first)} elements, got {len(value)}"
                break
        yield from _sized(schema, len(value), path, "Items", "elements")
        if schema.get("uniqueItems") and len({msgspec.json.encode(one, order="sorted") for one in value}) < len(value):
            yield f"{_where(path)}: expected each element once"

    def _stored(self, found: Iterable[_Scoped], value: Any) -> Any:
        """Write a value as it is stored: a secret is marked, and a whole number is one (2.0 is 2)."""
        scoped: dict[int, _Scoped] = {}
        for schema, scope in found:
            self._add_valid(schema, value, scope, scoped)
        all_of = scoped.values()
        if any(_is_secret(schema) for schema, _ in all_of):
            return {payload.SECRET: value} if isinstance(value, str) else value
        if isinstance(value, float) and value.is_integer() and any(s.get("type") == "integer" for s, _ in all_of):
            return int(value)
        if isinstance(value, dict):
            return {
                name: self._stored([(_of_member(schema, name), scope) for schema, scope in all_of], inner)
                for name, inner in value.items()
            }
        if isinstance(value, list):
            return [
                self._stored([(_of_element(schema, index), scope) for schema, scope in all_of], inner)
                for index, inner in enumerate(value)
            ]
        return value

    def _add_valid(self, given: Any, value: Any, scope: Mapping[str, Any], scoped: dict[int, _Scoped]) -> None:
        """Add a schema and, of those that it gives the choice of, the ones that the value fits; each once."""
        self._step()
        schema, scope = _resolved(given, scope)
        if id(schema) in scoped:
            return
        scoped[id(schema)] = (schema, scope)
        for some in ("anyOf", "oneOf", "allOf"):
            for choice in schema.get(some, ()):
                if self._first_mistake(choice, value, "", scope) is None:
                    self._add_valid(choice, value, scope, scoped)


def _count(value: Any) -> int:
    """Count the values inside a value, and itself."""
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return 1 + sum(map(_count, inner))


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


def _words(given: Any, scope: Mapping[str, Any]) -> Iterator[str]:
    """Name the types that a schema takes."""
    schema, scope = _resolved(given, scope)
    if choices := (*schema.get("anyOf", ()), *schema.get("oneOf", ())):
        for choice in choices:
            yield from _words(choice, scope)
    else:
        yield str(schema.get("type") or schema.get("title") or "something else")


def _of_member(schema: Schema, name: str) -> Any:
    return schema.get("properties", {}).get(name, schema.get("additionalProperties", {}))


def _of_element(schema: Schema, index: int) -> Any:
    first = schema.get("prefixItems", ())
    return first[index] if index < len(first) else schema.get("items", {})


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


@functools.lru_cache(maxsize=256)
def _pattern(pattern: str) -> SchemaValidator | None:
    """Compile a pattern for an engine of linear time; what that engine does not know is left to the worker."""
    try:
        return SchemaValidator(core_schema.str_schema(pattern=pattern))  # guard: check-pattern, without: return None
    except SchemaError:
        return None


def _matches(pattern: str, text: str) -> bool:
    compiled = _pattern(pattern)
    return compiled is None or compiled.isinstance_python(text)


def _is_secret(schema: Schema) -> bool:
    return schema.get("format") == _PASSWORD


def _revealed(value: Any) -> Any:
    return value[payload.SECRET] if isinstance(value, dict) and value.keys() == {payload.SECRET} else value


def _below(path: str, part: str) -> str:
    """Write where a value is; a path that is long already stays as it is, or each value would copy it."""
    return path + part if len(path) < _LONGEST_PATH else path


def _where(path: str) -> str:
    return f"argument {path}" if path else "arguments"


def _said(path: str, expected: str, value: Any) -> str:
    shortened = _shortened(value, iter(range(_MOST_SHOWN)))  # guard: check-shown, without: shortened = value
    return f"{_where(path)}: expected {expected}, got {shown(payload.covered(shortened))}"


def _shortened(value: Any, room: Iterator[int]) -> Any:
    """Copy what a message has room for: a value may have a mistake on each level, and is shown for each."""
    if isinstance(value, dict):
        return {
            name[:_LONGEST_PATH]: _shortened(inner, room) for (name, inner), _ in zip(value.items(), room, strict=False)
        }
    if isinstance(value, list):
        return [_shortened(inner, room) for inner, _ in zip(value, room, strict=False)]
    return value[:_LONGEST_PATH] if isinstance(value, str) else value
