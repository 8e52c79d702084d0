"""The app of the chaos tests, in children with the holes that CHAOS_HOLES names."""

from tests.faults.workers import holes
from tests.support.ledger_app import app

holes.apply()

__all__ = ["app"]
