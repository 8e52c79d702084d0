"""A secret among the arguments of a job is covered in each text that its handler gives to Holdfast."""

import logging
from collections.abc import Callable

import pytest
from pydantic import SecretStr

from holdfast import Cancel, Context, Fatal, Holdfast, Retry, Skip, Snooze, Throttle
from holdfast.telemetry.redaction import COVER
from tests.support.workers import drained

CARD = "4711-0815-cafe"
OUTCOMES: dict[str, Callable[[str], Exception]] = {
    "cancel": Cancel,
    "snooze": lambda text: Snooze("1h", reason=text),
    "throttle": lambda text: Throttle("1h", reason=text),
    "retry": lambda text: Retry("1h", reason=text),
    "skip": Skip,
    "fatal": Fatal,
}


@pytest.mark.guards("outcome-secrets")
@pytest.mark.parametrize("outcome", OUTCOMES)
async def test_a_reason_covers_what_it_quotes(app: Holdfast, outcome: str) -> None:
    @app.task
    async def pay(card: SecretStr) -> None:
        text = f"no money on {card.get_secret_value()}"
        raise OUTCOMES[outcome](text)

    handle = await pay.enqueue(SecretStr(CARD))
    await drained(app)
    assert handle.number is not None
    (row,) = await app.store.get_jobs([handle.number])  # a program that reads the tables must not find it either
    stored = (row.error, row.error_fingerprint, row.progress, row.attempts, row.extra)
    job = await handle.get()
    shown = (job.error, job.error_fingerprint, job.progress, job.attempts, await app.jobs.events(job.id))
    for texts in (str(stored), str(shown)):
        assert f"no money on {COVER}" in texts
        assert CARD not in texts


@pytest.mark.guards("log-secrets")
async def test_the_log_of_a_worker_covers_what_a_handler_logs(
    memory_app: Holdfast, caplog: pytest.LogCaptureFixture
) -> None:
    @memory_app.task
    async def pay(ctx: Context, card: SecretStr) -> None:
        ctx.log.info("charging %s, %d times", card.get_secret_value(), 2)
        ctx.log.debug("again: %s", card.get_secret_value())
        try:
            int(card.get_secret_value())
        except ValueError:
            ctx.log.exception("refused")

    with caplog.at_level(logging.DEBUG, "holdfast.job"):
        await pay.enqueue(SecretStr(CARD))
        await drained(memory_app)
    assert f"charging {COVER}, 2 times" in caplog.text
    assert f"base 10: '{COVER}'" in caplog.text
    assert CARD not in caplog.text
