"""Which file holds the configuration, and what stands in it."""

import os
import tomllib
from collections.abc import Iterable
from datetime import date, datetime, time
from pathlib import Path
from typing import Any

from holdfast import ownership
from holdfast.configuration.report import DEEPEST, LONGEST, TOO_DEEP, Report
from holdfast.errors import ConfigError

NAMES = ("holdfast.yaml", "holdfast.yml", "holdfast.toml")
PYPROJECT = "pyproject.toml"
VARIABLE = "HOLDFAST_CONFIG"


def find(start: Path | None = None) -> Path | None:
    """Find the file that HOLDFAST_CONFIG names, or the nearest one in a folder or above it.

    Of pyproject.toml only one counts that says more in [tool.holdfast] than the name of the app. A file of another user
    is refused unless it was named.
    """
    if named := os.environ.get(VARIABLE):
        return Path(named)
    folder = Path.cwd() if start is None else start
    for place in (folder, *folder.parents):
        found = [file for name in NAMES if is_usable(file := place / name)]
        if is_usable(pyproject := place / PYPROJECT) and _says_more(pyproject):
            found.append(pyproject)
        if len(found) > 1:
            message = f"expected one configuration in {place}, got {' and '.join(file.name for file in found)}; put all"
            message += f" of it into one of them, or name one with {VARIABLE}"
            raise ConfigError(message)
        if found:
            return found[0]
    return None


def is_usable(file: Path) -> bool:
    """Whether a file is there; ConfigError if others could have put it there: it may name any code and any store."""
    if not file.is_file():
        return False
    stranger = ownership.find_stranger(file)
    if stranger is not None:
        message = f"{file} or its folder belongs to user {stranger}, expected user {os.geteuid()} or root, because it"
        message += f" says which code is run; if you trust it, name it with {VARIABLE}, or the app with -A"
        raise ConfigError(message)
    return True


def required() -> Path:
    """Find the file, or say how to make one."""
    found = find()
    if found is None:
        message = f"there is no holdfast.yaml, holdfast.toml or [tool.holdfast] in {Path.cwd()} or above; make one, or"
        message += f" name it with {VARIABLE}"
        raise ConfigError(message)
    return found


def shown_path(file: Path) -> str:
    """Name a file in messages: from the working directory, if it lies below it."""
    try:
        return str(file.resolve().relative_to(Path.cwd()))
    except ValueError:
        return str(file)


def read(file: Path, report: Report) -> dict[str, Any]:
    """Read a file as plain values; what cannot be read at all is one error."""
    try:
        content = file.read_bytes().decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        message = f"{file} cannot be read: {reason}"
        raise ConfigError(message) from error
    if file.suffix in (".yaml", ".yml"):
        from holdfast.configuration.yaml_file import read_yaml  # noqa: PLC0415 - the parser is loaded when it is needed

        return read_yaml(content, report)
    if file.suffix != ".toml":
        message = f"{file}: expected a file whose name ends with .yaml, .yml or .toml"
        raise ConfigError(message)
    return _read_toml(content, report, in_pyproject=file.name == PYPROJECT)


def _read_toml(content: str, report: Report, *, in_pyproject: bool) -> dict[str, Any]:
    if len(content) > LONGEST:
        report.add((), f"expected at most {LONGEST:,} characters, got {len(content):,}")
        return {}
    try:
        document: dict[str, Any] = tomllib.loads(content)
    except ValueError as error:
        report.add((), f"expected TOML: {error}")
        return {}
    except RecursionError:
        report.add((), TOO_DEEP)
        return {}
    if _is_deep(document):
        report.add((), TOO_DEEP)
        return {}
    if in_pyproject:
        document = _section(document)
    return {key: _plain(value) for key, value in document.items()}


def _says_more(file: Path) -> bool:
    try:
        section = _section(tomllib.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError, RecursionError):
        return False  # the command that needs it complains
    return bool(section.keys() - {"app"})


def _section(document: dict[str, Any]) -> dict[str, Any]:
    tool = document.get("tool")
    section = tool.get("holdfast") if isinstance(tool, dict) else None
    return section if isinstance(section, dict) else {}


def _is_deep(value: Any) -> bool:
    """Whether a document is nested further than it can be followed; without recursion, for the same reason."""
    level = [value]
    for _ in range(DEEPEST + 1):
        level = [inner for item in level if isinstance(item, dict | list) for inner in _inside(item)]
    return bool(level)


def _inside(item: dict[str, Any] | list[Any]) -> Iterable[Any]:
    return item.values() if isinstance(item, dict) else item


def _plain(value: Any) -> Any:
    """Give dates and times of TOML as texts, which is how all other files have them."""
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    if isinstance(value, time):
        return value.strftime("%H:%M")
    return value.isoformat() if isinstance(value, date | datetime) else value
