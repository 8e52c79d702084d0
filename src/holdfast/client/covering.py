"""The words of a job, for people: what its arguments call secret is covered wherever it is quoted."""

from collections.abc import Mapping
from typing import Any

import msgspec

from holdfast import payload
from holdfast.job import Job, Progress
from holdfast.phases import JobPhase
from holdfast.telemetry.redaction import COVER, hide

_TOLD = ("message", "data", "error", "result")  # by a phase


class Covering:
    """Covers the secrets of one job, and those that this process was given."""

    def __init__(self, job: Job) -> None:
        self._job = job
        has_secrets = f'"{payload.SECRET}"' in job.payload_json
        arguments = job.payload if has_secrets else None
        found = payload.secrets_in(arguments) if isinstance(arguments, dict) else []
        self._secrets = sorted(filter(None, found), key=len, reverse=True)

    def text(self, text: str | None) -> str | None:
        """Cover what is secret in a text, which may quote it."""
        if text is None:
            return None
        for secret in self._secrets:
            text = text.replace(secret, COVER)  # guard: job-secrets
        return hide(text)  # guard: known-secrets, without: return text

    def value(self, value: Any) -> Any:
        """Cover what is secret in a JSON value."""
        return self._inside(payload.covered(value))

    def json(self, text: str) -> str:
        """Cover what is secret in JSON."""
        is_clean = not self._secrets and f'"{payload.SECRET}"' not in text
        return text if is_clean else msgspec.json.encode(self.value(msgspec.json.decode(text))).decode()

    @property
    def progress(self) -> Progress | None:
        """The last progress, for people."""
        told = self._job.progress
        if told is None:
            return None
        return msgspec.structs.replace(told, message=self.text(told.message), data=self.value(told.data))

    @property
    def phases(self) -> list[JobPhase]:
        """The phases, for people."""
        return [
            msgspec.structs.replace(phase, **{name: self.value(getattr(phase, name)) for name in _TOLD})
            for phase in self._job.phases
        ]

    def _inside(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.text(key): self._inside(inner) for key, inner in value.items()}
        return [self._inside(inner) for inner in value] if isinstance(value, list) else value
