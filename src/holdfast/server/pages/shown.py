"""A job as pages show it: its own words, with every secret covered."""

from typing import Any

import msgspec

from holdfast import payload
from holdfast.client.covering import Covering
from holdfast.job import Job, JobState

_PREVIEW = 160
_TREE = 20_000


class Shown:
    """One job, and what may be seen of it."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.id = job.public_id
        self._covering = Covering(job)
        self.payload = payload.covered(job.payload)

    def text(self, text: str | None) -> str | None:
        """Cover what is secret in a text, which may quote it."""
        return self._covering.text(text)

    def value(self, value: Any) -> Any:
        """Cover what is secret in a JSON value."""
        return self._covering.value(value)

    @property
    def preview(self) -> str:
        """The arguments in one short line."""
        if isinstance(self.payload, dict):
            text = ", ".join(f"{key}={_short(inner)}" for key, inner in self.payload.items())
        else:
            text = _short(self.payload)
        return text if len(text) <= _PREVIEW else f"{text[:_PREVIEW]}…"

    @property
    def error(self) -> str | None:
        """What went wrong last, in one line."""
        job = self.job
        if job.error_class is None:
            return None
        name = job.error_class.rpartition(".")[2]
        return self.text(f"{name}: {job.error}" if job.error else name)

    @property
    def took_ms(self) -> float | None:
        """How long its last run took, if it has ended."""
        job = self.job
        if job.finished_at is None or job.started_at is None:
            return None
        return (job.finished_at - job.started_at).total_seconds() * 1_000

    @property
    def is_running(self) -> bool:
        """Whether somebody has it."""
        return self.job.state is JobState.RUNNING


def written(value: Any) -> str:
    """Write a JSON value for reading and copying."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


def is_tree(text: str) -> bool:
    """Whether a JSON value is small enough to be shown as a tree that folds."""
    return len(text) <= _TREE


def _short(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
