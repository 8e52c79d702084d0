"""Tasks and threads that handlers leave behind: counted, and told about before they bring the process down."""

import asyncio
import logging
import threading
import time

_logger = logging.getLogger("holdfast")

_LOOK_S = 5.0
_MANY = 100


class Leaks:
    """What is there beside the worker's own tasks and threads."""

    def __init__(self) -> None:
        self._tasks = len(asyncio.all_tasks())
        self._threads = threading.active_count()
        self._told = _MANY
        self._look_at = time.monotonic() + _LOOK_S

    def look(self, running: int) -> None:
        """Look now and then; `running` handlers have a task, and perhaps a thread, each of their own."""
        if time.monotonic() < self._look_at:
            return
        self._look_at = time.monotonic() + _LOOK_S
        tasks = len(asyncio.all_tasks()) - self._tasks - running
        threads = threading.active_count() - self._threads - running
        if max(tasks, threads) >= self._told:
            self._told = 2 * max(tasks, threads)
            message = (
                "handlers have left about %d tasks and %d threads behind in this process; --recycle-after renews it"
            )
            _logger.warning(message, max(tasks, 0), max(threads, 0))
