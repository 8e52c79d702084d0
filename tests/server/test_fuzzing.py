"""Whatever is sent, the server answers as its document says: no 5xx, no answer that is not documented.

The store has something of every resource; `test_http_pages.py` asks for every operation so that it succeeds.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
import requests
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from holdfast import Holdfast
from holdfast.server.openapi import STREAMS, TAGS
from holdfast.server.settings import ServerSettings
from tests.server.asking import asking
from tests.server.conforming import closed
from tests.server.furnished import furnish, furnished_app
from tests.support.sizes import size
from tests.support.workers import MakeApp

CHECKS: list[Any] = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]


@asynccontextmanager
async def serving(app: Holdfast) -> AsyncIterator[httpx2.AsyncClient]:
    async with app:
        await furnish(app)
        async with asking(app, settings=ServerSettings(rate=None)) as web:
            yield web


def prepared(case: Any) -> httpx2.Request:
    """What a client would send."""
    sent = requests.Request(**case.as_transport_kwargs(base_url="http://127.0.0.1")).prepare()
    headers = {name: str(value) for name, value in sent.headers.items() if name.lower() != "content-length"}
    body = sent.body if isinstance(sent.body, bytes) else str(sent.body or "").encode()
    return httpx2.Request(sent.method or "GET", sent.url or "", headers=headers, content=body)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("tag", [tag for tag in TAGS if tag != STREAMS])
def test_every_answer_is_documented(tag: str, make_sqlite_memory: MakeApp) -> None:
    app = furnished_app(make_sqlite_memory)
    schema = closed().include(tag=tag)
    with asyncio.Runner() as runner:
        context = serving(app)
        web = runner.run(context.__aenter__())
        try:
            operations: list[Any] = list(schema.get_all_operations())
            for found in operations:
                _try_out(found.ok(), lambda request: runner.run(web.send(request)), web.headers["authorization"])
        finally:
            runner.run(context.__aexit__(None, None, None))


def _try_out(operation: Any, send: Callable[[httpx2.Request], httpx2.Response], authorization: str) -> None:
    @settings(
        max_examples=size(10, 500),
        deadline=None,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy())
    def answers(case: Any) -> None:
        request = prepared(case)
        request.headers["authorization"] = authorization
        case.validate_response(send(request), checks=CHECKS)

    answers()
