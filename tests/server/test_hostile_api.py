"""Hostile text in every place that takes text: refused or kept as it is, never executed, never an error of ours."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import AsyncExitStack
from typing import Any
from urllib.parse import quote

import hypothesis
import pytest
from hypothesis import strategies as st

from holdfast import Holdfast
from holdfast.server.openapi import STREAMS, example_of, operations
from holdfast.server.settings import ServerSettings
from tests.server.asking import asking
from tests.server.reaching import document
from tests.support.sizes import size
from tests.support.workers import MakeApp

HOSTILE = (
    '"; DROP TABLE holdfast_jobs;--',
    "\x00",
    "a\nb\r\nSet-Cookie: x=y",
    "9" * 10_000,
    "\ud800",
    "0001-01-01T00:00:00+14:00",
    # From here on in `make chaos` only.
    "",
    "x" * 100,
    "<img src=x onerror=alert(1)>",
    "' OR '1'='1",
    "\u202e\u2066emoji 💥 \u0085\u2028",
    "../../../etc/passwd",
    "%s%n{{7*7}}${7*7}#{7*7}",
    "-1",
    "1e400",
    "\U0001d7d9\U0001d7da",
)
STORES = ("sqlite-memory", "postgres")
JSON = {"content-type": "application/json"}
KINDS = ("application/json", "application/problem+json", "application/x-ndjson")


@pytest.fixture(params=STORES)
def app(request: pytest.FixtureRequest) -> Holdfast:
    found: MakeApp = request.getfixturevalue(f"make_{request.param.replace('-', '_')}")
    return found()


def escaped(text: str) -> str:
    return quote(text.encode(errors="surrogatepass"), safe="")


def attempts(document: dict[str, Any], text: str) -> Iterator[tuple[str, str, Any]]:
    """Put one text into every parameter and every member of a body, one at a time."""
    schemas = document["components"]["schemas"]
    for path, method, told in operations(document):
        if STREAMS in told["tags"]:
            continue
        content = told.get("requestBody", {}).get("content", {}).get("application/json")
        body = None if content is None else example_of(content["schema"], schemas)
        parameters = told.get("parameters", ())
        examples = {one["name"]: (one["schema"].get("examples") or [one.get("example")])[0] for one in parameters}
        for one in parameters:
            address = path
            for name in (other["name"] for other in parameters if other["in"] == "path"):
                value = text if name == one["name"] else str(examples[name])
                address = address.replace(f"{{{name}}}", escaped(value))
            if one["in"] == "query":
                address += f"?{one['name']}={escaped(text)}"
            yield method, address, body
        if isinstance(body, dict):
            address = path
            for name, example in examples.items():
                address = address.replace(f"{{{name}}}", escaped(str(example)))
            for member in body:
                yield method, address, {**body, member: text}
            yield method, address, {**body, text: text}


@pytest.mark.timeout(300)
async def test_hostile_text_everywhere(app: Holdfast, caplog: pytest.LogCaptureFixture) -> None:
    texts = HOSTILE[: size(6, len(HOSTILE))]
    sent = 0
    async with app, asking(app, settings=ServerSettings(rate=None)) as web:
        for text in texts:
            for method, address, body in attempts(document(), text):
                content = None if body is None else json.dumps(body).encode()
                answer = await web.request(method, address, content=content, headers=JSON)
                sent += 1
                where = f"{method} {address[:200]} {str(body)[:200]!a}: {answer.text[:300]}"
                assert answer.status_code < 500, where
                assert answer.status_code == 204 or answer.headers["content-type"] in KINDS, where
                assert "set-cookie" not in answer.headers, where
                assert "Traceback" not in answer.text, where
                assert "sqlite3" not in answer.text, where
                assert "asyncpg" not in answer.text, where
    assert sent > 150 * len(texts)
    assert not [line for line in caplog.messages if "could not be written down" in line]


async def test_pages_are_clamped_and_huge_numbers_are_refused(memory_app: Holdfast) -> None:
    async with asking(memory_app) as web:
        for path in ("jobs", "dead-letters", "escalations", "audit"):
            assert (await web.get(f"/api/v1/{path}?limit=1000000000")).status_code == 200
            for wrong in ("0", "-1", "1.5", "x", "9" * 5_000, "1e3"):
                assert (await web.get(f"/api/v1/{path}?limit={wrong}")).status_code == 422, (path, wrong)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe",
        b'{"name": NaN}',
        b"[" * 100_000,
        b'{"a":1,"a":2}',
        b'"\\ud800"',
        b"1e400",
    ],
)
async def test_bodies_that_are_none(memory_app: Holdfast, body: bytes) -> None:
    async with asking(memory_app) as web:
        for kind in ("application/json", "text/plain", "application/xml", "multipart/form-data", ""):
            answer = await web.post("/api/v1/tokens", content=body, headers={"content-type": kind})
            assert answer.status_code == 422, answer.text
            assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.guards("json-names")
@pytest.mark.parametrize("body", [b'{"name": "a", "name": "b"}', b'{"name": "a", "role": "viewer", "role": "admin"}'])
async def test_a_name_that_comes_twice_means_nothing(memory_app: Holdfast, body: bytes) -> None:
    async with asking(memory_app) as web:
        answer = await web.post("/api/v1/tokens", content=body, headers={"content-type": "application/json"})
        assert (answer.status_code, answer.json()["type"]) == (422, "urn:holdfast:json"), answer.text
        assert len(await memory_app.store.list_tokens("token")) == 1, "the one that asks"


@pytest.mark.guards("json-values")
@pytest.mark.parametrize("reason", [b'"a\\u0000b"', b'"a\\ud800b"'])
async def test_a_text_that_a_database_does_not_keep_is_refused(memory_app: Holdfast, reason: bytes) -> None:
    async with asking(memory_app) as web:
        headers = {"content-type": "application/json"}
        for path in ("/api/v1/queues/high/pause", "/api/v1/queues/high/purge"):
            answer = await web.post(path, content=b'{"reason": %b}' % reason, headers=headers)
            assert answer.status_code == 422, answer.text
        assert await memory_app.store.list_queues() == []


ODD_NAMES = ("", "x" * 10_000, "x" * 65, "emoji 💥", "\u202eabc", 'a"; drop table x', "../x", "50%", "a\nb", "\x00")


async def test_names_that_are_none_make_nothing(memory_app: Holdfast) -> None:
    """Queues, kinds, schedules and tags are named by words; two that begin alike are two (G7)."""

    @memory_app.task(kind="keep", queue_override=True)
    async def keep() -> None: ...

    async with asking(memory_app) as web:
        for odd in ODD_NAMES:
            for path, body in (
                ("tokens", {"name": "x", "queues": [odd]}),
                ("jobs", {"kind": odd}),
                ("jobs", {"kind": "keep", "queue": odd}),
                ("jobs", {"kind": "keep", "tags": {odd: "x"}}),
                ("schedules", {"name": odd, "kind": "keep", "every": "1h"}),
            ):
                answer = await web.post(f"/api/v1/{path}", json=body)
                assert answer.status_code == 422, (path, odd, answer.text)
        long = "x" * 63
        for name in (f"{long}1", f"{long}2"):
            made = await web.post("/api/v1/schedules", json={"name": name, "kind": "keep", "every": "1h"})
            assert (made.status_code, made.json()["name"]) == (201, name)
        assert len((await web.get("/api/v1/schedules")).json()["schedules"]) == 2
        assert (await web.get("/api/v1/jobs")).json()["jobs"] == []
        assert len((await web.get("/api/v1/tokens")).json()["tokens"]) == 1


REFUSED = ("NaN", "Infinity", "1e400", "9" * 5_000, str(2**64), str(-(2**63) - 1), "[" * 100 + "]" * 100, '"\\u0000"')
REFUSED_TOO = ('"\\ud800"', '{"a":1,"a":2}', f'"{"x" * 300_000}"')
TAKEN = (str(2**63 - 1), "1.5e-300", '"\\u2028\\u202e"', "-0.0")
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


def test_arguments_come_back_as_they_were_or_are_refused(make_sqlite_memory: MakeApp) -> None:
    """What is taken is kept as it was sent; all else is 422, and nothing is an error of ours (G2)."""
    app = make_sqlite_memory()

    @app.task(kind="keep")
    async def keep(value: Any) -> None: ...

    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        runner.run(stack.enter_async_context(app))
        web = runner.run(stack.enter_async_context(asking(app, settings=ServerSettings(rate=None))))

        def send(text: str) -> bool:
            body = f'{{"kind": "keep", "args": {{"value": {text}}}}}'.encode(errors="surrogatepass")
            answer = runner.run(web.post("/api/v1/jobs", content=body, headers=JSON))
            assert answer.status_code in (201, 422), (text[:80], answer.text)
            if answer.status_code == 201:
                found = runner.run(web.get(f"/api/v1/jobs/{answer.json()['id']}")).json()
                assert found["args"] == {"value": json.loads(text)}, text[:80]
            return answer.status_code == 201

        @hypothesis.settings(max_examples=size(100, 3_000), deadline=None, database=None)
        @hypothesis.given(JSON_VALUES)
        def try_out(value: Any) -> None:
            send(json.dumps(value))

        assert not any(send(text) for text in (*REFUSED, *REFUSED_TOO))
        assert all(send(text) for text in TAKEN)
        try_out()
        runner.run(stack.aclose())
