"""The types of the settings as a JSON Schema, so that an editor completes and checks a file while it is written."""

from typing import Any

from holdfast.configuration.document import sections
from holdfast.configuration.forms import SHORT, Form, form_of
from holdfast.formats import OR_NONE

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_REFERENCE = {"type": "string", "pattern": r"\$\{[A-Za-z_][A-Za-z0-9_]*(:-[^}]*)?\}"}


def json_schema(server: type) -> dict[str, Any]:
    """Write the schema of a configuration; `${NAME}` may stand wherever a single value may."""
    definitions = {"reference": _REFERENCE}
    return {"$schema": DIALECT, "title": "Holdfast", **_schema(sections(server)), "$defs": definitions}


def _schema(hint: Any, key: str = "") -> dict[str, Any]:
    form = form_of(hint)
    schema = _SCHEMAS[form.sort](form)
    short = SHORT.get(key, ("",))[0]
    if form.sort == "group" and short in form.keys:
        schema = {"anyOf": [_schema(form.keys[short]), schema]}
    return {"description": form.about, **schema} if form.about else schema


def _value(form: Form) -> dict[str, Any]:
    if not form.schema:
        return {}
    schema = {"anyOf": [form.schema, {"enum": [None, OR_NONE]}]} if form.is_optional else form.schema
    return {"anyOf": [schema, {"$ref": "#/$defs/reference"}]}


def _group(form: Form) -> dict[str, Any]:
    schema = {
        "type": ["object", "null"],
        "properties": {key: _schema(hint, key) for key, hint in form.keys.items()},
        "additionalProperties": False,
    }
    return {**schema, "required": list(form.needed)} if form.needed and not form.is_entry else schema


def _list(form: Form) -> dict[str, Any]:
    several: dict[str, Any] = {"type": "array", "items": _schema(form.of)}
    if form.length is not None:
        return {**several, "minItems": form.length, "maxItems": form.length}
    return {"anyOf": [_schema(form.of), several]}


def _table(form: Form) -> dict[str, Any]:
    of = _schema(form.of)
    schema: dict[str, Any] = {"type": ["object", "null"]}
    if form.names:
        schema |= {"properties": dict.fromkeys(form.names, of), "additionalProperties": False}
    else:
        key = form_of(form.key).schema
        schema |= {"propertyNames": key, "additionalProperties": of}
    if form.keys:
        schema["properties"] = {word: {"anyOf": [_schema(hint), of]} for word, hint in form.keys.items()}
    return schema if form.single is None else {"anyOf": [_schema(form.single), schema]}


def _choice(form: Form) -> dict[str, Any]:
    groups = []
    for name, kind in form.keys.items():
        group = _group(form_of(kind))
        properties = {"type": {"const": name}, **group["properties"]}
        required = ["type", *group.get("required", ())]
        groups.append({**group, "type": "object", "properties": properties, "required": required})
    return {"oneOf": groups}


_SCHEMAS = {"value": _value, "group": _group, "list": _list, "table": _table, "choice": _choice}
