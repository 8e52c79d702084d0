"""Covers what people must not read in a resource before it leaves the process: on a page, in an answer, on a terminal.

A field whose `About` says `quotes` may quote a secret of the app, such as the password of its database. A resource that
knows more, as a job knows its secret arguments, has a method `redacted`.
"""

import functools
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar, get_args, get_type_hints

from holdfast import payload
from holdfast.about import about_fields
from holdfast.telemetry.redaction import COVER, hide_within

T = TypeVar("T")


def redact(value: T) -> T:
    """Cover the secrets of a resource, or of a list or mapping of resources; without any it is given as it is."""
    covered: Any = _redacted(value)
    return covered  # type: ignore[no-any-return] # the same type: only texts are replaced


def _redacted(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        own: Callable[[], Any] | None = getattr(value, "redacted", None)
        return _redacted_fields(value if own is None else own())
    if isinstance(value, list):
        parts = [_redacted(part) for part in value]
        return parts if any(after is not before for after, before in zip(parts, value, strict=True)) else value
    if isinstance(value, dict):
        named = {name: _redacted(part) for name, part in value.items()}
        return named if any(named[name] is not part for name, part in value.items()) else value
    return value


def _redacted_fields(value: Any) -> Any:
    changes = {}
    for name, quotes in _checked_fields(value.__class__):
        before = getattr(value, name)
        after = hide_within(before) if quotes else _redacted(before)  # guard: known-secrets, without: after = before
        if after is not before and after != before:
            changes[name] = after
    return replace(value, **changes) if changes else value


@functools.cache
def _checked_fields(kind: type) -> tuple[tuple[str, bool], ...]:
    """The fields to look at: those that may quote a secret, and those that hold other resources."""
    abouts, hints = about_fields(kind), get_type_hints(kind)
    return tuple(
        (field.name, abouts[field.name].quotes)
        for field in fields(kind)
        if abouts[field.name].quotes or _holds_resource(hints[field.name])
    )


def _holds_resource(hint: Any) -> bool:
    return is_dataclass(hint) or any(map(_holds_resource, get_args(hint)))


class ArgumentSecrets:
    """The secrets among the arguments of one job; covers them wherever they are quoted."""

    def __init__(self, args: Any) -> None:
        secrets = payload.secrets_in(args) if isinstance(args, dict) else []
        self._secrets = sorted(filter(None, secrets), key=len, reverse=True)

    def text(self, text: str | None) -> str | None:
        """Cover them in a text."""
        if text is None:
            return None
        for secret in self._secrets:
            text = text.replace(secret, COVER)  # guard: job-secrets
        return text

    def cover(self, value: Any) -> Any:
        """Cover them in a JSON value."""
        return self._within(payload.covered(value))

    def _within(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {self.text(key): self._within(inner) for key, inner in value.items()}
        return [self._within(inner) for inner in value] if isinstance(value, list) else value
