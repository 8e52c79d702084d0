"""How types and defaults are written: the same on every version of Python, without the modules that hold them."""

import enum
import inspect
import re
import types
import typing
from collections.abc import Callable
from typing import Any

import msgspec

from holdfast.duration import Duration

_WIDTH = 116  # and an indent of four
_DURATION = " | ".join(part.__name__ for part in typing.get_args(Duration))
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
_PRIVATE = re.compile(r"\bholdfast(?:\.\w+)*\.(?=\w)")


class Writer:
    """Writes types, and remembers the classes of the package that it has met."""

    def __init__(self) -> None:
        self.met: dict[str, type] = {}

    def type(self, found: Any) -> str:
        """Write a type as a programmer would."""
        if found is None or found is type(None):
            return "None"
        if isinstance(found, str):
            return _PRIVATE.sub("", found)
        if isinstance(found, typing.ForwardRef):
            return found.__forward_arg__
        if isinstance(found, typing.ParamSpecArgs | typing.ParamSpecKwargs):
            return f"{found.__origin__.__name__}.{'args' if isinstance(found, typing.ParamSpecArgs) else 'kwargs'}"
        if typing.get_origin(found) is not None:
            return self._generic(found)
        if isinstance(found, type):
            if found.__module__.partition(".")[0] == "holdfast":
                self.met[found.__qualname__] = found
            return found.__qualname__
        if isinstance(found, list | tuple):  # the parameters of a Callable
            return f"[{', '.join(self.type(part) for part in found)}]"
        if isinstance(found, typing.ParamSpec | typing.TypeVar):
            return found.__name__
        return "..." if found is ... else str(found).replace("typing.", "")

    def _generic(self, found: Any) -> str:
        origin, parts = typing.get_origin(found), typing.get_args(found)
        if origin in (typing.Union, types.UnionType):
            return " | ".join(dict.fromkeys(self.type(part) for part in parts)).replace(_DURATION, "Duration")
        if origin is typing.Literal:
            return f"Literal[{', '.join(map(repr, parts))}]"
        if origin is typing.Annotated:
            return self.type(parts[0])
        if origin is Callable:
            asked, answer = parts
            return f"Callable[{self.type(asked)}, {self.type(answer)}]"
        name = self.type(origin)
        return f"{name}[{', '.join(self.type(part) for part in parts)}]"

    def default(self, value: Any) -> str:
        """Write a default; one that has no text of its own is named by what it is."""
        if isinstance(value, enum.Enum):
            return str(value) if type(value).__str__ is enum.Enum.__str__ else f"{type(value).__name__}.{value.name}"
        if isinstance(value, frozenset | set):
            return "{" + ", ".join(sorted(map(self.default, value))) + "}"
        if isinstance(value, tuple) and not hasattr(value, "_fields"):
            inside = ", ".join(map(self.default, value))
            return f"({inside},)" if len(value) == 1 else f"({inside})"
        if value is msgspec.UNSET:
            return "UNSET"
        if inspect.isfunction(value) or inspect.isclass(value):
            return value.__qualname__
        if isinstance(value, msgspec.Struct):
            return self._struct(value)
        text = repr(value)
        return f"<{type(value).__qualname__}>" if _ADDRESS.search(text) else _PRIVATE.sub("", text)

    def _struct(self, value: msgspec.Struct) -> str:
        """Write the fields that differ from their defaults."""
        given = [(one, getattr(value, one.name)) for one in msgspec.structs.fields(value)]
        shown = [f"{one.name}={self.default(found)}" for one, found in given if found != one.default]
        return f"{type(value).__qualname__}({', '.join(shown)})"

    def signature(self, function: Any, *, bound: bool = False, head: str = "") -> str:
        """Write what a function takes and gives, over several lines where one is too short."""
        found = inspect.signature(function)
        parts: list[str] = []
        star = False
        positional = False
        for index, one in enumerate(found.parameters.values()):
            if bound and index == 0:
                continue
            if positional and one.kind is not one.POSITIONAL_ONLY:
                parts.append("/")
            positional = one.kind is one.POSITIONAL_ONLY
            if one.kind is one.KEYWORD_ONLY and not star:
                parts.append("*")
            star = star or one.kind in (one.KEYWORD_ONLY, one.VAR_POSITIONAL)
            parts.append(self._parameter(one))
        if positional:
            parts.append("/")
        answer = "" if found.return_annotation is found.empty else f" -> {self.type(found.return_annotation)}"
        line = f"{head}({', '.join(parts)}){answer}"
        if len(line) <= _WIDTH:
            return line
        return "\n".join([f"{head}(", *(f"    {part}," for part in parts), f"){answer}"])

    def _parameter(self, one: inspect.Parameter) -> str:
        written = {one.VAR_POSITIONAL.name: "*", one.VAR_KEYWORD.name: "**"}.get(one.kind.name, "") + one.name
        if one.annotation is not one.empty:
            written += f": {self.type(one.annotation)}"
        if one.default is not one.empty:
            written += f" = {self.default(one.default)}" if one.annotation is not one.empty else f"={one.default!r}"
        return written
