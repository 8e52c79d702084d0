"""Bodies as JSON that means one thing only: what a database or another reader would understand otherwise is refused."""

import asyncio
import functools
import json
from collections.abc import Callable, Coroutine
from typing import Any
from urllib.parse import parse_qsl

from fastapi import Request
from fastapi.params import Form
from fastapi.routing import APIRoute
from starlette.datastructures import FormData, UploadFile
from starlette.responses import Response

from holdfast import payload
from holdfast.errors import shown
from holdfast.server.problems import Problem
from holdfast.server.shield import SAFE

SMALL = 16_000  # bytes that are read at once; all else is read in a thread, beside other requests
_SMALL_FORM = 32_000  # which strangers may send, for the login
_FORM = "application/x-www-form-urlencoded"
_FREE = frozenset({"args", "value"})  # where any JSON may be
_MOST_MEMBERS, _MOST_ELEMENTS, _MOST_FIELDS = 100, 10_000, 1_000
_AROUND = 8  # levels that a request may have around the arguments of a job


class BodyRoute(APIRoute):
    """A route that asks who comes, then reads the body itself, strictly, and only then lets FastAPI do both again.

    FastAPI alone would read first and ask later: strangers would learn from its answers what a body must look like.
    And it reads inside a `try` that answers 400 to whatever goes wrong, a body that is too large included.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Put the asking and the reading in front of the route's own handler."""
        handle = super().get_route_handler()

        async def ask_and_read_first(request: Request) -> Response:
            strict = _StrictRequest(request.scope, request.receive)
            for asking in self.dependencies:
                if asking.dependency is not None:
                    await asking.dependency(strict)  # guard: asked-before-body
            if request.method in SAFE:
                return await handle(strict)
            body = await strict.body()
            if body and _is_json(given := request.headers.get("content-type", "")):
                await strict.json()
            elif body and self.takes_json:
                detail = f"body: expected JSON, with the header Content-Type: application/json, got {shown(given)}"
                raise Problem(422, detail, "json")
            elif body:
                await strict.form()
            return await handle(strict)

        return ask_and_read_first

    @property
    def takes_json(self) -> bool:
        """Whether the handler wants a body, and no form."""
        return self.body_field is not None and not isinstance(self.body_field.field_info, Form)


class _StrictRequest(Request):
    _read: Any = None
    _has_read = False

    async def json(self) -> Any:
        if not self._has_read:
            most_depth = self.app.state.served.settings.max_depth + _AROUND
            body = await self.body()
            read = functools.partial(read_json, body, most_depth)
            # guard: body-in-thread, without: self._read = read()
            self._read = read() if len(body) <= SMALL else await asyncio.to_thread(read)
            self._has_read = True
        return self._read

    async def _get_form(self, **limits: Any) -> FormData:
        """Read a form as Starlette does, but a large one in a thread."""
        is_form = self.headers.get("content-type", "").partition(";")[0].strip().lower() == _FORM
        if self._form is None and is_form and len(body := await self.body()) > _SMALL_FORM:
            self._form = await asyncio.to_thread(_read_form, body)
        return await super()._get_form(**limits)


def read_json(body: bytes, most_depth: int = payload.DEPTH + _AROUND) -> Any:
    """Read the JSON of a request, which has so many members at most."""
    value = parse_json(body, most_depth)
    _require_few(value)  # guard: json-members
    return value


def parse_json(body: bytes, most_depth: int = payload.DEPTH + _AROUND) -> Any:
    """Read any JSON: UTF-8, each name once, finite numbers within 64 bits, text that every database keeps."""
    try:
        value = json.loads(body.decode(), object_pairs_hook=_object)
    except RecursionError:
        detail = f"body: expected at most {most_depth} levels of nesting"
        raise Problem(422, detail, "json") from None
    except ValueError as error:
        detail = f"body: expected JSON in UTF-8, got something else: {error}"
        raise Problem(422, detail, "json") from None
    payload.check(value, "body", most_depth)  # guard: json-values
    return value


def _require_few(value: Any) -> None:
    """Refuse more members than any request has: a mistake would be noted for each of them."""
    level = [value]
    while level:
        inner: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                if len(item) > _MOST_MEMBERS:
                    detail = f"body: expected objects of at most {_MOST_MEMBERS} members, got one of {len(item):,}"
                    raise Problem(422, detail, "json")
                inner += [part for name, part in item.items() if name not in _FREE]
            elif isinstance(item, list):
                if len(item) > _MOST_ELEMENTS:
                    detail = f"body: expected lists of at most {_MOST_ELEMENTS:,} elements, got one of {len(item):,}"
                    raise Problem(422, detail, "json")
                inner += item
        level = inner


def _read_form(body: bytes) -> FormData:
    fields: list[tuple[str, str | UploadFile]]
    try:
        fields = [*parse_qsl(body.decode("latin-1"), keep_blank_values=True, max_num_fields=_MOST_FIELDS)]
    except ValueError:
        detail = f"body: expected a form of at most {_MOST_FIELDS:,} fields"
        raise Problem(422, detail, "invalid-request") from None
    return FormData(fields)


def _is_json(content_type: str) -> bool:
    kind = content_type.partition(";")[0].strip().lower()
    return kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json"))


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:  # guard: json-names
            message = f"the name {shown(name)} comes twice in one object"
            raise ValueError(message)
        found[name] = value
    return found
