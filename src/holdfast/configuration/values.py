"""The kinds of values that a configuration holds: how each is read, and how editors are told of it."""

import ipaddress
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from holdfast import names
from holdfast.configuration.mistakes import described
from holdfast.cron import read_times
from holdfast.duration import milliseconds
from holdfast.errors import InvalidValue
from holdfast.hours import read_hours
from holdfast.locations import checked_listen_dsn, locate
from holdfast.policies.keys import key_path
from holdfast.policies.money import read_amount, read_unit
from holdfast.policies.rate import read_rate
from holdfast.shards import Shard
from holdfast.webhooks.signature import read_secret
from holdfast.zones import read_zone

Read = Callable[[Any, str], Any]

NONE = "none"
_TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")
_WHOLE = re.compile(r"[-+]?[0-9]+", re.ASCII)
_NUMBER = re.compile(r"[-+]?[0-9]+(\.[0-9]+)?|[-+]?\.[0-9]+", re.ASCII)
_LONGEST_SECRET = 4_096
_MOST_SHARE = 10
_DURATION = r"^\s*([0-9]+(\.[0-9]+)?\s*(ms|s|m|h|d|w)\s*)+$"


@dataclass(frozen=True, kw_only=True)
class Value:
    """One value: `read` gives it as definitions take it, or says what was expected; of a secret it shows nothing.

    `from_text` reads what an environment variable holds.
    """

    read: Read
    schema: Mapping[str, Any]
    from_text: Callable[[str], Any] = str

    def or_none(self) -> "Value":
        """Make one that may also be null or `none`."""
        inner = self.read

        def read(value: Any, what: str) -> Any:
            return None if value is None or value == NONE else inner(value, what)

        return replace(self, read=read, schema={"anyOf": [dict(self.schema), {"enum": [None, NONE]}]})


def _typed(kind: type, expected: str, value: Any, what: str) -> Any:
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        message = f"{what}: expected {expected}, got {described(value)}"
        raise InvalidValue(message)
    return value


def text(most: int = names.KEY_BYTES) -> Value:
    """Any text."""
    return Value(read=lambda value, what: names.text(value, what, most), schema={"type": "string", "minLength": 1})


def name(expected: str = "") -> Value:
    """The name of something."""
    schema: dict[str, Any] = {"type": "string", "pattern": "^[A-Za-z0-9_.:-]{1,64}$"}
    return Value(read=names.name, schema=schema | ({"description": expected} if expected else {}))


def whole(least: int, most: int) -> Value:
    """A whole number."""

    def read(value: Any, what: str) -> int:
        expected = f"a whole number from {least} to {most}"
        number: int = _typed(int, expected, value, what)
        if not least <= number <= most:
            message = f"{what}: expected {expected}, got {described(value)}"
            raise InvalidValue(message)
        return number

    return Value(read=read, schema={"type": "integer", "minimum": least, "maximum": most}, from_text=_whole_of)


def number(least: float, most: float) -> Value:
    """A number."""

    def read(value: Any, what: str) -> float:
        expected = f"a number from {least:g} to {most:g}"
        found = _typed(int | float, expected, value, what)  # type: ignore[arg-type] # a union is checked like a class
        if not least <= found <= most:
            message = f"{what}: expected {expected}, got {described(value)}"
            raise InvalidValue(message)
        return float(found)

    return Value(read=read, schema={"type": "number", "minimum": least, "maximum": most}, from_text=_number_of)


def choice(*words: str) -> Value:
    """One of several words."""

    def read(value: Any, what: str) -> str:
        if value not in words:
            message = f"{what}: expected {' or '.join(words)}, got {described(value)}"
            raise InvalidValue(message)
        return str(value)

    return Value(read=read, schema={"enum": list(words)})


def duration(*, or_zero: bool = False, words: tuple[str, ...] = ()) -> Value:
    """A length of time; certain words may stand for one."""

    def read(value: Any, what: str) -> Any:
        if value in words:
            return str(value)
        try:
            length = milliseconds(value, what)
        except InvalidValue:
            expected = " or ".join(("a duration like 90s, 5m or 1h 30m", *words))
            message = f"{what}: expected {expected}, got {described(value)}"
            raise InvalidValue(message) from None
        if length == 0 and not or_zero:
            message = f"{what}: expected more than 0, got {described(value)}"
            raise InvalidValue(message)
        return str(value) if isinstance(value, str) else value

    forms: list[dict[str, Any]] = [{"type": "string", "pattern": _DURATION}, {"type": "number", "minimum": 0}]
    return Value(
        read=read, schema={"anyOf": [*forms, *([{"enum": list(words)}] if words else [])]}, from_text=_number_of
    )


def _checked(check: Callable[[Any, str], Any], schema: Mapping[str, Any]) -> Value:
    """A value that is kept as it was written, once it can be read."""

    def read(value: Any, what: str) -> Any:
        check(value, what)
        return str(value) if isinstance(value, str) else value

    return Value(read=read, schema=schema)


def _flag(value: Any, what: str) -> bool:
    found: bool = _typed(bool, "true or false", value, what)
    return found


def _clock(value: Any, what: str) -> str:
    if not isinstance(value, str) or value == "24:00":
        message = f'{what}: expected a time of day like "08:00", got {described(value)}'
        raise InvalidValue(message)
    try:
        read_hours(window=(value, "24:00"))
    except InvalidValue:
        message = f'{what}: expected a time of day like "08:00", got {described(value)}'
        raise InvalidValue(message) from None
    return str(value)


def _closing(value: Any, what: str) -> str:
    return "24:00" if value == "24:00" else _clock(value, what)


def _share(value: Any, what: str) -> float:
    """Read a share of a budget, as `80%` or as 0.8."""
    given = str(value).strip()
    found = _NUMBER.fullmatch(given.removesuffix("%").strip())
    share = float(found[0]) / (100 if given.endswith("%") else 1) if found else 0.0
    if not 0 < share <= _MOST_SHARE:
        message = f"{what}: expected a share of the budget like 80% or 0.8, got {described(value)}"
        raise InvalidValue(message)
    return round(share, 6)


def _address(value: Any, what: str) -> str:
    if not isinstance(value, str) or "@" not in value.strip("@") or any(c in value for c in "\r\n"):
        message = f"{what}: expected an address like ops@example.org, got {described(value)}"
        raise InvalidValue(message)
    return str(value)


def _web(*, secret: bool) -> Read:
    def read(value: Any, what: str) -> str:
        if not isinstance(value, str) or not value.startswith(("http://", "https://")):
            got = "something else" if secret else described(value)
            message = f"{what}: expected an http:// or https:// URL, got {got}"
            raise InvalidValue(message)
        return str(value)

    return read


def _network(value: Any, what: str) -> str:
    try:
        ipaddress.ip_network(_typed(str, "text", value, what), strict=False)
    except ValueError:
        message = f"{what}: expected an address or a network like 10.0.0.0/8, got {described(value)}"
        raise InvalidValue(message) from None
    return str(value)


def _listed(value: Any, what: str) -> str:
    found: str = _typed(str, "text", value, what)
    return found


def _whole_of(given: str) -> Any:
    return int(given) if _WHOLE.fullmatch(given.strip()) else given


def _number_of(given: str) -> Any:
    return float(given) if _NUMBER.fullmatch(given.strip()) else given


def _flag_of(given: str) -> Any:
    word = given.strip().lower()
    return True if word in _TRUE else False if word in _FALSE else given


def _secret(value: Any, what: str) -> str:
    if not isinstance(value, str) or not 1 <= len(value.strip()) <= _LONGEST_SECRET:
        message = f"{what}: expected a text that is not empty; what came is not shown"
        raise InvalidValue(message)
    return str(value)


_AMOUNT = {"anyOf": [{"type": "string"}, {"type": "number", "minimum": 0}]}
_RATE = {"type": "string", "pattern": r"^\s*[0-9]{1,7}\s*/\s*[0-9.]*\s*[A-Za-z]+\s*$"}
_TIME = {"type": "string", "pattern": "^([01][0-9]|2[0-3]):[0-5][0-9]$"}
_STRING = {"type": "string"}
_DAY = {"type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"}

FLAG = Value(read=_flag, schema={"type": "boolean"}, from_text=_flag_of)
AMOUNT = _checked(lambda value, what: read_amount(value, what=what), _AMOUNT)
UNIT = _checked(read_unit, _STRING)
RATE = _checked(read_rate, _RATE)
KEY = _checked(key_path, _STRING)
ZONE = _checked(lambda value, _: read_zone(value), _STRING)
CLOCK = Value(read=_clock, schema=_TIME)
DAYS = _checked(lambda value, _: read_hours(days=value), {"anyOf": [_STRING, {"type": "array", "items": _STRING}]})
DATE = _checked(lambda value, _: read_hours(dates=[value]), {"anyOf": [_DAY, {"type": "array", "items": _DAY}]})
CRON = _checked(lambda value, _: read_times(value, None, None, None, "UTC"), _STRING)
WORD = Value(read=_listed, schema=_STRING)
ANY = Value(read=lambda value, _: value, schema={})
SECRET = Value(read=_secret, schema=_STRING)
SIGNING = _checked(lambda value, _: read_secret(value), _STRING)
STORE_URL = _checked(lambda value, _: locate(value), _STRING)
LISTEN_URL = _checked(lambda value, _: checked_listen_dsn(value), _STRING)
REDIS_URL = _checked(lambda value, _: Shard("redis", value), _STRING)
WEB_URL = Value(read=_web(secret=False), schema={"type": "string", "pattern": "^https?://"})
SERVER_URL = Value(read=names.address, schema={"type": "string", "pattern": "^https?://[^/]"})
SECRET_URL = Value(read=_web(secret=True), schema={"type": "string", "pattern": "^https?://"})
ADDRESS = Value(read=_address, schema={"type": "string", "pattern": "@"})
NETWORK = Value(read=_network, schema=_STRING)
CLOSING = Value(read=_closing, schema={"type": "string", "pattern": "^(([01][0-9]|2[0-3]):[0-5][0-9]|24:00)$"})
SHARE = Value(read=_share, schema={"type": "string", "pattern": "^[0-9.]+ *%?$"})
SCHEMA_NAME = _checked(lambda value, _: names.schema(value), _STRING)
