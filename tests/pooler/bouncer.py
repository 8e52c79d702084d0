"""PgBouncer from Debian's package in transaction mode, in front of the tests' server."""

import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from psycopg.conninfo import conninfo_to_dict

from tests.support import debian
from tests.support.leftovers import POSTGRES_USER
from tests.support.wait import wait_until

PORT = 6432
POOL = 4
_TRACKS_FROM = (1, 21)


class Bouncer:
    """A pooler and its address."""

    def __init__(self, process: subprocess.Popen[bytes], folder: Path, dsn: str) -> None:
        self.dsn = dsn
        self._process = process
        self._folder = folder

    def wait_until_ready(self) -> None:
        """Wait until it hands a connection on to the server."""
        wait_until(self._is_ready, "the pooler hands a connection on")

    def _is_ready(self) -> bool:
        try:
            psycopg.connect(self.dsn, connect_timeout=2).close()
        except psycopg.OperationalError:
            assert self._process.poll() is None, self.said()
            return False
        return True

    def stop(self) -> None:
        """End it at once; every connection breaks."""
        self._process.send_signal(signal.SIGTERM)
        self._process.wait()

    def said(self) -> str:
        """What it wrote."""
        return (self._folder / "log").read_text(errors="replace")


def can_track() -> bool:
    """Whether the release that is installed can keep account of prepared statements."""
    found = debian.found("pgbouncer")
    return found is not None and _version(found) >= _TRACKS_FROM


def _version(found: str) -> tuple[int, int]:
    said = subprocess.run([found, "--version"], check=True, capture_output=True, text=True).stdout
    release = re.search(r"PgBouncer (\d+)\.(\d+)", said)
    assert release is not None, said
    return int(release[1]), int(release[2])


@contextmanager
def bounced(
    dsn: str, *, pool: int = POOL, tracks: bool = False, at_connect: str = "", is_ready: bool = True
) -> Iterator[Bouncer]:
    """Give a pooler with so many connections to the server; `at_connect` is run on each of them.

    It is waited for, unless its server is said not to be ready.
    """
    folder = Path(tempfile.mkdtemp(prefix="pool-"))
    # As root the server has a user of its own, whose socket only that one can reach.
    user = POSTGRES_USER if os.geteuid() == 0 else None
    config = folder / "pgbouncer.ini"
    config.write_text(_config(dsn, folder, pool, at_connect))
    command = [debian.program("pgbouncer"), str(config)]
    if can_track():
        config.write_text(f"{config.read_text()}max_prepared_statements = {200 if tracks else 0}\n")
    if user is not None:
        shutil.chown(folder, user)
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, user=user, group=user)
    bouncer = Bouncer(process, folder, _address(dsn, folder))
    try:
        if is_ready:
            bouncer.wait_until_ready()
        yield bouncer
    finally:
        bouncer.stop()
        shutil.rmtree(folder)


def _config(dsn: str, folder: Path, pool: int, at_connect: str) -> str:
    server = {key: value for key, value in conninfo_to_dict(dsn).items() if value}
    if at_connect:
        server["connect_query"] = f"'{at_connect}'"
    where = " ".join(f"{key}={value}" for key, value in server.items())
    return f"""[databases]
{server["dbname"]} = {where}
[pgbouncer]
pool_mode = transaction
auth_type = any
unix_socket_dir = {folder}
listen_port = {PORT}
default_pool_size = {pool}
max_client_conn = 500
server_login_retry = 1
"""


def _address(dsn: str, folder: Path) -> str:
    server = conninfo_to_dict(dsn)
    return f"postgresql://{server['user']}@/{server['dbname']}?host={folder}&port={PORT}"
