"""What the server serves: an app's settings, tasks and client, which is opened with the first request if need be."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from holdfast.client.client import Client
from holdfast.config import Settings
from holdfast.resources.setting import SettingList
from holdfast.schedules import Schedule
from holdfast.server.settings import ServerSettings
from holdfast.stores.store import Store
from holdfast.tasks.registry import Registry
from holdfast.telemetry.meter import Meter


@dataclass(frozen=True)
class Opened:
    """An open store, and the client on it."""

    client: Client
    store: Store


@dataclass(frozen=True)
class Served:
    """All that the routes need.

    `opened` gives the open store, and opens it if nobody has; `closed` closes what that has opened. `tasks` are None
    where only the store is known: kinds and their arguments are then what workers have published. `is_open` lets
    requests from this machine in without a token, until there is one. `described` lists the settings of the app and
    the server, secrets covered.
    """

    settings: Settings
    server: ServerSettings
    opened: Callable[[], Awaitable[Opened]]
    closed: Callable[[], Awaitable[None]]
    tasks: Registry | None = None
    schedules: Sequence[Schedule] = ()
    metrics: Callable[[], Awaitable[str]] | None = None
    meter: Meter | None = None
    is_open: bool = False
    described: Callable[[], SettingList] = lambda: SettingList(settings=[])
