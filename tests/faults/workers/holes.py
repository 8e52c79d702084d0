"""The worker with a guard removed, or with a fault where none can be had from outside: what tests have to notice.

`python -m tests.faults.workers.holes` is started in front of a worker's command line to change its supervisor; the app
of `tests.faults.workers.holed` changes its children. CHAOS_HOLES names what is changed.
"""

import os
import signal
import sqlite3
import sys
from collections.abc import Callable, Iterable, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from holdfast.job import JobRow
from holdfast.stores.postgres.store import PostgresStore
from holdfast.stores.sqlite import work
from holdfast.stores.sqlite.endings import Held
from holdfast.stores.sqlite.store import SqliteStore
from holdfast.stores.values import Claim
from holdfast.worker.child import Child
from holdfast.worker.custody import Custody
from holdfast.worker.enrolment import Enrolment
from holdfast.worker.marks import Way
from holdfast.worker.watch import Watch
from holdfast.worker.worker import Worker
from tests.support.pace import lasts

FENCE = ("state = 'running' AND claim = t.fence", "state = 'running'")  # of finish_jobs, on PostgreSQL
_STOPPED_CLAIM = 3


def be_deaf() -> None:
    """Let a child go on whatever its lease and its supervisor say: only the store's fence is left."""
    _replace(Child, "_fence", lambda self, worker: None)
    _replace(Custody, "revoke", lambda self, keys: None)
    _replace(Custody, "fence", lambda self: None)
    _replace(Custody, "_is_strange", lambda self, claim: False)


def take_no_notice_of_claims() -> None:
    """Let a finish on SQLite name the job alone."""

    def found(connection: sqlite3.Connection, claims: Iterable[tuple[int, int]]) -> dict[tuple[int, int], Held]:
        sql = "SELECT id, claim, crashes, max_crashes, cancel_requested_at IS NOT NULL FROM holdfast_jobs"
        rows = ((key, connection.execute(f"{sql} WHERE id = ? AND state = 'running'", key[:1])) for key in claims)
        return {key: Held(*row) for key, cursor in rows for row in cursor}

    work._fenced = found


def mark_what_has_not_begun() -> None:
    """Let a claim count as begun."""
    claimed = Worker._claimed

    def mark(self: Worker, claim: Claim, jobs: Sequence[JobRow]) -> None:
        for job in jobs:
            self.marks.start(job.id, job.claim, None, Way.THREAD)
        claimed(self, claim, jobs)

    _replace(Worker, "_claimed", mark)


def charge_the_neighbours() -> None:
    """Let every job that had begun answer for the death of a child, whoever's code ran at that moment."""
    judge = Enrolment._judge

    def judged(self: Enrolment, child: Any) -> Any:
        if child.marks is not None:
            child.marks.suspects = lambda **_: list(child.marks.begun())
        return judge(self, child)

    _replace(Enrolment, "_judge", judged)


def keep_the_buffer() -> None:
    """Let a child that stands still keep what it has not begun."""

    async def keep(self: Watch, child: Any, held: Any) -> None:
        pass

    _replace(Watch, "_return_unstarted", keep)


def let_the_dead_claim() -> None:
    """Let a claim on SQLite come from a worker that was declared dead."""
    work._require_worker = lambda connection, worker: None


def stop_before_a_claim() -> None:
    """Stand still just before a claim is sent, once; a file tells that it has happened."""
    for store in (SqliteStore, PostgresStore):
        _replace(store, "claim_jobs", _stopping(store.claim_jobs))


def _stopping(claim_jobs: Any) -> Any:
    numbers = count(1)

    async def stop_and_claim(self: Any, claim: Claim) -> list[JobRow]:
        if next(numbers) == _STOPPED_CLAIM and _is_first():
            await lasts(0.1)  # on SQLite, until the last call has let go of the turn: no other call waits for it yet
            os.kill(os.getpid(), signal.SIGSTOP)
        claimed: list[JobRow] = await claim_jobs(self, claim)
        return claimed

    return stop_and_claim


def _is_first() -> bool:
    try:
        os.close(os.open(Path(os.environ["CHAOS_STOPPED"]), os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    except FileExistsError:
        return False
    return True


def _replace(owner: type, name: str, value: object) -> None:
    assert name in owner.__dict__ or hasattr(owner, name), f"{owner.__name__} has no {name} to be replaced"
    setattr(owner, name, value)


HOLES: dict[str, Callable[[], None]] = {
    "deaf": be_deaf,
    "unfenced": take_no_notice_of_claims,
    "marking": mark_what_has_not_begun,
    "charging": charge_the_neighbours,
    "keeping": keep_the_buffer,
    "claiming": let_the_dead_claim,
    "stopping": stop_before_a_claim,
}


def apply() -> None:
    """Make the holes that the environment names."""
    for name in os.environ.get("CHAOS_HOLES", "").split():
        HOLES[name]()


if __name__ == "__main__":
    # What follows is the command line of a worker: python -m holdfast ...
    from holdfast.cli.main import main

    apply()
    sys.argv = ["holdfast", *sys.argv[4:]]
    main()
