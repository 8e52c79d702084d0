"""The form as a JSON Schema, so that an editor completes and checks a configuration while it is written."""

from typing import Any

from holdfast.configuration.sections import ROOT
from holdfast.configuration.shapes import Group, Many, Named, Shape, Table, Tagged
from holdfast.configuration.values import Value

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_REFERENCE = {"type": "string", "pattern": r"\$\{[A-Za-z_][A-Za-z0-9_]*(:-[^}]*)?\}"}
_NAME = "^[A-Za-z0-9_.:-]{1,64}$"


def json_schema() -> dict[str, Any]:
    """Write the schema of a configuration; `${NAME}` may stand wherever a single value may."""
    definitions = {"reference": _REFERENCE}
    return {"$schema": DIALECT, "title": "Holdfast", **_of(ROOT), "$defs": definitions}


def _of(shape: Shape) -> dict[str, Any]:
    if isinstance(shape, Value):
        return {"anyOf": [dict(shape.schema), {"$ref": "#/$defs/reference"}]} if shape.schema else {}
    if isinstance(shape, Group):
        return _of_group(shape)
    if isinstance(shape, Many):
        return _of_many(shape)
    if isinstance(shape, Table):
        return {"type": ["object", "null"], "additionalProperties": _of(shape.of)}
    if isinstance(shape, Tagged):
        each = [_of_type(name, group) for name, group in shape.types.items()]
        return _described(shape.describes, {"type": ["object", "null"], "additionalProperties": {"oneOf": each}})
    return _of_named(shape)


def _of_group(group: Group) -> dict[str, Any]:
    schema: dict[str, Any] = {
        "type": ["object", "null"],
        "properties": {name: _of(field) for name, field in group.fields.items()},
        "additionalProperties": False,
    }
    if group.needed:
        schema["required"] = list(group.needed)
    if group.short is not None:
        schema = {"anyOf": [_of(group.fields[group.short[0]]), schema]}
    return _described(group.describes, schema)


def _of_named(named: Named) -> dict[str, Any]:
    words = {word: {"anyOf": [_of(value), _of(named.of)]} for word, value in named.words.items()}
    schema: dict[str, Any] = {"type": ["object", "null"]}
    if named.known:
        schema |= {"properties": {name: _of(named.of) for name in named.known}, "additionalProperties": False}
    else:
        schema |= {"properties": words, "propertyNames": {"pattern": _NAME}, "additionalProperties": _of(named.of)}
    return _described(named.describes, schema)


def _of_type(name: str, group: Group) -> dict[str, Any]:
    fields = {"type": {"const": name}, **{key: _of(field) for key, field in group.fields.items()}}
    return {
        "type": "object",
        "properties": fields,
        "required": ["type", *group.needed],
        "additionalProperties": False,
    }


def _of_many(many: Many) -> dict[str, Any]:
    several: dict[str, Any] = {"type": "array", "items": _of(many.of)}
    if many.exactly is not None:
        return {**several, "minItems": many.exactly, "maxItems": many.exactly}
    return {"anyOf": [_of(many.of), several]}


def _described(text: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": text, **schema} if text else schema
