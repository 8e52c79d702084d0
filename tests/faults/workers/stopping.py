"""Processes that are made to stand still, and to go on."""

import fcntl
import os
import signal
import sqlite3
from collections.abc import Sequence

from tests.support.groups import send
from tests.support.place import Place
from tests.support.wait import until


async def stop(place: Place, pids: Sequence[int]) -> None:
    """Stop processes, but not while one of them has the turn to write in a SQLite file: then nobody could go on."""

    async def are_stopped() -> bool:
        for pid in pids:
            assert send(pid, signal.SIGSTOP)
        if not place.is_sqlite or _is_free(place):
            return True
        go_on(pids)
        return False

    await until(are_stopped, "all stand still, and none of them has the turn to write")


def _is_free(place: Place) -> bool:
    """Whether another process gets the turn, and may write."""
    file = os.open(place.folder / "jobs.db-turn", os.O_RDWR | os.O_CREAT)
    connection = sqlite3.connect(place.folder / "jobs.db", timeout=0.2, isolation_level=None)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("ROLLBACK")
    except (BlockingIOError, sqlite3.OperationalError):
        return False
    else:
        return True
    finally:
        connection.close()
        os.close(file)


async def leases_ended(place: Place, pids: Sequence[int]) -> None:
    """Wait until the leases of stopped processes have ended, by the store's own clock."""

    async def have_ended() -> bool:
        now = (await place.store.diagnose()).now
        return all(row.lease_until < now for row in await place.store.list_workers() if row.info.pid in pids)

    await until(have_ended, "the leases have ended")


def go_on(pids: Sequence[int]) -> None:
    """Let stopped processes go on."""
    for pid in pids:
        send(pid, signal.SIGCONT)
