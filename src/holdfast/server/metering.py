"""Counting what a server answers, for those who watch it by numbers."""

import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holdfast.telemetry.meter import Meter
from holdfast.telemetry.metrics import REQUESTS

_UNKNOWN = "unknown"  # one word for all addresses that are not there, of which there is no end
_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"})


class Metering:
    """Times requests until their answer begins, by what was asked for and how it was answered."""

    def __init__(self, app: ASGIApp, meter: Meter) -> None:
        self._app = app
        self._meter = meter

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and count it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                method = scope["method"] if scope["method"] in _METHODS else _UNKNOWN
                route = getattr(scope.get("route"), "name", None) or _UNKNOWN
                self._meter.time((REQUESTS, method, route, str(message["status"])), time.perf_counter() - began)
            await send(message)

        await self._app(scope, receive, answer)
