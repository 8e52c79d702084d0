"""The OpenAPI document: valid, complete, and true to itself."""

from typing import Any

import jsonschema
import pytest

from holdfast import Holdfast
from holdfast.server.openapi import TAGS, example_of, operations
from holdfast.server.pages.api_page import slug
from holdfast.server.roles import read_role
from tests.server.asking import asking
from tests.server.reaching import document

DOCUMENTED = ("401", "403", "404", "409", "413", "422", "429", "503")
IDS = ("id", "job", "last_job", "origin", "parent", "worker")


@pytest.fixture(name="document")
def document_of_jobs() -> dict[str, Any]:
    return document("/jobs")


def schemas(document: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = document["components"]["schemas"]
    return found


def mistakes(document: dict[str, Any], schema: dict[str, Any], example: Any, where: str) -> list[str]:
    whole = {**schema, "components": document["components"]}
    return [f"{where}: {error.message}" for error in jsonschema.Draft202012Validator(whole).iter_errors(example)]


def test_every_operation_says_who_may_and_what_comes(document: dict[str, Any]) -> None:
    ids = [told["operationId"] for _, _, told in operations(document)]
    assert len(ids) == len(set(ids)) > 80
    for path, method, told in operations(document):
        where = f"{method} {path}"
        read_role(told["x-role"])
        assert told["x-scope"] in ("all", "queues"), where
        assert told["summary"], where
        assert told["description"].endswith("."), where
        assert set(told["tags"]) <= set(TAGS), where
        assert set(DOCUMENTED) <= set(told["responses"]), where
        assert any(status.startswith("2") for status in told["responses"]), where
        for status in DOCUMENTED:
            assert list(told["responses"][status]["content"]) == ["application/problem+json"], where
    assert {tag for _, _, told in operations(document) for tag in told["tags"]} == set(TAGS)
    assert document["openapi"].startswith("3.1")
    assert document["servers"] == [{"url": "/jobs"}]
    assert set(document["components"]["securitySchemes"]) == {"bearer", "cookie"}
    assert document["security"] == [{"bearer": []}, {"cookie": []}]


def test_every_field_has_an_example_and_it_fits(document: dict[str, Any]) -> None:
    wrong: list[str] = []
    for name, schema in schemas(document).items():
        assert "__" not in name, f"{name}: two shapes have one name"
        jsonschema.Draft202012Validator.check_schema(schema)
        for field, part in schema.get("properties", {}).items():
            for example in part["examples"]:
                wrong += mistakes(document, part, example, f"{name}.{field}")
        if schema.get("type") == "object":
            assert schema.get("description"), name
            wrong += mistakes(document, schema, example_of(schema, schemas(document)), name)
    assert not wrong, "\n".join(wrong)


def test_every_operation_has_examples_and_they_fit(document: dict[str, Any]) -> None:
    wrong: list[str] = []
    for path, method, told in operations(document):
        where = f"{method} {path}"
        for parameter in told.get("parameters", ()):
            schema = parameter["schema"]
            if "description" not in parameter:
                wrong.append(f"{where}: {parameter['name']} has no description")
            for example in schema.get("examples") or [parameter["example"]]:
                wrong += mistakes(document, schema, example, f"{where} {parameter['name']}")
        for status, body in [("", told.get("requestBody", {})), *told["responses"].items()]:
            for content in body.get("content", {}).values():
                if content.get("schema"):
                    shown = [one["value"] for one in content.get("examples", {}).values()] or [content["example"]]
                    for example in shown:
                        wrong += mistakes(document, content["schema"], example, f"{where} {status}")
    assert not wrong, "\n".join(wrong)


def test_ids_are_text(document: dict[str, Any]) -> None:
    for name, schema in schemas(document).items():
        for field, part in schema.get("properties", {}).items():
            if field in IDS:
                kinds = {one.get("type") for one in part.get("anyOf", [part])}
                assert kinds <= {"string", "null"}, f"{name}.{field}"


async def test_viewers_read_the_document_and_pages_of_every_operation(memory_app: Holdfast) -> None:
    async with asking(memory_app, "viewer") as web:
        answer = await web.get("/api/v1/openapi.json")
        assert answer.status_code == 200
        document = answer.json()
        assert "/api/v1/queues" in document["paths"]
        for path in ("/docs", "/redoc", "/openapi.json"):
            assert (await web.get(path)).status_code == 404
        assert (await web.get("/api/v1/openapi.json", headers={"authorization": ""})).status_code == 401
        index = (await web.get("/api")).text
        for tag in TAGS:
            page = (await web.get(f"/api/{slug(tag)}")).text
            for path, method, told in operations(document):
                if tag in told["tags"]:
                    assert f'id="{told["operationId"]}"' in page
                    assert f"{method.upper()} {path}" in page
                    assert f"#{told['operationId']}" in index
            assert "curl" in page
        assert (await web.get("/api/nothing")).status_code == 404
