"""Arguments and results as JSON that both databases keep and give back unchanged.

What is refused here would be changed or refused later: NaN and infinities (JSON has none), NUL and lone surrogates
(PostgreSQL stores neither), numbers beyond 64 bits and nesting that a reader could not follow.
"""

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NoReturn, TypeAlias, Union

import msgspec

from holdfast.errors import ArgumentError

SECRET = "$secret"  # noqa: S105 - a mark, and no secret
"""The only key of the object that a SecretStr is kept as: whoever shows a payload knows what to cover."""

COVER = "**********"
_COVERED = f'"{COVER}"'.encode()
BYTES = 256_000
DEPTH = 64
_LONGEST_PATH = 100
SMALLEST_INT, LARGEST_INT = -(2**63), 2**64 - 1


_Path: TypeAlias = Union["tuple[_Path, str | int]", None]  # the path of what a value is in, and where it is in it


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
    level: list[tuple[_Path, Any]] = [(None, value)]
    for _ in range(most_depth + 1):
        level = [inner for path, item in level for inner in _inside(path, item, what)]
        if not level:
            return
    message = f"{what}: expected at most {most_depth} levels of nesting"
    raise ArgumentError(message)


def encode_model(value: Any) -> Any:
    """Write a pydantic model or a SecretStr, recognised without importing pydantic."""
    if callable(reveal := getattr(value, "get_secret_value", None)) and isinstance(secret := reveal(), str):
        return {SECRET: secret}
    if callable(dump := getattr(value, "model_dump", None)):
        plain = dump(mode="json")
        return _revealed(plain, dump()) if _COVERED in msgspec.json.encode(plain) else plain
    message = f"objects of type {type(value).__qualname__} have no JSON form"
    raise TypeError(message)


def decode_model(kind: type, value: Any) -> Any:
    """Read a pydantic model or a SecretStr, recognised without importing pydantic."""
    if callable(validate := getattr(kind, "model_validate", None)):
        return validate(_replaced(value, lambda secret: secret))
    if has_secret(kind):
        secret = _replaced(value, lambda secret: secret)
        if not isinstance(secret, str):
            message = "expected text"
            raise TypeError(message)
        return kind(secret)
    message = f"cannot read a {kind.__qualname__} from JSON"
    raise TypeError(message)


def has_secret(kind: type) -> bool:
    """Whether a type is a SecretStr of pydantic, or made like one."""
    return callable(getattr(kind, "get_secret_value", None))


def covered(value: Any) -> Any:
    """Cover the secrets in a payload or a result, for people."""
    return _replaced(value, lambda _: COVER)


def covered_json(text: str) -> str:
    """Cover the secrets in JSON, for people."""
    return text if f'"{SECRET}"' not in text else msgspec.json.encode(covered(msgspec.json.decode(text))).decode()


def secrets_in(arguments: Mapping[str, Any]) -> list[str]:
    """Find the secrets among the arguments of a task, however deep."""
    found: list[str] = []
    _replaced(msgspec.to_builtins(arguments, str_keys=True, enc_hook=_encode_any), found.append)
    return found


def marked(value: Any, secrets: Collection[str]) -> Any:
    """Mark the texts that are secrets, where they are not marked yet."""
    if isinstance(value, dict):
        return value if SECRET in value else {key: marked(inner, secrets) for key, inner in value.items()}
    if isinstance(value, list):
        return [marked(inner, secrets) for inner in value]
    return {SECRET: value} if isinstance(value, str) and value in secrets else value


def _encode_any(value: Any) -> Any:
    try:
        return encode_model(value)
    except TypeError:
        return None  # what has no JSON form was made by a decoder of the user's, and no secret comes out of it


def _replaced(value: Any, replace: Callable[[str], Any]) -> Any:
    if isinstance(value, dict):
        if value.keys() == {SECRET} and isinstance(value[SECRET], str):
            return replace(value[SECRET])
        return {key: _replaced(inner, replace) for key, inner in value.items()}
    if isinstance(value, list):
        return [_replaced(inner, replace) for inner in value]
    return value


def _revealed(plain: Any, rich: Any) -> Any:
    """Put the secrets of a model, which its JSON form covers, where its Python form has them."""
    if has_secret(type(rich)):
        return encode_model(rich)
    if isinstance(plain, dict) and isinstance(rich, dict):
        return {key: _revealed(inner, rich.get(key)) for key, inner in plain.items()}
    if isinstance(plain, list) and isinstance(rich, list | tuple):
        return [_revealed(*pair) for pair in zip(plain, rich, strict=True)]
    return plain


def _inside(path: _Path, item: Any, what: str) -> Iterable[tuple[_Path, Any]]:
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
        return [((path, key), inner) for key, inner in item.items()]
    elif isinstance(item, list | tuple):
        return [((path, index), inner) for index, inner in enumerate(item)]
    else:
        _refuse(what, path, "a JSON value", type(item).__qualname__)
    return ()


def _check_text(path: _Path, text: Any, what: str) -> None:
    if not isinstance(text, str):
        _refuse(what, path, "text as key", repr(text))
    if "\x00" in text:
        _refuse(what, path, "text without NUL", "text with NUL")
    try:
        text.encode()
    except UnicodeEncodeError:
        _refuse(what, path, "text in Unicode", "a lone surrogate")


def _refuse(what: str, path: _Path, expected: str, got: str) -> NoReturn:
    message = f"{what}{_written(path)}: expected {expected}, got {got[:100]}"
    raise ArgumentError(message)


def _written(path: _Path) -> str:
    """Write a path, only for a message: a path of text for each value would be as long as all keys above it."""
    parts: list[str] = []
    while path is not None:
        path, part = path
        parts.append(f"[{part}]" if isinstance(part, int) else f".{part[:_LONGEST_PATH]}")
    return "".join(reversed(parts))[:_LONGEST_PATH]
