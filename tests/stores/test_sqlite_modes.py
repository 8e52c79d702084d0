"""Who may read what Holdfast makes beside a database: its owner, whatever the umask is."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.stores.sqlite.store import SqliteStore
from tests.support.wait import until


@pytest.fixture(autouse=True)
def _usual_umask() -> Iterator[None]:
    """Let new files be readable by all, as they usually are."""
    before = os.umask(0o022)
    yield
    os.umask(before)


def modes(folder: Path) -> dict[str, str]:
    return {path.name: oct(stat.S_IMODE(path.stat().st_mode)) for path in folder.iterdir()}


async def used(path: Path) -> dict[str, str]:
    """Migrate a store, listen for work, and give the modes of all that is there."""
    store = SqliteStore(str(path))
    await store.migrator.up()
    await store.open()
    try:
        async with store.listen(["default"], lambda _queue: None):
            await until(lambda: f"{path.name}-workers" in modes(path.parent), "the worker listens")
            return modes(path.parent)
    finally:
        await store.close()


@pytest.mark.guards("database-mode")
async def test_no_other_user_may_read_what_is_made(tmp_path: Path) -> None:
    found = await used(tmp_path / "jobs.db")
    assert found == {
        "jobs.db": "0o600",
        "jobs.db-wal": "0o600",
        "jobs.db-shm": "0o600",
        "jobs.db-turn": "0o600",
        "jobs.db-workers": "0o700",
    }


async def test_a_file_keeps_the_mode_that_its_owner_gave_it(tmp_path: Path) -> None:
    (tmp_path / "jobs.db").touch()
    (tmp_path / "jobs.db").chmod(0o664)
    (tmp_path / "jobs.db-turn").touch()
    (tmp_path / "jobs.db-turn").chmod(0o640)
    found = await used(tmp_path / "jobs.db")
    assert found["jobs.db"] == found["jobs.db-wal"] == "0o664"
    assert found["jobs.db-turn"] == "0o640"


@pytest.mark.guards("turn-mode")
@pytest.mark.parametrize("mode, turn", [(0o644, "0o600"), (0o660, "0o660"), (0o664, "0o660")], ids=str)
async def test_those_who_may_write_to_the_database_may_queue_for_it(tmp_path: Path, mode: int, turn: str) -> None:
    (tmp_path / "jobs.db").touch()
    (tmp_path / "jobs.db").chmod(mode)
    assert (await used(tmp_path / "jobs.db"))["jobs.db-turn"] == turn
