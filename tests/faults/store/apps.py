"""An app with one task, and calls that are timed."""

import time
from collections.abc import Awaitable, Callable
from typing import Any

from holdfast.app import Holdfast
from holdfast.tasks.task import Task

Keep = Task[..., None]


def make_app(url: str = "sqlite://", **settings: Any) -> tuple[Holdfast, Keep]:
    """Make an app whose only task keeps a number."""
    app = Holdfast(url, **settings)

    @app.task
    async def keep(n: Any, filling: str = "") -> None: ...

    return app, keep


async def timed(verb: Callable[[], Awaitable[Any]]) -> tuple[BaseException | None, float]:
    """Give the error of a call if there is one, and how many seconds it took."""
    begun = time.monotonic()
    try:
        await verb()
    except Exception as error:  # noqa: BLE001 - the test looks at it
        return error, time.monotonic() - begun
    return None, time.monotonic() - begun
