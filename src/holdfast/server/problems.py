"""Errors as answers: `application/problem+json` (RFC 9457), one shape for every mistake, nothing of the inside."""

from collections.abc import Mapping
from typing import Any

from holdfast import errors

TYPE = "application/problem+json"

_STATUSES: tuple[tuple[type[errors.HoldfastError], int, str], ...] = (
    (errors.RateLimited, 429, "rate-limited"),
    (errors.KeyConflict, 409, "key-conflict"),
    (errors.UniqueConflict, 409, "unique-conflict"),
    (errors.WrongState, 409, "wrong-state"),
    (errors.Conflict, 409, "conflict"),
    (errors.ArgumentError, 422, "arguments"),
    (errors.UnknownKind, 422, "unknown-kind"),
    (errors.InvalidValue, 422, "invalid-value"),
    (errors.ConfigError, 422, "configuration"),
    (errors.DataRefused, 422, "data-refused"),
    (errors.StoreError, 503, "store-unavailable"),
)
TITLES = {
    400: "The request cannot be read",
    401: "Not authenticated",
    403: "This is not allowed",
    404: "There is no such thing",
    405: "This cannot be done there",
    408: "The request did not come in time",
    409: "It does not fit the state it met",
    413: "The request is too large",
    415: "This kind of content is not read here",
    421: "The server does not go by this name",
    422: "Something in the request is wrong",
    429: "Too many requests",
    500: "Something unexpected happened",
    503: "The store cannot be asked now",
}
OPAQUE = "The server met something unexpected; whoever runs it finds the request's id in its log."


AWAY = "The database cannot be reached, or did not answer in time; try again."
INVALID = 422


class BrokenOff(Exception):
    """Ends an answer that has begun before it is whole, so that nobody takes it for all there is."""


class Problem(Exception):
    """An answer that is an error."""

    def __init__(
        self,
        status: int,
        detail: str,
        code: str | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.code = code or TITLES.get(status, "error").lower().replace(" ", "-")
        self.headers = dict(headers or {})
        self.extra = dict(extra or {})

    def body(self, request_id: str) -> dict[str, Any]:
        """What the reader gets."""
        about = {"type": f"urn:holdfast:{self.code}", "title": TITLES.get(self.status, "The request failed")}
        return {**about, "status": self.status, "detail": self.detail, "request": request_id, **self.extra}


def not_found(what: str, name: object) -> Problem:
    """Say that there is nothing there; also to those who may not know that there is."""
    return Problem(404, f"there is no {what} {name}", "not-found")


def problem_of(error: errors.HoldfastError) -> Problem:
    """Turn an error of the product into an answer."""
    if isinstance(error, LookupError) and not isinstance(error, errors.UnknownKind):
        return Problem(404, str(error), "not-found")
    for kind, status, code in _STATUSES:
        if isinstance(error, kind):
            # What drivers say is for the log of whoever runs the server.
            detail = AWAY if isinstance(error, errors.StoreError) and status != INVALID else str(error)
            return Problem(status, detail, code, headers=_patience(error))
    return Problem(500, OPAQUE, "unexpected")


def _patience(error: errors.HoldfastError) -> dict[str, str]:
    wait_s = getattr(error, "retry_after", None)
    return {} if wait_s is None else {"retry-after": str(max(1, round(wait_s)))}
