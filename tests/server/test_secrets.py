"""Secrets that let people in are shown once, kept as a digest, and compared in constant time."""

import ast
import asyncio
import logging
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2
import pytest
from pydantic import SecretStr

import holdfast.server
from holdfast import Context, Holdfast, PagerDuty, WebhookSettings, backoff
from holdfast.client import secrets
from holdfast.server.settings import ServerSettings
from holdfast.stores.values import JobFilter
from holdfast.telemetry import redaction
from holdfast.telemetry.logs import JsonLines, TextLines
from tests.cli.conftest import Shop, alone, sqlite_shop
from tests.server.following import Followed
from tests.server.test_login import log_in
from tests.support.web import PAGE, bearing, filled, made_token, routes_of, visit
from tests.support.workers import MakeApp

__all__ = ["alone", "sqlite_shop"]

SECRET = {"secret", "token", "digest", "session", "form_token", "given"}
FOLDER = Path(holdfast.server.__file__).parent


def test_a_secret_cannot_be_guessed() -> None:
    made = {secrets.new_secret() for _ in range(1_000)}
    assert len(made) == 1_000
    assert all(secret.startswith("hf_") and len(secret) == 46 for secret in made)
    assert secrets.digest_of("hf_a") == secrets.digest_of("hf_a") != secrets.digest_of("hf_b")


def compared(tree: ast.AST) -> list[str]:
    """Find names of secrets that are compared letter by letter."""
    found: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and any(isinstance(op, ast.Eq | ast.NotEq) for op in node.ops):
            names = [ast.unparse(side) for side in (node.left, *node.comparators)]
            found += [name for name in names if name.rpartition(".")[2] in SECRET]
    return found


def test_no_secret_is_compared_letter_by_letter() -> None:
    assert compared(ast.parse("secret == found.digest")) == ["secret", "found.digest"]
    files = [file for file in FOLDER.rglob("*.py") if compared(ast.parse(file.read_text(encoding="utf-8")))]
    assert files == []
    assert "hmac.compare_digest" in (FOLDER / "cookies.py").read_text(encoding="utf-8")


def test_a_token_is_shown_once_and_nowhere_else(sqlite_shop: Shop) -> None:
    sqlite_shop.ok("migrate", "up")
    made = sqlite_shop("tokens", "create", "--name", "ops", "--role", "admin")
    secret = made.stdout.strip()
    assert secret.startswith("hf_")
    assert secret not in made.stderr
    for args in (["tokens", "list"], ["tokens", "list", "--json"], ["tokens", "revoke", "1", "--json"]):
        assert secret not in sqlite_shop.ok(*args)
    dump = b"".join(file.read_bytes() for file in sqlite_shop.folder.glob("jobs.db*"))
    assert secrets.digest_of(secret).encode() in dump
    assert secret.encode() not in dump
    assert secret.removeprefix("hf_").encode() not in dump


async def test_no_line_shows_a_secret(memory_app: Holdfast, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    token, link = await made_token(memory_app), await made_token(memory_app, kind="link")
    settings = ServerSettings()
    async with visit(memory_app, settings) as web:
        await log_in(web, link=link)
        await web.get("/nowhere", headers=bearing(token))
        await web.get("/api/v1/queues", headers=bearing("hf_wrong_but_secret"))
        wrong = await web.post("/api/v1/queues/a b/pause", headers=bearing(token), json={"nonsense": 1})
        assert wrong.status_code == 422
        hidden = (token, link, web.cookies["holdfast_session"], "hf_wrong_but_secret")
    assert not any(secret in caplog.text for secret in hidden)
    assert not any(secret in repr(settings) for secret in hidden)


CARD = "4711-0815-cafe"


def add_tasks(app: Holdfast) -> tuple[Any, Any]:
    """Add tasks that quote a secret wherever they can: one fails, one gives it as its result."""

    @app.task(queue="high", max_attempts=2, retry=backoff("fixed", "1ms", jitter=0))
    async def pay(ctx: Context, card: SecretStr, note: str = "") -> None:
        plain = card.get_secret_value()
        ctx.log.warning("paying with %s and %s", card, plain)
        async with ctx.phase("charge"):
            await ctx.progress(50, f"half way with {plain}", rich=card, plain=plain, note=note)
        message = f"cannot charge {plain}"
        raise ValueError(message)

    @app.task(queue="high")
    async def give(ctx: Context, card: SecretStr) -> dict[str, str]:
        async with ctx.phase("look"):
            await ctx.progress(10, card=card)
        return {"card": card.get_secret_value(), "said": f"it was {card.get_secret_value()}"}

    return pay, give


@pytest.mark.guards("job-secrets", "settings-secrets")
async def test_no_page_shows_a_secret(make_sqlite_memory: MakeApp, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of jobs, of the app and of logins, after the first attempt and after the last: every route, the stream."""
    hook = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    app = make_sqlite_memory(
        webhooks=WebhookSettings(secret=hook), channels={"pager": PagerDuty(key="pd-routing-key-4711")}
    )
    pay, give = add_tasks(app)
    monkeypatch.setattr(redaction, "_pattern", None)  # as in a server elsewhere, which has seen none of them
    monkeypatch.setattr(redaction, "keep", lambda *_: None)
    hidden: tuple[str, ...] = (CARD, hook, hook.removeprefix("whsec_"), "pd-routing-key-4711")
    async with app, visit(app) as web:
        token, link = await made_token(app), await made_token(app, kind="link")
        followed = await Followed(app.asgi(), "/api/v1/stream", bearing(token)).begun()
        given = await give.enqueue(SecretStr(CARD))
        await app.run_worker(until="one")
        assert await given.result(timeout=10) == {"card": CARD, "said": f"it was {CARD}"}, "programs get it"
        job = await pay.enqueue(SecretStr(CARD), note="hello")
        await log_in(web, link=link)
        hidden = (*hidden, token, link, web.cookies["holdfast_session"])
        looks = [route.path for route in routes_of(app) if route.method == "GET" and not route.is_stream]
        for until, headers in (("one", PAGE), ("empty", bearing(token) | PAGE)):
            await app.run_worker(until=until)
            assert (await job.get()).attempt >= 1
            dead = (await app.dead_letters.list()).groups
            places = {"name": "high", "queue": "high", "kind": "pay", "group": dead[0].id if dead else "x"}
            for path in looks:
                for one in (job, given) if "{id}" in path or "{job}" in path else (job,):
                    answer = await web.get(filled(path, **places, id=one.id, job=one.id), headers=headers)
                    assert answer.status_code < 500, (path, answer.text)
                    assert not any(secret in answer.text for secret in hidden), path
            told = Followed(app.asgi(), f"/api/v1/jobs/{job.id}/stream", bearing(token))
            assert "half way with ****" in (await told.taken("snapshot"))["data"]["jobs"][0]["progress"]["message"]
            await told.leave()
            assert not any(secret.encode() in told.body for secret in hidden)
        await followed.taken("job:failed")
        await followed.leave()
        assert b"half way with ****" in followed.body
        assert not any(secret.encode() in followed.body for secret in hidden)
        assert (await job.get()).state == "failed"


@pytest.mark.guards("known-secrets")
async def test_what_an_error_or_an_alarm_quotes_of_the_app_is_covered(
    town: Holdfast, web: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By pages and by the API alike: whoever looks by `.json` sees no more than by the page."""
    hidden = ("their secret business", "stock is missing")
    monkeypatch.setattr(redaction, "_known", set())
    monkeypatch.setattr(redaction, "_pattern", None)
    redaction.keep(hidden)
    (group,) = (await town.dead_letters.list(kind="foreign")).groups
    (job,) = (await town.jobs.list(JobFilter(kinds=("foreign",)))).jobs
    places = {"name": "theirs", "queue": "theirs", "kind": "foreign", "group": group.id}
    places |= {"id": job.id, "job": job.id}
    looks = [route.path for route in routes_of(town) if route.method == "GET" and not route.is_stream]
    for path in looks:
        for number in map(str, range(1, 4)) if "{number}" in path else ("1",):
            answer = await web.get(filled(path, **places, number=number))
            assert not any(secret in answer.text for secret in hidden), path
    assert redaction.COVER in (await web.get("/api/v1/dead-letters")).text
    assert redaction.COVER in (await web.get("/escalations.json")).text


def test_no_command_shows_a_secret(sqlite_shop: Shop) -> None:
    """The command line, and what it exports, in a process that never ran the job."""
    sqlite_shop.ok("migrate", "up")
    pay, give = add_tasks(sqlite_shop.app)

    async def run() -> tuple[str, str]:
        async with sqlite_shop.app as app:
            failed, given = await pay.enqueue(SecretStr(CARD)), await give.enqueue(SecretStr(CARD))
            await app.run_worker(until="empty")
            return failed.id, given.id

    failed, given = asyncio.run(run())
    asked = [["jobs", verb, job] for verb in ("show", "why", "wait") for job in (failed, given)]
    asked += [["jobs", "list"], ["dead-letters", "list"], ["dead-letters", "show", failed], ["failures"]]
    asked += [[*args, "--json"] for args in asked]
    asked += [["jobs", "logs", failed], ["jobs", "export"], ["dead-letters", "export", "-"], ["jobs", "watch", failed]]
    for args in asked:
        result = sqlite_shop(*args)
        assert result.exit_code in (0, 5), (args, result.output)
        assert CARD not in result.output, args
    assert "paying with ****" in sqlite_shop.ok("jobs", "logs", failed)
    for args in (["jobs", "export"], ["dead-letters", "export", "-"]):
        assert failed in sqlite_shop.ok(*args), "it is in what is looked through"


@pytest.mark.guards("log-lines")
async def test_one_event_is_one_line(memory_app: Holdfast, caplog: pytest.LogCaptureFixture) -> None:
    """A path or an error that would begin another line, or act on a terminal, does not."""
    hostile = "a\r\nERROR forged \x1b[2J \x85 \u2028 b"

    def broken(request: object) -> None:
        raise RuntimeError(hostile)

    async with visit(memory_app, ServerSettings(authorize=broken)) as web:
        assert (await web.get(f"/api/v1/queues/{quote(hostile)}")).status_code == 403
    (record,) = caplog.records
    for form in (TextLines("%(message)s"), JsonLines()):
        written = form.format(record)
        assert written.splitlines() == [written]
        assert written.isprintable()
