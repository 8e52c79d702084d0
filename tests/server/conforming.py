"""Whether an answer is what the OpenAPI document says of its operation: every field that it names, and no other."""

import copy
import functools
from typing import Any

import httpx2
import schemathesis

from holdfast.resources.catalogue import resources
from tests.server.reaching import document


@functools.cache
def closed() -> Any:
    """Read the document once, in which no resource may have other fields."""
    told = copy.deepcopy(document())
    for kind in resources():
        told["components"]["schemas"][kind.__name__]["additionalProperties"] = False
    return schemathesis.openapi.from_dict(told)


def require_conforming(answer: httpx2.Response) -> None:
    """Demand that an answer has the type and the fields that the document gives its operation."""
    operation = closed().find_operation_by_path(answer.request.method, answer.request.url.path)
    assert operation is not None, answer.request.url
    operation.validate_response(answer)
