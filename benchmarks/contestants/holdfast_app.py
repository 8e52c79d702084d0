"""The app that Holdfast's workers and enqueuers share, on either store."""

import os

from benchmarks.contestants.contestant import LEDGER, URL
from benchmarks.contestants.ledger import Ledger
from holdfast import Holdfast

app = Holdfast(os.environ[URL])
_ledger = Ledger(os.environ.get(LEDGER, os.devnull))


@app.task
async def note(number: int) -> None:
    """Record that this job ran."""
    _ledger.record(number)
