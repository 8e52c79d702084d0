"""Names that must lead somewhere: limits, budgets, channels, policies and queues that others mention."""

from collections.abc import Iterable, Mapping
from typing import Any

from holdfast.configuration.report import Path, Report, among

_REFERENCES: tuple[tuple[str, str, str, str], ...] = (
    ("queues", "escalation", "escalations", "an escalation"),
    ("kinds", "limits", "limits", "a limit"),
    ("kinds", "budget", "budgets", "a budget"),
    ("kinds", "queue", "queues", "a queue"),
    ("limits", "queue", "queues", "a queue"),
    ("budgets", "queue", "queues", "a queue"),
    ("escalations", "channels", "channels", "a channel"),
    ("escalations", "then", "escalations", "an escalation"),
)
_ALWAYS = {"default"}


def check_references(document: Mapping[str, Any], defined: Mapping[str, Iterable[str]], report: Report) -> None:
    """Take note of every name that leads nowhere; `defined` are the names of code and document, by section.

    A queue needs no definition, so those are looked for only where some are defined.
    """
    known = {section: set(names) for section, names in defined.items()}
    if known["queues"]:
        known["queues"] |= _ALWAYS
    for section, field, target, what in _REFERENCES:
        if target == "queues" and not known["queues"]:
            continue
        for name, entry in (document.get(section) or {}).items():
            if isinstance(entry, Mapping):
                _check(entry.get(field), (section, name, field), known[target], what, report)


def _check(given: Any, path: Path, known: set[str], what: str, report: Report) -> None:
    listed = given if isinstance(given, list) else [given]
    for at, name in enumerate(listed):
        if isinstance(name, str) and name not in known and not report.is_full:
            place = (*path, str(at)) if isinstance(given, list) else path
            message = f"expected {what} that is defined, got {name!r}; {among(known, name)}"
            report.add(place, message)  # guard: configuration-references
