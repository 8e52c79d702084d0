"""Files and folders that belong to this user alone, also where others may write beside them.

A folder in a shared place may have been made by another user, and a name in it may be a link to anything. What is
believed or written is therefore looked at first. Windows keeps such rights in another way, and is left to its own.
"""

import contextlib
import os
import stat
import sys
from pathlib import Path

_PRIVATE_FOLDER, _PRIVATE_FILE = 0o700, 0o600
_OTHERS = 0o077


def make_private_folder(path: Path) -> None:
    """Make a folder that only this user may enter; one of this user's own that others may enter is closed to them.

    Raises PermissionError for a link and for a folder of another user.
    """
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=_PRIVATE_FOLDER)
    if sys.platform == "win32":
        return
    _require_own_folder(path.lstat())
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        found = os.fstat(folder)  # what was looked at may have been replaced before it was opened
        _require_own_folder(found)
        if found.st_mode & _OTHERS:
            os.fchmod(folder, _PRIVATE_FOLDER)
    finally:
        os.close(folder)


def is_private_folder(path: Path) -> bool:
    """Whether a folder belongs to this user and no other may enter it."""
    try:
        found = path.lstat()
    except OSError:
        return False
    return sys.platform == "win32" or (_is_own_folder(found) and not found.st_mode & _OTHERS)


def find_stranger(path: Path) -> int | None:
    """Find the other user, if any, that a path, what it links to, or its folder belongs to; root is trusted."""
    if sys.platform == "win32":
        return None
    owners = (found.st_uid for found in (path.lstat(), path.stat(), path.parent.stat()))
    # guard: file-owner, without: return None
    return next((owner for owner in owners if owner not in (0, os.geteuid())), None)


def create_file(path: Path) -> int:
    """Make an empty file that only this user may read; the answer is its descriptor. What has its name is removed."""
    path.unlink(missing_ok=True)
    return os.open(path, _flags(os.O_RDWR | os.O_CREAT | os.O_EXCL), _PRIVATE_FILE)


def open_file(path: Path) -> int:
    """Open a file of this user's own to read and write; raises PermissionError for a link, also a hard one."""
    file = os.open(path, _flags(os.O_RDWR))
    found = os.fstat(file)
    if sys.platform != "win32" and not _is_own_file(found):
        os.close(file)
        message = f"expected a file of user {os.geteuid()} under one name, got {_described(found)}"
        raise PermissionError(message)
    return file


def _flags(flags: int) -> int:
    if sys.platform == "win32":
        return flags | os.O_NOINHERIT
    return flags | os.O_NOFOLLOW | os.O_CLOEXEC  # guard: link-refusal, without: return flags | os.O_CLOEXEC


def _require_own_folder(found: os.stat_result) -> None:
    if not _is_own_folder(found):
        message = f"expected a folder of user {os.geteuid()}, got {_described(found)}"
        raise PermissionError(message)


if sys.platform != "win32":

    def _is_own_folder(found: os.stat_result) -> bool:
        # guard: folder-owner, without: return stat.S_ISDIR(found.st_mode)
        return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()

    def _is_own_file(found: os.stat_result) -> bool:
        return stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid() and found.st_nlink <= 1

    def _described(found: os.stat_result) -> str:
        kinds = ((stat.S_ISLNK, "a link"), (stat.S_ISDIR, "a folder"), (stat.S_ISREG, "a file"))
        kind = next((name for fits, name in kinds if fits(found.st_mode)), "something else")
        return f"{kind} of user {found.st_uid}" + (f" under {found.st_nlink} names" if found.st_nlink > 1 else "")
