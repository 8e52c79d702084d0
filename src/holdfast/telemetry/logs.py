"""Lines of a log: one per event, as text for people or as JSON for programs.

Whatever a message holds, it stays one line: everything that a terminal or a reader of lines would act on is escaped,
and known secrets are covered.
"""

import logging
import re
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, Literal

import msgspec

from holdfast.job import JobRow
from holdfast.telemetry.redaction import hide

Form = Literal["text", "json"]
FORMS: tuple[Form, ...] = ("text", "json")

_TEXT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_OF_CONTEXT = ("job", "kind", "attempt")  # which records of `ctx.log` carry
_ACTS = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")

chosen: tuple[str, str] | None = None
"""The level and the form of this process, if its program left them to us: what it starts has the same."""

current: ContextVar[JobRow | None] = ContextVar("holdfast_logging_job", default=None)
"""The job whose handler runs, where lines are to name it."""


def set_up(level: str, form: str) -> None:
    """Let this process write its lines in this form, unless its program has chosen another way."""
    global chosen  # noqa: PLW0603 - a process has one log
    if logging.getLogger().handlers:
        return
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines() if form == "json" else TextLines(_TEXT))
    logging.basicConfig(level=level, handlers=[handler])
    chosen = (level, form)


def names_jobs() -> bool:
    """Whether lines that handlers log are to say whose they are."""
    return chosen is not None and chosen[1] == "json"


def facts(event: str, job: JobRow, **more: Any) -> dict[str, Any]:
    """What a line about a job says beside its text, as `extra` of a log call."""
    return {"event": event, "facts": {**_of_job(job), **more}}


def escaped(text: str) -> str:
    """Write what would act on a terminal, or begin another line, so that it does not."""
    return _ACTS.sub(lambda found: ascii(found[0])[1:-1], text)


class TextLines(logging.Formatter):
    """One line of text for each record, with its traceback if it has one."""

    def format(self, record: logging.LogRecord) -> str:
        """Write a record."""
        text = hide(super().format(record))  # guard: covered-text-line, without: text = super().format(record)
        return escaped(text)  # guard: log-lines, without: return text


class JsonLines(logging.Formatter):
    """One object for each record: when, how bad, what, and of which job."""

    def format(self, record: logging.LogRecord) -> str:
        """Write a record."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": getattr(record, "event", "log"),
            "message": record.getMessage(),
        }
        line |= {name: getattr(record, name) for name in _OF_CONTEXT if hasattr(record, name)}
        job = current.get()
        line |= getattr(record, "facts", None) or ({} if job is None else _of_job(job))
        if record.exc_info and record.exc_info[0] is not None:
            line["exception"] = self.formatException(record.exc_info)
        written = msgspec.json.encode(_clean(line), enc_hook=str).decode()
        return _ACTS.sub(lambda found: f"\\u{ord(found[0]):04x}", written)


def _clean(line: dict[str, Any]) -> dict[str, Any]:
    """Cover secrets before they are written as JSON, and replace what UTF-8 has no form for."""
    # guard: covered-json-line, without: shown = line
    shown = {name: hide(value) if isinstance(value, str) else value for name, value in line.items()}
    return {
        name: value.encode(errors="backslashreplace").decode() if isinstance(value, str) else value
        for name, value in shown.items()
    }


def _of_job(job: JobRow) -> dict[str, Any]:
    return {"job": job.public_id, "kind": job.kind, "queue": job.queue, "attempt": job.attempt, "claim": job.claim}
