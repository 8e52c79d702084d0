"""Processes that are made to stand still, and to go on."""

import asyncio
import fcntl
import os
import signal
import sqlite3
from collections.abc import Sequence

from tests.support.groups import send
from tests.support.place import Place


async def stop(place: Place, pids: Sequence[int]) -> None:
    """Stop processes, but not while one of them has the turn to write in a SQLite file: then nobody could go on."""
    while True:
        for pid in pids:
            assert send(pid, signal.SIGSTOP)
        if not place.is_sqlite or await _is_free(place):
            return
        for pid in pids:
            send(pid, signal.SIGCONT)
        await asyncio.sleep(0.01)


async def _is_free(place: Place) -> bool:
    """Whether somebody gets the turn, and may write."""
    file = os.open(place.folder / "jobs.db-turn", os.O_RDWR | os.O_CREAT)
    try:
        for _ in range(20):
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                await asyncio.sleep(0.02)
                continue
            connection = sqlite3.connect(place.folder / "jobs.db", timeout=0.2, isolation_level=None)
            try:
                connection.execute("BEGIN IMMEDIATE")
                connection.execute("ROLLBACK")
            except sqlite3.OperationalError:
                return False
            finally:
                connection.close()
            return True
        return False
    finally:
        os.close(file)


def go_on(pids: Sequence[int]) -> None:
    """Let stopped processes go on."""
    for pid in pids:
        send(pid, signal.SIGCONT)
