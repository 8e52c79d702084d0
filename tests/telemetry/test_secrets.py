"""Secrets that an app and its jobs were given turn up nowhere: in no log, span, metric, page, list or export."""

import asyncio
import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from pydantic import BaseModel, SecretStr

from holdfast import ArgumentError, Holdfast
from holdfast.cli.main import standalone
from holdfast.payload import covered_json
from holdfast.services.secrecy import _secrets_of
from holdfast.testing import in_memory

TOKEN, DEEP = "tok-5f2c9d1a", "deep-77aa01ff"
HOOK = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
PAGER, MAIL, REDIS = "pd-routing-key-4711", "mailpass-99", "redpass-31"
SLACK = "https://hooks.example.org/T0/B0/slackpath"
DSN = "postgresql://me:dsnp%40ss-17@db.example.org/jobs"
EVERYTHING = (TOKEN, DEEP, HOOK, HOOK.removeprefix("whsec_"), PAGER, SLACK, MAIL)

SOURCE = """
import hashlib
import logging
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor
from pydantic import BaseModel, SecretStr
from holdfast import Context, Holdfast, Queue, Retry, WebhookSettings
from holdfast.policies.channels import Email, PagerDuty, SignedWebhook, Slack

trace.set_tracer_provider(TracerProvider())
trace.get_tracer_provider().add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter()))

app = Holdfast(
    "sqlite:///jobs.db", synchronous="normal", queues=[Queue("bulk", webhook_secret={hook!r})],
    webhooks=WebhookSettings(secret={hook!r}),
    channels={{
        "pager": PagerDuty(key={pager!r}), "chat": Slack(url={slack!r}),
        "mail": Email(to="a@example.org", sender="b@example.org", password={mail!r}),
        "hook": SignedWebhook(url="https://example.org/h", secret={hook!r}),
    }},
)

class Account(BaseModel):
    name: str
    key: SecretStr

@app.task(max_attempts=2)
async def pay(ctx: Context, token: SecretStr, account: Account) -> None:
    said = hashlib.sha256((token.get_secret_value() + account.key.get_secret_value()).encode()).hexdigest()
    ctx.log.info(f"attempt {{ctx.job.attempt}} got {{said[:12]}}")
    logging.getLogger("shop").warning("token %s of %r", token, account)
    logging.getLogger("shop").warning("posting to %s with %s", {slack!r}, {pager!r})
    try:
        raise ValueError(f"refused {{token.get_secret_value()}}")
    except ValueError as error:
        raise Retry("0s", reason=f"{{account.key.get_secret_value()}} is wrong") from error
"""


def program(folder: Path) -> dict[str, str]:
    (folder / "vault.py").write_text(SOURCE.format(hook=HOOK, pager=PAGER, slack=SLACK, mail=MAIL))
    return {**os.environ, "HOLDFAST_APP": "vault:app", "PYTHONPATH": str(folder)}


def run(folder: Path, environment: dict[str, str], *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "holdfast", *arguments],
        check=False,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def assert_no_secret(text: str) -> None:
    for secret in EVERYTHING:
        assert secret not in text, secret


def test_a_failing_job_tells_its_secret_nowhere_on_the_first_run_and_on_the_retry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = program(tmp_path)
    monkeypatch.chdir(tmp_path)
    payload = f'{{"token": "{TOKEN}", "account": {{"name": "a", "key": "{DEEP}"}}}}'
    worked = "--drain", "--metrics", "127.0.0.1:0", "--log-level", "debug", "--log-format", "json"
    printed = run(tmp_path, environment, "enqueue", "pay", "--args", payload, "--json")
    printed += run(tmp_path, environment, "worker", *worked)
    assert printed.count('"job.execute"') == 2, "it was run and run again"
    assert printed.count("job.exhausted") == 1
    monkeypatch.setenv("HOLDFAST_APP", "vault:app")
    monkeypatch.syspath_prepend(str(tmp_path))
    app = Holdfast("sqlite:///jobs.db")

    async def read() -> str:
        async with app:
            (job,) = (await app.jobs.list()).jobs
            return job.id

    job_id = asyncio.run(read())
    shown = ""
    for arguments in (
        ("jobs", "list", "--json"),
        ("jobs", "show", job_id),
        ("jobs", "show", job_id, "--json"),
        ("doctor",),
        ("queues", "list"),
        ("webhooks", "list"),
        ("stats",),
    ):
        done = CliRunner().invoke(standalone, ["--store", "sqlite:///jobs.db", *arguments])
        assert done.exit_code == 0, done.output
        shown += done.output
    got = hashlib.sha256((TOKEN + DEEP).encode()).hexdigest()[:12]
    assert f"attempt 1 got {got}" in shown, "the handler itself has it"
    assert f"attempt 2 got {got}" in shown, "on the retry as well"
    assert "**********" in shown
    assert_no_secret(printed + shown)


class Account(BaseModel):
    name: str
    keys: list[SecretStr]


async def test_a_secret_argument_is_kept_marked_and_comes_back_whole() -> None:
    app = Holdfast("sqlite://")
    got: list[str] = []

    @app.task
    async def pay(token: SecretStr, account: Account, more: dict[str, SecretStr]) -> SecretStr:
        got.extend([token.get_secret_value(), account.keys[0].get_secret_value(), more["a"].get_secret_value()])
        return token

    async with in_memory(app) as jobs:
        account = Account(name="a", keys=[SecretStr(DEEP)])
        handle = await pay.enqueue(SecretStr(TOKEN), account, {"a": SecretStr("mapped-secret")})
        found = await handle.get()
        assert found.args["token"] == {"$secret": TOKEN}
        assert found.args["account"] == {"name": "a", "keys": [{"$secret": DEEP}]}
        assert_no_secret(repr(found))
        await jobs.drain()
        assert got == [TOKEN, DEEP, "mapped-secret"]
        assert (await handle.result()).get_secret_value() == TOKEN
        with pytest.raises(AssertionError) as refused:
            await jobs.assert_enqueued("other")
        assert_no_secret(str(refused.value))
        with pytest.raises(ArgumentError) as wrong:
            await pay.enqueue(SecretStr(TOKEN), account, {"a": 7})  # type: ignore[dict-item]  # the mistake itself
        assert_no_secret(str(wrong.value))


def test_every_secret_of_an_app_is_known_to_what_covers_them() -> None:
    from holdfast import Queue, WebhookSettings
    from holdfast.policies.channels import Email, PagerDuty, SignedWebhook, Slack

    app = Holdfast(
        DSN,
        listen_dsn="postgresql://me:listen-17@db.example.org/jobs",
        delivery=f"redis://:{REDIS}@redis.example.org/0",
        webhooks=WebhookSettings(secret=[HOOK], endpoints={"https://a.org": "whsec_" + "QUJD" * 8}),
        queues=[Queue("bulk", webhook_secret="whsec_" + "WFla" * 8)],
        channels={
            "pager": PagerDuty(key=PAGER),
            "chat": Slack(url=SLACK),
            "mail": Email(to="a@b", sender="b@c", password=MAIL),
            "hook": SignedWebhook(url="https://example.org/h", secret="signed-secret-1"),
        },
    )
    expected = {"dsnp%40ss-17", "dsnp@ss-17", "listen-17", REDIS, HOOK, HOOK[6:], "QUJD" * 8, "WFla" * 8}
    expected |= {PAGER, SLACK, MAIL, "signed-secret-1"}
    assert expected <= set(_secrets_of(app.config))
    for secret in expected:
        assert secret not in repr(app.config)


def test_json_without_secrets_is_shown_as_it_is() -> None:
    assert covered_json('{"a": 1.0}') == '{"a": 1.0}'
    assert covered_json('{"a":[{"$secret":"x"}],"b":{"$secret":7}}') == '{"a":["**********"],"b":{"$secret":7}}'
