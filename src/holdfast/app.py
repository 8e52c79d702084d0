"""`Holdfast`: the app, which only wires the parts together."""

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack

from holdfast.app_options import AppOptions, takes_options
from holdfast.backends.jobs import HoldfastQueueBackend
from holdfast.client.client import ClientStore, LocalClient
from holdfast.client.jobs import Jobs
from holdfast.client.opening import Door, Visit
from holdfast.client.subscription import Subscription
from holdfast.client.terms import read_terms
from holdfast.config import Settings, read_settings
from holdfast.duration import Duration
from holdfast.errors import ConfigError
from holdfast.handle import JobHandle
from holdfast.locations import masked
from holdfast.lock import Lock, Part
from holdfast.resources.event import Event
from holdfast.server import require_server
from holdfast.services.exporter import Exporter
from holdfast.stores import open_store
from holdfast.stores.cluster import Override
from holdfast.tasks.call import Call
from holdfast.tasks.decorator import TaskDecorator
from holdfast.tasks.registry import Registry
from holdfast.tasks.scheduling import Scheduled, ScheduleDefinitions, ScheduleOptions
from holdfast.telemetry.exposition import require_metrics
from holdfast.worker.hooks import Hooks
from holdfast.worker.parts import Parts
from holdfast.working import Working

R = TypeVar("R")

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from holdfast.client.audit import Audit
    from holdfast.client.blocking import BlockingClient
    from holdfast.client.budgets import Budgets
    from holdfast.client.bulk import BulkOperations
    from holdfast.client.dead_letters import DeadLetters
    from holdfast.client.escalations import Escalations
    from holdfast.client.kinds import Kinds
    from holdfast.client.limits import Limits
    from holdfast.client.locks import Locks
    from holdfast.client.queues import Queues
    from holdfast.client.schedules import Schedules
    from holdfast.client.services import Services
    from holdfast.client.settings import RuntimeSettings
    from holdfast.client.tokens import Tokens
    from holdfast.client.webhooks import Webhooks
    from holdfast.client.workers import Workers
    from holdfast.configuration.configure import Configured
    from holdfast.resources.setting import SettingList
    from holdfast.server.served import Served
    from holdfast.server.settings import ServerSettings


class Holdfast(Hooks, Working):
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
        Hooks.__init__(self)
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
        self._lifespan = options.lifespan
        self._exporter = Exporter() if self.config.telemetry.metrics else None
        self._door = Door(self.config, self.describe_settings, self.tasks)

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

    def blocking(self) -> "AbstractContextManager[BlockingClient]":
        """Use the app without an event loop: `with app.blocking() as queue: queue.enqueue(send_email.call(...))`.

        An app that is open already is shared; otherwise it is opened on an event loop in a daemon thread.
        """
        return self._door.blocking(self._connect)

    @property
    def client(self) -> LocalClient:
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
        if terms := read_terms(self.config, (queue for queue, _ in self._callbacks)):
            try:
                await store.define_queues(terms)
            except BaseException:
                await store.close()
                raise
        return store

    # ---- what can be asked ----------------------------------------------------------------------------------------

    @property
    def budgets(self) -> "Budgets":
        """The budgets: read how much of each is spent and by whom, change their settings."""
        return self.client.budgets

    @property
    def limits(self) -> "Limits":
        """The limits in force: read how much of each is in use, change their settings."""
        return self.client.limits

    @property
    def locks(self) -> "Locks":
        """The locks that are held: read them, take one from a holder that hangs."""
        return self.client.locks

    @property
    def jobs(self) -> Jobs:
        """The jobs: read and find them, follow them, change one or many."""
        return self.client.jobs

    @property
    def queues(self) -> "Queues":
        """The queues: read them, pause and resume them, change their settings."""
        return self.client.queues

    @property
    def webhooks(self) -> "Webhooks":
        """The endpoints of webhooks: read them, and enable them again."""
        return self.client.webhooks

    @property
    def kinds(self) -> "Kinds":
        """The kinds of jobs that apps have published."""
        return self.client.kinds

    @property
    def services(self) -> "Services":
        """The services: read what they did, change how they run."""
        return self.client.services

    @property
    def settings(self) -> "RuntimeSettings":
        """The settings in force: read where each comes from, change those that may be changed at run time."""
        return self.client.settings

    @property
    def tokens(self) -> "Tokens":
        """The tokens of the server: read, make and revoke them."""
        return self.client.tokens

    @property
    def audit(self) -> "Audit":
        """The audit: who did what through the server or the command line."""
        return self.client.audit

    @property
    def workers(self) -> "Workers":
        """The workers: read them, ask them to shut down."""
        return self.client.workers

    @property
    def escalations(self) -> "Escalations":
        """The escalations: read them, acknowledge and snooze them, test their policies."""
        return self.client.escalations

    @property
    def bulk(self) -> "BulkOperations":
        """Bulk operations: one change to many jobs, previewed, started, followed and stopped."""
        return self.client.bulk

    @property
    def schedules(self) -> "Schedules":
        """The schedules of the store: read them, run and change them, start and end maintenance."""
        return self.client.schedules

    @property
    def dead_letters(self) -> "DeadLetters":
        """The dead letters: the jobs that have failed; read their groups, replay, purge and export them."""
        return self.client.dead_letters

    async def enqueue(self, call: Call[R]) -> JobHandle[R]:
        """Store one job; when this returns, it is on disk or in the caller's transaction."""
        return await self.client.enqueue(call)

    async def enqueue_many(self, calls: Iterable[Call[R]], connection: Any = None) -> list[JobHandle[R]]:
        """Store many jobs in one round trip; the answers map one to one to the calls."""
        return await self.client.enqueue_many(calls, connection)

    def events(
        self,
        *,
        types: Iterable[str] = (),
        kinds: Iterable[str] = (),
        queues: Iterable[str] = (),
        jobs: Iterable[int | str] = (),
    ) -> AbstractAsyncContextManager[Subscription]:
        """Hear of all that happens to jobs and queues, in whatever process, from the moment the block is entered.

            async with app.events(queues=["bulk"]) as events:
                async for event in events: ...

        One who reads too slowly gets EventsMissed instead of what was lost, and may go on.
        """
        return self.client.events(types=types, kinds=kinds, queues=queues, jobs=jobs)

    def subscribe(
        self,
        callback: Callable[[Event], Any],
        *,
        types: Iterable[str] = (),
        kinds: Iterable[str] = (),
        queues: Iterable[str] = (),
        jobs: Iterable[int | str] = (),
    ) -> AbstractAsyncContextManager[None]:
        """Call a function, or a coroutine function, with each event while the block runs; what it raises is logged."""
        return self.client.subscribe(callback, types=types, kinds=kinds, queues=queues, jobs=jobs)

    def lock(self, *parts: Part, timeout: Duration | None = None) -> AbstractAsyncContextManager[Lock]:
        """Hold a lock that everybody who uses this store respects, while the block runs.

            async with app.lock("edition", 42) as lock:
                await cdn.put(page, token=lock.token)

        The wait has no limit unless `timeout` is given. Inside a job, `ctx.lock(...)` also says for which job it is.
        """
        return self.client.lock(*parts, timeout=timeout)

    async def prune(self) -> int:
        """Delete now all that the retention service would delete within the next minute; the answer is how much."""
        return await self.client.prune()

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
            self._callbacks,
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
        from holdfast.server.served import Served  # noqa: PLC0415 - only servers need it

        visit = Visit(self._door, self._connect)
        if is_metered and self._exporter is None:
            require_metrics()
            self._exporter = Exporter()
        return Served(
            self.config,
            server,
            visit.client,
            visit.end,
            lambda overrides: self.describe_settings(overrides, server),
            self.tasks,
            tuple(self.schedule_definitions.values()),
            None if self._exporter is None else self.metrics,
            None if self._exporter is None else self._exporter.meter,
            is_open=is_open,
        )

    def describe_settings(
        self, overrides: Iterable[Override] = (), server: "ServerSettings | None" = None
    ) -> "SettingList":
        """List every setting of the app and its server with where it comes from; secrets are covered."""
        from holdfast.configuration import showing  # noqa: PLC0415 - most programs never ask
        from holdfast.resources.setting import SettingList  # noqa: PLC0415 - as above

        file, defaults = self.configuration, Holdfast("sqlite://").config
        origins, server = None if file is None else file.origins, server or self.server_settings()
        rows = showing.settings_of(self.config, defaults, self.schedule_definitions.values(), origins, server)
        return SettingList(file=None if file is None else str(file.file), settings=showing.overridden(rows, overrides))
