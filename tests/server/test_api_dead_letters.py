"""Dead letters over HTTP."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from pydantic import SecretStr

from holdfast import Holdfast
from holdfast.errors import StoreUnavailable
from holdfast.server import exporting
from holdfast.server.application import make_application
from holdfast.server.settings import ServerSettings
from tests.server.asking import asking
from tests.support.web import made
from tests.support.workers import MakeApp, drained


@pytest.fixture
def app(make_sqlite_memory: MakeApp) -> Holdfast:
    made = make_sqlite_memory()

    @made.task(queue="high", max_attempts=1)
    async def send_mail(to: str, password: SecretStr) -> None:
        raise ConnectionError(password.get_secret_value())

    @made.task(queue="low", max_attempts=1)
    async def resize(path: str) -> None:
        raise ValueError(path)

    return made


async def fail(app: Holdfast, mails: int = 2) -> None:
    for number in range(mails):
        await app.enqueue(app.tasks.get("send_mail").call(to=str(number), password=SecretStr("s3cr3t-word")))
    await app.enqueue(app.tasks.get("resize").call(path="a.png"))
    await drained(app)


async def test_groups_pages_and_filters(app: Holdfast) -> None:
    async with app, asking(app, "viewer") as web:
        await fail(app)
        first = (await web.get("/api/v1/dead-letters?limit=1")).json()
        second = (await web.get("/api/v1/dead-letters", params={"limit": 1, "after": first["next"]})).json()
        assert second["next"] is None
        kinds = [page["groups"][0]["kind"] for page in (first, second)]
        assert sorted(kinds) == ["resize", "send_mail"]
        mails = (await web.get("/api/v1/dead-letters?kind=send_mail")).json()["groups"]
        assert [(one["left"]["jobs"], one["seen"], one["queue"], one["error_class"]) for one in mails] == [
            (2, 2, "high", "ConnectionError")
        ]
        one = (await web.get(f"/api/v1/dead-letters/{mails[0]['id']}")).json()
        assert one == mails[0]
        path = f"/api/v1/dead-letters/{mails[0]['id']}/jobs"
        page = (await web.get(path, params={"limit": 1})).json()
        rest = (await web.get(path, params={"after": page["next"]})).json()
        assert [job["kind"] for job in page["jobs"] + rest["jobs"]] == ["send_mail"] * 2
        assert rest["next"] is None
        assert (await web.get("/api/v1/dead-letters/000000000000")).status_code == 404
        assert (await web.get("/api/v1/dead-letters?after=nonsense")).status_code == 422
        assert (await web.get("/api/v1/dead-letters/preview?kind=send_mail")).json() == {"jobs": 2, "capped": False}


async def test_replay_and_purge_are_bulk_runs(app: Holdfast) -> None:
    async with app, asking(app) as web:
        await fail(app)
        (group,) = (await web.get("/api/v1/dead-letters?kind=send_mail")).json()["groups"]
        run = await web.post(f"/api/v1/dead-letters/{group['id']}/replay", json={"rate": "50/s", "reason": "back"})
        assert (run.status_code, run.json()["verb"], run.json()["expected"]["jobs"]) == (201, "retry", 2)
        assert (run.json()["per_second"], run.json()["actor"], run.json()["reason"]) == (50.0, "admin", "back")
        run = await web.post("/api/v1/dead-letters/purge", json={"queue": "low"})
        assert (run.json()["verb"], run.json()["expected"]["jobs"]) == ("delete", 1)
        assert (await web.post("/api/v1/dead-letters/purge", json={})).status_code == 422
        assert len(await app.bulk.list()) == 2


async def test_export_has_a_line_for_each_and_no_secret(app: Holdfast) -> None:
    async with app, asking(app, "viewer") as web:
        await fail(app, mails=3)
        answer = await web.get("/api/v1/dead-letters/export?kind=send_mail")
        assert answer.headers["content-type"] == "application/x-ndjson"
        lines = [json.loads(line) for line in answer.text.splitlines()]
        assert sorted(line["args"]["to"] for line in lines) == ["0", "1", "2"]
        assert "s3cr3t-word" not in answer.text


async def broken_off(app: Holdfast, path: str, secret: str, happen: Callable[[], Awaitable[Any]]) -> list[Any]:
    """Ask for an export job by job, let something happen with each, and give what was sent."""
    scope: dict[str, Any] = {"type": "http", "method": "GET", "path": path, "query_string": b"", "root_path": ""}
    headers = [(b"host", b"127.0.0.1"), (b"authorization", f"Bearer {secret}".encode())]
    asked, sent = [{"type": "http.request", "body": b""}], list[Any]()

    async def receive() -> Any:
        return asked.pop() if asked else await asyncio.Event().wait()

    async def send(message: Any) -> None:
        sent.append(message)
        if message.get("body"):
            await happen()

    scope |= {"scheme": "http", "client": ("127.0.0.1", 1), "headers": headers}
    await make_application(app.served(ServerSettings()))(scope, receive, send)
    return sent


@pytest.mark.guards("export-revoked")
@pytest.mark.parametrize("path", ["/api/v1/dead-letters/export", "/dead-letters/export"])
@pytest.mark.parametrize("why", ["its token is revoked", "the store goes away"])
async def test_an_export_breaks_off(
    app: Holdfast, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, path: str, why: str
) -> None:
    monkeypatch.setattr(exporting, "PART", 1)
    async with app:
        await fail(app)
        secret, token = await made(app, "operator")

        async def away(*_: Any, **__: Any) -> None:
            message = "no answer"
            raise StoreUnavailable(message)

        async def happen() -> None:
            if why == "its token is revoked":
                await app.store.revoke_token(token.id, actor="ann")
            else:
                monkeypatch.setattr(app.client.jobs, "list", away)

        sent = await broken_off(app, path, secret, happen)
    assert [message.get("body", b"").count(b"\n") for message in sent] == [0, 1]
    assert sent[-1]["more_body"], "what has come does not look like all there is"
    (told,) = [one for one in caplog.records if "request" in one.message]
    assert told.exc_info is None, "whoever reads the log is told the reason, and no traceback"
    reason = f"{token.name} may read no more" if why == "its token is revoked" else "no answer"
    assert told.message.endswith(f"(GET {path!r}) was broken off: {reason}")


async def test_one_queue_is_all_that_is_touched(app: Holdfast) -> None:
    async with app:
        await fail(app)
        groups = {group.kind: group.id for group in (await app.dead_letters.list()).groups}
        async with asking(app, "admin", ("low",)) as web:
            seen = (await web.get("/api/v1/dead-letters")).json()["groups"]
            assert [one["kind"] for one in seen] == ["resize"]
            for method, path in (("GET", ""), ("GET", "/jobs"), ("POST", "/replay"), ("POST", "/purge")):
                answer = await web.request(method, f"/api/v1/dead-letters/{groups['send_mail']}{path}")
                assert answer.status_code == 404
            for path in ("export?", "preview?"):
                assert "send_mail" not in (await web.get(f"/api/v1/dead-letters/{path}")).text
            assert (await web.get("/api/v1/dead-letters/preview")).json()["jobs"] == 1
            assert (await web.post("/api/v1/dead-letters/purge", json={"kind": "send_mail"})).json()["expected"][
                "jobs"
            ] == 0
            assert (await web.post("/api/v1/dead-letters/purge", json={"queue": "high"})).status_code == 404
