"""Signatures of Standard Webhooks: `v1,` and the HMAC-SHA256 of id, time and body."""

import base64
import hashlib
import hmac
import re
import secrets as randomness
import time
from collections.abc import Mapping, Sequence
from typing import Annotated

from holdfast.errors import HoldfastError, InvalidValue, shown
from holdfast.formats import text_format

ID_HEADER, TIMESTAMP_HEADER, SIGNATURE_HEADER = "webhook-id", "webhook-timestamp", "webhook-signature"
_PREFIX = "whsec_"
_SHORTEST, _LONGEST, _NEW = 24, 64, 32
_TIMESTAMP = re.compile(r"[0-9]{1,12}")


class SignatureRefused(HoldfastError, ValueError):
    """A webhook was not sent by who holds the secret, or not now."""


def new_secret() -> str:
    """Make a secret of 32 random bytes, as its holder sees it."""
    return _PREFIX + base64.b64encode(randomness.token_bytes(_NEW)).decode()


def read_secret(text: str) -> bytes:
    """Read a secret; no message ever shows it."""
    expected = f"webhook secret: expected {_PREFIX} and the base64 of {_SHORTEST} to {_LONGEST} bytes"
    if not isinstance(text, str) or not text.startswith(_PREFIX):
        message = f"{expected}, got something else; new_secret() makes one"
        raise InvalidValue(message)
    encoded = text.removeprefix(_PREFIX).rstrip("=")
    try:
        secret = base64.b64decode(encoded + "=" * (-len(encoded) % 4), validate=True)
    except ValueError:
        message = f"{expected}, got something that is not base64; copy it again, whole"
        raise InvalidValue(message) from None
    if not _SHORTEST <= len(secret) <= _LONGEST:
        message = f"{expected}, got {len(secret)} bytes; new_secret() makes one"
        raise InvalidValue(message)
    return secret


def signature(secrets: Sequence[bytes], message_id: str, timestamp: int, body: bytes) -> str:
    """Sign a message once with every secret: during a rotation both the old and the new one fit."""
    if not secrets:
        message = "webhook secrets: expected at least one, got none; an unsigned webhook proves nothing"
        raise InvalidValue(message)
    # With a dot, one signature could fit two messages.
    if not message_id or "." in message_id:  # guard: signature-id
        message = f"webhook id: expected text without '.', got {shown(message_id)}"
        raise InvalidValue(message)
    return " ".join(_signed(secret, f"{message_id}.{timestamp}.", body) for secret in secrets)


def verify(
    headers: Mapping[str, str],
    body: bytes,
    secrets: Sequence[str],
    *,
    tolerance_s: int = 300,
    now: float | None = None,
) -> None:
    """Check that a received webhook was signed with one of the secrets, and just now."""
    keys = [read_secret(secret) for secret in secrets]
    lower = {name.lower(): value for name, value in headers.items()}
    message_id, timestamp, given = (_required(lower, name) for name in (ID_HEADER, TIMESTAMP_HEADER, SIGNATURE_HEADER))
    if not _TIMESTAMP.fullmatch(timestamp):
        message = f"{TIMESTAMP_HEADER}: expected seconds since 1970, got {shown(timestamp)}"
        raise SignatureRefused(message)
    age_s = (time.time() if now is None else now) - int(timestamp)
    if abs(age_s) > tolerance_s:  # guard: signature-age
        message = f"{TIMESTAMP_HEADER}: expected at most {tolerance_s} s from now, got {abs(age_s):.0f} s "
        message += "ago; it may be a replay" if age_s > 0 else "ahead; check both clocks"
        raise SignatureRefused(message)
    expected = [_signed(key, f"{message_id}.{timestamp}.", body).encode() for key in keys]
    offered = [text.encode(errors="replace") for text in given.split()]
    # Every pair is compared, each in constant time: how long it takes tells nothing about what fits.
    fits = [hmac.compare_digest(one, other) for one in expected for other in offered]
    if not any(fits):  # guard: signature
        message = f"{SIGNATURE_HEADER}: expected one made with a secret of ours, got {len(offered)} that do not fit"
        raise SignatureRefused(message)


def _required(headers: Mapping[str, str], name: str) -> str:
    value = headers.get(name)
    if not value:
        message = f"{name}: expected this header, got none; pass the headers as they were received"
        raise SignatureRefused(message)
    return value


def _signed(secret: bytes, head: str, body: bytes) -> str:
    digest = hmac.digest(secret, head.encode(errors="replace") + body, hashlib.sha256)
    return f"v1,{base64.b64encode(digest).decode()}"


SigningSecret = Annotated[str, text_format(lambda value, _: read_secret(value))]
"""The type of a setting that is a secret to sign with."""
