"""Removing a folder that a process which was just killed may still write to."""

import asyncio
import shutil
from pathlib import Path

_PATIENCE_S = 2.0
_PAUSE_S = 0.05


async def remove(folder: Path) -> list[str]:
    """Remove a folder with everything in it; the answer is what is left, and what to do about it."""
    for _ in range(int(_PATIENCE_S / _PAUSE_S)):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():  # noqa: ASYNC240 - a look at a folder
            return []
        await asyncio.sleep(_PAUSE_S)
    return [f"the folder {folder}: remove it with everything in it"]
