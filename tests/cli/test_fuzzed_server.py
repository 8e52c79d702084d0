"""Answers of a server with changed fields: a command prints them or ends with one line, and costs little."""

import copy
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import hypothesis
import msgspec
import pytest
from hypothesis import strategies as st

from holdfast.server.openapi import example_of
from tests.cli.test_odd_server import JSON, ask
from tests.server.reaching import document
from tests.server.test_cost_of_checks import cheap
from tests.support.sizes import CHAOS, size

ODD: st.SearchStrategy[Any] = st.one_of(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64) | st.floats(allow_nan=False) | st.text(max_size=20),
    st.sampled_from(["", "9" * 400, "2026-13-45T99:99:99Z", "0001-01-01T00:00:00Z", "\x1b[31m", 1e308, -1, 0, [], {}]),
    st.integers(1, 200).map(lambda levels: msgspec.json.decode(b"[" * levels + b"]" * levels)),
    st.integers(1, 5_000).map(lambda count: "x" * count),
)
COMMANDS = {
    "/api/v1/jobs": ("jobs", "list"),
    "/api/v1/jobs/{id}": ("jobs", "show", "htcx-2s16-z48b-09"),
    "/api/v1/queues": ("queues", "list"),
    "/api/v1/workers": ("workers", "list"),
    "/api/v1/schedules": ("schedules", "list"),
    "/api/v1/limits": ("limits", "list"),
    "/api/v1/budgets": ("budgets", "list"),
    "/api/v1/dead-letters": ("dead-letters", "list"),
    "/api/v1/escalations": ("escalations", "list"),
    "/api/v1/kinds": ("kinds", "list"),
    "/api/v1/locks": ("locks", "list"),
}


class Server:
    """Answers each request with the body that was set last."""

    def __init__(self) -> None:
        self.body = b"{}"

        class Handler(BaseHTTPRequestHandler):
            def do_GET(handler) -> None:  # noqa: N805 - the outer object is needed too
                handler.send_response(200)
                handler.send_header("content-type", JSON)
                handler.send_header("content-length", str(len(self.body)))
                handler.end_headers()
                handler.wfile.write(self.body)

            def log_message(handler, *_: Any) -> None:  # noqa: N805 - as above
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.http.server_address[1]}"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.http.shutdown()
    made.http.server_close()


def example(path: str) -> Any:
    """Take the answer that the OpenAPI document shows."""
    content = document()["paths"][path]["get"]["responses"]["200"]["content"][JSON]
    return example_of(content["schema"], document()["components"]["schemas"])


def change(draw: Callable[[Any], Any], value: Any) -> Any:
    """Change something at some depth of a value."""
    if value and isinstance(value, dict) and draw(st.integers(0, 9)):
        name = draw(st.sampled_from(sorted(value)))
        if not draw(st.integers(0, 9)):
            del value[name]
            return value
        return value | {name: change(draw, value[name])}
    if value and isinstance(value, list) and draw(st.integers(0, 9)):
        return [change(draw, value[0]), *value[1:]]
    return draw(ODD)


@pytest.mark.parametrize("path", COMMANDS)
def test_a_changed_answer_is_printed_or_is_one_line(server: Server, path: str) -> None:
    @hypothesis.settings(
        max_examples=size(25, 1_000),
        deadline=None,
        derandomize=not CHAOS,
        database=None,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(st.data())
    def is_borne(data: st.DataObject) -> None:
        value = copy.deepcopy(example(path))
        for _ in range(data.draw(st.integers(0, 3))):
            value = change(data.draw, value)
        server.body = msgspec.json.encode(value)
        with cheap(server.body):
            result = ask("--server", server.address, *COMMANDS[path])
        assert result.exit_code in (0, 1, 2), result.output
        assert result.exit_code == 0 or (result.stderr.startswith("Error: ") and result.stderr.count("\n") == 1)

    is_borne()
