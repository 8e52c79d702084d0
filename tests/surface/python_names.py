"""The public names of Python, with their signatures, fields and bases."""

import dataclasses
import enum
import functools
import importlib
import inspect
import re
import textwrap
import typing
from collections.abc import Iterator
from typing import Any

import msgspec

from holdfast.duration import Duration
from tests.surface.annotations import Writer

# What docs/reference/api.md lists: everything that a module exports, or the names that the page has.
MODULES: dict[str, tuple[str, ...]] = {
    "holdfast": (),
    "holdfast.arq": (),
    "holdfast.cli": ("command",),
    "holdfast.public_id": ("decode", "encode"),
    "holdfast.testing": ("Clock", "Jobs", "controlled", "in_memory"),
    "holdfast.webhooks.signature": ("SignatureRefused", "new_secret", "verify"),
}
# Classes that the page describes by what they are for, without their names.
_BEHIND = ("Registry", "TaskDecorator", "ThreadedWorker", "Using")
_SET = re.compile(r"^ +self\.([a-z]\w*)\b[^=()\n]*= ", re.MULTILINE)
_PROTOCOL = (
    "__aenter__",
    "__aexit__",
    "__aiter__",
    "__anext__",
    "__await__",
    "__call__",
    "__contains__",
    "__enter__",
    "__exit__",
    "__getitem__",
    "__iter__",
    "__len__",
    "__next__",
)


def describe_python() -> str:
    """Write every public name, and after them the values that signatures lead to."""
    writer = Writer()
    lines = ["", f"Duration = {' | '.join(map(writer.type, typing.get_args(Duration)))}"]
    public: dict[str, Any] = {}
    for module, chosen in MODULES.items():
        imported = importlib.import_module(module)
        names = sorted(chosen or imported.__all__)
        public |= {name: getattr(imported, name) for name in names}
        lines += ["", f"# {module}"]
        for name in names:
            lines += ["", *_describe(writer, name, getattr(imported, name), set(public))]
    lines += ["", "# Values that the signatures above lead to"]
    known = {id(found) for found in public.values()}
    while found := sorted((name, met) for name, met in writer.met.items() if id(met) not in known and _is_value(met)):
        known |= {id(met) for _, met in found}
        for name, met in found:
            lines += ["", *_describe(writer, name, met, set(public))]
    return "\n".join(lines[1:]) + "\n"


def _is_value(found: type) -> bool:
    return (
        dataclasses.is_dataclass(found)
        or issubclass(found, msgspec.Struct | enum.Enum)
        or typing.is_typeddict(found)
        or hasattr(found, "_fields")
        or found.__name__ in _BEHIND
    )


def _describe(writer: Writer, name: str, found: Any, public: set[str]) -> Iterator[str]:
    if inspect.isclass(found):
        yield f"class {name}{_bases(found, public)}"
        for member in _members(writer, found):
            yield from (f"    {line}" for line in member.splitlines())
    elif callable(found):
        for one in typing.get_overloads(found) or [found]:
            yield writer.signature(one, head=f"{_sort(one)} {name}")
    else:
        yield f"{name}: {type(found).__name__}"


def _sort(found: Any) -> str:
    return "async def" if inspect.iscoroutinefunction(found) else "def"


def _bases(found: type, public: set[str]) -> str:
    """Name the public bases; those that the package keeps for itself are passed through."""
    if typing.is_typeddict(found):
        return f"(TypedDict, total={found.__total__})"  # type: ignore[attr-defined]  # typed dictionaries have it
    if hasattr(found, "_fields"):
        return "(NamedTuple)"

    def named(one: type) -> Iterator[str]:
        for base in one.__bases__:
            if base.__module__.partition(".")[0] != "holdfast" or base.__name__ in public:
                yield base.__name__
            else:
                yield from named(base)

    names = [name for name in dict.fromkeys(named(found)) if name not in ("object", "Generic", "ABC")]
    return f"({', '.join(names)})" if names else ""


def _members(writer: Writer, found: type) -> Iterator[str]:
    """Write fields in their order, then everything else by name."""
    if issubclass(found, enum.Enum):
        yield from (f"{name} = {member.value!r}" for name, member in found.__members__.items())
        return
    fields = dict(_fields(writer, found))
    yield from fields.values()
    owners = _ours(found)
    if not fields and "__init__" in owners:
        init = inspect.getattr_static(found, "__init__")
        yield writer.signature(init, bound=True, head="def __init__").removesuffix(" -> None")
    members = {name for name in owners if not name.startswith("_") or name in _PROTOCOL} - set(fields)
    attributes = set() if fields else _attributes(found) - members
    for name in sorted(members | attributes):
        if name in attributes:
            yield f"attribute {name}"
        else:
            yield from _member(writer, name, inspect.getattr_static(owners[name], name))


def _attributes(found: type) -> set[str]:
    """Find what the constructors of a class set on the instance."""
    inits = [vars(owner)["__init__"] for owner in set(_ours(found).values()) if "__init__" in vars(owner)]
    sources = [textwrap.dedent(inspect.getsource(init)) for init in inits if inspect.isfunction(init)]
    return {
        name for source in sources for name in re.findall(r"^ +self\.([a-z]\w*)\b[^=()\n]*= ", source, re.MULTILINE)
    }


def _ours(found: type) -> dict[str, type]:
    """Find who of the package defines each member of a class."""
    owners: dict[str, type] = {}
    for owner in reversed(found.__mro__):
        if owner.__module__.partition(".")[0] == "holdfast":
            owners |= dict.fromkeys(vars(owner), owner)
    return owners


def _fields(writer: Writer, found: type) -> Iterator[tuple[str, str]]:
    """Write the fields of a value; those after a star are given by keyword."""
    if typing.is_typeddict(found):
        yield from ((name, f"{name}: {writer.type(one)}") for name, one in found.__annotations__.items())
    elif hasattr(found, "_fields"):
        for name in found._fields:
            value = found._field_defaults.get(name, dataclasses.MISSING)  # type: ignore[attr-defined]  # of named tuples
            yield _field(writer, name, found.__annotations__[name], value)
    elif issubclass(found, msgspec.Struct) or dataclasses.is_dataclass(found):
        given = dict(_declared(found))
        asked = [one for one in inspect.signature(found).parameters.values() if one.name in given]
        by_keyword = [one for one in asked if one.kind is one.KEYWORD_ONLY]
        for one in asked:
            if one in by_keyword[:1]:
                yield "*", "*"
            if not one.name.startswith("_"):
                yield _field(writer, one.name, *given[one.name])


def _declared(found: Any) -> Iterator[tuple[str, tuple[Any, Any]]]:
    """Go through the types and defaults of a struct or a dataclass."""
    if issubclass(found, msgspec.Struct):
        for one in msgspec.structs.fields(found):
            defaults = [value for value in (one.default, one.default_factory) if value is not msgspec.NODEFAULT]
            yield one.name, (one.type, [*defaults, dataclasses.MISSING][0])
    else:
        for each in dataclasses.fields(found):
            value = each.default_factory if each.default is dataclasses.MISSING else each.default
            yield each.name, (each.type, value)


def _field(writer: Writer, name: str, kind: Any, default: Any) -> tuple[str, str]:
    is_needed = default is dataclasses.MISSING
    return name, f"{name}: {writer.type(kind)}" + ("" if is_needed else f" = {writer.default(default)}")


def _member(writer: Writer, name: str, found: Any) -> Iterator[str]:
    if isinstance(found, property | functools.cached_property):
        getter = found.fget if isinstance(found, property) else found.func
        yield f"property {name}{writer.signature(getter, bound=True).removeprefix('()')}"
    elif isinstance(found, staticmethod | classmethod):
        head = f"{type(found).__name__} {name}"
        yield writer.signature(found.__func__, bound=isinstance(found, classmethod), head=head)
    elif inspect.isfunction(found):
        for one in typing.get_overloads(found) or [found]:
            yield writer.signature(one, bound=True, head=f"{_sort(one)} {name}")
    elif inspect.isdatadescriptor(found) or inspect.ismemberdescriptor(found):
        yield f"attribute {name}"
    elif callable(found):
        yield f"attribute {name}: {type(found).__name__}"
    else:
        yield f"{name} = {writer.default(found)}"
