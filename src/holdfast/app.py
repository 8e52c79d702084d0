"""`Holdfast`: the app, which only wires the parts together."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack

from holdfast import names
from holdfast.app_options import AppOptions, takes_options
from holdfast.backends.jobs import HoldfastQueueBackend
from holdfast.client.blocking import BlockingClient
from holdfast.client.client import Client, ClientStore
from holdfast.client.opening import Door, Visit
from holdfast.client.terms import read_terms
from holdfast.config import Settings, read_settings
from holdfast.context import Around
from holdfast.errors import ConfigError
from holdfast.locations import masked
from holdfast.server import require_server
from holdfast.services.exporter import Exporter
from holdfast.services.retention_callbacks import Callback
from holdfast.stores import open_store
from holdfast.tasks.decorator import TaskDecorator
from holdfast.tasks.registry import Registry
from holdfast.tasks.scheduling import Scheduled, ScheduleDefinitions, ScheduleOptions
from holdfast.telemetry.exposition import require_metrics
from holdfast.worker.parts import Parts
from holdfast.working import Working

AroundFunction = TypeVar("AroundFunction", bound=Around)
CallbackFunction = TypeVar("CallbackFunction", bound=Callback)

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from holdfast.configuration.configure import Configured
    from holdfast.resources.setting import SettingList
    from holdfast.server.served import Served
    from holdfast.server.settings import ServerSettings


class Holdfast(Working):
    """Tasks, and the store their jobs live in.

        app = Holdfast("sqlite:///jobs.db")     # or "postgresql://..."

        @app.task(queue="high")
        async def send_email(to: str, subject: str) -> str: ...

        async with app:
            job = await send_email.enqueue(to="a@example.org", subject="hi")

    `config` names a file that lies over all other options, its `url` included; see `from_config`. The options of one
    store are ignored by the other, so that changing the URL is enough to change the store. `AppOptions` describes each.
    """

    @takes_options(AppOptions)
    def __init__(self, options: AppOptions) -> None:
        self.configuration: Configured | None = None
        if options.config is not None:
            from holdfast.configuration.configure import configure  # noqa: PLC0415 - only for those who have a file
            from holdfast.server.settings import ServerSettings  # noqa: PLC0415 - as above

            self.configuration = configure(options.config, options, ServerSettings)
            options = self.configuration.options
        self.tasks = Registry()
        self.schedule_definitions = ScheduleDefinitions(self.configuration.schedules if self.configuration else {})
        for schedule in options.schedules:
            self.schedule_definitions.add(schedule)
        self.config: Settings = read_settings(options)
        self._arounds: list[Around] = []
        self._farewells: dict[tuple[str, str], list[Callback]] = {}
        self._lifespan = options.lifespan
        self._exporter = Exporter() if self.config.telemetry.metrics else None
        self._door = Door(self.config, self.tasks)

    @classmethod
    def from_config(cls, path: str | Path | None = None, **options: Any) -> Self:
        """Make the app by a file: the one named, by HOLDFAST_CONFIG too, or the nearest here or above.

        `options` are those of `Holdfast(...)`; what the file says lies over them.
        """
        from holdfast.configuration import files  # noqa: PLC0415 - most programs name their file, or have none

        return cls(config=files.required() if path is None else path, **options)

    def __repr__(self) -> str:
        return f"Holdfast({masked(self.config.url)!r})"

    @property
    def task(self) -> TaskDecorator:
        """Register a function or a Pipeline: `@app.task`, or `@app.task(queue="high")`."""
        return TaskDecorator(self.tasks, self.config, self)

    def schedule(self, **options: Unpack[ScheduleOptions]) -> Callable[[Scheduled], Scheduled]:
        """Let a task run by itself, above `@app.task`: `@app.schedule(cron="0 3 * * *", tz="Europe/Berlin")`.

        Any number may stand above one task, each but one with a `name` of its own; all options are those of `Schedule`.
        """
        return self.schedule_definitions.decorator(**options)

    def around(self, function: AroundFunction) -> AroundFunction:
        """Put code around each run, the first one outermost: `async def tenant(ctx, call): return await call()`."""
        self._arounds.append(function)
        return function

    def on_stale(self, queue: str) -> Callable[[CallbackFunction], CallbackFunction]:
        """Call a function with each finished job of a queue when it becomes stale; see `Queue(stale_after=...)`."""
        return self._told(queue, "stale")

    def on_delete(self, queue: str) -> Callable[[CallbackFunction], CallbackFunction]:
        """Call a function with each finished job of a queue just before retention deletes it.

        It runs in a worker, and gets the job as it was. One that raises is called again, at most five times in all.
        """
        return self._told(queue, "delete")

    def _told(self, queue: str, what: str) -> Callable[[CallbackFunction], CallbackFunction]:
        name = names.name(queue, "queue")

        def register(function: CallbackFunction) -> CallbackFunction:
            self._farewells.setdefault((name, what), []).append(function)
            return function

        return register

    # ---- open and closed -------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        await self._door.enter(self._connect)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._door.leave()

    @asynccontextmanager
    async def open_on(self, store: ClientStore) -> AsyncIterator[Self]:
        """Open the app on a store that the caller made; it is opened and closed here."""
        if self._door.is_open:
            message = "the app is open already; leave `async with app` before opening it on another store"
            raise ConfigError(message)

        async def connect() -> ClientStore:
            await store.open()
            return await self._published(store)

        await self._door.enter(connect)
        try:
            yield self
        finally:
            await self._door.leave()

    def blocking(self) -> AbstractContextManager[BlockingClient]:
        """Use the app without an event loop: `with app.blocking() as queue: queue.enqueue(send_email.call(...))`.

        An app that is open already is shared; otherwise it is opened on an event loop in a daemon thread.
        """
        return self._door.blocking(self._connect)

    @property
    def client(self) -> Client:
        """The client of the open app."""
        return self._door.client()

    @property
    def store(self) -> ClientStore:
        """The store of the open app."""
        return self.client.store

    @property
    def queue_backend(self) -> HoldfastQueueBackend:
        """The app behind the `QueueBackend` protocol, for code that does not want to know which queue it uses."""
        return HoldfastQueueBackend(self)

    async def _connect(self) -> ClientStore:
        return await self._published(await open_store(self.config))

    async def _published(self, store: ClientStore) -> ClientStore:
        """Let the store know what holds for the finished jobs of the queues defined here."""
        if terms := read_terms(self.config, (queue for queue, _ in self._farewells)):
            try:
                await store.define_queues(terms)
            except BaseException:
                await store.close()
                raise
        return store

    # ---- work ------------------------------------------------------------------------------------------------------

    @property
    def parts(self) -> Parts:
        """What a worker needs of this app."""
        lifespan = self._lifespan
        return Parts(
            self.tasks,
            self.config,
            self._arounds,
            lambda: nullcontext() if lifespan is None else lifespan(self),
            self._farewells,
            tuple(self.schedule_definitions.values()),
            self._exporter,
        )

    async def metrics(self) -> str:
        """Write what the workers of this process count, in the text form of Prometheus, for an endpoint of your own.

        It needs `Holdfast(telemetry=TelemetrySettings(metrics=True))`. The numbers of the whole store are there where
        the services run: in one of all processes that work on it.
        """
        if self._exporter is None:
            message = "app.metrics(): nothing is counted; give the app telemetry=TelemetrySettings(metrics=True)"
            raise ConfigError(message)
        return await self._exporter.text()

    def asgi(self, settings: "ServerSettings | None" = None) -> "ASGIApp":
        """The server as an ASGI application: the HTTP API and the dashboard, to be mounted under any path.

            web.mount("/jobs", app.asgi())

        It needs `holdfast-jobs[server]`. The first request opens the app if it is not open. Every request needs a
        token, or another login that `ServerSettings` allows; see `holdfast tokens create`.
        """
        require_server()
        from holdfast.server.application import make_application  # noqa: PLC0415 - only servers need the web packages

        return make_application(self.served(self.server_settings(settings)))

    def server_settings(self, given: "ServerSettings | None" = None) -> "ServerSettings":
        """What holds for the server: what is given here, and the section `server` of the configuration file over it."""
        from holdfast.server.settings import ServerSettings  # noqa: PLC0415 - only servers need it

        over = {} if self.configuration is None else self.configuration.server
        return replace(ServerSettings() if given is None else given, **over)

    def served(self, server: "ServerSettings", *, is_open: bool = False, is_metered: bool = False) -> "Served":
        """What a server needs of this app; `is_open` lets this machine in until there is a token."""
        from holdfast.server.served import Opened, Served  # noqa: PLC0415 - only servers need it

        visit = Visit(self._door, self._connect)

        async def opened() -> Opened:
            client = await visit.client()
            return Opened(client, client.store)

        if is_metered and self._exporter is None:
            require_metrics()
            self._exporter = Exporter()
        return Served(
            self.config,
            server,
            opened,
            visit.end,
            self.tasks,
            tuple(self.schedule_definitions.values()),
            None if self._exporter is None else self.metrics,
            None if self._exporter is None else self._exporter.meter,
            is_open=is_open,
            described=lambda: self._described(server),
        )

    def _described(self, server: "ServerSettings") -> "SettingList":
        """List every setting of the app and its server with where it comes from; secrets are covered."""
        from holdfast.configuration.showing import settings_of  # noqa: PLC0415 - most programs never ask
        from holdfast.resources.setting import SettingList  # noqa: PLC0415 - as above

        told = self.configuration
        origins, defaults = None if told is None else told.origins, Holdfast("sqlite://").config
        rows = settings_of(self.config, defaults, self.schedule_definitions.values(), origins, server)
        return SettingList(file=None if told is None else str(told.file), settings=rows)
