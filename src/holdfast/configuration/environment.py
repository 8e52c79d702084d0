"""The environment inside a configuration: `${NAME}` in its texts, and HOLDFAST_... over its values."""

import re
from collections.abc import Mapping
from typing import Any

from holdfast.configuration.report import Path, Report

PREFIX = "HOLDFAST_"
_STEP = "__"
_STORE = "HOLDFAST_STORE"
_PRESET = "__PRESET"
_REFERENCE = re.compile(r"\$(\$)\{|\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}|\$\{", re.ASCII)


class EnvText(str):
    """Text that came from the environment, where numbers and flags are text as well."""

    __slots__ = ()


class Wrong:
    """Stands for a value that was found wrong already, so that nobody complains about it again."""


WRONG = Wrong()


def expanded(value: Any, environ: Mapping[str, str], report: Report, path: Path = ()) -> Any:
    """Put the environment's values in place of `${NAME}` and `${NAME:-default}`, in every text of a document.

    The default counts for a variable that is empty too. `$${` stands for `${` itself.
    """
    if isinstance(value, Mapping):
        return {key: expanded(inner, environ, report, (*path, key)) for key, inner in value.items()}
    if isinstance(value, list):
        return [expanded(inner, environ, report, (*path, str(at))) for at, inner in enumerate(value)]
    if not isinstance(value, str) or "${" not in value:
        return value
    complaints: list[str] = []

    def put(found: re.Match[str]) -> str:
        if found[1]:
            return "${"
        name, default = found[2], found[3]
        if name is None:
            complaints.append("expected ${NAME} or ${NAME:-default}, got an unfinished one; write $${ for ${ itself")
            return ""
        if environ.get(name) or (name in environ and default is None):
            return environ[name]
        if default is None:
            complaints.append(f"the environment variable {name} is not set; set it, or write ${{{name}:-default}}")
        return default or ""

    text = _REFERENCE.sub(put, value)
    for complaint in complaints:
        report.add(path, complaint)
    return WRONG if complaints else EnvText(text)


def overrides(environ: Mapping[str, str]) -> dict[str, tuple[list[str], str]]:
    """Find the variables that override a setting: by name, the steps of the path and the text.

    HOLDFAST_QUEUES__HIGH__WORKERS is queues.high.workers; HOLDFAST_STORE alone is the store's URL.
    """
    found: dict[str, tuple[list[str], str]] = {}
    if environ.get(_STORE):
        found[_STORE] = (["store", "url"], environ[_STORE])
    for name in sorted(environ, key=lambda name: (not name.endswith(_PRESET), name)):  # others may name its queues
        if name.startswith(PREFIX) and _STEP in name:
            found[name] = (name.removeprefix(PREFIX).lower().split(_STEP), environ[name])
    return found
