"""What Celery's worker command imports: the app of the store that the environment names."""

import os

from benchmarks.contestants.celery import make_app, make_task
from benchmarks.contestants.contestant import LEDGER, URL
from benchmarks.contestants.ledger import Ledger

_ledger = Ledger(os.environ[LEDGER])


def record(number: int) -> None:
    """Record that the job ran."""
    _ledger.record(number)


app = make_app(os.environ[URL])
make_task(app, record)
