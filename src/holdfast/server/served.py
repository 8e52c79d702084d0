"""What the server serves: an app's settings, tasks and client, which is opened with the first request if need be."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from holdfast.client.client import LocalClient
from holdfast.client.settings import Describe
from holdfast.config import Settings
from holdfast.schedules import Schedule
from holdfast.server.settings import ServerSettings
from holdfast.tasks.registry import Registry
from holdfast.telemetry.meter import Meter


@dataclass(frozen=True)
class Served:
    """All that the routes need.

    `opened` gives the client of the open store, and opens it if nobody has; `closed` closes what that has opened.
    `describe` lists the settings of the app and the server, secrets covered. `tasks` are None where only the store is
    known: kinds and their arguments are then what workers have published. `is_open` lets requests from this machine in
    without a token, until there is one.
    """

    settings: Settings
    server: ServerSettings
    opened: Callable[[], Awaitable[LocalClient]]
    closed: Callable[[], Awaitable[None]]
    describe: Describe
    tasks: Registry | None = None
    schedules: Sequence[Schedule] = ()
    metrics: Callable[[], Awaitable[str]] | None = None
    meter: Meter | None = None
    is_open: bool = False
