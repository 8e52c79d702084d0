"""Places that refuse to be written: a small file system that can be full, and paths that are read-only."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


class Disk:
    """A file system of its own."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def resize(self, size: str) -> None:
        """Give it another size."""
        _run("mount", "-o", f"remount,size={size}", str(self.path))


@contextmanager
def mounted(path: Path, size: str) -> Iterator[Disk]:
    """Make a file system of a size."""
    path.mkdir()
    _mount("-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(path))
    try:
        yield Disk(path)
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=False)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    """Give a disk of 2 MB."""
    with mounted(tmp_path / "disk", "2m") as found:
        yield found


@contextmanager
def read_only(path: Path) -> Iterator[None]:
    """Make a file or folder read-only; permissions do not bind root, so for root it is mounted so."""
    if os.geteuid() != 0:
        mode = path.stat().st_mode
        path.chmod(mode & ~0o222)
        yield
        path.chmod(mode)
        return
    _mount("--bind", str(path), str(path))
    try:
        _run("mount", "-o", "remount,bind,ro", str(path))
        yield
    finally:
        _run("umount", str(path))


def _mount(*arguments: str) -> None:
    try:
        _run("mount", *arguments)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("needs root, to mount a file system")


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)
