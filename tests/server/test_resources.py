"""Each resource is described once: the API, OpenAPI, the reference, `--json` and the remote client have its fields."""

from dataclasses import fields, is_dataclass
from typing import Any, get_args, get_type_hints

import msgspec
import pytest

from holdfast.resources.catalogue import describe, requests, resources
from holdfast.resources.redaction import redact
from holdfast.resources.request import Request
from holdfast.server.openapi import example_of
from tests.server.reaching import document

KINDS = [*resources(), *requests()]
JSON_TYPES = {"str": "string", "int": "integer", "float": "number", "bool": "boolean", "datetime": "date-time"}


def schemas() -> dict[str, Any]:
    found: dict[str, Any] = document()["components"]["schemas"]
    return found


def holds_resource(hint: Any) -> bool:
    return is_dataclass(hint) or any(map(holds_resource, get_args(hint)))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_field_has_a_sentence_and_an_example(kind: type) -> None:
    hints = get_type_hints(kind)
    for field in describe(kind):
        if holds_resource(hints[field.name]):
            continue  # the resource inside has its own
        assert field.about.description.endswith("."), f"{kind.__name__}.{field.name}"
        assert field.about.example is not None, f"{kind.__name__}.{field.name}"


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_openapi_has_the_fields_in_their_order_with_their_types(kind: type) -> None:
    schema = schemas()[kind.__name__]
    assert list(schema["properties"]) == [field.name for field in fields(kind)]
    assert issubclass(kind, Request) or schema["required"] == list(schema["properties"]), "an answer has every field"
    for field in describe(kind):
        told = schema["properties"][field.name]
        names = {_name(choice) for choice in told.get("anyOf", [told])}
        for part in field.type.split(" | "):
            expected = JSON_TYPES.get(part)
            assert expected is None or expected in names, f"{kind.__name__}.{field.name}: {field.type} as {told}"
        if field.about.description:
            assert told["description"] == field.about.description


@pytest.mark.parametrize("kind", resources(), ids=lambda kind: kind.__name__)
def test_what_the_api_answers_is_read_by_the_remote_client(kind: type) -> None:
    example = example_of(schemas()[kind.__name__], schemas())
    read: Any = msgspec.convert(example, kind)
    written = msgspec.json.decode(msgspec.json.encode(redact(read)))
    assert list(written) == [field.name for field in fields(kind)]
    assert written == example


def _name(choice: dict[str, Any]) -> str:
    return str(choice.get("format") or choice.get("type") or "")
