"""One virtual environment for each contestant, made from a file of exact versions; standard library only."""

import fcntl
import hashlib
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HARNESS = "harness"
_FILES = ROOT / "benchmarks" / "environments"
_PLACE = ROOT / ".bench" / "environments"
# Installed from this folder, so that what is measured is what is written here.
_FROM_ROOT: Mapping[str, str] = {"holdfast": f"{ROOT}[postgres,redis]"}


class NotInstalled(Exception):
    """An environment could not be made; the message is one line."""


def python_of(name: str) -> Path:
    """Tell where an environment's interpreter is, or will be."""
    return _PLACE / name / "bin" / "python"


def install(name: str) -> Path:
    """Make an environment, unless it is there and its versions are still those of its file; its interpreter."""
    with _alone():
        return _installed(name)


def _installed(name: str) -> Path:
    python, wanted = python_of(name), _FILES / f"{name}.txt"
    if not wanted.exists():
        message = f"{wanted.relative_to(ROOT)} does not exist"
        raise NotInstalled(message)
    state, mark = _state(name, wanted), _PLACE / name / ".installed"
    if mark.exists() and mark.read_text(encoding="utf-8") == state:
        return python
    print(f"installing the environment {name}", file=sys.stderr, flush=True)
    shutil.rmtree(_PLACE / name, ignore_errors=True)
    _run(name, [sys.executable, "-m", "venv", str(_PLACE / name)])
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    _run(name, [*pip, "--requirement", str(wanted)])
    if name in _FROM_ROOT:
        _run(name, [*pip, "--editable", _FROM_ROOT[name]])
    mark.write_text(state, encoding="utf-8")
    return python


@contextmanager
def _alone() -> Iterator[None]:
    """Let one program at a time make environments."""
    _PLACE.mkdir(parents=True, exist_ok=True)
    with (_PLACE / ".lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _state(name: str, wanted: Path) -> str:
    """Sum up what an environment was made from; an editable project changes only with what it asks for."""
    parts = [sys.version.encode(), wanted.read_bytes()]
    if name in _FROM_ROOT:
        parts.append((ROOT / "pyproject.toml").read_bytes())
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def _run(name: str, command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    if done.returncode != 0:
        said = [line for line in done.stderr.splitlines() if line.strip() and not line.startswith("WARNING")]
        errors = [line for line in said if line.startswith("ERROR")] or said
        message = f"the environment {name} cannot be installed: {errors[-1] if errors else 'no reason given'}"
        raise NotInstalled(message)
