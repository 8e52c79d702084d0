"""Programs that only the system's packages have: `make tools` installs them, and in CI the tests do so."""

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

PACKAGES = ("chromium", "pgbouncer", "prometheus")

# Where Debian keeps what only root is expected to start.
_PATH = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin"))
_INSTALL = ("-o", "DPkg::Lock::Timeout=300", "install", "-y", "--no-install-recommends")


def program(package: str, names: Sequence[str] = ()) -> str:
    """Find a program of a package; in CI it is there, and elsewhere a test without it is skipped."""
    path = found(package, names)
    if path is None:
        pytest.skip(f"{(names or (package,))[0]} is missing: run `make tools`")
    return path


def chromium() -> str:
    """Find the browser, under whichever name it has."""
    return program("chromium", ("chromium", "chromium-browser", "google-chrome"))


def found(package: str, names: Sequence[str] = ()) -> str | None:
    """Find the first of these programs that is there; in CI its package is installed first."""
    path = _first(names or (package,))
    if path is None and os.environ.get("CI") == "true":
        install(package)
        path = _first(names or (package,))
        assert path is not None, f"{package} has no program {' or '.join(names or (package,))}"
    return path


def install(*packages: str) -> None:
    """Install packages; processes that do so at the same time wait for each other."""
    assert set(packages) <= set(PACKAGES), f"{packages} must stand in PACKAGES"
    apt, sudo = shutil.which("apt-get"), shutil.which("sudo")
    if apt is None or (os.geteuid() != 0 and sudo is None):
        message = f"install these programs as your system does it, or on Debian as root: {', '.join(packages)}"
        raise RuntimeError(message)
    as_root = [] if os.geteuid() == 0 else [str(sudo), "--non-interactive"]
    with Path(apt).open("rb") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        subprocess.run([*as_root, apt, *_INSTALL, *packages], check=True, stdout=subprocess.DEVNULL)


def _first(names: Sequence[str]) -> str | None:
    return next((path for name in names if (path := shutil.which(name, path=_PATH))), None)


if __name__ == "__main__":
    try:
        install(*PACKAGES)
    except (RuntimeError, subprocess.CalledProcessError) as error:
        sys.exit(str(error))
