"""Worker groups that are to live through an outage, and what must be true of them and their jobs afterwards."""

import json

from holdfast.job import JobRow, JobState
from tests.support.groups import is_running
from tests.support.oracle import Note, Oracle, all_ended
from tests.support.place import Place
from tests.support.sizes import size
from tests.support.wait import until


class Crew:
    """Worker groups that are to live through an outage: the same processes at the end as at the start."""

    def __init__(self, place: Place, groups: int = 2, processes: int = size(1, 2), **env: str) -> None:
        self.place = place
        self.groups = [place.start("--processes", str(processes), **env) for _ in range(groups)]
        self.processes = groups * (processes + 1)
        self._children_each = processes
        self._pids: list[int] = []

    async def arrive(self) -> None:
        """Wait until each process may claim."""
        await self.place.arrived(len(self.groups) * self._children_each)
        self._pids = self.pids

    @property
    def pids(self) -> list[int]:
        return [pid for group in self.groups for pid in (group.pid, *sorted(group.children))]

    async def check(self) -> None:
        """No process has exited, none has replaced one, and each of them works."""
        assert self.pids == self._pids
        assert all(is_running(pid) for pid in self._pids)
        idle = {pid for group in self.groups for pid in group.children}
        gate = self.place.folder / f"gate-{len(self.place.notes())}"
        payload = json.dumps({"gate": str(gate)})
        # More than run at once, and than are claimed ahead: none ends before each process has begun some.
        ids = await self.place.enqueue("gated", "default", [payload] * 16 * len(self.groups))
        await until(lambda: not idle - {note.pid for note in self.place.notes() if note.job in ids}, "each works")
        gate.touch()
        await all_ended(self.place.store, ids)

    async def check_supervisors(self) -> None:
        """No supervisor has exited, a child only because its lease was about to end; each process works."""
        missing = set(self._pids) - set(self.pids)
        assert not missing & {group.pid for group in self.groups}
        assert len(missing) == self.said().count("its end is near: this process leaves")
        self._pids = self.pids
        await self.check()

    def said(self) -> str:
        return "".join(group.said() for group in self.groups)


async def judged(crew: Crew, ids: list[int], timeout: float = 60) -> dict[int, JobRow]:
    """Wait for the end of all jobs, and see that each ended well and had its effect once."""
    place = crew.place
    jobs = await all_ended(place.store, ids, timeout)
    Oracle(jobs, place.notes(), await place.effects()).check(ids)
    not_completed = [(job.state, job.kind, job.error) for job in jobs.values() if job.state is not JobState.COMPLETED]
    assert not not_completed, not_completed[:3]
    return jobs


def starts(notes: list[Note]) -> list[float]:
    return sorted(note.at for note in notes if note.what == "begin")


def resumed_after(notes: list[Note], moment: float) -> float:
    """How long after a moment the first handler began."""
    return next((at for at in starts(notes) if at >= moment), float("inf")) - moment


def assert_no_rescue(crew: Crew, jobs: dict[int, JobRow]) -> None:
    """Nobody was taken for dead, and nobody was charged."""
    assert "its worker's lease ended" not in crew.said()
    assert "declared dead" not in crew.said()
    assert not [job for job in jobs.values() if job.crashes]
