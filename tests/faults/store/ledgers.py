"""Reading what a writer that was killed had acknowledged."""

from pathlib import Path

from holdfast.stores.store import JobStore
from tests.faults.store.writer import Ran, Run
from tests.support.lines import whole_lines
from tests.support.programs import Program


class Acknowledged:
    """The ids of a ledger: everything that a program was told."""

    def __init__(self, ledger: Path) -> None:
        self.stored: set[int] = set()
        self.finished: set[int] = set()
        for line in whole_lines(ledger):
            what, *ids = line.split()
            (self.stored if what == "stored" else self.finished).update(map(int, ids))


def killed(program: Program, run: Run) -> None:
    """Let a writer run until it is killed; that it failed before would prove nothing."""
    program.say(run)
    ran = program.hear(Ran)
    assert ran.was_killed, ran.failures
    assert ran.failures == []


async def assert_all_kept(store: JobStore, acknowledged: Acknowledged) -> None:
    """Every job that was acknowledged is there, and those whose end was acknowledged have ended."""
    asked = sorted(acknowledged.stored | acknowledged.finished)
    kept = {job.id: job for job in await store.get_jobs(asked)}
    assert sorted(set(asked) - kept.keys()) == [], f"acknowledged and lost, of {len(asked)} from {asked[:1]} on"
    assert [job_id for job_id in acknowledged.finished if not kept[job_id].is_finished] == []
