"""Arguments and results as JSON that both databases keep and give back unchanged.

What is refused here would be changed or refused later: NaN and infinities (JSON has none), NUL and lone surrogates
(PostgreSQL stores neither), numbers beyond 64 bits and nesting that a reader could not follow.
"""

import math
from collections.abc import Iterable
from typing import Any

import msgspec

from holdfast.errors import ArgumentError

BYTES = 256_000
DEPTH = 64
SMALLEST_INT, LARGEST_INT = -(2**63), 2**64 - 1


def encode(value: Any, what: str, *, most_bytes: int = BYTES, most_depth: int = DEPTH) -> str:
    """Write a value as JSON within the stated limits, or say what about it cannot be kept."""
    try:
        plain = msgspec.to_builtins(value, str_keys=True, enc_hook=encode_model)
        check(plain, what, most_depth)
        encoded = msgspec.json.encode(plain)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        if isinstance(error, ArgumentError):
            raise
        message = f"{what}: cannot be kept as JSON: {error}"
        raise ArgumentError(message) from error
    if len(encoded) > most_bytes:
        message = f"{what}: expected at most {most_bytes} bytes of JSON, got {len(encoded)}; store it elsewhere"
        message += " and pass a reference"
        raise ArgumentError(message)
    return encoded.decode()


def check(value: Any, what: str, most_depth: int = DEPTH) -> None:
    """Refuse what JSON or a database would change; iterative, so that depth cannot hurt."""
    level: list[tuple[str, Any]] = [("", value)]
    for _ in range(most_depth + 1):
        level = [inner for path, item in level for inner in _inside(path, item, what)]
        if not level:
            return
    message = f"{what}: expected at most {most_depth} levels of nesting"
    raise ArgumentError(message)


def encode_model(value: Any) -> Any:
    """Write a pydantic model, recognised without importing pydantic."""
    if callable(dump := getattr(value, "model_dump", None)):
        return dump(mode="json")
    message = f"objects of type {type(value).__qualname__} have no JSON form"
    raise TypeError(message)


def decode_model(kind: type, value: Any) -> Any:
    """Read a pydantic model, recognised without importing pydantic."""
    if callable(validate := getattr(kind, "model_validate", None)):
        return validate(value)
    message = f"cannot read a {kind.__qualname__} from JSON"
    raise TypeError(message)


def _inside(path: str, item: Any, what: str) -> Iterable[tuple[str, Any]]:
    if isinstance(item, str):
        _check_text(path, item, what)
    elif isinstance(item, bool) or item is None:
        pass
    elif isinstance(item, int):
        if not SMALLEST_INT <= item <= LARGEST_INT:
            _refuse(what, path, "a whole number within 64 bits", "a larger one; pass it as text")
    elif isinstance(item, float):
        if not math.isfinite(item):
            _refuse(what, path, "a finite number", repr(item))
    elif isinstance(item, dict):
        for key in item:
            _check_text(path, key, what)
        return [(f"{path}.{key}", inner) for key, inner in item.items()]
    elif isinstance(item, list | tuple):
        return [(f"{path}[{index}]", inner) for index, inner in enumerate(item)]
    else:
        _refuse(what, path, "a JSON value", type(item).__qualname__)
    return ()


def _check_text(path: str, text: Any, what: str) -> None:
    if not isinstance(text, str):
        _refuse(what, path, "text as key", repr(text))
    if "\x00" in text:
        _refuse(what, path, "text without NUL", "text with NUL")
    if not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text):
        _refuse(what, path, "text in Unicode", "a lone surrogate")


def _refuse(what: str, path: str, expected: str, got: str) -> None:
    message = f"{what}{path[:100]}: expected {expected}, got {got[:100]}"
    raise ArgumentError(message)
