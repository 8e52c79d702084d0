"""The pages about the HTTP API: their commands and their Python do what they say, against one real server."""

import asyncio
import contextlib
import io
import re
import shlex
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, Self

import httpx2
import pytest
import uvicorn

from holdfast import Budget, Email, Escalation, Holdfast, Limit, Queue
from holdfast.server.openapi import STREAMS, operations
from holdfast.stores.alarms import Alarm
from holdfast.stores.cluster import LockRequest
from holdfast.stores.values import WorkerProcess
from tests.server.conforming import require_conforming
from tests.server.reaching import document
from tests.support import raw
from tests.support.doc_pages import DOCS, blocks
from tests.support.web import made_token
from tests.support.workers import drained

PAGES = [DOCS / "reference" / name for name in ("http.md", "http-jobs.md", "http-streams.md")]
SHOWN = "http://127.0.0.1:8470"
SAMPLE_ID, GROUP = "htcx-2s16-z48b-09", "3f9a0c71be42"
PRINTED = re.compile(r"#> (.*)$", re.MULTILINE)
MADE = {"/api/v1/jobs": "job", "/api/v1/bulk": "run", "/api/v1/tokens": "token"}
"""What a POST there makes, which later lines name."""


class Named(NamedTuple):
    """What the pages name of a store."""

    group: str
    worker: str
    escalation: str
    job: str
    lock: int | None


class Server:
    """A server in a thread of its own, with something of everything in its store."""

    def __init__(self, folder: Path) -> None:
        self.app = make(folder)
        self.secret = ""
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._serve(),))

    async def _serve(self) -> None:
        server = uvicorn.Server(uvicorn.Config(self.app.asgi(), lifespan="off", log_level="warning"))
        async with self.app:
            self.secret = await made_token(self.app, name="docs")
            serving = asyncio.create_task(server.serve([self._listening]))
            self._ready.set()
            await self._stop.wait()
            server.should_exit = True
            await serving

    def furnish(self) -> Named:
        """Put what the pages name into the store."""
        return asyncio.run_coroutine_threadsafe(furnished(self.app), self._loop).result(30)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(30)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(20)
        assert not self._thread.is_alive()
        self._loop.close()


def make(folder: Path) -> Holdfast:
    """Make an app with everything that the pages name; the mail server of its channel is away."""
    app = Holdfast(
        f"sqlite:///{folder}/jobs.db",
        synchronous="normal",
        queues=[Queue("high", workers=2)],
        limits=[Limit(name="screenshots", queue="high", concurrency=4, key="args.to")],
        budgets=[Budget(name="ai", amount="$500", queue="high")],
        channels={"mail": Email(to="ops@example.org", sender="jobs@example.org", host="127.0.0.1", port=1)},
        escalations=[Escalation(name="ops", channels=["mail"])],
    )

    @app.task
    async def send_email(to: str, subject: str = "hello") -> None: ...

    @app.task(queue="high", max_attempts=1)
    async def send_report(to: str) -> None:
        raise ConnectionError(to)

    return app


async def furnished(app: Holdfast) -> Named:
    job = await app.tasks.get("send_report").enqueue(to="ops")
    await drained(app)
    store = app.store
    worker = await store.register_worker(WorkerProcess("an-instance", "worker-1", 4711), 600_000)
    lock = await store.take_lock(LockRequest("edition:42", "a", "a", "worker-1/4711"), lasts_ms=600_000, waits_ms=1_000)
    await raw.raise_alarm(store, Alarm(source="failed", title="the disk is full", policy="ops", queue="high"))
    await store.fold_alarms({"ops": ("failed",)}, 10)
    await store.disable_endpoint("https://shop.example.org/hooks/jobs", "it answered 410 Gone")
    (escalation, *_) = (await app.escalations.list(is_open=True)).escalations
    (group,) = (await app.dead_letters.list()).groups
    return Named(group.id, str(worker), escalation.id, job.id, lock.token)


def lines() -> Iterator[str]:
    """List the commands of all pages."""
    for page in PAGES:
        written = [line for block in blocks(page, "shell") for line in block.code.splitlines()]
        yield from (line for line in written if line.startswith("ask "))


# ---- they work -----------------------------------------------------------------------------------------------------


def test_python_and_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python prints what it says, and asks for something of each resource; then every command is answered well.

    The commands ask for every operation, see below, and each answer is what the OpenAPI document says.
    """
    with Server(tmp_path) as server:
        monkeypatch.setenv("HOLDFAST_TOKEN", server.secret)
        monkeypatch.setenv("HOLDFAST_SERVER", server.address)
        asked = run_python(server)
        run_commands(server)
    for tag in {tag for _, _, told in operations(document()) for tag in told["tags"]} - {STREAMS}:
        paths = [pattern_of(path) for path, _, told in operations(document()) if tag in told["tags"]]
        assert any(path.fullmatch(one) for path in paths for one in asked), f"no Python for {tag}"


def run_python(server: Server) -> list[str]:
    """Run all blocks; the answer is which paths they asked for."""
    server.furnish()
    asked: list[str] = []
    names: dict[str, Any] = {}
    for page in PAGES:
        names = {}
        for block in blocks(page, "python"):
            printed = io.StringIO()
            code = compile("\n" * block.line + block.code.replace(SHOWN, server.address), page, "exec")
            with contextlib.redirect_stdout(printed):
                exec(code, names)  # noqa: S102 - this project's own pages
            assert printed.getvalue().splitlines() == PRINTED.findall(block.code), f"{page.name}, line {block.line}"
            if "web" in names and not names["web"].event_hooks["request"]:
                names["web"].event_hooks["request"].append(lambda request: asked.append(request.url.path))
        if "web" in names:
            names["web"].close()
    following = names["follow"]("stream")
    assert next(following)[0] == "snapshot"
    following.close()
    return asked


def run_commands(server: Server) -> None:
    named = server.furnish()
    made = {"job": named.job, "run": "17", "token": "17"}
    with httpx2.Client(headers={"authorization": f"Bearer {server.secret}"}) as web:
        for written in lines():
            line = written.replace(SHOWN, server.address).replace(GROUP, named.group).replace(SAMPLE_ID, made["job"])
            line = line.replace("workers/17", f"workers/{named.worker}").replace("tokens/17", f"tokens/{made['token']}")
            line = line.replace("escalations/17", f"escalations/{named.escalation}")
            line = line.replace('"token": 118', f'"token": {named.lock}')
            line = line.replace("bulk/17", f"bulk/{made['run']}")
            request = request_of(web, shlex.split(line)[1:])
            answer = web.send(request, stream=True)
            if not request.url.path.endswith("/stream"):
                answer.read()
                if request.url.path.startswith(("/api/", "/queue/")):  # the document describes no pages
                    require_conforming(answer)
            assert answer.is_success, f"{line}\n{answer.read().decode()}"
            answer.close()
            if request.method == "POST" and (what := MADE.get(request.url.path)) is not None:
                made[what] = answer.json()["id"]


# ---- they are complete ---------------------------------------------------------------------------------------------


def test_every_operation_has_a_command() -> None:
    with httpx2.Client() as web:
        shown = [request_of(web, shlex.split(line)[1:]) for line in lines()]
    for path, method, _ in operations(document()):
        pattern = pattern_of(path)
        assert any(request.method == method.upper() and pattern.fullmatch(request.url.path) for request in shown), (
            f"{method} {path}"
        )


def pattern_of(path: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"\{\w+\}", "[^/]+", path))


def request_of(web: httpx2.Client, words: list[str]) -> httpx2.Request:
    """Read the words of curl that the pages use."""
    method, url, body = None, "", None
    params: dict[str, str] = {}
    headers: dict[str, str] = {}
    rest = iter(words)
    for word in rest:
        if word == "-X":
            method = next(rest)
        elif word == "-H":
            name, _, value = next(rest).partition(": ")
            headers[name] = value
        elif word == "--json":
            body, method = next(rest), method or "POST"
            headers["content-type"] = "application/json"
        elif word in ("-d", "--data-urlencode"):
            name, _, value = next(rest).partition("=")
            params[name] = value
        elif word not in ("-G", "-N"):
            url = word
    return web.build_request(method or "GET", url, params=params or None, headers=headers, content=body)
