"""From the last release to this one: what it stored is read and run here, and it goes on beside the new schema."""

import asyncio
import os
import subprocess
import sys
import tarfile
import tomllib
from collections import Counter
from io import BytesIO
from pathlib import Path

import pytest

from holdfast import Holdfast, JobState, __version__
from holdfast.stores import make_store

pytestmark = pytest.mark.real_time

ROOT = Path(__file__).parents[2]
COMMIT = (ROOT / "tests" / "schema" / "previous").read_text(encoding="ascii").strip()
PROGRAM = Path(__file__).parent / "old_program.py"


@pytest.fixture(scope="session")  # not of the module: other tests run in between, and it is compiled once
def last_release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the sources of the last release, as they were."""
    archived = subprocess.run(
        ["git", "archive", COMMIT, "src", "pyproject.toml"], cwd=ROOT, capture_output=True, check=False
    )
    if archived.returncode != 0:
        pytest.skip("the history of this copy does not reach back to the last release: use a full git clone")
    folder = tmp_path_factory.mktemp("last-release")
    with tarfile.open(fileobj=BytesIO(archived.stdout)) as files:
        files.extractall(folder, filter="data")
    named = folder / "src" / "holdfast.dist-info"  # as an installer writes it
    named.mkdir()
    version = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    (named / "METADATA").write_text(f"Metadata-Version: 2.1\nName: holdfast\nVersion: {version}\n", encoding="utf-8")
    return folder / "src"


@pytest.fixture(params=["sqlite-file", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, str]:
    """Give the address and the schema of a store in which nothing was made yet."""
    if request.param == "postgres":
        return str(request.getfixturevalue("dsn")), f"hf_upgrade_{os.urandom(4).hex()}"
    return f"sqlite:///{tmp_path}/jobs.db", "holdfast"


async def started(sources: Path, place: tuple[str, str], what: str) -> asyncio.subprocess.Process:
    """Start the program by one release."""
    return await asyncio.create_subprocess_exec(
        sys.executable,
        str(PROGRAM),
        *place,
        what,
        env={**os.environ, "PYTHONPATH": str(sources)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


async def run(sources: Path, place: tuple[str, str], what: str) -> str:
    """Run the program by one release; the answer is which."""
    process = await started(sources, place, what)
    said, _ = await process.communicate()
    assert process.returncode == 0, said.decode()
    return said.decode().split()[-1]


async def migrate(sources: Path, place: tuple[str, str]) -> None:
    """Bring the schema to what one release needs."""
    env = {**os.environ, "PYTHONPATH": str(sources)}
    code = "from holdfast.cli import main; main()"
    command = [sys.executable, "-c", code, "--store", place[0], "--schema", place[1], "migrate", "up"]
    process = await asyncio.create_subprocess_exec(*command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    said, _ = await process.communicate()
    assert process.returncode == 0, said.decode()


async def counted(place: tuple[str, str]) -> Counter[tuple[str, JobState]]:
    """Count jobs by kind and state, read by this release."""
    async with Holdfast(place[0], schema=place[1]) as app:
        return Counter((job.kind, job.state) for job in [job async for job in app.jobs.iterate()])


async def test_what_the_last_release_stored_is_run_by_this_one(last_release: Path, place: tuple[str, str]) -> None:
    await migrate(last_release, place)
    (metadata,) = last_release.glob("*.dist-info/METADATA")
    assert await run(last_release, place, "enqueue") in metadata.read_text(encoding="utf-8")
    await run(last_release, place, "work")
    await run(last_release, place, "enqueue")
    app = Holdfast(place[0], schema=place[1])
    await make_store(app.config).migrator.up()
    assert await run(ROOT / "src", place, "work") == __version__
    async with app:
        jobs = [job async for job in app.jobs.iterate()]
        failed = [job for job in jobs if job.state is JobState.FAILED]
        answers = await app.jobs.retry_many([job.id for job in failed])
    assert len(jobs) == 62
    assert {answer.state for answer in answers} == {JobState.QUEUED}
    await run(ROOT / "src", place, "work")
    assert await counted(place) == {
        ("plain", JobState.COMPLETED): 20,
        ("telling", JobState.COMPLETED): 12,
        ("telling", JobState.FAILED): 10,
        ("staged", JobState.COMPLETED): 20,
    }


async def test_the_last_release_goes_on_beside_the_new_schema(last_release: Path, place: tuple[str, str]) -> None:
    """It was started before the migration, and may not even know that there was one."""
    await migrate(last_release, place)
    old = await started(last_release, place, "stay")
    assert old.stdout is not None
    assert await asyncio.wait_for(old.stdout.readline(), 30) == b"works\n"
    await make_store(Holdfast(place[0], schema=place[1]).config).migrator.up()
    await run(ROOT / "src", place, "enqueue")
    async with Holdfast(place[0], schema=place[1]) as app:  # the old worker takes what the new client stores
        for job in [job async for job in app.jobs.iterate()]:
            await app.jobs.wait(job.id, timeout=30)
    said, _ = await old.communicate(b"leave\n")
    assert old.returncode == 0, said.decode()
    assert await counted(place) == {
        ("plain", JobState.COMPLETED): 21,
        ("telling", JobState.COMPLETED): 12,
        ("telling", JobState.FAILED): 10,
        ("staged", JobState.COMPLETED): 20,
    }
