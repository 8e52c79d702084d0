"""Waiting for the end of a thread without one of Python's executors, which are gone before a program's last words."""

import asyncio
import threading
import time

_LOOK_S = 0.002


async def ended(thread: threading.Thread, patience_s: float) -> bool:
    """Wait for a thread that was told to end; False when it takes too long."""
    gives_up_at = time.monotonic() + patience_s
    while thread.is_alive():
        if time.monotonic() > gives_up_at:
            return False
        await asyncio.sleep(_LOOK_S)
    return True
