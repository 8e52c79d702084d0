"""`ctx.lock()`: a lock that says which claim it is for."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from holdfast.client.lock_block import LockBlock
from holdfast.client.lock_keeper import LockKeeper, Whose
from holdfast.duration import Duration
from holdfast.errors import ConfigError
from holdfast.worker.run import Run


def block_of(run: Run, keeper: Callable[[], Awaitable[LockKeeper]], name: str, timeout: Duration | None) -> LockBlock:
    """Make the block of a lock for a run; one in a thread waits there, and finds out itself that it should stop."""

    def wait_for(verb: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        if run.handler is None:
            message = "the job does not run"
            raise ConfigError(message)
        return asyncio.run_coroutine_threadsafe(verb(), run.handler.get_loop()).result()

    return LockBlock(
        keeper,
        name,
        timeout,
        whose=Whose(run.job.worker, run.job.id, run.job.claim),
        wait_for=wait_for,
        is_stopped=lambda: run.why is not None,
    )
