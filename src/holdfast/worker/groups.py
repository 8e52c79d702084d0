"""Process groups: what a handler has started ends with the process of the handler."""

import asyncio
import contextlib
import os
import signal
import sys

_POLL_S = 0.005
_PATIENCE_S = 1.0  # a process that waits in the kernel, or that nothing reaps, is not waited for longer


def kill(group: int) -> None:
    """Kill every process of a group."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


async def emptied(group: int) -> None:
    """Wait until no process of a killed group is left: a signal is sent before it has had its effect."""
    with contextlib.suppress(TimeoutError, ProcessLookupError, PermissionError):
        async with asyncio.timeout(_PATIENCE_S):
            while True:  # guard: orphan-wait, without: while False:
                os.killpg(group, 0)
                await asyncio.sleep(_POLL_S)


def has_child_in(group: int) -> bool:
    """Whether a process group has a child of this process, as each has that the children of a dead worker are left in.

    Only Linux gives those to the supervisor; elsewhere they end with their pipe.
    """
    if sys.platform != "linux" or group <= 1 or group == os.getpgrp():
        return False
    try:
        os.waitid(os.P_PGID, group, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except (ChildProcessError, OverflowError):
        return False
    return True
