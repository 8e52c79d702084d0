"""Lines of the log: one per event whatever it says, with the job they are about, and without secrets."""

import io
import json
import logging
import time
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Self

import pytest

from holdfast import Holdfast, Retry
from holdfast.telemetry import logs, redaction
from holdfast.telemetry.logs import JsonLines, TextLines

HOSTILE = "no\r\n2026-01-01 00:00:00 INFO holdfast: forged\x1b[31m\x1b]0;owned\x07\x9b2J\u2028\x85\x00 end \ud800"


@pytest.fixture(autouse=True)
def forgetful(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redaction, "_known", set())
    monkeypatch.setattr(redaction, "_pattern", None)


class Written:
    """A logger that writes into memory."""

    def __init__(self, formatter: logging.Formatter, logger: logging.Logger | None = None) -> None:
        self._out = io.StringIO()
        self._handler = logging.StreamHandler(self._out)
        self._handler.setFormatter(formatter)
        self.logger = logging.getLogger("holdfast") if logger is None else logger

    def __enter__(self) -> Self:
        self.logger.addHandler(self._handler)
        return self

    def __exit__(self, *_: object) -> None:
        self.logger.removeHandler(self._handler)

    @property
    def lines(self) -> list[str]:
        return self._out.getvalue().removesuffix("\n").split("\n")

    @property
    def objects(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lines]


@pytest.fixture(params=["text", "json"])
def written(request: pytest.FixtureRequest) -> Iterator[Written]:
    formatter = JsonLines() if request.param == "json" else TextLines("%(levelname)s %(message)s")
    with Written(formatter, alone()) as found:
        yield found


def alone() -> logging.Logger:
    """Make a logger that pytest does not listen to: no report of its can carry the hostile text."""
    return logging.Logger("holdfast")  # noqa: LOG001 - one that has no parent


def fail(message: str = HOSTILE) -> None:
    raise ValueError(message)


def test_no_text_begins_another_line_or_acts_on_a_terminal(written: Written) -> None:
    written.logger.warning("it said %s", HOSTILE)
    try:
        fail()
    except ValueError:
        written.logger.exception("it raised")
    assert len(written.lines) == 2
    for line in written.lines:
        assert line.isprintable(), line
        assert "forged" in line


def test_json_lines_say_when_how_bad_what_and_where() -> None:
    with Written(JsonLines(), alone()) as written:
        written.logger.warning("%d jobs", 3)
        try:
            fail()
        except ValueError:
            written.logger.exception("it raised")
    first, second = written.objects[:2]
    assert datetime.fromisoformat(first.pop("time")).tzinfo is not None
    assert first == {"level": "warning", "logger": "holdfast", "event": "log", "message": "3 jobs"}
    assert second["exception"].startswith("Traceback (most recent call last):\n")
    assert "ValueError: no\r\n" in second["exception"]


async def test_a_failed_attempt_is_one_event_with_its_job() -> None:
    app = Holdfast("sqlite://")

    @app.task(queue="bulk", max_attempts=2)
    async def work() -> None:
        raise Retry(0, reason=HOSTILE.removesuffix("\ud800"))

    with Written(JsonLines()) as written:
        async with app:
            job = await work.enqueue()
            await app.run_worker(until="empty")
    retried, failed = (line for line in written.objects if line["event"].startswith("job."))
    assert (retried["event"], retried["level"], retried["attempt"]) == ("job.retry_scheduled", "warning", 1)
    assert (failed["event"], failed["level"], failed["attempt"]) == ("job.failed", "error", 2)
    for line in (retried, failed):
        assert (line["job"], line["kind"], line["queue"]) == (job.id, "work", "bulk")
        assert line["error_class"] == "holdfast.outcomes.Retry"


async def test_what_a_handler_logs_names_its_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "chosen", ("INFO", "json"))
    app = Holdfast("sqlite://")
    logger = logging.getLogger("holdfast.shop")

    @app.task
    async def on_loop() -> None:
        logger.warning("hello")

    @app.task
    def in_thread() -> None:
        logger.warning("hello")

    with Written(JsonLines()) as written:
        async with app:
            jobs = [await on_loop.enqueue(), await in_thread.enqueue()]
            await app.run_worker(until="empty")
    said = {line["job"]: line["kind"] for line in written.objects if line["message"] == "hello"}
    assert said == {jobs[0].id: "on_loop", jobs[1].id: "in_thread"}


@pytest.mark.guards("covered-json-line", "covered-text-line")
def test_known_secrets_are_covered_in_every_part_of_a_line(written: Written) -> None:
    redaction.keep(["s3cr3t/pass", "abc"])
    written.logger.warning(
        "to %s", "postgresql://me:s3cr3t/pass@db", extra={"event": "x", "facts": {"url": "s3cr3t/pass"}}
    )
    try:
        fail("refused s3cr3t/pass")
    except ValueError:
        written.logger.exception("abc is too short to be one")
    text = "\n".join(written.lines)
    assert "s3cr3t" not in text
    assert "me:**********@db" in text
    assert "abc is too short" in text


def test_a_program_that_has_its_own_log_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    root = logging.getLogger()
    own = logging.NullHandler()
    monkeypatch.setattr(root, "handlers", [own])
    monkeypatch.setattr(logs, "chosen", None)
    logs.set_up("INFO", "json")
    assert root.handlers == [own]
    assert logs.chosen is None


async def test_with_the_level_debug_every_end_is_a_line(caplog: pytest.LogCaptureFixture) -> None:
    app = Holdfast("sqlite://")

    @app.task
    async def work() -> None: ...

    caplog.set_level(logging.DEBUG, "holdfast")
    begin = time.monotonic()
    with Written(JsonLines()) as written:
        async with app:
            job = await work.enqueue()
            await app.run_worker(until="empty")
    (ended,) = (line for line in written.objects if line["event"] == "job.ended")
    assert (ended["job"], ended["outcome"], ended["state"]) == (job.id, "complete", "completed")
    assert 0 <= ended["run_s"] <= time.monotonic() - begin
