"""Which failed jobs somebody means: a group, or conditions, from an address or from a form."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Self

import msgspec
from fastapi import Depends, Query

from holdfast.errors import InvalidValue, shown
from holdfast.server.scoped.client import ScopedClient
from holdfast.stores.values import JobFilter

_FIELDS = ("group", "kind", "queue", "error", "since", "reason")
_LONGEST = 500


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """A group, or conditions that must all hold; empty ones do not count."""

    group: str = ""
    kind: str = ""
    queue: str = ""
    error: str = ""
    since: str = ""
    reason: str = ""

    @classmethod
    def of_form(cls, form: Mapping[str, Any]) -> Self:
        """Read the fields of a form."""
        given = {name: form.get(name, "") for name in _FIELDS}
        return cls(**{name: value[:_LONGEST] for name, value in given.items() if isinstance(value, str)})

    @property
    def since_at(self) -> datetime | None:
        """From when on."""
        return read_moment(self.since, "since") if self.since else None

    @property
    def is_everything(self) -> bool:
        """Whether nothing narrows it down."""
        return not any((self.group, self.kind, self.queue, self.error, self.since))

    def facts(self) -> dict[str, str]:
        """What was asked for, for the audit."""
        return {name: value for name in _FIELDS if (value := getattr(self, name))}

    def words(self) -> str:
        """Say what is chosen."""
        said = [f"{name} {value}" for name, value in self.facts().items() if name != "reason"]
        return ", ".join(said) or "every failed job"

    def conditions(self) -> dict[str, Any]:
        """The conditions, as the client takes them."""
        given = {"kind": self.kind, "queue": self.queue, "error": self.error, "since": self.since_at}
        return {name: value or None for name, value in given.items()}

    async def jobs(self, client: ScopedClient) -> JobFilter:
        """The jobs that are meant, as far as they may be seen."""
        return await client.dead_letters.filter(self.group or None, **self.conditions())


def read_moment(text: str, what: str) -> datetime:
    """Read a time as pages and people write it; without a zone it is UTC."""
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        message = f"{what}: expected a time like 2026-11-17T09:00, got {shown(text)}"
        raise InvalidValue(message) from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _choice(
    group: str = Query("", max_length=12),
    kind: str = Query("", max_length=100),
    queue: str = Query("", max_length=100),
    error: str = Query("", max_length=200),
    since: str = Query("", max_length=40),
) -> Choice:
    return Choice(group=group, kind=kind, queue=queue, error=error, since=since)


Chosen = Annotated[Choice, Depends(_choice)]
