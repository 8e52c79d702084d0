"""Named moments in the life of workers, services and stores, published for tests; without a test nothing happens.

A test in the same process watches them: `moments.watchers` holds functions that get the name and the facts. For other
processes two variables of the environment take effect when they start. HOLDFAST_MOMENTS names a file to which a line of
JSON is added for each moment. HOLDFAST_FAILPOINTS="child.before_store_call:kill@3" kills a worker's child at its third
call of the store; several are separated by commas. HOLDFAST_FAILPOINTS_FIRED names a file that is made when one fires:
none fires after that, so that the process that takes over lives, and the test knows that the fault has happened.
"""

import json
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

role = "main"  # a supervisor, its children and spawned processes call themselves so
watchers: list[Callable[[str, dict[str, Any]], None]] = []  # called in the thread that reaches the moment


class _Point(NamedTuple):
    role: str
    name: str
    action: str
    number: int


def _read(text: str) -> tuple[_Point, ...]:
    points: list[_Point] = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        where, _, rest = part.partition(":")
        action, _, number = rest.partition("@")
        owner, _, name = where.rpartition(".")
        if action not in _ACTIONS or not name or not number.isdecimal():
            sys.exit(f"HOLDFAST_FAILPOINTS: expected [role.]point:{'|'.join(_ACTIONS)}@number, got {part!r}")
        points.append(_Point(owner, name, action, int(number)))
    return tuple(points)


def reach(name: str, /, **facts: Any) -> None:
    """Publish a moment."""
    if watchers:
        for watch in tuple(watchers):
            watch(name, facts)
    if _file is not None:
        _write(_file, name, facts)
    if _points:
        _fail(name)


def _write(path: str, name: str, facts: dict[str, Any]) -> None:
    line = json.dumps({"moment": name, "role": role, "pid": os.getpid(), "at": time.time(), **facts}, default=str)
    file = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
    try:
        os.write(file, line.encode() + b"\n")  # in one call, so that lines of several processes do not mix
    finally:
        os.close(file)


def _fail(name: str) -> None:
    _reached[name] += 1
    for point in _points:
        is_here = point.role in ("", role) and point.name == name
        if is_here and point.number == _reached[name] and _fires():
            _ACTIONS[point.action]()


def _fires() -> bool:
    if _fired is None:
        return True
    try:
        os.close(os.open(_fired, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    except FileExistsError:
        return False
    return True


def _exit() -> NoReturn:
    os._exit(137)


def _send(number: int) -> None:
    os.kill(os.getpid(), number)


# By number: Windows has neither, and nothing is tested there with them.
_SIGKILL, _SIGSTOP = (getattr(signal, name, signal.SIGTERM) for name in ("SIGKILL", "SIGSTOP"))
_ACTIONS = {
    "kill": lambda: _send(_SIGKILL),
    "stop": lambda: _send(_SIGSTOP),
    "exit": _exit,
}
_reached: Counter[str] = Counter()
_points = _read(os.environ.get("HOLDFAST_FAILPOINTS", ""))
_fired = Path(os.environ["HOLDFAST_FAILPOINTS_FIRED"]) if "HOLDFAST_FAILPOINTS_FIRED" in os.environ else None
_file = os.environ.get("HOLDFAST_MOMENTS")
