"""What shows the same as a page: a command for a terminal, and an address of the API for programs."""

import shlex
from dataclasses import dataclass

_COMMANDS = {
    "": "top",
    "queues": "queues list",
    "queues/*": "queues show",
    "schedules": "schedules list",
    "schedules/*": "schedules fires",
    "workers": "workers list",
    "failures": "failures",
    "dead-letters": "dlq list",
    "dead-letters/*": "dlq show",
    "escalations": "escalations list",
    "escalations/*": "escalations show",
    "budgets": "budgets list",
    "budgets/*": "budgets show",
    "limits": "limits list",
    "system": "doctor",
    "system/settings": "config show",
    "system/tokens": "tokens list",
}
_DATA = {
    "": "queues",
    "failures": "dead-letters",
    "system/settings": "settings",
    "system/tokens": "tokens",
    "system/audit": "audit",
    "system/webhooks": "endpoints",
}
_SAME = frozenset({"queues", "schedules", "workers", "dead-letters", "escalations", "budgets", "limits", "system"})
_ASKING = frozenset({"dead-letters/export", "dead-letters/replay", "dead-letters/purge"})
_MOST = 2


@dataclass(frozen=True)
class Twin:
    """A command, and the parts of an address; either may be missing."""

    command: str | None
    path: tuple[str, ...] | None


def twin(path: str) -> Twin:
    """Tell what shows the same as the page at a path of this server."""
    parts = path.strip("/").split("/")
    spelled = "/".join(parts)
    if spelled in _ASKING:
        return Twin(None, None)
    known = _COMMANDS.get(spelled)
    if known is None and len(parts) == _MOST and (found := _COMMANDS.get(f"{parts[0]}/*")) is not None:
        known = f"{found} {shlex.quote(parts[1])}"
    if (data := _DATA.get(spelled)) is not None:
        address: tuple[str, ...] | None = ("api/v1/" + data,)
    elif parts[0] in _SAME and len(parts) <= _MOST and (parts[0] != "workers" or len(parts) == 1):
        address = (f"api/v1/{parts[0]}", *parts[1:])
    else:
        address = None
    return Twin(None if known is None else f"holdfast {known}", address)
