"""The app of the bench: one task that does nothing but record that it ran."""

import os

import msgspec

from holdfast.app import Holdfast
from holdfast.bench.ledger import Ledger
from holdfast.bench.setup import DEADLINE_S, SETUP, Setup

QUEUE = "bench"

_setup = msgspec.json.decode(os.environ.get(SETUP, "{}"), type=Setup)
_ledger = None if _setup.ledger is None else Ledger(_setup.ledger)

app = Holdfast(
    _setup.url,
    schema=_setup.schema,
    synchronous=_setup.synchronous,
    pool_size=_setup.pool_size,
    deadline=DEADLINE_S,
)


@app.task(queue=QUEUE)
async def note(number: int) -> None:
    """Record that this job ran."""
    if _ledger is not None:
        _ledger.record(number)
