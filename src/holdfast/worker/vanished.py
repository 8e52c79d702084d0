"""Workers of this host whose processes have ended: found at once, and not only when their leases end."""

from pathlib import Path

from holdfast.config import Settings
from holdfast.locations import SqliteLocation
from holdfast.stores.values import WorkerRow
from holdfast.worker import identity, marks
from holdfast.worker.marks import Marks


class HostMarks:
    """The marks that processes of this host left, for one store."""

    def __init__(self, folder: Path | None, own_instance: str) -> None:
        self._folder = folder
        self._own_instance = own_instance

    def is_gone(self, row: WorkerRow) -> bool:
        """Whether the process of a worker of another instance has certainly ended."""
        info = row.info
        if self._folder is None or info.instance == self._own_instance:
            return False  # a supervisor looks after its children itself
        if info.boot_id is None or info.boot_id != identity.boot_id():
            return False
        if marks.is_held(marks.file_of(self._folder, info.instance, 0)):
            return False  # so does any other: it knows how the process ended, and who has to answer for it
        return identity.is_gone(info) or marks.is_abandoned(self._file(self._folder, row))

    def crashed(self, row: WorkerRow) -> list[tuple[int, int]] | None:
        """The claims that may have brought the process and its supervisor down; None when its marks are lost."""
        found = None if self._folder is None else Marks.open(self._file(self._folder, row))
        if found is None:
            return None
        suspects = [(begun.id, begun.claim) for begun in found.suspects(with_supervisor=True)]
        found.close()
        return suspects

    def forget(self, row: WorkerRow) -> None:
        """Remove the marks of a worker that was released."""
        if self._folder is not None:
            self._file(self._folder, row).unlink(missing_ok=True)

    @staticmethod
    def _file(folder: Path, row: WorkerRow) -> Path:
        return marks.file_of(folder, row.info.instance, row.info.pid)


def folder_of(settings: Settings) -> Path | None:
    """Where the workers of a store leave their marks; a store in memory has no other workers."""
    location = settings.location
    if isinstance(location, SqliteLocation):
        return None if location.path is None else marks.folder_beside(location.path)
    return marks.folder_beside(None)
