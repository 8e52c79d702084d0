"""The OpenAPI document: made of the routes, with an example for everything that is asked for or answered."""

from collections.abc import Iterator, Mapping
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import TypeAdapter

from holdfast.release import RELEASE
from holdfast.resources.catalogue import resources
from holdfast.server import problems

VERSION = "3.1.0"
JSON = "application/json"
STREAMS = "streams"
_REF = "$ref"
_MOMENT = "2026-11-16T09:30:00Z"
_DEEPEST = 12  # no shape of ours is deeper; one that holds itself would be endless
_DESCRIPTION = """\
Everything that the dashboard and the command line do, over HTTP.

Say who asks with `Authorization: Bearer hf_...`; `holdfast tokens create` makes a token. Every operation names the
least role that may use it in `x-role`, and in `x-scope` whether a token for some queues only may (`queues`: it sees
what lies in them) or not (`all`). Errors are `application/problem+json`. Times are in UTC. Ids are text.
"""
TAGS: Mapping[str, str] = {
    "jobs": "Enqueue jobs, find them, read all that is kept of one, and act on it.",
    "bulk": "One change to many jobs: previewed, made batch by batch, stopped at any time.",
    "kinds": "What kinds of jobs there are, and which arguments they take.",
    "queues": "How long jobs wait in them, and letting them rest.",
    "schedules": "What is made when, what came of it, and the hours in which none fires.",
    "workers": "The processes that run jobs.",
    "dead letters": "Failed jobs in groups of one kind and one error; replaying and purging them.",
    "escalations": "What went wrong, which policy was notified, and who has answered.",
    "budgets": "How far they are, who has spent what, and what is in doubt.",
    "limits": "How many jobs may run at once, and who holds the slots.",
    "locks": "Who holds which lock, and taking one away.",
    "webhooks": "The endpoints that webhooks are posted to.",
    "settings": "What holds and who said so, and what people change of it at run time.",
    "system": "Which release and store this is, its tables and its services.",
    "tokens": "Tokens of apps and people.",
    "audit": "Who has done what, or tried to.",
    STREAMS: "Server-sent events for one job, one queue, or everything.",
    "seed": "A job as services of the Docverse family ask for it.",
}
_SECURITY: Mapping[str, Any] = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "A token: `holdfast tokens create`."},
    "cookie": {
        "type": "apiKey",
        "in": "cookie",
        "name": "holdfast_session",
        "description": "A login to the dashboard; what changes something also needs the header X-Form-Token.",
    },
}
_BY_TYPE: Mapping[str, Any] = {"string": "text", "integer": 1, "number": 1.5, "boolean": False, "null": None}
_BY_FORMAT: Mapping[str, str] = {"date-time": _MOMENT, "date": "2026-11-16"}


def make_document(app: FastAPI, root: str = "") -> dict[str, Any]:
    """Describe all routes of the API, as they are reached under a path."""
    made = get_openapi(
        title="Holdfast",
        version=RELEASE,
        openapi_version=VERSION,
        description=_DESCRIPTION,
        routes=app.routes,
        tags=[{"name": name, "description": text} for name, text in TAGS.items()],
        servers=[{"url": root or "/"}],
        separate_input_output_schemas=False,
    )
    parts = made.setdefault("components", {})
    schemas: dict[str, Any] = parts.setdefault("schemas", {})
    schemas["Problem"] = _problem()
    for kind in resources():
        _add_resource(kind, schemas)
        schemas[kind.__name__]["required"] = list(schemas[kind.__name__]["properties"])  # an answer leaves none out
    parts["securitySchemes"] = dict(_SECURITY)
    made["security"] = [{name: []} for name in _SECURITY]
    for schema in schemas.values():
        _give_examples(schema, schemas)
    for _, _, operation in operations(made):
        _show(operation, schemas)
    return made


def _add_resource(kind: type, schemas: dict[str, Any]) -> None:
    """Describe a resource that no answer holds: what a stream sends, and what only the command line prints."""
    if kind.__name__ in schemas:
        return
    schema = TypeAdapter(kind).json_schema(ref_template="#/components/schemas/{model}")
    for name, part in schema.pop("$defs", {}).items():
        schemas.setdefault(name, part)
    schemas[kind.__name__] = schema


def _problem() -> dict[str, Any]:
    """Describe an error."""
    example = problems.not_found("queue", "hgih").body("9f86d081884c7d65")
    about = {"status": {"type": "integer"}, "request": {"description": "Its id in the log of the server."}}
    members = {name: {"type": "string", **about.get(name, {}), "examples": [shown]} for name, shown in example.items()}
    described = "What went wrong (RFC 9457): `detail` says what was expected, what came, and what to do next."
    return {"type": "object", "description": described, "properties": members, "required": list(members)}


def operations(document: Mapping[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Go through all operations: the path, the method, and what is said of it."""
    for path, item in document["paths"].items():
        for method, operation in item.items():
            yield path, method, operation


def example_of(schema: Mapping[str, Any], schemas: Mapping[str, Any], depth: int = 0) -> Any:
    """Make up a value that fits a schema, from the examples of its parts."""
    if depth > _DEEPEST:
        return None
    if _REF in schema:
        return example_of(schemas[schema[_REF].rpartition("/")[2]], schemas, depth + 1)
    if "examples" in schema:
        return schema["examples"][0]
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return schema["enum"][0]
    for choice in (*schema.get("anyOf", ()), *schema.get("oneOf", ()), *schema.get("allOf", ())):
        return example_of(choice, schemas, depth + 1)
    if schema.get("type") == "array":
        return [example_of(schema["items"], schemas, depth + 1)] if schema.get("items") else []
    if schema.get("type") == "object":
        parts = schema.get("properties", {})
        return {name: example_of(part, schemas, depth + 1) for name, part in parts.items()}
    return _BY_FORMAT.get(schema.get("format", ""), _BY_TYPE.get(schema.get("type", "null")))


def _give_examples(schema: dict[str, Any], schemas: Mapping[str, Any]) -> None:
    """Give every field of a shape an example."""
    for part in schema.get("properties", {}).values():
        if "examples" not in part:
            part["examples"] = [example_of(part, schemas)]


def _show(operation: dict[str, Any], schemas: Mapping[str, Any]) -> None:
    """Give an operation examples of what it is asked with, and of what it answers."""
    for parameter in operation.get("parameters", ()):
        found = parameter["schema"]
        if "examples" not in found and "example" not in parameter:
            parameter["example"] = example_of(found, schemas)
    for body in (operation.get("requestBody", {}), *operation["responses"].values()):
        for content in body.get("content", {}).values():
            if content.get("schema") and "example" not in content and "examples" not in content:
                content["example"] = example_of(content["schema"], schemas)
    for status, title in problems.TITLES.items():
        for content in operation["responses"].get(str(status), {}).get("content", {}).values():
            content["example"] = {**content["example"], "status": status, "title": title}
