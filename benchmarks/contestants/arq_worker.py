"""What arq's worker command imports: its settings, with the store that the environment names."""

import asyncio
import os
from typing import Any

import uvloop
from arq.connections import RedisSettings

from benchmarks.contestants.arq import AT_ONCE, POLL_S
from benchmarks.contestants.contestant import LEDGER, URL
from benchmarks.contestants.ledger import Ledger

_ledger = Ledger(os.environ[LEDGER])

asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())


async def record(_context: dict[Any, Any], number: int) -> None:
    """Record that the job ran."""
    _ledger.record(number)


class Settings:
    """What arq's worker reads."""

    functions = (record,)
    redis_settings = RedisSettings.from_dsn(os.environ[URL])
    max_jobs = AT_ONCE
    poll_delay = POLL_S
    keep_result = 0


LOGGING = {"version": 1, "disable_existing_loggers": False, "loggers": {"arq": {"level": "WARNING"}}}
