"""The page of the API: the OpenAPI document for people, with a line for the shell for each operation."""

import json
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from fastapi import Request
from starlette.responses import Response

from holdfast.server import openapi, routing
from holdfast.server.api.document import document_of
from holdfast.server.pages.rendering import page
from holdfast.server.problems import not_found
from holdfast.server.roles import Permission
from holdfast.server.routing import ROLE, SCOPE, Routes

routes = Routes("pages", in_schema=False)

_WHO = '-H "Authorization: Bearer $HOLDFAST_TOKEN"'


@dataclass(frozen=True)
class Parameter:
    """One thing that an operation is asked with, in its address, its headers or its body."""

    name: str
    place: str
    kind: str
    is_needed: bool
    about: str


@dataclass(frozen=True)
class Operation:
    """One operation, as the page shows it."""

    id: str
    method: str
    path: str
    summary: str
    description: str
    role: str
    is_whole: bool
    parameters: tuple[Parameter, ...]
    asked: str | None
    status: str
    answered: str | None
    curl: str


@routes.get("/api", Permission.LOOK)
async def api_page(request: Request) -> Response:
    """Show all resources, and every operation in a line."""
    document = await document_of(request)
    resources = [(name, slug(name), text, _of(request, document, name)) for name, text in openapi.TAGS.items()]
    return page(request, "api.html", at="api", resources=[known for known in resources if known[3]])


@routes.get("/api/{resource}", Permission.LOOK)
async def resource_page(request: Request, resource: str) -> Response:
    """Show the operations of one resource: parameters, examples, a line for the shell."""
    for name, text in openapi.TAGS.items():
        if slug(name) == resource and (found := _of(request, await document_of(request), name)):
            return page(request, "api_resource.html", at="api", name=name, about=text, operations=found)
    raise not_found("resource", resource)


def slug(name: str) -> str:
    """The name of a resource in an address."""
    return name.replace(" ", "-")


def _of(request: Request, document: Mapping[str, Any], tag: str) -> list[Operation]:
    address = (routing.served(request).server.url or str(request.base_url)).rstrip("/")
    return [
        _operation(address, path, method, told, document)
        for path, method, told in openapi.operations(document)
        if tag in told.get("tags", ())
    ]


def _operation(address: str, path: str, method: str, told: Mapping[str, Any], document: Mapping[str, Any]) -> Operation:
    schemas = document["components"]["schemas"]
    asked = _example(told.get("requestBody", {}))
    status, answer = next((status, body) for status, body in told["responses"].items() if status.startswith("2"))
    return Operation(
        id=told["operationId"],
        method=method.upper(),
        path=path,
        summary=told.get("summary", ""),
        description=told.get("description", ""),
        role=told[ROLE],
        is_whole=told[SCOPE] == "all",
        parameters=(*_placed(told), *_members(told, schemas)),
        asked=None if asked is None else _pretty(asked),
        status=status,
        answered=None if (shown := _example(answer)) is None else _pretty(shown),
        curl=_curl(address, path, method, told, asked),
    )


def _placed(told: Mapping[str, Any]) -> Iterator[Parameter]:
    for one in told.get("parameters", ()):
        kind = _kind(one["schema"])
        yield Parameter(one["name"], one["in"], kind, one.get("required", False), one.get("description", ""))


def _members(told: Mapping[str, Any], schemas: Mapping[str, Any]) -> Iterator[Parameter]:
    content = told.get("requestBody", {}).get("content", {}).get(openapi.JSON, {}).get("schema", {})
    choices = [content, *content.get("anyOf", ())]
    for name in (choice["$ref"].rpartition("/")[2] for choice in choices if "$ref" in choice):
        shape = schemas[name]
        for member, part in shape.get("properties", {}).items():
            is_needed = member in shape.get("required", ())
            yield Parameter(member, "body", _kind(part), is_needed, part.get("description", ""))


def _kind(schema: Mapping[str, Any]) -> str:
    if "anyOf" in schema:
        return " or ".join(kind for choice in schema["anyOf"] if (kind := _kind(choice)) != "null")
    if "$ref" in schema:
        return str(schema["$ref"].rpartition("/")[2])
    if "enum" in schema:
        return " or ".join(map(str, schema["enum"]))
    return str(schema.get("format") or schema.get("type", "anything"))


def _example(body: Mapping[str, Any]) -> Any:
    for content in body.get("content", {}).values():
        for named in content.get("examples", {}).values():
            return named["value"]
        return content.get("example")
    return None


def _pretty(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


def _curl(address: str, path: str, method: str, told: Mapping[str, Any], asked: Any) -> str:
    query: dict[str, str] = {}
    for one in told.get("parameters", ()):
        schema = one["schema"]
        example = schema["examples"][0] if schema.get("examples") else one.get("example")
        if one["in"] == "path":
            path = path.replace(f"{{{one['name']}}}", quote(str(example), safe=""))
        elif one["in"] == "query" and one.get("required"):
            query[one["name"]] = str(example)
    words = ["curl", *([] if method == "get" else ["-X", method.upper()]), _WHO]
    if asked is not None:
        words += ["-H", shlex.quote("Content-Type: application/json"), "-d", shlex.quote(json.dumps(asked))]
    return " ".join([*words, shlex.quote(f"{address}{path}" + (f"?{urlencode(query)}" if query else ""))])
