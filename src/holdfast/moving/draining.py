"""Letting what runs come to its end before its store is closed."""

import asyncio
import time

from holdfast.errors import Conflict
from holdfast.job import JobState
from holdfast.moving.sides import Side
from holdfast.stores.moving import Move, Stage

_LOOK_S = 0.2
_RESCUED = 1_000


async def drain(source: Side, move: Move, *, wait_s: float, interrupts: bool) -> Move:
    """Close the source as soon as nothing runs there.

    Jobs of workers that have died are given back meanwhile, as any worker would do. What still runs after the wait is
    the caller's to decide on: it is requeued too, or nothing is moved.
    """
    closed = Move(move.id, move.to, move.with_history, Stage.CLOSED)
    ends_at = time.monotonic() + wait_s
    while not await source.mark_move(closed):
        await source.rescue_jobs(_RESCUED)
        if time.monotonic() >= ends_at:
            if not interrupts:
                raise Conflict(await _still_running(source, wait_s))
            for worker in await source.list_workers():
                await source.retire_worker(worker.id)
        await asyncio.sleep(_LOOK_S)
    return closed


async def _still_running(source: Side, wait_s: float) -> str:
    running = sum(count.jobs for count in await source.count_jobs() if count.state is JobState.RUNNING)
    return (
        f"{running} jobs still run after {wait_s:g} s, and running jobs are not moved. The source takes no new jobs and"
        " starts none: run the same command again to go on waiting, add --interrupt to have them requeued and run"
        " again on the target, or reopen the source with --abort"
    )
