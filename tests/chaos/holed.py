"""The app of the chaos tests, in children with the holes that CHAOS_HOLES names."""

from tests.chaos import holes
from tests.chaos.work import app

holes.apply()

__all__ = ["app"]
