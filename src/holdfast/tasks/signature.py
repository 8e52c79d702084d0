"""The arguments of a task: checked against its signature, written as JSON, and read back typed.

Enqueue and run use the same decoder, so a job that was accepted can be read. An enqueue also reads back what it wrote:
a value that JSON would change (a tuple inside an untyped dict, a number as key) is refused instead of stored.
"""

import copy
import inspect
import re
import typing
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import UNSET

from holdfast import payload
from holdfast.context import Context
from holdfast.errors import ArgumentError, ConfigError, shown
from holdfast.tasks.json_types import require_json_type

_PLACE = re.compile(r"^(?P<fault>.*?)(?: - at `(?:key in )?\$(?P<path>.*?)`)?$", re.DOTALL)
_UNNAMED = {
    "VAR_POSITIONAL": "*args have no names to be stored under; take one list",
    "VAR_KEYWORD": "**kwargs accept anything, so nothing could be checked; take one dict",
    "POSITIONAL_ONLY": "positional-only parameters have no names to be stored under; drop the '/'",
}


class Arguments:
    """Turns the arguments of one task into a payload and back."""

    def __init__(
        self, name: str, signature: inspect.Signature, types: Mapping[str, Any], *, most_bytes: int, most_depth: int
    ) -> None:
        self._name = name
        self._signature = signature
        self._most_bytes = most_bytes
        self._most_depth = most_depth
        self._types = types
        self._decoder = _decoder(name, signature, types)
        self._names = tuple(signature.parameters)
        self._known = frozenset(self._names)
        self._positional = tuple(
            name for name, parameter in signature.parameters.items() if parameter.kind is not parameter.KEYWORD_ONLY
        )
        self._required = frozenset(
            name for name, parameter in signature.parameters.items() if parameter.default is inspect.Parameter.empty
        )

    def __str__(self) -> str:
        return f"{self._name}{self._signature.replace(return_annotation=inspect.Signature.empty)}"

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Give each argument its name; defaults are left to the function, so that they may change later."""
        given = dict(zip(self._positional, args, strict=False))
        is_clear = len(given) == len(args) and given.keys().isdisjoint(kwargs)
        given |= kwargs
        if is_clear and self._required <= given.keys() <= self._known:  # Python's own way takes several times as long
            return {name: given[name] for name in self._names if name in given}
        try:
            return self._signature.bind(*args, **kwargs).arguments
        except TypeError as error:
            message = f"{self._name}: {error}; expected {self}"
            raise ArgumentError(message) from None

    def encode(self, given: Mapping[str, Any]) -> str:
        """Write arguments as JSON; what would not come back equal is refused."""
        if self._is_plain(given) and len(plain := msgspec.json.encode(given)) <= self._most_bytes:
            return plain.decode()
        encoded = payload.encode(given, self._name, most_bytes=self._most_bytes, most_depth=self._most_depth)
        decoded = self.decode(encoded)
        for parameter, value in given.items():
            if not _survived(value, decoded[parameter]):
                message = f"{self._name}, argument {parameter}: {shown(value)} does not survive JSON: it would come"
                message += f" back as {shown(decoded[parameter])}; change the value or the annotation"
                raise ArgumentError(message)
        return encoded

    def _is_plain(self, given: Mapping[str, Any]) -> bool:
        """Whether all arguments are numbers and texts that JSON gives back as they are; most jobs have no others."""
        for name, value in given.items():
            kind = type(value)
            if kind is not self._types.get(name, Any):
                return False
            if kind is int:
                if not payload.SMALLEST_INT <= value <= payload.LARGEST_INT:
                    return False
            elif kind is str:
                if not value.isascii() or "\x00" in value:
                    return False
            elif kind is not bool:
                return False
        return True

    def check(self, encoded: str) -> str:
        """Check arguments that came as JSON, and write them within the limits."""
        decoded = self.decode(encoded)
        plain = msgspec.json.decode(encoded)
        if secrets := payload.secrets_in(decoded):  # which may have come without a mark
            plain |= {name: payload.marked(plain[name], secrets) for name in decoded}
        return payload.encode(plain, self._name, most_bytes=self._most_bytes, most_depth=self._most_depth)

    def decode(self, encoded: str) -> dict[str, Any]:
        """Read a payload; only the arguments it holds, the rest is the function's defaults."""
        try:
            decoded = self._decoder.decode(encoded)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise ArgumentError(self._explained(error)) from error
        return {name: value for name in self._names if (value := getattr(decoded, name)) is not UNSET}

    def schema(self) -> dict[str, Any]:
        """Describe a payload as JSON Schema; of types that only the program can read it says nothing."""
        return msgspec.json.schema(self._decoder.type, schema_hook=_described)

    def _explained(self, error: Exception) -> str:
        found = _PLACE.match(str(error))
        fault, path = (found["fault"], found["path"]) if found else (str(error), None)
        where = f", argument {path.removeprefix('.')}" if path else ""
        return f"{self._name}{where}: {fault[:1].lower()}{fault[1:]}; expected {self}"


class Signature(msgspec.Struct, frozen=True):
    """What the signature of a function says: its arguments, its result, and whether it wants the context."""

    arguments: Arguments
    result_type: Any
    wants_context: bool


def read_function(name: str, function: Callable[..., Any], *, most_bytes: int, most_depth: int) -> Signature:
    """Read the signature of a function, or say why its arguments cannot be a payload."""
    hints = resolved_hints(name, function)
    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())
    wants_context = bool(parameters) and _is_context(hints.get(parameters[0].name))
    if wants_context:
        parameters = parameters[1:]
    for parameter in parameters:
        _require_named(name, parameter)
        _require_payload_type(name, parameter.name, hints.get(parameter.name, Any))
    result_type = hints.get("return", Any)
    if result_type in (typing.NoReturn, typing.Never):
        result_type = Any
    require_json_type(result_type, f"task {name}, result")
    arguments = Arguments(
        name, signature.replace(parameters=parameters), hints, most_bytes=most_bytes, most_depth=most_depth
    )
    return Signature(arguments, result_type, wants_context)


def read_fields(name: str, cls: type, *, most_bytes: int, most_depth: int) -> Arguments:
    """Read the fields of a class task, which are its arguments."""
    hints = resolved_hints(name, cls)
    signature = inspect.signature(cls)
    for parameter in signature.parameters.values():
        _require_named(name, parameter)
        _require_payload_type(name, parameter.name, hints.get(parameter.name, Any))
    return Arguments(name, signature, hints, most_bytes=most_bytes, most_depth=most_depth)


def resolved_hints(name: str, annotated: Any) -> dict[str, Any]:
    """Read annotations, also those written as text."""
    try:
        return typing.get_type_hints(annotated, include_extras=True)
    except (NameError, AttributeError, TypeError, SyntaxError) as error:
        message = f"task {name}: an annotation cannot be read: {error}; its types must be importable at run time from"
        message += " the top of the module, not under TYPE_CHECKING and not inside a function"
        raise ConfigError(message) from error


def _is_context(annotation: Any) -> bool:
    plain = typing.get_origin(annotation) or annotation
    return isinstance(plain, type) and issubclass(plain, Context)


def _require_named(name: str, parameter: inspect.Parameter) -> None:
    """Refuse parameters that cannot be passed by name: a payload is a JSON object."""
    why = _UNNAMED.get(parameter.kind.name)
    if why is None and parameter.name.startswith("__"):
        why = "names with two leading underscores are Python's own; rename it"
    if why is not None:
        message = f"task {name}, parameter {parameter.name}: {why}"
        raise ConfigError(message)


def _require_payload_type(name: str, parameter: str, annotation: Any) -> None:
    if _is_context(annotation):
        message = f"task {name}, parameter {parameter}: the context is given as first parameter only; move it there"
        raise ConfigError(message)
    require_json_type(annotation, f"task {name}, parameter {parameter}")


def _decoder(name: str, signature: inspect.Signature, types: Mapping[str, Any]) -> msgspec.json.Decoder[Any]:
    """Build one decoder for all arguments; those with a default may be missing."""
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
    for parameter in signature.parameters.values():
        annotation = types.get(parameter.name, Any)
        if parameter.default is inspect.Parameter.empty:
            fields.append((parameter.name, annotation))
        else:
            fields.append((parameter.name, annotation, UNSET))
    identifier = re.sub(r"\W", "_", name)
    struct = msgspec.defstruct(identifier, fields, kw_only=True, forbid_unknown_fields=True)
    return msgspec.json.Decoder(struct, dec_hook=payload.decode_model)


def _described(kind: type) -> dict[str, Any]:
    """Describe a type that msgspec does not know: a secret is text, and a model of pydantic describes itself."""
    if payload.has_secret(kind):
        return {"type": ["string", "object"], "format": "password"}
    try:
        # With an id of its own, its references lead into its own definitions, wherever it stands.
        return {**kind.model_json_schema(), "$id": f"urn:holdfast:{kind.__module__}.{kind.__qualname__}"}  # type: ignore[attr-defined] # of pydantic, which is not imported here
    except Exception:  # noqa: BLE001 - fields of the user's own types may have no description
        return {"title": kind.__name__}


def _survived(given: Any, decoded: Any) -> bool:
    """Tell whether a value came back from JSON as it was.

    Containers are looked into only where plain equality says no: an object inside may have no equality of its own,
    and then coming back as its own type is all that can be asked.
    """
    if given is decoded or _equal(given, decoded):
        return True
    if isinstance(given, dict) and isinstance(decoded, dict):
        return given.keys() == decoded.keys() and all(_survived(given[key], decoded[key]) for key in given)
    if isinstance(given, list | tuple) and type(given) is type(decoded):
        return len(given) == len(decoded) and all(map(_survived, given, decoded))
    return type(given) is type(decoded) and not _equals_its_copy(given)


def _equal(given: Any, decoded: Any) -> bool:
    try:
        return bool(given == decoded)
    except Exception:  # noqa: BLE001 - __eq__ is the user's code and may raise anything
        return False


def _equals_its_copy(given: Any) -> bool:
    try:
        return _equal(given, copy.copy(given))
    except Exception:  # noqa: BLE001 - __copy__ is the user's code and may raise anything
        return True
