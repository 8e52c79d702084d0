"""Lists every resource, and what is known of each of its fields."""

import importlib
import pkgutil
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from types import ModuleType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import holdfast.resources
from holdfast.about import About, about_fields
from holdfast.resources.request import Request


@dataclass(frozen=True, slots=True)
class FieldDescription:
    """One field of a resource: its name, its type as a person writes it, and what is said of it."""

    name: str
    type: str
    about: About


def resources() -> list[type]:
    """Every type that is a resource or a part of one, by name; bodies of requests are left out."""
    found = {kind for kind in _dataclasses() if not issubclass(kind, (Request, FieldDescription))}
    return sorted(found, key=lambda kind: kind.__name__)


def requests() -> list[type[Request]]:
    """Every type that is the body of a request, by name."""
    found = {kind for kind in _dataclasses() if issubclass(kind, Request) and kind is not Request}
    return sorted(found, key=lambda kind: kind.__name__)


def describe(kind: type) -> list[FieldDescription]:
    """Describe the fields of a resource in their order."""
    abouts, hints = about_fields(kind), get_type_hints(kind)
    return [FieldDescription(field.name, written(hints[field.name]), abouts[field.name]) for field in fields(kind)]


def written(hint: Any) -> str:
    """Write a type as a person would."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin is None:
        return "None" if hint is type(None) else str(getattr(hint, "__name__", hint))
    if origin is Annotated:
        return written(parts[0])
    texts = ["..." if part is ... else written(part) for part in parts]
    if not isinstance(origin, type) or origin.__module__ == "types":
        return " | ".join(texts)
    return f"{origin.__name__}[{', '.join(texts)}]"


def _dataclasses() -> Iterator[type]:
    for module in _modules():
        for value in vars(module).values():
            if isinstance(value, type) and value.__module__ == module.__name__ and is_dataclass(value):
                yield value


def _modules() -> Iterator[ModuleType]:
    for found in pkgutil.iter_modules(holdfast.resources.__path__, "holdfast.resources."):
        yield importlib.import_module(found.name)
