"""What the server and the configuration say of themselves: OpenAPI, the schema of a file, metrics."""

import json
from typing import Any

from holdfast import Holdfast
from holdfast.configuration.schema import json_schema
from holdfast.server.openapi import make_document
from holdfast.server.settings import ServerSettings
from holdfast.telemetry.metrics import METRICS
from tests.server.reaching import application

_WIDTH = 116
_WORDS = ("description", "example", "examples", "summary", "title")
_GIVEN = ("properties", "schemas", "paths", "responses")


def describe_openapi() -> str:
    """Write the OpenAPI document without its words and examples."""
    document = make_document(application(Holdfast("sqlite://").asgi(ServerSettings())))
    document["info"]["version"] = "..."  # every release has another
    return _pretty(_bare(document))


def describe_configuration() -> str:
    """Write the schema of a configuration file without its descriptions."""
    return _pretty(_bare(json_schema(ServerSettings)))


def describe_metrics() -> str:
    """Write every metric with its sort and its labels."""
    rows = [f"{one.name} {one.sort} ({', '.join(one.labels)})" for one in METRICS.values()]
    return "\n".join(sorted(rows)) + "\n"


def _pretty(document: Any) -> str:
    return _laid_out(document, 0) + "\n"


def _laid_out(found: Any, depth: int) -> str:
    """Write JSON sorted and indented; what fits into a line stands in one."""
    line = json.dumps(found, sort_keys=True, ensure_ascii=False)
    if len(line) + depth <= _WIDTH or not isinstance(found, dict | list) or not found:
        return line
    if isinstance(found, list):
        parts = [_laid_out(one, depth + 1) for one in found]
    else:
        parts = [f"{json.dumps(key)}: {_laid_out(found[key], depth + 1)}" for key in sorted(found)]
    left, right = "[]" if isinstance(found, list) else "{}"
    indent = " " * depth
    return f"{left}\n" + ",\n".join(f"{indent} {part}" for part in parts) + f"\n{indent}{right}"


def _bare(found: Any, *, is_named: bool = False) -> Any:
    """Leave out what explains, and write an error by its name; `is_named` says that the API has given the keys."""
    if isinstance(found, list):
        return [_bare(one) for one in found]
    if not isinstance(found, dict):
        return found
    if list(found.get("content", ())) == ["application/problem+json"]:
        return "Problem"
    return {
        key: _bare(value, is_named=key in _GIVEN and not is_named)
        for key, value in found.items()
        if is_named or key not in _WORDS
    }
