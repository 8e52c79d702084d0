"""Programs that only the system's packages have: installed where they are missing and may be."""

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest

# Where Debian keeps what only root is expected to start.
_PATH = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin"))
_INSTALL = ("apt-get", "-o", "DPkg::Lock::Timeout=300", "install", "-y", "--no-install-recommends")


def program(package: str, names: Sequence[str] = ()) -> str:
    """Find a program of a package, or install it; tests that run side by side wait for each other."""
    names = names or (package,)
    with Path(tempfile.gettempdir(), f"holdfast-debian-{os.getuid()}.lock").open("w", encoding="ascii") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        if found(names) is None and os.geteuid() == 0 and shutil.which("apt-get"):
            subprocess.run([*_INSTALL, package], check=True, capture_output=True)
    path = found(names)
    if path is None:
        pytest.skip(f"{names[0]} is missing: apt-get install {package}")
    return path


def chromium() -> str:
    """Find the browser, under whichever name it has."""
    return program("chromium", ("chromium", "chromium-browser", "google-chrome"))


def found(names: Sequence[str]) -> str | None:
    """Find the first of these programs that is there."""
    return next((path for name in names if (path := shutil.which(name, path=_PATH))), None)
