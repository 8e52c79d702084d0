"""The image: built from what it needs, run by nobody special, started as the manifests start it."""

import re
import shutil
import subprocess
import sys
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest

from holdfast.deploy.pods import PROGRAM, USER

ROOT = Path(__file__).parents[2]
INSTRUCTIONS: list[tuple[str, str]] = re.findall(
    r"^([A-Z]+) (.*)$",
    re.sub(r"\\\n", " ", re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text("utf-8"), flags=re.MULTILINE)),
    re.MULTILINE,
)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def last(name: str) -> str:
    return [text for instruction, text in INSTRUCTIONS if instruction == name][-1]


def ignored(path: str) -> bool:
    """Do as the builder does: the last pattern that fits a path, or a folder above it, decides."""
    decision = False
    for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines():
        pattern = line.lstrip("!")
        if line.startswith("#") or not line:
            continue
        parents = [path, *(parent.as_posix() for parent in Path(path).parents)]
        if any(fnmatch(one, pattern) or fnmatch(f"/{one}", pattern.replace("**", "*", 1)) for one in parents):
            decision = not line.startswith("!")
    return decision


def test_it_is_run_by_the_user_that_the_manifests_name() -> None:
    assert last("USER") == f"{USER}:{USER}"
    assert f"--uid {USER} " in "".join(text for name, text in INSTRUCTIONS if name == "RUN")


def test_it_starts_the_program_that_the_manifests_start() -> None:
    assert last("ENTRYPOINT") == f'["{PROGRAM}"]'
    assert PROGRAM in PROJECT["scripts"]


def test_it_runs_a_python_that_is_supported() -> None:
    (python,) = [text.partition("=")[2] for name, text in INSTRUCTIONS if name == "ARG"]
    assert f"Programming Language :: Python :: {python}" in PROJECT["classifiers"]


def test_what_is_copied_is_there_and_nothing_else_is_sent() -> None:
    copied = [text.split()[:-1] for name, text in INSTRUCTIONS if name == "COPY" and "--from" not in text]
    paths = [path.rstrip("/") for paths in copied for path in paths]
    assert [path for path in paths if not (ROOT / path).exists() or ignored(path)] == []
    for path in ("src/holdfast/app.py", "src/holdfast/stores/postgres/functions/clock.sql"):
        assert not ignored(path)
    for path in (".git/config", ".venv/bin/python", "tests/conftest.py", "src/holdfast/__pycache__/app.pyc", "x.db"):
        assert ignored(path), path


@pytest.mark.timeout(120)
def test_what_is_copied_is_enough_to_build_from(tmp_path: Path) -> None:
    for path in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / path, tmp_path)
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", str(tmp_path)]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    assert len(list((tmp_path / "dist").glob("holdfast_jobs-*.whl"))) == 1
