"""A job as pages show it, with its secrets covered already, and the settings that people have changed."""

from collections.abc import Iterable
from typing import Any

import msgspec

from holdfast.client.settings import settings_of_one
from holdfast.job import JobState
from holdfast.resources.job import Job
from holdfast.resources.redaction import redact
from holdfast.resources.setting import Setting

_PREVIEW = 160
_TREE = 20_000


class Shown:
    """One job, and what pages make of it."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.id = job.id

    @property
    def preview(self) -> str:
        """The arguments in one short line."""
        if isinstance(self.job.args, dict):
            text = ", ".join(f"{key}={short(inner)}" for key, inner in self.job.args.items())
        else:
            text = short(self.job.args)
        return text if len(text) <= _PREVIEW else f"{text[:_PREVIEW]}…"

    @property
    def error(self) -> str | None:
        """What went wrong last, in one line."""
        job = self.job
        if job.error_class is None:
            return None
        name = job.error_class.rpartition(".")[2]
        return f"{name}: {job.error}" if job.error else name

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


def changed_settings(settings: Iterable[Setting], sort: str, name: str) -> list[tuple[str, Setting, str]]:
    """List what people have changed of one queue or budget: the field, the setting, and its value as text."""
    changed = settings_of_one(redact(list(settings)), sort, name)
    return [(field, setting, short(setting.value)) for field, setting in changed.items()]


def is_tree(text: str) -> bool:
    """Whether a JSON value is small enough to be shown as a tree that folds."""
    return len(text) <= _TREE


def short(value: Any) -> str:
    """Write a value in one line: text as it is, all else as JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
