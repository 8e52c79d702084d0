"""The system's Chromium: installed where it is missing and may be."""

import fcntl
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_INSTALL = ("apt-get", "-o", "DPkg::Lock::Timeout=60", "install", "-y", "--no-install-recommends", "chromium")


def chromium() -> str:
    """Find it, or install it; tests that run side by side wait for each other."""
    with (Path(tempfile.gettempdir()) / "holdfast-chromium.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if _found() is None and os.geteuid() == 0 and shutil.which("apt-get"):
            subprocess.run(_INSTALL, check=True, capture_output=True)
    found = _found()
    if found is None:
        pytest.skip("Chromium is missing: apt-get install chromium")
    return found


def _found() -> str | None:
    return next((path for path in map(shutil.which, _NAMES) if path is not None), None)
