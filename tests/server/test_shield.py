"""What surrounds every request: names, origins, sizes, headers, and errors that tell nothing."""

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

from holdfast import Holdfast
from holdfast.server.application import make_application
from holdfast.server.settings import ServerSettings
from holdfast.server.shield import SAFE
from holdfast.stores.access import AuditFilter
from tests.support.web import PAGE, bearing, filled, made_token, routes_of, visit

QUEUES = "/api/v1/queues"
FORM = {"content-type": "application/x-www-form-urlencoded"}
HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


def require_headers(answer: httpx2.Response) -> None:
    """Look at the headers that every answer has."""
    for name, value in HEADERS.items():
        assert answer.headers.get(name) == value, (answer.request.url, name)
    policy = answer.headers["content-security-policy"]
    assert "unsafe" not in policy
    assert {"default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'"} <= set(policy.split("; "))
    assert len(answer.headers["x-request-id"]) == 16
    assert answer.headers["cache-control"]
    assert "access-control-allow-origin" not in answer.headers
    assert "server" not in answer.headers


# ---- names ---------------------------------------------------------------------------------------------------------


HOSTS = [
    ("127.0.0.1", True),
    ("127.0.0.1:8470", True),
    ("localhost:8470", True),
    ("LOCALHOST", True),
    ("[::1]:8470", True),
    ("jobs.example.org", True),
    ("Jobs.Example.Org:443", True),
    ("other.example.org", True),
    ("evil.example", False),
    ("127.0.0.1.evil.example", False),
    ("jobs.example.org.evil.example", False),
    ("evil.example:8470", False),
    ("localhost.", False),
    ("0.0.0.0", False),  # noqa: S104 - a name that browsers take for this machine
    ("192.168.1.7", False),
    ("evil@127.0.0.1", False),
    ("127.0.0.1/evil", False),
    ("127.0.0.1 evil", False),
    ("[::1", False),
    ("", False),
    ("\xe4", False),
]


@pytest.mark.guards("host-check")
async def test_the_server_is_asked_by_its_names_only(memory_app: Holdfast) -> None:
    settings = ServerSettings(url="https://jobs.example.org/x", hosts=("other.example.org",))
    async with visit(memory_app, settings, is_open=True) as web:
        for host, is_ours in HOSTS:
            answer = await web.get("/healthz", headers=[(b"host", host.encode("latin-1"))])
            assert answer.status_code == (200 if is_ours else 421), host
            require_headers(answer)


async def test_a_second_name_is_refused(memory_app: Holdfast) -> None:
    async with visit(memory_app) as web:
        answer = await web.get("/healthz", headers=[("host", "127.0.0.1"), ("host", "evil.example")])
        assert answer.status_code == 421


# ---- origins -------------------------------------------------------------------------------------------------------

EVIL = {"origin": "http://evil.example"}
LINK = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}


ORIGINS: list[tuple[str, dict[str, str], int]] = [
    ("POST", {}, 200),
    ("POST", EVIL, 403),
    ("POST", {"origin": "null"}, 403),
    ("POST", {"origin": "http://127.0.0.1.evil.example"}, 403),
    ("POST", {"origin": "http://127.0.0.1:1"}, 403),
    ("POST", {"origin": "file://127.0.0.1"}, 403),
    ("POST", {"origin": "http://[evil"}, 403),
    ("POST", {"sec-fetch-site": "cross-site"}, 403),
    ("POST", {"sec-fetch-site": "same-site"}, 403),
    ("POST", LINK, 403),
    ("GET", {}, 200),
    ("GET", LINK, 200),
    ("GET", {"sec-fetch-site": "none"}, 200),
    ("GET", {"sec-fetch-site": "same-origin"}, 200),
    ("GET", EVIL, 403),
    ("GET", {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors", "sec-fetch-dest": "image"}, 403),
    ("GET", LINK | {"sec-fetch-dest": "iframe"}, 403),
    ("GET", {"sec-fetch-site": "same-site", "sec-fetch-mode": "cors"}, 403),
]


@pytest.mark.guards("origin-check")
async def test_pages_of_other_sites_may_link_here_and_no_more(memory_app: Holdfast) -> None:
    await memory_app.queues.pause("high")
    async with visit(memory_app, is_open=True) as web:
        for method, headers, status in ORIGINS:
            path = f"{QUEUES}/high/resume" if method == "POST" else QUEUES
            assert (await web.request(method, path, headers=headers)).status_code == status, (method, headers)


async def test_our_own_pages_need_a_form_of_ours_as_well(memory_app: Holdfast) -> None:
    await memory_app.queues.pause("high")
    own = {"origin": "http://127.0.0.1", "sec-fetch-site": "same-origin"}
    async with visit(memory_app, is_open=True) as web:
        for headers in (own, {"origin": "null", "sec-fetch-site": "same-origin"}, {"cookie": "a=b"}):
            answer = await web.post(f"{QUEUES}/high/resume", headers=headers)
            assert (answer.status_code, answer.json()["type"]) == (403, "urn:holdfast:form")


async def test_by_https_a_page_without_it_is_foreign(memory_app: Holdfast) -> None:
    settings = ServerSettings(url="https://jobs.example.org")
    secret = await made_token(memory_app)
    async with visit(memory_app, settings, base="https://jobs.example.org") as web:
        for origin, status in (("https://jobs.example.org", 200), ("http://jobs.example.org", 403)):
            answer = await web.post(f"{QUEUES}/a/pause", headers=bearing(secret) | {"origin": origin})
            assert answer.status_code == status


async def test_every_route_that_changes_something_refuses_strangers(memory_app: Holdfast) -> None:
    unsafe = [route for route in routes_of(memory_app) if route.method not in SAFE]
    assert len(unsafe) > 5
    async with visit(memory_app, is_open=True) as web:
        for route in unsafe:
            path = filled(route.path)
            for headers in (EVIL, {"sec-fetch-site": "cross-site"}):
                answer = await web.request(route.method, path, headers=headers)
                assert (answer.status_code, answer.json()["type"]) == (403, "urn:holdfast:origin"), route
            if route.role is None:
                continue
            plain = {"content-type": "text/plain", "cookie": "a=b"}
            answer = await web.request(route.method, path, headers=plain, content=b'{"reason": "x"}')
            told = answer.status_code, answer.json()["type"]
            assert told in ((403, "urn:holdfast:form"), (422, "urn:holdfast:json")), route
        secret = await made_token(memory_app)  # and from here on nobody is let in without one
        for route in unsafe:
            answer = await web.request(route.method, filled(route.path), headers=EVIL | bearing(secret))
            assert (answer.status_code, answer.json()["type"]) == (403, "urn:holdfast:origin"), route


async def test_looking_changes_nothing(memory_app: Holdfast) -> None:
    """No route answers to GET and to a changing method with the same handler, and HEAD and OPTIONS do nothing."""
    routes = routes_of(memory_app)
    async with visit(memory_app, is_open=True) as web:
        for route in routes:
            if route.method in SAFE:
                continue
            path = filled(route.path)
            gets = any(one.method == "GET" and _fits(one.path, path) for one in routes)
            for method in ("GET", "HEAD", "OPTIONS"):
                if method == "GET" and gets:
                    continue
                assert (await web.request(method, path)).status_code in (404, 405), (method, route)


def _fits(pattern: str, path: str) -> bool:
    parts, given = pattern.split("/"), path.split("/")
    return len(parts) == len(given) and all(
        part.startswith("{") or part == one for part, one in zip(parts, given, strict=True)
    )


async def test_a_stream_is_for_our_own_pages(memory_app: Holdfast) -> None:
    streams = [route for route in routes_of(memory_app) if route.is_stream]
    assert streams
    async with visit(memory_app, is_open=True) as web:
        for route in streams:
            for headers in (
                EVIL,
                {"sec-fetch-site": "cross-site", "sec-fetch-mode": "cors"},
                {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"},
                {"host": "evil.example"},
            ):
                accept = {"accept": "text/event-stream"}
                answer = await web.get(filled(route.path), headers=accept | headers)
                assert answer.status_code == (421 if "host" in headers else 403), (route, headers)
    async with visit(memory_app) as web:
        for route in streams:
            answer = await web.get(filled(route.path), params={"token": await made_token(memory_app)})
            assert answer.status_code == 401, "never by query"


# ---- sizes ---------------------------------------------------------------------------------------------------------


@pytest.mark.guards("body-bytes", "stranger-body")
async def test_a_body_is_bounded_also_when_its_length_is_not_told(memory_app: Holdfast) -> None:
    sent = 0

    async def parts() -> AsyncIterator[bytes]:
        nonlocal sent
        for _ in range(1_000):
            sent += 10_000
            yield b"x" * 10_000

    secret = await made_token(memory_app)
    async with visit(memory_app, ServerSettings(max_body=50_000)) as web:
        for path in (f"{QUEUES}/a/pause", "/queues/a/pause", "/login"):
            for kind in ("application/json", "application/x-www-form-urlencoded"):
                sent = 0
                answer = await web.post(path, headers=bearing(secret) | {"content-type": kind}, content=parts())
                require_headers(answer)
                assert (answer.status_code, answer.json()["type"]) == (413, "urn:holdfast:too-large"), path
                assert sent <= (50_000 + 64_000 if path != "/login" else 0), "of strangers nothing is read"
        answer = await web.post(f"{QUEUES}/a/pause", headers=bearing(secret), content=b"x" * 50_001)
        assert answer.status_code == 413
        for length, status in ((32_001, 413), (32_000, 403)):
            answer = await web.post("/login", headers=FORM, content=b"&" * length)
            assert answer.status_code == status


async def asked(application: Any, scope: dict[str, Any]) -> list[dict[str, Any]]:
    """Ask as a web server does."""
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    await application(scope, receive, send)
    return sent


@pytest.mark.guards("body-length", "body-length-once")
async def test_a_length_that_is_too_large_or_told_twice_is_refused_and_nothing_is_read(memory_app: Holdfast) -> None:
    application = make_application(memory_app.served(ServerSettings(max_body=50_000)))
    scope: dict[str, Any] = {"type": "http", "method": "POST", "path": f"{QUEUES}/a/pause", "query_string": b""}
    scope |= {"scheme": "http", "root_path": "", "server": ("127.0.0.1", 80), "client": ("127.0.0.1", 1)}
    secret = bearing(await made_token(memory_app))["authorization"].encode()
    head = [(b"host", b"127.0.0.1"), (b"authorization", secret), (b"content-type", b"application/json")]
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        raise AssertionError(scope)

    async def send(message: Any) -> None:
        sent.append(message)

    twice = [(b"content-length", b"2"), (b"transfer-encoding", b"chunked")]
    for headers, status in (([(b"content-length", b"50001")], 413), (twice, 400)):
        sent.clear()
        await application(scope | {"headers": [*head, *headers]}, receive, send)
        assert sent[0]["status"] == status


@pytest.mark.guards("body-length", "websocket-refusal")
async def test_a_length_that_is_no_number_and_a_websocket(memory_app: Holdfast) -> None:
    application = make_application(memory_app.served(ServerSettings()))
    scope: dict[str, Any] = {"type": "http", "method": "GET", "path": "/healthz", "query_string": b"", "root_path": ""}
    scope |= {"scheme": "http", "server": ("127.0.0.1", 80), "client": ("127.0.0.1", 1)}
    for length, status in ((b"9" * 5_000, 413), (b"\xb2", 200), (b"-1", 200)):
        headers = [(b"host", b"127.0.0.1"), (b"content-length", length)]
        sent = await asked(application, scope | {"headers": headers})
        assert sent[0]["status"] == status
    sent = await asked(application, {"type": "websocket", "path": "/", "headers": [(b"host", b"127.0.0.1")]})
    assert sent == [{"type": "websocket.close", "code": 1008}]


async def test_what_a_program_around_us_keeps_is_not_believed(memory_app: Holdfast) -> None:
    application = make_application(memory_app.served(ServerSettings()))
    kept = {"principal": object(), "facts": {"a": 1}, "request_id": "theirs"}
    scope: dict[str, Any] = {"type": "http", "method": "POST", "path": "/nowhere", "query_string": b""}
    scope |= {"scheme": "http", "root_path": "", "client": ("127.0.0.1", 1), "state": kept}
    sent = await asked(application, scope | {"headers": [(b"host", b"127.0.0.1")]})
    assert sent[0]["status"] == 404
    assert kept["request_id"] == "theirs"


# ---- every answer --------------------------------------------------------------------------------------------------


@pytest.mark.guards("answer-headers", "no-store")
async def test_every_route_has_the_headers_and_is_closed(memory_app: Holdfast) -> None:
    """Answers of all kinds: nobody, somebody, wrong paths, files, errors."""
    secret = await made_token(memory_app)
    routes = [route for route in routes_of(memory_app) if not route.is_stream]
    async with visit(memory_app) as web:
        for route in routes:
            answer = await web.request(route.method, filled(route.path))
            require_headers(answer)
            if route.role is not None:
                assert answer.status_code == 401, route
            else:
                assert route.path in ("/healthz", "/readyz", "/login"), f"{route} is open to everybody"
            if route.method == "GET":
                answer = await web.get(filled(route.path), headers=bearing(secret) | PAGE)
                require_headers(answer)
                assert answer.status_code < 500, (route, answer.text)
                assert answer.headers["cache-control"] in ("no-store", "private, no-cache"), route
        for method, path in (("GET", "/nowhere"), ("TRACE", "/"), ("DELETE", "/login"), ("GET", "/static/app.css")):
            require_headers(await web.request(method, path))
        page = await web.get("/login", headers=PAGE)
        for file in {part.split('"')[0] for part in page.text.split('="') if part.startswith("/static/")}:
            answer = await web.get(file)
            assert answer.status_code == 200
            require_headers(answer)


async def test_what_happens_inside_stays_there(
    memory_app: Holdfast, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    secret = await made_token(memory_app)

    async def broken(*_: object, **__: object) -> None:
        message = "SELECT secret FROM /var/lib/holdfast"
        raise RuntimeError(message)

    monkeypatch.setattr(type(memory_app.client.queues), "list", broken)
    async with visit(memory_app) as web:
        for path, headers in ((QUEUES, {}), ("/queues", PAGE)):
            answer = await web.get(path, headers=bearing(secret) | headers)
            assert answer.status_code == 500
            require_headers(answer)
            assert not any(word in answer.text for word in ("SELECT", "/var", "Runtime", "Traceback", ".py"))
            assert answer.headers["x-request-id"] in answer.text
            assert f"request {answer.headers['x-request-id']}" in caplog.text
    assert [record.levelno for record in caplog.records] == [logging.ERROR] * 2
    monkeypatch.setattr(type(memory_app.client.queues), "resume", broken)
    async with visit(memory_app) as web:
        assert (await web.post(f"{QUEUES}/high/resume", headers=bearing(secret))).status_code == 500
    (deed,) = await memory_app.store.list_audit(AuditFilter(), limit=9)
    assert (deed.action, deed.status) == ("resume_queue", 500), "what failed was tried all the same"


async def test_a_table_that_is_gone_tells_nothing(make_sqlite_memory: Any) -> None:
    async with make_sqlite_memory() as app:
        secret = await made_token(app)
        async with visit(app) as web:
            assert (await web.get(QUEUES, headers=bearing(secret))).status_code == 200

            def drop(connection: Any, _: int) -> None:
                for table in ("holdfast_queues", "holdfast_audit"):
                    connection.execute(f"DROP TABLE {table}")

            await app.store.connection.write(drop)
            for method, path, headers in (
                ("GET", QUEUES, {}),
                ("GET", "/queues", PAGE),
                ("POST", f"{QUEUES}/a/pause", {}),
            ):
                answer = await web.request(method, path, headers=bearing(secret) | headers)
                assert answer.status_code >= 500, path
                assert not any(word in answer.text.lower() for word in ("holdfast_", "sqlite", "no such table", ".py"))
                assert answer.headers["x-request-id"] in answer.text
            answer = await web.get("/readyz")
            assert (answer.status_code, answer.text) == (503, "away")


async def test_strangers_who_ask_whether_it_is_ready_cost_the_store_nothing(
    memory_app: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = 0
    look = memory_app.store.list_queues

    async def counted() -> Any:
        nonlocal asked
        asked += 1
        return await look()

    monkeypatch.setattr(memory_app.store, "list_queues", counted)
    async with visit(memory_app) as web:
        answers = await asyncio.gather(*(web.get("/readyz") for _ in range(50)))
    assert {answer.text for answer in answers} == {"ready"}
    assert asked <= 3


@pytest.mark.guards("asked-before-body")
async def test_strangers_learn_nothing_from_what_a_body_must_look_like(memory_app: Holdfast) -> None:
    async with visit(memory_app) as web:
        for route in routes_of(memory_app):
            if route.method in SAFE or route.role is None:
                continue
            for body in (b"{", b'{"a": 1, "a": 2}', b'{"nonsense": 1}'):
                headers = {"content-type": "application/json"}
                answer = await web.request(route.method, filled(route.path), headers=headers, content=body)
                assert answer.status_code == 401, (route, body, answer.text)
