"""The app that Holdfast's workers and enqueuers share, on either store; a second URL is that of a Redis for ids."""

import os

from benchmarks.contestants.contestant import LEDGER, URL
from benchmarks.contestants.ledger import Ledger
from holdfast import Holdfast

_url, *_carriers = os.environ[URL].split()

app = Holdfast(_url, delivery=_carriers[0] if _carriers else None)
_ledger = Ledger(os.environ.get(LEDGER, os.devnull))


@app.task
async def note(number: int) -> None:
    """Record that this job ran."""
    _ledger.record(number)
