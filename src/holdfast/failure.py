"""An exception made fit to be stored: recording a failure can never fail.

Whatever `str()` does, whatever the text holds and however long it is, what comes out here is clean UTF-8 without NUL
and within its bounds, on both databases.
"""

import os
import re
import traceback
from collections.abc import Iterable
from types import TracebackType

import msgspec

CLASS_LENGTH = 200
MESSAGE_BYTES = 1_000
TRACEBACK_BYTES = 7_000
_FRAMES = 30
_CHAIN = 5
_COVER = "**********"
_SHORTEST_SECRET = 5  # what is shorter would be covered in the middle of words

# Everything that a terminal or a log line would act on, except tab and newline.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
# What differs between two failures of the same sort: quoted text, and numbers, bare hexadecimal ones too (ids, hashes).
_VARIABLE = re.compile(r"'[^']*'|\"[^\"]*\"|0x[0-9a-f]+|\b(?=[a-f]*\d)[0-9a-f]{6,}\b|\d+", re.IGNORECASE)
# Code that is nobody's own: it fails in the same place for many reasons.
_LIBRARIES = tuple(os.path.dirname(file) + os.sep for file in (os.__file__, __file__))  # noqa: PTH120 - as frames do


class Failure(msgspec.Struct, frozen=True):
    """Why an attempt ended badly: bounded, clean text."""

    error_class: str
    message: str
    traceback: str | None
    fingerprint: str


def from_exception(error: BaseException) -> Failure:
    """Describe an exception, however broken it is."""
    error_class = clean(f"{type(error).__module__}.{type(error).__qualname__}", CLASS_LENGTH)
    error_class = error_class.removeprefix("builtins.")
    message = clean(_text_of(error), MESSAGE_BYTES)
    where = _innermost_frame(error.__traceback__)
    fingerprint = f"{error_class}@{where}" if where else f"{error_class}:{_VARIABLE.sub('?', message)}"
    return Failure(error_class, message, clean(_trace(error), TRACEBACK_BYTES), clean(fingerprint, CLASS_LENGTH * 2))


def from_text(error_class: str, message: str) -> Failure:
    """Describe a failure that no exception carries, such as a lost worker."""
    message = clean(message, MESSAGE_BYTES)
    return Failure(
        clean(error_class, CLASS_LENGTH),
        message,
        None,
        clean(f"{error_class}:{_VARIABLE.sub('?', message)}", CLASS_LENGTH * 2),
    )


def covered(why: Failure, secrets: Iterable[str]) -> Failure:
    """Cover secrets in a description."""
    known = tuple(secrets)
    trace = None if why.traceback is None else hidden(why.traceback, known)
    return Failure(why.error_class, hidden(why.message, known), trace, hidden(why.fingerprint, known))


def hidden(text: str, secrets: Iterable[str]) -> str:
    """Cover secrets in a text, as long as they are long enough to be any."""
    longest = sorted((secret for secret in secrets if len(secret) >= _SHORTEST_SECRET), key=len, reverse=True)
    return text if not longest else re.sub("|".join(map(re.escape, longest)), _COVER, text)


def clean(text: str, most_bytes: int) -> str:
    """Escape what cannot be stored or would act on a terminal, and cut in the middle what is too long."""
    if len(text) > 2 * most_bytes:  # no need to look at all of 50 MB
        text = text[:most_bytes] + text[-most_bytes:]
    text = _CONTROL.sub(lambda match: ascii(match[0])[1:-1], text)
    encoded = text.encode()
    if len(encoded) <= most_bytes:
        return text
    half = (most_bytes - len(" [...] ")) // 2
    head = encoded[:half].decode(errors="ignore")
    return f"{head} [...] {encoded[-half:].decode(errors='ignore')}"


def _text_of(error: BaseException) -> str:
    try:
        return str.__str__(str(error))
    except Exception as broken:  # noqa: BLE001 - __str__ is the user's code and may raise anything
        return f"(its __str__ raised {type(broken).__qualname__})"


def _trace(error: BaseException) -> str:
    """Format the innermost frames of the error and of a few of its causes, without trusting any of them."""
    parts: list[str] = []
    current: BaseException | None = error
    seen: set[int] = set()
    while current is not None and id(current) not in seen and len(parts) < _CHAIN:
        seen.add(id(current))
        frames = traceback.extract_tb(current.__traceback__)[-_FRAMES:]
        lines = [f'  File "{frame.filename}", line {frame.lineno}, in {frame.name}' for frame in frames]
        lines.append(f"{type(current).__qualname__}: {clean(_text_of(current), MESSAGE_BYTES)}")
        parts.append("\n".join(lines))
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)
    return "\n\ncaused by:\n".join(parts)


def _innermost_frame(trace: TracebackType | None) -> str | None:
    """Name the last place in the user's own code, if there is one."""
    own = [frame for frame in traceback.extract_tb(trace) if _is_own(frame.filename)]
    return f"{own[-1].filename}:{own[-1].name}" if own else None


def _is_own(file: str) -> bool:
    is_installed = "site-packages" in file or "dist-packages" in file
    return not (is_installed or file.startswith(("<frozen ", *_LIBRARIES)))
