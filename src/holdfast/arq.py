"""Holdfast's jobs in the workers of an Arq deployment: Arq delivers; Holdfast claims, fences, retries and records.

    app = Holdfast("postgresql://…", delivery=ArqDelivery("redis://…"))
    WorkerSettings = arq_worker_settings(app)      # arq module.WorkerSettings

Arq calls one function with the id of a job. The call only offers the id to a worker of Holdfast in the same process,
and returns when that needs no more: a call that is lost, cut, repeated or late does no harm.
"""

import asyncio
import contextlib
import dataclasses
import inspect
import logging
import signal
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any
from urllib.parse import unquote

from holdfast import names, public_id
from holdfast.app import Holdfast
from holdfast.arq_delivery import ArqDelivery
from holdfast.backends.arq import ArqQueueBackend, arq_pool, decode, encode
from holdfast.delivery.arq import FUNCTION, ByArq
from holdfast.delivery.arq_inbox import Inbox
from holdfast.duration import Duration, milliseconds
from holdfast.errors import ConfigError, InvalidValue
from holdfast.worker.embedded import Embedded
from holdfast.worker.leaving import Left, Until
from holdfast.worker.parts import queues_of
from holdfast.worker_settings import MOST_CONCURRENT

from arq.connections import RedisSettings  # isort: skip - Holdfast's own modules say how to install it
from arq.worker import Retry, Worker, func  # isort: skip
from redis.asyncio.retry import Retry as Tries  # isort: skip
from redis.backoff import ExponentialBackoff  # isort: skip
from redis.exceptions import ConnectionError as Lost, TimeoutError as Late  # isort: skip

__all__ = ["ArqQueueBackend", "arq_pool", "arq_worker_settings"]

_logger = logging.getLogger("holdfast")

Hook = Callable[[dict[Any, Any]], Awaitable[Any]]

_PATIENCE = 0.9  # of the time that Arq gives a call
_LONGEST_WAIT_S = 1.0
_TRIES = 30  # half a minute: an Arq worker that cannot reach Redis ends, and everything that runs in it
_RUN_AGAIN = 1_000_000  # after a shutdown or a crash: a call that is made again does no harm, one that is dropped may
_ELSEWHERE_S = 1.0  # until a call that this worker did not see to is made again, to another
_OURS = ("queue_name", "redis_pool", "job_serializer", "job_deserializer", "job_completion_wait")


class Runner:
    """The worker of an app inside one Arq worker."""

    def __init__(
        self,
        app: Holdfast,
        *,
        queues: Sequence[str] | None,
        concurrency: int,
        patience_s: float,
        on_startup: Hook | None,
        on_shutdown: Hook | None,
        handle_signals: bool,
    ) -> None:
        self._app = app
        self._queues = queues
        self._concurrency = concurrency
        self._patience_s = patience_s
        self._on_startup = on_startup
        self._on_shutdown = on_shutdown
        self._handle_signals = handle_signals
        self._inbox: Inbox | None = None
        self._worker: Embedded | None = None
        self._working: asyncio.Task[Left] | None = None
        self._main: asyncio.Task[Any] | None = None
        self._is_leaving = False

    async def start(self, ctx: dict[Any, Any]) -> None:
        """Open the app, and let its worker work beside Arq's."""
        if self._on_startup is not None:
            await self._on_startup(ctx)
        self._is_leaving = False
        app = self._app
        await app.__aenter__()
        delivery = app.client.delivery
        assert isinstance(delivery, ByArq)  # noqa: S101 - which the settings have made sure of
        inbox = Inbox(app.store.get_jobs, queues_of(app.parts, self._queues), lambda: delivery.is_live)
        delivery.source = inbox
        worker = Embedded(
            app.parts, app.store, delivery, queues=self._queues, concurrency=self._concurrency, until=Until.TOLD
        )
        self._inbox, self._worker, self._main = inbox, worker, asyncio.current_task()
        self._working = asyncio.create_task(worker.run(), name="holdfast in arq")
        self._working.add_done_callback(self._ended)
        if self._main is not None:  # Arq's main loop, which an error ends before Arq waits for anything
            self._main.add_done_callback(lambda _: self._drain())
        if self._handle_signals:
            for number in (signal.SIGINT, signal.SIGTERM):
                with contextlib.suppress(NotImplementedError):  # where it does not exist, Ctrl-C raises
                    asyncio.get_running_loop().add_signal_handler(number, self._told, number)

    async def run(self, _ctx: dict[Any, Any], payload: dict[str, Any]) -> None:
        """Offer the job of one delivery to the worker, and wait until that needs no more.

        A job that takes longer than Arq gives a call goes on by itself.
        """
        try:
            job_id = public_id.decode(payload["job"])
        except (AttributeError, KeyError, TypeError) as error:
            message = f'{FUNCTION}: expected a payload like {{"job": "htcx-2s16-z48b-09"}}, got {payload!r:.200}'
            raise InvalidValue(message) from error
        is_done = False
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._patience_s):
                is_done = self._inbox is not None and await self._inbox.deliver(job_id)
            if not is_done:
                raise Retry(_ELSEWHERE_S)

    async def stop(self, ctx: dict[Any, Any]) -> None:
        """Let running jobs end within the shutdown grace, then close the app."""
        self._drain()
        try:
            if self._working is not None:
                await self._leave(self._working)
        finally:
            if self._on_shutdown is not None:
                await self._on_shutdown(ctx)

    async def _leave(self, working: "asyncio.Task[Left]") -> None:
        try:
            left = await working
        finally:
            self._inbox = self._worker = self._working = self._main = None
            await self._app.__aexit__(None, None, None)
        if left is Left.INTERRUPTED:
            _logger.warning("not all jobs had finished within the shutdown grace: they were requeued and run elsewhere")

    def _told(self, number: signal.Signals) -> None:
        """Drain first, and let Arq end when that is done: a worker of Arq may end without calling `stop`.

        It does so when a signal finds it between two of its own steps.
        """
        if self._worker is not None and self._is_leaving:
            _logger.info("%s again: running jobs are requeued", number.name)
            self._worker.stop()
        else:
            _logger.info("%s: running jobs may end, then Arq's worker leaves", number.name)
            self._drain()

    def _drain(self) -> None:
        self._is_leaving = True
        if self._worker is not None:
            self._worker.drain()
        if self._inbox is not None:
            self._inbox.leave()

    def _ended(self, working: "asyncio.Task[Left]") -> None:
        """Let no call wait for a worker that is gone, and Arq's not go on without it."""
        if self._inbox is not None:
            self._inbox.close()
        if not working.cancelled() and working.exception() is not None:
            _logger.error("the worker of Holdfast has ended, and Arq's leaves: %s", working.exception())
        if self._main is not None and not self._main.done():
            self._main.cancel()


def arq_worker_settings(
    app: Holdfast,
    *,
    queues: Iterable[str] | None = None,
    max_jobs: int | None = None,
    functions: Iterable[Any] = (),
    cron_jobs: Iterable[Any] = (),
    on_startup: Hook | None = None,
    on_shutdown: Hook | None = None,
    redis_settings: RedisSettings | None = None,
    job_timeout: Duration = "5m",
    handle_signals: bool = True,
    **options: Any,
) -> type:
    """Make the class that `arq module.WorkerSettings` runs, for an app with `delivery=ArqDelivery(...)`.

    `queues` are Holdfast's, all of the app if left out; `max_jobs` bounds both Arq and Holdfast, by default at the
    app's `concurrency`. `functions`, `cron_jobs`, the hooks and any further option of an Arq worker are your own.
    `job_timeout` is for your functions: a job of Holdfast has its own timeout, and is not cut by Arq's.
    """
    delivery = _delivery_of(app)
    _check(options)
    chosen = app.config.worker.concurrency if max_jobs is None else names.count(max_jobs, "max_jobs", MOST_CONCURRENT)
    timeout_s = milliseconds(job_timeout, "job_timeout") / 1_000
    runner = Runner(
        app,
        queues=None if queues is None else list(queues),
        concurrency=chosen,
        patience_s=timeout_s * _PATIENCE,
        on_startup=on_startup,
        on_shutdown=on_shutdown,
        handle_signals=handle_signals,
    )
    called: Any = runner.run  # the type that Arq expects takes any arguments at all
    settings = options | {
        "functions": [func(called, name=FUNCTION, keep_result=0, max_tries=_RUN_AGAIN), *functions],
        "cron_jobs": list(cron_jobs),
        "on_startup": runner.start,
        "on_shutdown": runner.stop,
        "handle_signals": False,
        "max_jobs": chosen,
        "job_timeout": timeout_s,
        "queue_name": delivery.queue,
        "redis_settings": redis_settings or _reached(delivery.url),
        "job_serializer": encode,
        "job_deserializer": decode,
    }
    return type("WorkerSettings", (), settings)


def _delivery_of(app: Holdfast) -> ArqDelivery:
    delivery = app.config.delivery
    if not isinstance(delivery, ArqDelivery):
        message = "arq_worker_settings(...): expected an app with delivery=ArqDelivery(url), got one whose ids go"
        message += " another way; Arq would never be told of its jobs"
        raise ConfigError(message)
    return delivery


def _check(options: dict[str, Any]) -> None:
    known = inspect.signature(Worker).parameters
    for name in options:
        if name not in known or name in _OURS:
            reason = "Holdfast sets it" if name in _OURS else "Arq's worker has no such option"
            message = f"arq_worker_settings(...): {name} cannot be set: {reason}"
            raise ConfigError(message)


def _reached(url: str) -> RedisSettings:
    """Read a URL as Arq does, except that it leaves escaped passwords as they are, and ends when Redis restarts."""
    read = RedisSettings.from_dsn(url)
    user, password = (None if part is None else unquote(part) for part in (read.username, read.password))
    retry = Tries(ExponentialBackoff(cap=_LONGEST_WAIT_S, base=0.05), _TRIES)
    return dataclasses.replace(
        read, username=user, password=password, retry=retry, retry_on_error=[OSError, Lost, Late]
    )
