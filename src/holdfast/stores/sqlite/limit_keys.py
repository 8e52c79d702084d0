"""Which key of a limit a job belongs to, on SQLite: where payloads are text until somebody has to look inside."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from holdfast.policies import keys


class _Stored(NamedTuple):
    """A job as its row has it."""

    payload_json: str
    tags: Mapping[str, str] | None
    actor: str | None
    kind: str
    queue: str

    @property
    def payload(self) -> Any:
        """The payload as values."""
        return msgspec.json.decode(self.payload_json)


def key_of(  # noqa: PLR0917 - the columns of a job that may tell its key
    path: Sequence[str],
    payload: str,
    tags: Mapping[str, str] | None,
    actor: str | None,
    kind: str,
    queue: str,
) -> str:
    """Tell the key of a job that is about to be stored, or is."""
    return keys.key_of(path, _Stored(payload, tags, actor, kind, queue)) if path else ""
