"""What taskiq's worker command imports: the broker of the store that the environment names."""

import os

from benchmarks.contestants.contestant import LEDGER, URL
from benchmarks.contestants.ledger import Ledger
from benchmarks.contestants.taskiq import make_broker, make_task

_ledger = Ledger(os.environ[LEDGER])


async def record(number: int) -> None:
    """Record that the job ran."""
    _ledger.record(number)


broker = make_broker(os.environ[URL])
make_task(broker, record)
