"""Tracebacks for reading: the user's own frames in client, those of libraries folded away."""

import re
from dataclasses import dataclass

_FRAME = re.compile(r'\s*File "(?P<file>.*)", line (?P<line>\d+|None), in (?P<name>.*)')
_LIBRARIES = ("site-packages", "dist-packages", "<frozen ", "/lib/python3", "\\lib\\", "/holdfast/")
_CAUSED = "caused by:"


@dataclass(frozen=True)
class Part:
    """Frames of one sort in a row, or a line that is none: what was raised, or what caused it."""

    kind: str
    lines: tuple[str, ...]


def folded(trace: str) -> list[Part]:
    """Cut a traceback into parts."""
    parts: list[Part] = []
    for line in trace.splitlines():
        if not line.strip():
            continue
        kind = _kind(line)
        if parts and parts[-1].kind == kind and kind != "said":
            parts[-1] = Part(kind, (*parts[-1].lines, line.strip()))
        else:
            parts.append(Part(kind, (line.strip(),)))
    return parts


def _kind(line: str) -> str:
    frame = _FRAME.fullmatch(line)
    if frame is None:
        return "cause" if line.strip() == _CAUSED else "said"
    return "library" if any(mark in frame["file"] for mark in _LIBRARIES) else "own"
