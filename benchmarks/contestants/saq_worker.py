"""What SAQ's worker command imports: its settings, with the store that the environment names."""

import asyncio
import os
from typing import Any

import uvloop

from benchmarks.contestants.contestant import LEDGER, URL
from benchmarks.contestants.ledger import Ledger
from benchmarks.contestants.saq import AT_ONCE, make_queue

_ledger = Ledger(os.environ[LEDGER])

asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())


async def record(_context: Any, *, number: int) -> None:
    """Record that the job ran."""
    _ledger.record(number)


settings = {"queue": make_queue(os.environ[URL]), "functions": [record], "concurrency": AT_ONCE}
