"""What shows the same as a page: a command for a terminal, and an address that answers with JSON."""

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass

DATA = {
    "jobs": "jobs",
    "jobs/{id}": "jobs/{id}",
    "queues": "queues",
    "queues/{name}": "queues/{name}",
    "schedules": "schedules",
    "schedules/{name}": "schedules/{name}",
    "workers": "workers",
    "failures": "dead-letters",
    "dead-letters": "dead-letters",
    "dead-letters/{group}": "dead-letters/{group}",
    "escalations": "escalations",
    "escalations/{number}": "escalations/{number}",
    "budgets": "budgets",
    "budgets/{name}": "budgets/{name}",
    "limits": "limits",
    "system": "system",
    "system/tables": "system/tables",
    "system/webhooks": "webhooks",
    "system/settings": "settings",
    "system/audit": "audit",
    "system/tokens": "tokens",
}
"""Pages, and what of the API under `/api/v1` shows the same; a page with `.json` after its address answers with it."""

_COMMANDS = {
    "": "top",
    "queues": "queues list",
    "queues/{name}": "queues show",
    "schedules": "schedules list",
    "schedules/{name}": "schedules fires",
    "workers": "workers list",
    "failures": "failures",
    "dead-letters": "dead-letters list",
    "dead-letters/{group}": "dead-letters show",
    "escalations": "escalations list",
    "escalations/{number}": "escalations show",
    "budgets": "budgets list",
    "budgets/{name}": "budgets show",
    "limits": "limits list",
    "system": "doctor",
    "system/webhooks": "webhooks list",
    "system/settings": "config show",
    "system/tokens": "tokens list",
}
_OPTIONS = {
    "failures": {"kind": "--kind", "within": "--since"},
    "dead-letters": {"kind": "--kind", "queue": "--queue", "error": "--error", "since": "--since"},
    "escalations": {"before": "--before"},
    "budgets/{name}": {"by": "--by"},
}
_FLAGS = {"escalations": {("show", "open"): "--open", ("show", "closed"): "--closed"}}
_OWN = frozenset({"jobs", "jobs/{id}"})  # pages that show both themselves, beside what they are about
_ASKING = frozenset({"dead-letters/export", "dead-letters/replay", "dead-letters/purge", "jobs/bulk"})
_FORMS = {form: re.compile(re.sub(r"\{\w+\}", "([^/]+)", form)) for form in {*DATA, *_COMMANDS}}


@dataclass(frozen=True)
class Twin:
    """A command, and the parts of an address that `.json` is put behind; either may be missing."""

    command: str | None
    path: tuple[str, ...] | None


def twin(path: str, query: Mapping[str, str] | None = None) -> Twin:
    """Tell what shows the same as the page at a path of this server, asked with a query."""
    spelled = path.strip("/")
    form = next((form for form, pattern in _FORMS.items() if pattern.fullmatch(spelled)), None)
    if form is None or form in _OWN or spelled in _ASKING:
        return Twin(None, None)
    address = tuple(spelled.split("/")) if form in DATA else ("queues",) if form == "" else None
    return Twin(_command(form, spelled, query or {}), address)


def _command(form: str, spelled: str, query: Mapping[str, str]) -> str | None:
    if form not in _COMMANDS:
        return None
    named = _FORMS[form].fullmatch(spelled)
    words = [*_COMMANDS[form].split(), *(named.groups() if named else ())]
    for name, value in query.items():
        if (flag := _FLAGS.get(form, {}).get((name, value))) is not None:
            words.append(flag)
        elif value and (option := _OPTIONS.get(form, {}).get(name)) is not None:
            words += [option, value]
    return shlex.join(["holdfast", *words])
