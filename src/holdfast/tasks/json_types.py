"""Which annotations have a JSON form: asked once, when a task is registered, so that no enqueue meets a surprise."""

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import inspect

from holdfast import payload
from holdfast.errors import ConfigError

_KEYS = (
    inspect.AnyType,
    inspect.DateTimeType,
    inspect.DateType,
    inspect.DecimalType,
    inspect.EnumType,
    inspect.FloatType,
    inspect.IntType,
    inspect.LiteralType,
    inspect.StrType,
    inspect.UUIDType,
)


def require_json_type(annotation: Any, what: str) -> None:
    """Refuse an annotation of which no value can be kept as JSON."""
    try:
        described = inspect.type_info(annotation)
        msgspec.json.Decoder(annotation)
    except (TypeError, ValueError, NameError) as error:
        message = f"{what}: {_shown(annotation)} has no JSON form: {error}"
        raise ConfigError(message) from error
    for part in _parts(described):
        _require_json_part(part, annotation, what)


def _require_json_part(part: inspect.Type, annotation: Any, what: str) -> None:
    if isinstance(part, inspect.CustomType) and not _has_json_form(part.cls):
        message = f"{what}: {_shown(annotation)} has no JSON form because {_shown(part.cls)} has none; take a"
        message += " dataclass, TypedDict, NamedTuple, msgspec.Struct or pydantic model, or leave the annotation out"
        raise ConfigError(message)
    if isinstance(part, inspect.RawType | inspect.ExtType):
        message = f"{what}: {_shown(annotation)} has no JSON form of its own; take Any"
        raise ConfigError(message)
    if isinstance(part, inspect.DictType):
        keys = part.key_type.types if isinstance(part.key_type, inspect.UnionType) else (part.key_type,)
        if not all(isinstance(key, _KEYS) for key in keys):
            message = f"{what}: {_shown(annotation)} has no JSON form because JSON's keys are text"
            raise ConfigError(message)


def _has_json_form(kind: type) -> bool:
    """Whether a type is a model of pydantic, or its SecretStr."""
    return callable(getattr(kind, "model_validate", None)) or payload.has_secret(kind)


def _parts(described: inspect.Type) -> Iterator[inspect.Type]:
    """Walk through a type and everything inside it; types may contain themselves."""
    seen: set[int] = set()
    waiting: list[Any] = [described]
    while waiting:
        part = waiting.pop()
        if isinstance(part, list | tuple):
            waiting.extend(part)
        elif isinstance(part, inspect.Field):
            waiting.append(part.type)
        elif isinstance(part, inspect.Type) and id(part) not in seen:
            seen.add(id(part))
            yield part
            waiting.extend(getattr(part, field) for field in part.__struct_fields__)


def _shown(annotation: Any) -> str:
    return annotation.__qualname__ if isinstance(annotation, type) else str(annotation)
