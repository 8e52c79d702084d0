"""Around every route: what was changed, or was to be, leaves a row in the audit before the answer goes out."""

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holdfast.server import routing
from holdfast.server.shield import SAFE

_FAILED = 500


class Remembering:
    """Writes the audit; whoever only looks passes untouched, so that a stream has nothing around it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and write down what came of it."""
        if scope["type"] != "http" or scope["method"] in SAFE:
            await self._app(scope, receive, send)
            return

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                await routing.remember(Request(scope), message["status"])
            await send(message)

        try:
            await self._app(scope, receive, answer)
        except Exception:
            await routing.remember(Request(scope), _FAILED)  # it is answered further out, and not through here
            raise
